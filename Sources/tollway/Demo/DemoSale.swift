internal import Foundation

/// What kinds of sales the demo sends; each is a row of the account.
enum DemoSaleClass: String, CaseIterable {
    case oneTime = "one-time buys"
    case subscriptions = "subscriptions over months"
    case trials = "free trials"
    case refunds = "refunds in parts"
    case restatements = "restatements"
    case retractions = "retractions"
    case currencies = "foreign currencies"
    case tokenless = "sales without token"
    case repeats = "sales sent twice"
    case faults = "each fault once"
}

/// One event for `POST /v1/purchases`, and how it must end.
struct DemoSale {
    enum End: Equatable {
        /// Apple has it.
        case reported
        case notOwed
        /// Sent before, with the same content.
        case repeated
        /// Refused by `purchases`, with this code.
        case deadLetter(String)
        /// Refused at the door, with this code: nothing is stored.
        case refused(String)
    }

    var saleClass: DemoSaleClass
    var lineItemID: String
    /// `buy`, `refund`, `restate` or `retract`.
    var type: String
    /// JSON on one line.
    var line: String
    var end: End
}

/// What Apple's side must hold of a line item at the end.
struct DemoItem: Equatable {
    /// How often it was accepted: once, and once with each restatement.
    var versionCount = 0
    var isRetracted = false
    /// Nil where it is not looked at.
    var net: Int64?
}
