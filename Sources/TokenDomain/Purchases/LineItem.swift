/// A line item as it is sent to Apple: every field compiled.
///
/// Amounts are thousandths of the reporting currency's unit.
///
/// Source: Apple, "OneTimeBuyLineItem", "SubscriptionBuyLineItem", "RefundLineItem"
package struct LineItem: Hashable, Sendable {
    /// What it is about.
    package enum Product: Hashable, Sendable {
        case oneTimeBuy(Goods)
        case subscription(Goods, Subscription)
        case refund
    }

    package struct Goods: Hashable, Sendable {
        package var productIdentifier: String
        package var quantity: Int64

        package init(productIdentifier: String, quantity: Int64) {
            self.productIdentifier = productIdentifier
            self.quantity = quantity
        }
    }

    package struct Subscription: Hashable, Sendable {
        package var event: SubscriptionEvent
        package var startDate: Timestamp
        package var endDate: Timestamp
        package var daysOfPaidService: Int64

        package init(
            event: SubscriptionEvent,
            startDate: Timestamp,
            endDate: Timestamp,
            daysOfPaidService: Int64
        ) {
            self.event = event
            self.startDate = startDate
            self.endDate = endDate
            self.daysOfPaidService = daysOfPaidService
        }
    }

    /// What it is to the items before it.
    package enum Revision: Hashable, Sendable {
        case first
        case restatement
        /// A restatement that takes the item back.
        case retraction
    }

    package var lineItemID: String
    package var referenceLineItemID: String?
    package var creationDate: Timestamp
    package var product: Product
    package var pricingCurrency: AlphaCode
    package var terms: ReportingTerms
    package var amounts: AmountTriple
    package var netAmountTaxExclusive: Milliunits
    package var taxCountry: AlphaCode
    package var revision: Revision

    package init(
        lineItemID: String,
        referenceLineItemID: String?,
        creationDate: Timestamp,
        product: Product,
        pricingCurrency: AlphaCode,
        terms: ReportingTerms,
        amounts: AmountTriple,
        netAmountTaxExclusive: Milliunits,
        taxCountry: AlphaCode,
        revision: Revision
    ) {
        self.lineItemID = lineItemID
        self.referenceLineItemID = referenceLineItemID
        self.creationDate = creationDate
        self.product = product
        self.pricingCurrency = pricingCurrency
        self.terms = terms
        self.amounts = amounts
        self.netAmountTaxExclusive = netAmountTaxExclusive
        self.taxCountry = taxCountry
        self.revision = revision
    }
}
