internal import TokenDomain

/// A value of `tokens.received.v1`, read in place: what the decoder needs of it, as ranges.
struct ReceivedEnvelope {
    /// A string of the envelope: where its content lies, raw.
    var token: JSONStringRange?
    var customer: Customer = .absent
    var bundleID: JSONStringRange?
    /// Absent also where it is no integer of 64 bits: then the record's own time counts.
    var receivedAt: Int64?

    enum Customer {
        case absent
        case text(JSONStringRange)
        /// Of another JSON type: a customer in a form of its own.
        case other
    }

    /// Looks only at what is needed: the token, whose it is and which link it came by.
    ///
    /// Platforms write this topic themselves, and nothing else that stands there may cost a token
    /// its report.
    ///
    /// - Throws: what makes the record no value of the topic.
    static func read(_ value: Span<UInt8>) throws(WireFault) -> ReceivedEnvelope {
        if let plain = ReceivedFields.readPlain(value), let token = plain.token {
            return ReceivedEnvelope(
                token: JSONStringRange(plain: token),
                customer: plain.customer.map { .text(JSONStringRange(plain: $0)) } ?? .absent,
                bundleID: plain.bundleID.map { JSONStringRange(plain: $0) },
                receivedAt: plain.receivedAt
            )
        }
        var envelope = ReceivedEnvelope()
        var seen = Seen()
        try JSONScanner.scanObject(value) { (key, scanner) throws(WireFault) in
            switch key {
            case "token": envelope.token = try scanner.field(&seen, .token)
            case "customer": try envelope.takeCustomer(&seen, from: &scanner)
            case "receivedAt": envelope.receivedAt = try scanner.integerIfAny()
            case "bundleId": envelope.bundleID = try scanner.field(&seen, .bundleID)
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
}

extension JSONStringRange {
    fileprivate init(plain range: Range<Int>) {
        self.init(start: range.lowerBound, end: range.upperBound, hasEscape: false)
    }
}

/// Which known fields stood there already, null or not.
private struct Seen {
    enum Field: UInt8 {
        case token, customer, bundleID
    }

    var bits: UInt8 = 0
}

extension JSONScanner {
    /// An integer of 64 bits; nil where the value is anything else.
    package mutating func integerIfAny() throws(WireFault) -> Int64? {
        guard try peekKind() == .number else {
            try skip()
            return nil
        }
        guard case .integer(let value) = try takeNumber() else {
            return nil
        }
        return value
    }

    /// A string; nil where the value is anything else.
    mutating func stringIfAny() throws(WireFault) -> String? {
        guard try peekKind() == .string else {
            try skip()
            return nil
        }
        return try string()
    }

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
