package import TokenDomain

/// A value of `tokens.received.v1` while it is read or written.
///
/// Platforms write this topic themselves, so only `token` is required.
struct ReceivedFields<Text> {
    var token: Text?
    var customer: Text?
    /// In milliseconds since 1970.
    var receivedAt: Int64?
    var source: Text?
    var bundleID: Text?
    var requestID: Text?

    @inline(__always)
    mutating func members<C: MemberCoder<Text> & ~Copyable>(_ coder: inout C) {
        coder.text("token", &token, atMost: nil)
        coder.text("customer", &customer, atMost: .customer)
        coder.lenient("receivedAt", &receivedAt)
        coder.lenient("source", &source)
        coder.text("bundleId", &bundleID, atMost: .tokenField)
        coder.lenient("requestId", &requestID)
    }
}

extension ReceivedFields<Range<Int>> {
    /// Reads a value in the form in which ingest and most programs write it: with or without a blank behind
    /// colons and commas.
    ///
    /// - Returns: nil where the value is of another form, valid or not.
    static func readPlain(_ value: Span<UInt8>) -> Self? {
        unsafe value.withUnsafeBufferPointer { bytes in
            var scanner = unsafe PlainScanner(bytes, allowsBlanks: true)
            var fields = Self()
            fields.members(&scanner)
            return scanner.isWhole() ? fields : nil
        }
    }
}

extension TokenReceived {
    /// Reads a value of `tokens.received.v1`.
    ///
    /// Without a `source` of ours it came by Kafka, and a `receivedAt` or `requestId` of another type is
    /// as if absent.
    package init(reading value: Span<UInt8>) throws(WireFault) {
        var fields = ReceivedFields<String>()
        try JSONScanner.scanMembers(value) { fields.members(&$0) }
        self.init(
            token: try JSONScanner.require(fields.token, "token"),
            customer: fields.customer.map { CustomerID($0) },
            receivedAt: fields.receivedAt.map { Timestamp(milliseconds: $0) },
            source: fields.source.flatMap { Source(rawValue: $0) } ?? .kafka,
            bundleID: fields.bundleID,
            requestID: fields.requestID ?? ""
        )
    }

    package func write(to arena: inout [UInt8]) {
        var fields = ReceivedFields(
            token: token,
            customer: customer?.text,
            receivedAt: receivedAt?.milliseconds,
            source: source.rawValue,
            bundleID: bundleID,
            requestID: requestID
        )
        JSONWriter.append(to: &arena) { writer in
            writer.beginObject()
            fields.members(&writer)
            writer.endObject()
        }
    }
}
