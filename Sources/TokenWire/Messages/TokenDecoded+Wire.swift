package import TokenDomain

extension TokenDecoded {
    /// Reads a value of `tokens.decoded.v1`.
    package init(reading value: Span<UInt8>) throws(WireFault) {
        var fields = TokenFields()
        var customer: CustomerID?
        var receivedAt: Timestamp?
        var text: String?
        try JSONScanner.scanObject(value) { (key, scanner) throws(WireFault) in
            switch key {
            case "customer": try scanner.fill(&customer, atMost: .customer)
            case "receivedAt": try scanner.fill(&receivedAt)
            case "token": try scanner.fill(&text, atMost: .tokenText)
            default:
                guard try fields.take(key, from: &scanner) else {
                    return try scanner.skip()
                }
            }
        }
        self.init(
            token: try fields.token(),
            customer: customer,
            receivedAt: try JSONScanner.require(receivedAt, "receivedAt"),
            text: try JSONScanner.require(text, "token")
        )
    }

    package func write(to arena: inout [UInt8]) {
        JSONWriter.append(to: &arena) { writer in
            writer.beginObject()
            writer.fields(of: token)
            writer.field("customer", customer?.text)
            writer.field("receivedAt", receivedAt.milliseconds)
            writer.field("token", text)
            writer.endObject()
        }
    }
}
