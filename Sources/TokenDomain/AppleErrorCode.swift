/// The codes of `errors[]` in a 400 to a report, each by the name of Apple's object.
///
/// Source: the error objects of *SendReportErrorResponse* (apple-api 2.7). The numbers of
/// `duplicateTokenStatusNotAllowed`, `restatementCreationDateMismatch` and
/// `refundNotAllowedCreationDate` follow from the order of that list; Apple prints none for them.
package enum AppleErrorCode: Int64, CaseIterable, Sendable {
    case duplicateValue = 1
    case reportingCurrencyMismatch
    case notFound
    case omittedField
    case fieldNotAllowed
    case futureDate
    case unknownEnum
    case lineItemStatusRegression
    case missingLineItemsForStatus
    case lineItemsNotAllowedForStatus
    case incorrectAmountTaxInclusive
    case incorrectNetAmount
    case selfReference
    case referenceInvalidSubscriptionEvent
    case negativeValueNotAllowed
    case positiveValueRequired
    case startDateAfterEndDate
    case reportingCurrencyExchangeNotAllowed
    case maximumLengthExceeded
    case erroneouslySubmittedNotRestatement
    case referenceLineItemNotABuy
    case erroneousLineItemReferencedByValidLineItem
    case taxCountryMismatch
    case netAmountMismatch
    case validLineItemReferencesErroneousLineItem
    case simultaneousSubmission
    case dateTooFarInPast
    case refundReferencedByRefund
    case nonInitialBuyReferencedByBuy
    case repeatErroneousSubmission
    case referencedCreationDateIncompatible
    case pricingCurrencyMismatch
    case exchangeRateMismatch
    case subscriptionStartNonZeroDaysPaidService
    case invalidTaxInclusiveAmountForSubscriptionPayment
    case lineItemCreationDateOutOfRange
    case duplicateTokenStatusNotAllowed
    case restatementCreationDateMismatch
    case restatementNotAllowedCreationDate
    case refundNotAllowedCreationDate
}

extension AppleError {
    /// Nil for a code that this version does not know.
    package var name: AppleErrorCode? { AppleErrorCode(rawValue: code) }

    /// For people: `code 3 (notFound on externalPurchaseId)`; never Apple's text.
    package var sentence: String {
        let what = [name.map { "\($0)" }, fieldName].compactMap(\.self)
        return "code \(code)" + (what.isEmpty ? "" : " (\(what.joined(separator: " on ")))")
    }
}
