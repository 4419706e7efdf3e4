package import TokenDomain

/// A value of `tokens.distinct.v1` while it is read or written.
///
/// Of a `seen` record only the id, the role and `receivedAt` are required.
package struct DistinctFields {
    package var kept = DecodedFields<String>()
    package var role: TokenRole?
    package var promotedFrom: TokenID?

    package init() {}

    @inline(__always)
    mutating func members<C: ValueCoder & ~Copyable>(_ coder: inout C) {
        kept.keptMembers(&coder)
        ownMembers(&coder)
    }

    /// Those that `tokens.decoded.v1` does not have.
    @inline(__always)
    private mutating func ownMembers<C: ValueCoder & ~Copyable>(_ coder: inout C) {
        coder.role(&role, atMost: .tokenField)
        coder.member("promotedFrom", &promotedFrom, atMost: .tokenField)
    }

    /// Appends the value.
    consuming func write(to arena: inout [UInt8]) {
        JSONWriter.append(to: &arena) { writer in
            writer.beginObject()
            members(&writer)
            writer.endObject()
        }
    }

    /// Appends what follows the members that were taken over from `tokens.decoded.v1`.
    package consuming func writeOwn(to arena: inout [UInt8]) {
        JSONWriter.append(to: &arena, isContinued: true) { writer in
            ownMembers(&writer)
            writer.endObject()
        }
    }
}

extension TokenDistinct {
    /// Reads a value of `tokens.distinct.v1`.
    package init(reading value: Span<UInt8>) throws(WireFault) {
        var fields = DistinctFields()
        try JSONScanner.scanMembers(value) { fields.members(&$0) }
        let token = fields.kept.token
        self.init(
            externalPurchaseID: try token.id(),
            appAppleID: token.appAppleID,
            bundleID: token.bundleID,
            tokenType: token.tokenType.map { TokenType(text: $0) },
            tokenCreationDate: token.tokenCreationDate.map { Timestamp(milliseconds: $0) },
            tokenExpirationDate: token.tokenExpirationDate.map { Timestamp(milliseconds: $0) },
            customer: fields.kept.customer.map { CustomerID($0) },
            receivedAt: try fields.kept.receivedTime(),
            role: try JSONScanner.require(fields.role, "role"),
            promotedFrom: fields.promotedFrom
        )
        if self.role != .seen {
            _ = try token.token()
        }
    }

    package func write(to arena: inout [UInt8]) {
        var fields = DistinctFields()
        fields.kept.token.externalPurchaseID = externalPurchaseID.text
        fields.kept.token.appAppleID = appAppleID
        fields.kept.token.bundleID = bundleID
        fields.kept.token.tokenType = tokenType?.text
        fields.kept.token.tokenCreationDate = tokenCreationDate?.milliseconds
        fields.kept.token.tokenExpirationDate = tokenExpirationDate?.milliseconds
        fields.kept.customer = customer?.text
        fields.kept.receivedAt = receivedAt.milliseconds
        fields.role = role
        fields.promotedFrom = promotedFrom
        fields.write(to: &arena)
    }
}
