/// One object of `errors[]`: code, field and line item as section 2.7 of the reference lists them.
struct ReportError: Equatable, Sendable {
    var code: ReportErrorCode
    var field: String?
    var lineItemID: String?

    init(_ code: ReportErrorCode, field: String? = nil, lineItemID: String? = nil) {
        self.code = code
        self.field = field
        self.lineItemID = lineItemID
    }

    var json: JSONValue {
        var members = [
            JSONMember("errorCode", .integer(code.rawValue)),
            JSONMember("errorMessage", .string("Simulated: \(code)")),
        ]
        members += JSONMember.present("fieldName", field.map { .string($0) })
        members += JSONMember.present("lineItemId", lineItemID.map { .string($0) })
        return .object(members)
    }
}

/// The error types of the External Purchase Server API.
///
/// Numbers 37, 38 and 40 are inferred from the order of Apple's list, all others are published.
enum ReportErrorCode: Int, CaseIterable, Sendable {
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

extension AppleAnswer {
    static func errors(_ errors: [ReportError]) -> AppleAnswer {
        .json(400, .object([JSONMember("errors", .array(errors.map(\.json)))]))
    }
}
