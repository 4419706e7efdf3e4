package import TokenDomain

/// What we read of a transaction that Apple signed.
///
/// Every field is optional: one of another type than Apple documents reads as absent.
///
/// Source: JWSTransactionDecodedPayload
package struct SignedTransaction: Equatable, Sendable {
    private let payload: JSONValue

    /// - Parameter payload: verified.
    package init(_ payload: SignedPayload) {
        self.init(payload.value)
    }

    /// - Parameter payload: verified.
    package init(_ payload: JSONValue) {
        self.payload = payload
    }

    package var bundleID: String? { payload["bundleId"]?.text }
    /// Nil also outside the App Store.
    package var environment: AppleEnvironment? {
        switch payload["environment"]?.text {
        case "Production": .production
        case "Sandbox": .sandbox
        default: nil
        }
    }
    package var isFamilyShared: Bool { payload["inAppOwnershipType"]?.text == "FAMILY_SHARED" }
    package var originalTransactionID: String? { payload["originalTransactionId"]?.text }
}
