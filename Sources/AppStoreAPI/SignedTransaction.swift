package import TokenDomain

/// A transaction that Apple signed, as its server API and its notifications carry it.
///
/// Every field is optional, and values nobody knows yet stay what they are: a field of another type
/// than Apple documents reads as absent, and is still in ``fields``.
///
/// Source: JWSTransactionDecodedPayload
package struct SignedTransaction: Equatable, Sendable {
    /// Every field that came, unknown ones included.
    package let fields: [String: JSONValue]

    /// - Parameter payload: verified.
    package init(_ payload: SignedPayload) {
        fields = payload.value.members ?? [:]
    }

    package init(fields: [String: JSONValue]) {
        self.fields = fields
    }

    package var appAccountToken: String? { text("appAccountToken") }
    package var appTransactionID: String? { text("appTransactionId") }
    package var bundleID: String? { text("bundleId") }
    /// ISO 4217; only with ``price``.
    package var currency: String? { text("currency") }
    /// `Production`, `Sandbox`, and others outside the App Store.
    package var environmentText: String? { text("environment") }
    package var environment: AppleEnvironment? {
        switch environmentText {
        case "Production": .production
        case "Sandbox": .sandbox
        default: nil
        }
    }
    package var expiresDate: Timestamp? { time("expiresDate") }
    /// `PURCHASED`, `FAMILY_SHARED`.
    package var inAppOwnershipType: String? { text("inAppOwnershipType") }
    package var isFamilyShared: Bool { inAppOwnershipType == "FAMILY_SHARED" }
    package var isUpgraded: Bool { fields["isUpgraded"]?.flag ?? false }
    /// `FREE_TRIAL`, `PAY_AS_YOU_GO`, `PAY_UP_FRONT`, `ONE_TIME`.
    package var offerDiscountType: String? { text("offerDiscountType") }
    package var offerIdentifier: String? { text("offerIdentifier") }
    /// An ISO 8601 duration.
    package var offerPeriod: String? { text("offerPeriod") }
    /// 1 introductory, 2 promotional, 3 offer code, 4 win-back.
    package var offerType: Int64? { integer("offerType") }
    package var originalPurchaseDate: Timestamp? { time("originalPurchaseDate") }
    package var originalTransactionID: String? { text("originalTransactionId") }
    /// On the notifications' edition of the page only: the id before a migration.
    package var previousOriginalTransactionID: String? { text("previousOriginalTransactionId") }
    /// Thousandths of the currency, for the whole quantity.
    package var price: Int64? { integer("price") }
    package var productID: String? { text("productId") }
    package var purchaseDate: Timestamp? { time("purchaseDate") }
    package var quantity: Int64? { integer("quantity") }
    package var revocationDate: Timestamp? { time("revocationDate") }
    /// Thousandths of a percent.
    package var revocationPercentage: Int64? { integer("revocationPercentage") }
    /// 0 other, 1 a problem of the app.
    package var revocationReason: Int64? { integer("revocationReason") }
    /// `REFUND_FULL`, `REFUND_PRORATED`, `FAMILY_REVOKE`.
    package var revocationType: String? { text("revocationType") }
    package var signedDate: Timestamp? { time("signedDate") }
    /// ISO 3166-1 alpha-3.
    package var storefront: String? { text("storefront") }
    package var storefrontID: String? { text("storefrontId") }
    package var subscriptionGroupIdentifier: String? { text("subscriptionGroupIdentifier") }
    package var transactionID: String? { text("transactionId") }
    /// `PURCHASE`, `RENEWAL`.
    package var transactionReason: String? { text("transactionReason") }
    /// `Auto-Renewable Subscription`, `Non-Consumable`, `Consumable`, `Non-Renewing Subscription`.
    package var type: String? { text("type") }
    package var webOrderLineItemID: String? { text("webOrderLineItemId") }
    /// Only of Advanced Commerce products.
    package var advancedCommerceInfo: JSONValue? { fields["advancedCommerceInfo"] }
    /// `BILLED_UPFRONT`, `MONTHLY`.
    package var billingPlanType: String? { text("billingPlanType") }
    package var commitmentInfo: JSONValue? { fields["commitmentInfo"] }

    private func text(_ name: String) -> String? { fields[name]?.text }
    private func integer(_ name: String) -> Int64? { fields[name]?.integer }
    private func time(_ name: String) -> Timestamp? {
        integer(name).map { Timestamp(milliseconds: $0) }
    }
}
