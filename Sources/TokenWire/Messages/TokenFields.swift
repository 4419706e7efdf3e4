package import TokenDomain

/// The fields of a token as our messages carry them, while they are read or written.
package struct TokenFields<Text> {
    package var externalPurchaseID: Text?
    package var appAppleID: Int64?
    package var bundleID: Text?
    package var tokenType: Text?
    /// In milliseconds since 1970.
    package var tokenCreationDate: Int64?
    package var tokenExpirationDate: Int64?

    package init() {}

    @inline(__always)
    mutating func members<C: MemberCoder<Text> & ~Copyable>(_ coder: inout C) {
        coder.text("externalPurchaseId", &externalPurchaseID, atMost: .tokenField)
        coder.environment(of: externalPurchaseID)
        coder.integer("appAppleId", &appAppleID)
        coder.text("bundleId", &bundleID, atMost: .tokenField)
        coder.text("tokenType", &tokenType, atMost: .tokenField)
        coder.integer("tokenCreationDate", &tokenCreationDate)
        coder.integer("tokenExpirationDate", &tokenExpirationDate)
    }
}

extension TokenFields<String> {
    package init(_ token: ExternalPurchaseToken) {
        externalPurchaseID = token.externalPurchaseID.text
        appAppleID = token.appAppleID
        bundleID = token.bundleID
        tokenType = token.tokenType?.text
        tokenCreationDate = token.tokenCreationDate.milliseconds
        tokenExpirationDate = token.tokenExpirationDate?.milliseconds
    }

    func id() throws(WireFault) -> TokenID {
        let id = try JSONScanner.require(externalPurchaseID, "externalPurchaseId")
        guard !id.isEmpty else {
            throw .outOfRange(field: "externalPurchaseId")
        }
        return TokenID(id)
    }

    func token() throws(WireFault) -> ExternalPurchaseToken {
        ExternalPurchaseToken(
            externalPurchaseID: try id(),
            appAppleID: try JSONScanner.require(appAppleID, "appAppleId"),
            bundleID: try JSONScanner.require(bundleID, "bundleId"),
            tokenType: tokenType.map { TokenType(text: $0) },
            tokenCreationDate: Timestamp(
                milliseconds: try JSONScanner.require(tokenCreationDate, "tokenCreationDate")
            ),
            tokenExpirationDate: tokenExpirationDate.map { Timestamp(milliseconds: $0) }
        )
    }
}

extension JSONWriter {
    /// The members that `tokens.decoded.v1` and all that follow have in common.
    package mutating func fields(of token: ExternalPurchaseToken) {
        var fields = TokenFields(token)
        fields.members(&self)
    }
}
