package import TokenDomain

extension TokenReceived {
    /// Reads a value of `tokens.received.v1`.
    ///
    /// Platforms write this topic themselves, so only `token` is required: without a `source` of ours
    /// it came by Kafka, and a `receivedAt` or `requestId` of another type is as if absent.
    package init(reading value: Span<UInt8>) throws(WireFault) {
        var token: String?
        var customer: CustomerID?
        var receivedAt: Timestamp?
        var source: Source?
        var bundleID: String?
        var requestID: String?
        try JSONScanner.scanObject(value) { (key, scanner) throws(WireFault) in
            switch key {
            case "token": try scanner.fill(&token)
            case "customer": try scanner.fill(&customer, atMost: .customer)
            case "receivedAt":
                receivedAt = try scanner.integerIfAny().map { Timestamp(milliseconds: $0) }
            case "source": source = try scanner.stringIfAny().flatMap { Source(rawValue: $0) }
            case "bundleId": try scanner.fill(&bundleID, atMost: .tokenField)
            case "requestId": requestID = try scanner.stringIfAny()
            default: try scanner.skip()
            }
        }
        self.init(
            token: try JSONScanner.require(token, "token"),
            customer: customer,
            receivedAt: receivedAt,
            source: source ?? .kafka,
            bundleID: bundleID,
            requestID: requestID ?? ""
        )
    }

    package func write(to arena: inout [UInt8]) {
        JSONWriter.append(to: &arena) { writer in
            writer.beginObject()
            writer.field("token", token)
            writer.field("customer", customer?.text)
            writer.field("receivedAt", receivedAt?.milliseconds)
            writer.field("source", source.rawValue)
            writer.field("bundleId", bundleID)
            writer.field("requestId", requestID)
            writer.endObject()
        }
    }
}
