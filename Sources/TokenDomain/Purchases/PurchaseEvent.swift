/// A value of `purchases.received.v1`: what a platform says of one sale.
///
/// Field names are Apple's where Apple has the field; amounts are thousandths of the pricing
/// currency's unit. Which fields must be there depends on ``kind``: see ``PurchaseRules``.
///
/// Source: Apple, "Line item fields"
package struct PurchaseEvent: Hashable, Sendable {
    /// `type`: what happened.
    package enum Kind: String, Sendable, CaseIterable {
        case buy, refund
        /// Replaces fields of an item that was sent before, and undoes its retraction.
        case restate
        /// Takes back an item that should never have been sent.
        case retract

        /// Of a line item that has a buy or a refund of its own.
        package var isChange: Bool { self == .restate || self == .retract }
    }

    package var kind: Kind = .buy
    /// The platform's own, unique for the app for ever.
    package var lineItemID: String
    package var customer: CustomerID?
    /// The token that is asked for.
    package var externalPurchaseID: TokenID?
    package var appAppleID: Int64?
    package var bundleID: String?
    /// Stated, or that of the token that is asked for, or production.
    package var environment: AppleEnvironment = .production
    package var creationDate: Timestamp?
    package var productIdentifier: String?
    package var quantity: Int64?
    package var taxCountry: AlphaCode?
    package var pricingCurrency: AlphaCode?
    package var amountTaxInclusive: Milliunits?
    package var taxAmount: Milliunits?
    package var amountTaxExclusive: Milliunits?
    package var reportingCurrency: AlphaCode?
    package var exchangeRate: ExchangeRate?
    /// The platform's own: all events of one subscription carry it.
    package var subscriptionID: String?
    package var subscriptionEvent: SubscriptionEvent?
    package var subscriptionStartDate: Timestamp?
    package var subscriptionEndDate: Timestamp?
    package var subscriptionDaysOfPaidService: Int64?
    /// The buy of a refund, or the start of a subscription's later event.
    package var referenceLineItemID: String?
    /// When `ingest` took it; absent where the platform wrote the topic itself and did not say.
    package var receivedAt: Timestamp?
    /// The request that brought it, for the person who looks for it.
    package var requestID: String?

    package init(lineItemID: String) {
        self.lineItemID = lineItemID
    }

    /// The record key in every topic of purchases: all of a customer is in one partition.
    package var purchaseKey: String? { customer?.text ?? externalPurchaseID?.text }
}

/// `subscriptionEvent` of a line item.
///
/// Source: Apple, "subscriptionEvent"
package enum SubscriptionEvent: String, Hashable, Sendable, CaseIterable {
    case start = "SUBSCRIPTION_START"
    case renewal = "RENEWAL"
    case change = "SUBSCRIPTION_CHANGE"
    case payment = "SUBSCRIPTION_PAYMENT"
}

/// Where an event is read: a customer stands in the topic only as a pseudonym.
package enum PurchaseOrigin: Sendable {
    /// The body of a request: a customer in the platform's own words.
    case door
    /// `purchases.received.v1`.
    case topic
}
