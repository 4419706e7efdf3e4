internal import TokenDomain

/// A value of `tokens.received.v1`, read in place: its texts as ranges.
struct ReceivedEnvelope {
    var fields = ReceivedFields<Range<Int>>()
    /// Whether no text has an escape.
    var isPlain = false
    /// Whether the customer is of another JSON type: in a form of its own.
    var isCustomerOther = false

    /// Looks only at what is needed: the token, whose it is and which link it came by.
    ///
    /// Platforms write this topic themselves, and nothing else that stands there may cost a token
    /// its report.
    ///
    /// - Throws: what makes the record no value of the topic.
    static func read(_ value: Span<UInt8>) throws(WireFault) -> ReceivedEnvelope {
        if let fields = ReceivedFields.readPlain(value), fields.token != nil {
            return ReceivedEnvelope(fields: fields, isPlain: true)
        }
        var envelope = ReceivedEnvelope()
        try JSONScanner.scan(value) { (scanner) throws(WireFault) in
            try scanner.readMembers { scanner in
                var places = PlaceScanner(scanner: scanner)
                envelope.fields.members(&places)
                scanner = places.scanner
            } orElse: { (fault, _) throws(WireFault) in
                guard fault == .wrongType(field: "customer") else {
                    throw fault
                }
                envelope.isCustomerOther = true
            }
        }
        guard envelope.fields.token != nil else {
            throw .missing(field: "token")
        }
        return envelope
    }

    /// The token of an envelope that was refused, if it can be read.
    ///
    /// It looks at no other member: the reader of all that are declared refused the envelope.
    static func salvageToken(_ value: Span<UInt8>) -> [UInt8]? {
        var token: [UInt8]?
        do {
            try JSONScanner.scanObject(value) { (key, scanner) throws(WireFault) in
                guard key == "token" else {
                    return try scanner.skip()
                }
                guard token == nil else {
                    token = nil
                    throw .repeated(field: "token")
                }
                token = try scanner.stringBytes()
            }
        } catch {
            // It has a fault already; a second one takes nothing from what was read before it.
        }
        return token
    }
}

/// Reads members and notes where their texts lie, escapes and all, of any length.
private struct PlaceScanner: MemberCoder, ~Copyable {
    var scanner: JSONScanner

    @inline(__always)
    mutating func text(
        _ name: StaticString,
        _ slot: inout Range<Int>?,
        atMost limit: TextLimit?
    ) {
        scanner.take(name) { (scanner) throws(WireFault) in
            slot = try scanner.stringPlace()
        }
    }

    @inline(__always)
    mutating func integer(_ name: StaticString, _ slot: inout Int64?) {
        scanner.integer(name, &slot)
    }

    mutating func environment(of id: Range<Int>?) {}

    @inline(__always)
    mutating func lenient(_ name: StaticString, _ slot: inout Range<Int>?) {}

    @inline(__always)
    mutating func lenient(_ name: StaticString, _ slot: inout Int64?) {
        scanner.lenient(name, &slot)
    }
}
