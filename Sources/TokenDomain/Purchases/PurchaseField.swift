/// The fields of a purchase event, as they are named in JSON.
package enum PurchaseField: String, Sendable, CaseIterable {
    case type
    case lineItemID = "lineItemId"
    case customer
    case externalPurchaseID = "externalPurchaseId"
    case appAppleID = "appAppleId"
    case bundleID = "bundleId"
    case environment
    case creationDate
    case productIdentifier
    case quantity
    case taxCountry
    case pricingCurrency
    case amountTaxInclusive
    case taxAmount
    case amountTaxExclusive
    case reportingCurrency
    case exchangeRate
    case subscriptionID = "subscriptionId"
    case subscriptionEvent
    case subscriptionStartDate
    case subscriptionEndDate
    case subscriptionDaysOfPaidService
    case referenceLineItemID = "referenceLineItemId"
    case receivedAt
    case requestID = "requestId"
    /// Computed, never sent by a platform; named in faults.
    case netAmountTaxExclusive
    /// Computed, never sent by a platform; named in faults.
    case erroneouslySubmitted
}
