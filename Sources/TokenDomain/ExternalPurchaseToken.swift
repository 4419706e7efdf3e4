/// What a token says, decoded.
///
/// It is unsigned and names no customer: a claim, not a proof.
///
/// Source: developer.apple.com/documentation/appstoreservernotifications/externalpurchasetoken
package struct ExternalPurchaseToken: Hashable, Sendable {
    package var externalPurchaseID: TokenID
    package var appAppleID: Int64
    package var bundleID: String
    package var tokenType: TokenType?
    package var tokenCreationDate: Timestamp
    package var tokenExpirationDate: Timestamp?

    package var environment: AppleEnvironment { externalPurchaseID.environment }
    package var lane: Lane { Lane(appAppleID: appAppleID, environment: environment) }

    package init(
        externalPurchaseID: TokenID,
        appAppleID: Int64,
        bundleID: String,
        tokenType: TokenType? = nil,
        tokenCreationDate: Timestamp,
        tokenExpirationDate: Timestamp? = nil
    ) {
        self.externalPurchaseID = externalPurchaseID
        self.appAppleID = appAppleID
        self.bundleID = bundleID
        self.tokenType = tokenType
        self.tokenCreationDate = tokenCreationDate
        self.tokenExpirationDate = tokenExpirationDate
    }
}
