internal import AppStoreAPI
internal import StageRuntime
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// What the stage writes beside its state and its dead letters.
extension ReportStage {
    /// The index of a topic among `Worker.report.targets`; the dead letters come after all of them.
    static func target(_ topic: Topic) -> Int {
        guard let index = Worker.report.targets.firstIndex(of: topic) else {
            preconditionFailure("report writes the topics that the pipeline says")
        }
        return index
    }

    /// One line of the ledger, and what is counted of it.
    func append(_ outcome: ReportOutcome, of account: TokenAccount, to plan: inout BatchPlan) {
        var outcome = outcome
        if let lineItems = outcome.told.lineItems,
            let sold = LineItemParts.oldestSale(in: lineItems)
        {
            outcome.told.bringForward(
                deadline: ReportPolicy.deadline(ofSale: sold),
                settledAt: outcome.settledAt
            )
        }
        metrics.settled(outcome, tokenCreatedAt: account.tokenCreationDate)
        append(
            topic: .reportsOutcomes,
            key: outcome.externalPurchaseID.text,
            trace: account.trace,
            to: &plan
        ) { outcome.write(to: &$0) }
    }

    /// The answer to whoever asked for a report of sales.
    ///
    /// Without a trace it gets that of the record it comes of.
    func append(
        _ answer: PurchaseAnswer,
        of id: TokenID,
        trace: TraceParent? = nil,
        to plan: inout BatchPlan
    ) {
        let answered = PurchaseAnswered(
            requestIdentifier: answer.requestIdentifier,
            externalPurchaseID: id,
            lineItemIDs: answer.lineItems.map(LineItemParts.ids) ?? [],
            outcome: answer.outcome,
            errors: answer.errors,
            reason: answer.reason,
            verifiedLineItemIDs: answer.verified,
            primaryExternalPurchaseID: answer.primary,
            settledAt: plan.now
        )
        append(
            topic: .purchasesAnswered,
            key: answer.purchaseKey.text,
            trace: trace,
            to: &plan
        ) { answered.write(to: &$0) }
    }

    /// Without a trace it gets that of the record it comes of.
    func append(_ refused: TokenRefused, trace: TraceParent? = nil, to plan: inout BatchPlan) {
        append(
            topic: .tokensRefused,
            key: refused.purchaseKey.text,
            trace: trace,
            to: &plan
        ) { refused.write(to: &$0) }
    }

    /// Without a trace it gets that of the record it comes of.
    func append(
        _ outcome: AccountTokenOutcome,
        trace: TraceParent? = nil,
        to plan: inout BatchPlan
    ) {
        append(
            topic: .accountTokensOutcomes,
            key: outcome.originalTransactionID,
            trace: trace,
            to: &plan
        ) { outcome.write(to: &$0) }
    }
}
