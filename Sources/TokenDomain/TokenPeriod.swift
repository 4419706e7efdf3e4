/// The active period that a token states: of one customer's tokens that share it, the first is
/// primary and every other one is reported as its duplicate.
///
/// Two customers may share every date, for Apple's dates are whole minutes or days; so a period
/// means something beside a customer only.
///
/// Source: Apple, "Receiving and decoding external purchase tokens", active period
package struct TokenPeriod: Hashable, Sendable {
    package let environment: AppleEnvironment
    package let appAppleID: Int64
    /// ``KnownTokenType/duplicateByte`` of its type.
    package let typeByte: UInt8
    package let creation: Timestamp
    package let expiration: Timestamp

    /// The period of a token; nil where it has none: no expiry, without which the token names no
    /// span of time, or a type that Apple takes no DUPLICATE_TOKEN for.
    package init?(
        environment: AppleEnvironment,
        appAppleID: Int64,
        tokenType: KnownTokenType?,
        creation: Timestamp,
        expiration: Timestamp?
    ) {
        guard let expiration, let typeByte = tokenType?.duplicateByte else {
            return nil
        }
        self.environment = environment
        self.appAppleID = appAppleID
        self.typeByte = typeByte
        self.creation = creation
        self.expiration = expiration
    }

    package init?(of token: ExternalPurchaseToken) {
        self.init(
            environment: token.environment,
            appAppleID: token.appAppleID,
            tokenType: token.tokenType?.known,
            creation: token.tokenCreationDate,
            expiration: token.tokenExpirationDate
        )
    }
}
