package import TokenDomain

extension TokenDistinct {
    /// Reads a value of `tokens.distinct.v1`.
    ///
    /// Of a `seen` record only the id, the role and `receivedAt` are required.
    package init(reading value: Span<UInt8>) throws(WireFault) {
        var fields = TokenFields()
        var customer: CustomerID?
        var receivedAt: Timestamp?
        var role: String?
        var primary: TokenID?
        var promotedFrom: TokenID?
        try JSONScanner.scanObject(value) { (key, scanner) throws(WireFault) in
            switch key {
            case "customer": try scanner.fill(&customer, atMost: .customer)
            case "receivedAt": try scanner.fill(&receivedAt)
            case "role": try scanner.fill(&role, atMost: .identifier)
            case "primaryExternalPurchaseId":
                try scanner.fill(&primary, atMost: .tokenField)
            case "promotedFrom": try scanner.fill(&promotedFrom, atMost: .tokenField)
            default:
                guard try fields.take(key, from: &scanner) else {
                    return try scanner.skip()
                }
            }
        }
        self.init(
            externalPurchaseID: try JSONScanner.require(
                fields.externalPurchaseID,
                "externalPurchaseId"
            ),
            appAppleID: fields.appAppleID,
            bundleID: fields.bundleID,
            tokenType: fields.tokenType,
            tokenCreationDate: fields.tokenCreationDate,
            tokenExpirationDate: fields.tokenExpirationDate,
            customer: customer,
            receivedAt: try JSONScanner.require(receivedAt, "receivedAt"),
            role: try Self.role(try JSONScanner.require(role, "role"), primary: primary),
            promotedFrom: promotedFrom
        )
        if self.role != .seen {
            _ = try fields.token()
        }
    }

    private static func role(_ text: String, primary: TokenID?) throws(WireFault) -> TokenRole {
        switch text {
        case "primary":
            return .primary
        case "duplicate":
            return .duplicate(of: try JSONScanner.require(primary, "primaryExternalPurchaseId"))
        case "seen":
            return .seen
        default:
            throw .outOfRange(field: "role")
        }
    }

    package func write(to arena: inout [UInt8]) {
        JSONWriter.append(to: &arena) { writer in
            writer.beginObject()
            writer.field("externalPurchaseId", externalPurchaseID.text)
            writer.field("environment", externalPurchaseID.environment.rawValue)
            writer.field("appAppleId", appAppleID)
            writer.field("bundleId", bundleID)
            writer.field("tokenType", tokenType?.text)
            writer.field("tokenCreationDate", tokenCreationDate?.milliseconds)
            writer.field("tokenExpirationDate", tokenExpirationDate?.milliseconds)
            writer.field("customer", customer?.text)
            writer.field("receivedAt", receivedAt.milliseconds)
            writer.field("role", role.text)
            if case .duplicate(let primary) = role {
                writer.field("primaryExternalPurchaseId", primary.text)
            }
            writer.field("promotedFrom", promotedFrom?.text)
            writer.endObject()
        }
    }
}
