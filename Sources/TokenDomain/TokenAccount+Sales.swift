/// The answers to `purchases`, which asks for reports of sales.
extension TokenAccount {
    /// Whether sales are asked for once more whose report is under way: `purchases` has waited long for
    /// its answer, which comes.
    ///
    /// One that an earlier version took in does not name when.
    func isUnderWay(_ request: ReportRequested, _ parts: [String]) -> Bool {
        guard let current, request.purchaseKey != nil else {
            return false
        }
        return current.purchaseKey == request.purchaseKey && current.status == request.status
            && current.lineItems == (parts.count == 1 ? parts[0] : request.lineItems)
            && (current.askedAt == nil || current.askedAt == request.askedAt)
    }

    func answer(
        to intent: ReportIntent,
        of purchaseKey: PurchaseKey,
        _ outcome: ReportOutcome.Outcome,
        errors: [AppleError],
        reason: String? = nil
    ) -> PurchaseAnswer {
        PurchaseAnswer(
            purchaseKey: purchaseKey,
            requestIdentifier: intent.identifier,
            lineItems: intent.lineItems,
            outcome: outcome,
            errors: errors,
            reason: reason,
            verified: intent.search?.verified ?? [],
            holders: intent.search?.holders ?? [],
            primary: nil,
            askedAt: intent.askedAt
        )
    }

    /// The newest accepted report with line items, where it has those of an intent: `purchases` asks
    /// once more for what it had no answer to.
    ///
    /// An older one that has them does not say what Apple has now. An earlier version of `purchases`,
    /// which names no time, takes the answer for that to the report before.
    func holder(of intent: ReportIntent, _ policy: ReportPolicy) -> AcceptedReport? {
        guard intent.askedAt != nil,
            let newest = accepted.last(where: { $0.status == .lineItem }),
            newest.says(intent.status, intent.lineItems, policy)
        else {
            return nil
        }
        return newest
    }

    /// The answer to sales that Apple has by an earlier report, as they are asked for.
    func answer(
        to intent: ReportIntent,
        of purchaseKey: PurchaseKey,
        heldBy report: AcceptedReport,
        _ policy: ReportPolicy
    ) -> PurchaseAnswer {
        var answer = answer(to: intent, of: purchaseKey, .verified, errors: [])
        answer.requestIdentifier =
            report.identifier ?? policy.requestIdentifier(externalPurchaseID, report.number)
        return answer
    }
}
