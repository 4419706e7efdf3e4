internal import AppStoreAPI
internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// What the stage writes beside its state: the ledger, answers to whoever asked, refused tokens and
/// dead-letter records.
struct ReportOutput {
    private let deadLetters: OwnDeadLetters
    private let metrics: ReportMetrics
    private let log: Log

    init(topicPrefix: String, metrics: ReportMetrics, log: Log) {
        deadLetters = OwnDeadLetters(of: .report, topicPrefix: topicPrefix)
        self.metrics = metrics
        self.log = log
    }

    // MARK: What follows from a change

    /// Writes what follows from a change: the ledger, dead letters, alarms.
    func enact(
        _ effects: [ReportEffect],
        of account: TokenAccount,
        into plan: inout BatchPlan
    ) {
        for effect in effects {
            switch effect {
            case .cancelled(let intent):
                metrics.cancelled(intent)
            case .outcome(let outcome):
                append(outcome, of: account, to: &plan)
            case .answered(let answer):
                if answer.reason == Rejection.conflict.code {
                    tellConflict(of: answer.requestIdentifier, account)
                }
                append(answer, of: account.externalPurchaseID, trace: account.trace, to: &plan)
            case .promotedLate:
                tellPromotedLate(trace: account.trace)
            case .refusedToken(let refused):
                log.limited(
                    .warning,
                    "Apple does not know a token: another of its period may take its place",
                    ("appAppleId", .integer(account.appAppleID ?? 0)),
                    ("traceId", .text(account.trace?.traceID ?? ""))
                )
                append(refused, trace: account.trace, to: &plan)
            case .deadLetter(var request, let fault, let origin, let history):
                if fault.code == Rejection.conflict.code {
                    tellConflict(of: request.requestIdentifier ?? "", account)
                }
                request.deadline = .earlier(
                    of: request.deadline,
                    Self.deadline(ofSales: request.lineItems)
                )
                var value: [UInt8] = []
                request.write(to: &value)
                deadLetters.append(
                    value,
                    key: Array(request.externalPurchaseID.text.utf8),
                    fault,
                    origin,
                    history,
                    trace: account.trace,
                    into: &plan
                )
            }
        }
    }

    func enact(
        _ effects: [AccountTokenDebt.Effect],
        trace: TraceParent?,
        into plan: inout BatchPlan
    ) {
        for effect in effects {
            switch effect {
            case .outcome(let outcome):
                append(outcome, trace: trace, to: &plan)
            case .deadLetter(let request, let fault, let origin, let history):
                guard case .original(let id, _, _) = request.subject else {
                    preconditionFailure("a request that was sent names its transaction")
                }
                var value: [UInt8] = []
                request.write(to: &value)
                deadLetters.append(
                    value,
                    key: Array(id.utf8),
                    fault,
                    origin,
                    history,
                    trace: trace,
                    into: &plan
                )
            }
        }
    }

    private func tellConflict(of identifier: String, _ account: TokenAccount) {
        log.error(
            "Apple holds another report under an identifier of ours",
            ("appAppleId", .integer(account.appAppleID ?? 0)),
            ("requestIdentifier", .text(identifier)),
            ("traceId", .text(account.trace?.traceID ?? ""))
        )
    }

    func tellPromotedLate(trace: TraceParent?) {
        metrics.promoted(isLate: true)
        log.alarm("a token is the first of its period now, and Apple has it as a duplicate", trace)
    }

    // MARK: Records

    /// One line of the ledger, and what is counted of it.
    func append(_ outcome: ReportOutcome, of account: TokenAccount, to plan: inout BatchPlan) {
        var outcome = outcome
        if let deadline = Self.deadline(ofSales: outcome.details.lineItems) {
            outcome.details.bringForward(deadline: deadline, settledAt: outcome.settledAt)
        }
        // A transaction that is aborted is made again.
        plan.whenCommitted { [metrics, outcome, created = account.tokenCreationDate] in
            metrics.settled(outcome, tokenCreatedAt: created)
        }
        append(
            topic: .reportsOutcomes,
            key: outcome.externalPurchaseID.text,
            trace: account.trace,
            to: &plan
        ) { outcome.write(to: &$0) }
    }

    /// Until when Apple wants new sales, whatever their token has; nil where there are none.
    private static func deadline(ofSales lineItems: String?) -> Timestamp? {
        lineItems.flatMap { LineItemParts.oldestSale(in: $0) }
            .map { ReportPolicy.deadline(ofSale: $0) }
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
            verifiedRequestIdentifiers: answer.holders,
            primaryExternalPurchaseID: answer.primary,
            askedAt: answer.askedAt,
            settledAt: plan.now
        )
        if answer.reason == Rejection.conflict.code {
            // No dead letter of ours, which the alert counts, is made of it.
            plan.whenCommitted { [metrics] in metrics.identifierConflict() }
        }
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

    private func append(
        topic: Topic,
        key: String,
        trace: TraceParent?,
        to plan: inout BatchPlan,
        _ write: (inout [UInt8]) -> Void
    ) {
        // A transaction that is not genuine gives no key.
        let keyRange = key.isEmpty ? .absent : plan.outputs.place(key.utf8)
        plan.append(topic: Worker.report.targetIndex(of: topic), key: keyRange, trace: trace, write)
    }
}
