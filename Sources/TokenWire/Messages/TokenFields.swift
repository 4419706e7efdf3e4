package import TokenDomain

/// The fields of a token as our messages carry them, while they are read.
struct TokenFields {
    var externalPurchaseID: TokenID?
    var appAppleID: Int64?
    var bundleID: String?
    var tokenType: TokenType?
    var tokenCreationDate: Timestamp?
    var tokenExpirationDate: Timestamp?

    init() {}

    init(_ token: ExternalPurchaseToken) {
        externalPurchaseID = token.externalPurchaseID
        appAppleID = token.appAppleID
        bundleID = token.bundleID
        tokenType = token.tokenType
        tokenCreationDate = token.tokenCreationDate
        tokenExpirationDate = token.tokenExpirationDate
    }

    /// Reads the member if it is one of a token's; `environment` follows from the id.
    ///
    /// - Returns: false where the member is none of them and still unread.
    mutating func take(
        _ key: JSONKey,
        from scanner: inout JSONScanner
    ) throws(WireFault) -> Bool {
        switch key {
        case "externalPurchaseId":
            try scanner.fill(&externalPurchaseID, atMost: .tokenField)
        case "appAppleId": try scanner.fill(&appAppleID)
        case "bundleId": try scanner.fill(&bundleID, atMost: .tokenField)
        case "tokenType": try scanner.fill(&tokenType, atMost: .tokenField)
        case "tokenCreationDate": try scanner.fill(&tokenCreationDate)
        case "tokenExpirationDate": try scanner.fill(&tokenExpirationDate)
        default: return false
        }
        return true
    }

    func token() throws(WireFault) -> ExternalPurchaseToken {
        ExternalPurchaseToken(
            externalPurchaseID: try JSONScanner.require(externalPurchaseID, "externalPurchaseId"),
            appAppleID: try JSONScanner.require(appAppleID, "appAppleId"),
            bundleID: try JSONScanner.require(bundleID, "bundleId"),
            tokenType: tokenType,
            tokenCreationDate: try JSONScanner.require(tokenCreationDate, "tokenCreationDate"),
            tokenExpirationDate: tokenExpirationDate
        )
    }
}

extension JSONWriter {
    /// The members that `tokens.decoded.v1` and all that follow have in common.
    package mutating func fields(of token: ExternalPurchaseToken) {
        field("externalPurchaseId", token.externalPurchaseID.text)
        field("environment", token.environment.rawValue)
        field("appAppleId", token.appAppleID)
        field("bundleId", token.bundleID)
        field("tokenType", token.tokenType?.text)
        field("tokenCreationDate", token.tokenCreationDate.milliseconds)
        field("tokenExpirationDate", token.tokenExpirationDate?.milliseconds)
    }
}
