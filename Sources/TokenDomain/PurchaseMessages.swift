// The values of the topics of sales, in the order of the pipeline; `Messages.swift` has the others.

/// A value of `purchases.answered.v1`: the outcome of a report that carries sales.
///
/// `report` writes it in the transaction that settles the report.
package struct PurchaseAnswered: Equatable, Sendable {
    package var requestIdentifier: String
    package var externalPurchaseID: TokenID
    /// Of the report, in its order; 1 to 100.
    package var lineItemIDs: [String]
    package var outcome: ReportOutcome.Outcome
    /// Apple's reasons; empty where `report` itself refused.
    package var errors: [AppleError]
    /// The fault code of a rejection, such as `report.status_order`; nil where Apple has it.
    package var reason: String?
    /// Of a rejected report: its line items that Apple holds already, in an earlier report of ours, as
    /// they were sent.
    ///
    /// They are reported, whatever `errors` says of them.
    package var verifiedLineItemIDs: [String]
    /// The report that Apple holds each of them by, in their order.
    package var verifiedRequestIdentifiers: [String]
    /// With `report.is_duplicate`: the token that carries the sales of its period.
    package var primaryExternalPurchaseID: TokenID?
    /// As the request has it; nil where that was of an earlier version.
    package var askedAt: Timestamp?
    package var settledAt: Timestamp

    package init(
        requestIdentifier: String,
        externalPurchaseID: TokenID,
        lineItemIDs: [String],
        outcome: ReportOutcome.Outcome,
        errors: [AppleError],
        reason: String? = nil,
        verifiedLineItemIDs: [String] = [],
        verifiedRequestIdentifiers: [String] = [],
        primaryExternalPurchaseID: TokenID? = nil,
        askedAt: Timestamp? = nil,
        settledAt: Timestamp
    ) {
        self.requestIdentifier = requestIdentifier
        self.externalPurchaseID = externalPurchaseID
        self.lineItemIDs = lineItemIDs
        self.outcome = outcome
        self.errors = errors
        self.reason = reason
        self.verifiedLineItemIDs = verifiedLineItemIDs
        self.verifiedRequestIdentifiers = verifiedRequestIdentifiers
        self.primaryExternalPurchaseID = primaryExternalPurchaseID
        self.askedAt = askedAt
        self.settledAt = settledAt
    }
}

/// A value of `purchases.outcomes.v1`, the ledger of sales: the outcome of one event.
package struct PurchaseOutcome: Equatable, Sendable {
    package enum Outcome: String, Sendable, CaseIterable {
        /// Apple has it, in the report `requestIdentifier`.
        case reported
        /// There was no token for it, so nothing is owed to Apple.
        case notOwed = "not_owed"
        /// A dead letter: by a rule of ours, or refused by Apple.
        case rejected
    }

    package var lineItemID: String
    /// 1 for the first of a line item, and one more with each restatement or retraction.
    package var revision: Int
    package var type: PurchaseEvent.Kind
    package var outcome: Outcome
    /// The token that it was reported under.
    package var externalPurchaseID: TokenID?
    package var requestIdentifier: String?
    /// A fixed word: `accepted`, `verified`; why it is not owed: `no_active_token`,
    /// `reference_not_owed`, or `retracted` (before it was reported); or the fault code of a
    /// rejection.
    package var reason: String
    package var errors: [AppleError]
    /// The line item as it was sent to Apple, a JSON object byte for byte; nil where none was made.
    package var item: String?
    package var receivedAt: Timestamp
    package var settledAt: Timestamp
    /// Whose sale it is, and in which of Apple's worlds; nil where the event names no app of ours.
    package var lane: Lane?
    /// Of a dead letter's replay: when the event failed first, RFC 3339 as its header has it.
    ///
    /// `receivedAt` may be the time of the replay.
    package var firstFailedAt: String?

    package init(
        lineItemID: String,
        revision: Int,
        type: PurchaseEvent.Kind,
        outcome: Outcome,
        externalPurchaseID: TokenID?,
        requestIdentifier: String?,
        reason: String,
        errors: [AppleError],
        item: String?,
        receivedAt: Timestamp,
        settledAt: Timestamp,
        lane: Lane? = nil,
        firstFailedAt: String? = nil
    ) {
        self.lane = lane
        self.firstFailedAt = firstFailedAt
        self.lineItemID = lineItemID
        self.revision = revision
        self.type = type
        self.outcome = outcome
        self.externalPurchaseID = externalPurchaseID
        self.requestIdentifier = requestIdentifier
        self.reason = reason
        self.errors = errors
        self.item = item
        self.receivedAt = receivedAt
        self.settledAt = settledAt
    }
}

/// A value of `tokens.refused.v1`: Apple does not know this token, or does after all.
package struct TokenRefused: Equatable, Sendable {
    package var externalPurchaseID: TokenID
    package var customer: CustomerID?
    package var refusedAt: Timestamp
    /// When Apple accepted a report of it, with which the refusal is none any more.
    package var withdrawnAt: Timestamp?

    package init(
        externalPurchaseID: TokenID,
        customer: CustomerID?,
        refusedAt: Timestamp,
        withdrawnAt: Timestamp? = nil
    ) {
        self.externalPurchaseID = externalPurchaseID
        self.customer = customer
        self.refusedAt = refusedAt
        self.withdrawnAt = withdrawnAt
    }

    package var purchaseKey: PurchaseKey {
        PurchaseKey(customer: customer, externalPurchaseID: externalPurchaseID)
    }
}
