package import TokenDomain

/// A value of `tokens.decoded.v1` while it is read or written.
package struct DecodedFields<Text> {
    package var token = TokenFields<Text>()
    package var customer: Text?
    /// In milliseconds since 1970.
    package var receivedAt: Int64?
    package var text: Text?

    package init() {}

    @inline(__always)
    mutating func members<C: MemberCoder<Text> & ~Copyable>(_ coder: inout C) {
        keptMembers(&coder)
        leftMembers(&coder)
    }

    /// Those that `tokens.distinct.v1` takes over as they are.
    @inline(__always)
    mutating func keptMembers<C: MemberCoder<Text> & ~Copyable>(_ coder: inout C) {
        token.members(&coder)
        coder.text("customer", &customer, atMost: .customer)
        coder.integer("receivedAt", &receivedAt)
    }

    /// Those that end here.
    @inline(__always)
    mutating func leftMembers<C: MemberCoder<Text> & ~Copyable>(_ coder: inout C) {
        coder.text("token", &text, atMost: .tokenText)
    }
}

extension DecodedFields<Range<Int>> {
    /// Reads a value in the very form in which `decode` writes it, in one pass.
    ///
    /// - Returns: what lies where in the value, and where the members end that
    ///   ``keptMembers(_:)`` names, before the comma; nil where the value is of another form, valid or
    ///   not.
    package static func readPlain(_ value: Span<UInt8>) -> (fields: Self, keptEnd: Int)? {
        unsafe value.withUnsafeBufferPointer { bytes in
            var scanner = unsafe PlainScanner(bytes)
            var fields = Self()
            fields.keptMembers(&scanner)
            let keptEnd = scanner.position
            fields.leftMembers(&scanner)
            return scanner.isWhole() ? (fields, keptEnd) : nil
        }
    }
}

extension DecodedFields<String> {
    /// Reads a value of any form.
    package init(reading value: Span<UInt8>) throws(WireFault) {
        var fields = Self()
        try JSONScanner.scanMembers(value) { fields.members(&$0) }
        self = fields
    }

    /// What can be read of a value that as a whole cannot: a member that is wrong is passed over.
    package init(readableOf value: Span<UInt8>) {
        var fields = Self()
        do throws(WireFault) {
            try JSONScanner.scan(value) { (scanner) throws(WireFault) in
                try scanner.readMembers({ fields.members(&$0) }, orElse: { _, _ in })
            }
        } catch {
            // What came before the fault stands.
        }
        self = fields
    }

    func receivedTime() throws(WireFault) -> Timestamp {
        Timestamp(milliseconds: try JSONScanner.require(receivedAt, "receivedAt"))
    }

    /// Appends the members that ``keptMembers(_:)`` names: the beginning of a value of
    /// `tokens.distinct.v1`.
    package consuming func writeKept(to arena: inout [UInt8]) {
        JSONWriter.append(to: &arena) { writer in
            writer.beginObject()
            keptMembers(&writer)
        }
    }

    consuming func write(to arena: inout [UInt8]) {
        JSONWriter.append(to: &arena) { writer in
            writer.beginObject()
            members(&writer)
            writer.endObject()
        }
    }
}

extension TokenDecoded {
    /// Reads a value of `tokens.decoded.v1`.
    package init(reading value: Span<UInt8>) throws(WireFault) {
        let fields = try DecodedFields<String>(reading: value)
        self.init(
            token: try fields.token.token(),
            customer: fields.customer.map { CustomerID($0) },
            receivedAt: try fields.receivedTime(),
            text: try JSONScanner.require(fields.text, "token")
        )
    }

    package func write(to arena: inout [UInt8]) {
        var fields = DecodedFields<String>()
        fields.token = TokenFields(token)
        fields.customer = customer?.text
        fields.receivedAt = receivedAt.milliseconds
        fields.text = text
        fields.write(to: &arena)
    }
}
