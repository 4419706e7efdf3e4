package import TokenDomain

extension TokenReceived {
    /// Reads a value of `tokens.received.v1`.
    ///
    /// Platforms write this topic themselves, so only `token` is required: without `source` it came
    /// by Kafka, and a `receivedAt` that is no plain integer of 64 bits is a fault like any other.
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
            case "customer": try scanner.fill(&customer)
            case "receivedAt": try scanner.fill(&receivedAt)
            case "source": try scanner.fill(&source)
            case "bundleId": try scanner.fill(&bundleID)
            case "requestId": try scanner.fill(&requestID)
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
