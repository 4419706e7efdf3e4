internal import TokenDomain

/// A value of `tokens.received.v1`, read in place: what the decoder needs of it, as ranges.
struct ReceivedEnvelope {
    /// A string of the envelope: where its content lies, raw.
    var token: JSONStringRange?
    var customer: Customer = .absent
    var bundleID: JSONStringRange?
    /// Absent also where it is an integer outside `Int64`: that is more than seven days off.
    var receivedAt: Int64?

    enum Customer {
        case absent
        case text(JSONStringRange)
        /// Of another JSON type: a customer in a form of its own.
        case other
    }

    /// - Throws: what makes the record no value of the topic.
    static func read(_ value: Span<UInt8>) throws(WireFault) -> ReceivedEnvelope {
        var envelope = ReceivedEnvelope()
        var seen = Seen()
        try JSONScanner.scanObject(value) { (key, scanner) throws(WireFault) in
            switch key {
            case "token": envelope.token = try scanner.field(&seen, .token)
            case "customer": try envelope.takeCustomer(&seen, from: &scanner)
            case "receivedAt": try envelope.takeReceivedAt(&seen, from: &scanner)
            case "source":
                guard try scanner.isPresent(&seen, .source) else {
                    return
                }
                guard TokenReceived.Source(rawValue: try scanner.string()) != nil else {
                    throw .outOfRange(field: "source")
                }
            case "bundleId": envelope.bundleID = try scanner.field(&seen, .bundleID)
            case "requestId": _ = try scanner.field(&seen, .requestID)
            default: try scanner.skip()
            }
        }
        guard envelope.token != nil else {
            throw .missing(field: "token")
        }
        return envelope
    }

    /// The token of an envelope that is refused for something else, if it can be read.
    static func salvageToken(_ value: Span<UInt8>) -> [UInt8]? {
        var token: [UInt8]?
        do {
            try JSONScanner.scanObject(value) { (key, scanner) throws(WireFault) in
                guard key == "token" else {
                    return try scanner.skip()
                }
                guard token == nil else {
                    throw .repeated(field: "token")
                }
                token = try scanner.stringBytes()
            }
            return token
        } catch {
            // It has a fault already; a second one changes nothing.
            return nil
        }
    }

    private mutating func takeCustomer(
        _ seen: inout Seen,
        from scanner: inout JSONScanner
    ) throws(WireFault) {
        guard try scanner.isPresent(&seen, .customer) else {
            return
        }
        guard try scanner.peekKind() == .string else {
            customer = .other
            return try scanner.skip()
        }
        customer = .text(try scanner.takeString())
    }

    private mutating func takeReceivedAt(
        _ seen: inout Seen,
        from scanner: inout JSONScanner
    ) throws(WireFault) {
        guard try scanner.isPresent(&seen, .receivedAt) else {
            return
        }
        guard try scanner.peekKind() == .number else {
            throw .wrongType(field: "receivedAt")
        }
        switch try scanner.takeNumber() {
        case .integer(let milliseconds): receivedAt = milliseconds
        case .integerOutOfRange: receivedAt = nil
        case .fractional: throw .wrongType(field: "receivedAt")
        }
    }
}

/// Which known fields stood there already, null or not.
private struct Seen {
    enum Field: UInt8 {
        case token, customer, receivedAt, source, bundleID, requestID
    }

    var bits: UInt8 = 0
}

extension JSONScanner {
    /// Whether a field that must not stand twice has a value: null counts as absent.
    fileprivate mutating func isPresent(
        _ seen: inout Seen,
        _ field: Seen.Field
    ) throws(WireFault) -> Bool {
        let bit = 1 << field.rawValue as UInt8
        guard seen.bits & bit == 0 else {
            throw .repeated(field: fieldName)
        }
        seen.bits |= bit
        return !(try takeNull())
    }

    /// A string in place; nil where it is null.
    fileprivate mutating func field(
        _ seen: inout Seen,
        _ field: Seen.Field
    ) throws(WireFault) -> JSONStringRange? {
        guard try isPresent(&seen, field) else {
            return nil
        }
        guard try peekKind() == .string else {
            throw .wrongType(field: fieldName)
        }
        return try takeString()
    }
}
