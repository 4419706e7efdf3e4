/// Why a sale cannot be reported as it stands: the platform's to repair.
package struct PurchaseFault: Error, Hashable, Sendable {
    package var rule: PurchaseRule
    /// The field as it is named in JSON; empty where the whole event is meant.
    package var field: String
    /// The code that Apple would answer with; nil where Apple has no such rule.
    package var appleCode: AppleErrorCode?
    /// What to do, in one sentence without anything of the event but names of fields.
    package var repair: String

    package init(_ rule: PurchaseRule, _ field: PurchaseField?, repair: String) {
        self.rule = rule
        self.field = field?.rawValue ?? ""
        appleCode = rule.appleCode
        self.repair = repair
    }

    /// Stable, such as `purchases.missing_field`.
    package var code: String { rule.code }

    /// One sentence for a dead letter: what is wrong, where, and what to do.
    package var message: String {
        field.isEmpty ? repair : "The field \"\(field)\" breaks a rule. \(repair)"
    }

    /// As the dead letter's reason.
    package var asFault: Fault { Fault(code: code, message: message) }
}

/// All that is wrong with one event.
package struct PurchaseFaults: Error, Equatable, Sendable {
    /// At least one: what cannot be read, then broken rules.
    package var list: [PurchaseFault]
    /// What could be read of the event; nil where it is no JSON object.
    package var event: PurchaseEvent?

    package init(_ list: [PurchaseFault], event: PurchaseEvent? = nil) {
        precondition(!list.isEmpty, "an event without fault is not refused")
        self.list = list
        self.event = event
    }

    /// All of them as the reason of one dead letter, whose code is that of the first.
    package var asFault: Fault {
        Fault(code: list[0].code, message: list.map(\.message).joined(separator: " "))
    }
}

/// The rules that a sale can break; dashboards count the codes, so a name never changes.
///
/// Apple's codes: developer.apple.com/documentation/externalpurchaseserverapi, error pages.
package enum PurchaseRule: String, Sendable, CaseIterable {
    // Known from the event alone.
    case notJSON = "not_json"
    case wrongType = "wrong_type"
    case repeatedField = "repeated_field"
    case missingField = "missing_field"
    case outOfRange = "out_of_range"
    case unknownValue = "unknown_value"
    case tooLong = "too_long"
    case badCustomer = "bad_customer"
    case wrongEnvironment = "wrong_environment"
    case fieldNotAllowed = "field_not_allowed"
    case unknownCurrency = "unknown_currency"
    case unknownCountry = "unknown_country"
    case negativeValue = "negative_value"
    case notPositive = "not_positive"
    case amountsDisagree = "amounts_disagree"
    case futureDate = "future_date"
    case dateTooOld = "date_too_old"
    case endBeforeStart = "end_before_start"
    case conversionNotAllowed = "conversion_not_allowed"
    case paidDaysOnStart = "paid_days_on_start"
    case paymentWithoutAmount = "payment_without_amount"
    case selfReference = "self_reference"

    // Known with the configuration, the tokens and the items sent before.
    case unknownApp = "unknown_app"
    case conflict
    case tokenOutOfRange = "token_out_of_range"
    case referenceUnknown = "reference_unknown"
    case referenceNotStart = "reference_not_start"
    case referenceNotBuy = "reference_not_buy"
    case refundOfRefund = "refund_of_refund"
    case referenceRetracted = "reference_retracted"
    case referenceYounger = "reference_younger"
    case refundTooLarge = "refund_too_large"
    case reportingCurrencyMismatch = "reporting_currency_mismatch"
    case taxCountryMismatch = "tax_country_mismatch"
    case pricingCurrencyMismatch = "pricing_currency_mismatch"
    case exchangeRateMismatch = "exchange_rate_mismatch"
    case creationDateChanged = "creation_date_changed"
    case restatementTooLate = "restatement_too_late"
    case refundTooLate = "refund_too_late"
    case itemTooLarge = "item_too_large"
    /// Apple refused the item for a reason that was not foreseen here.
    case rejected

    package var code: String { "purchases.\(rawValue)" }

    /// Apple's code for the same mistake.
    package var appleCode: AppleErrorCode? {
        switch self {
        case .notJSON, .wrongType, .repeatedField, .outOfRange, .unknownValue, .badCustomer,
            .wrongEnvironment, .unknownApp, .itemTooLarge, .rejected:
            nil
        case .conflict: .duplicateValue
        case .reportingCurrencyMismatch: .reportingCurrencyMismatch
        case .referenceUnknown: .notFound
        case .missingField: .omittedField
        case .fieldNotAllowed: .fieldNotAllowed
        case .futureDate: .futureDate
        case .unknownCurrency, .unknownCountry: .unknownEnum
        case .amountsDisagree: .incorrectAmountTaxInclusive
        case .selfReference: .selfReference
        case .referenceNotStart: .referenceInvalidSubscriptionEvent
        case .negativeValue, .refundTooLarge: .negativeValueNotAllowed
        case .notPositive: .positiveValueRequired
        case .endBeforeStart: .startDateAfterEndDate
        case .conversionNotAllowed: .reportingCurrencyExchangeNotAllowed
        case .tooLong: .maximumLengthExceeded
        case .referenceNotBuy: .referenceLineItemNotABuy
        case .taxCountryMismatch: .taxCountryMismatch
        case .referenceRetracted: .validLineItemReferencesErroneousLineItem
        case .dateTooOld: .dateTooFarInPast
        case .refundOfRefund: .refundReferencedByRefund
        case .referenceYounger: .referencedCreationDateIncompatible
        case .pricingCurrencyMismatch: .pricingCurrencyMismatch
        case .exchangeRateMismatch: .exchangeRateMismatch
        case .paidDaysOnStart: .subscriptionStartNonZeroDaysPaidService
        case .paymentWithoutAmount: .invalidTaxInclusiveAmountForSubscriptionPayment
        case .tokenOutOfRange: .lineItemCreationDateOutOfRange
        case .creationDateChanged: .restatementCreationDateMismatch
        case .restatementTooLate: .restatementNotAllowedCreationDate
        case .refundTooLate: .refundNotAllowedCreationDate
        }
    }
}
