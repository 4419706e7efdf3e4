internal import AppStoreAPI
internal import Kafka
internal import StageRuntime
internal import StateStore
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// Takes records into the accounts of their tokens: nothing is sent, and nothing falls due.
struct Absorber {
    let policy: ReportPolicy
    /// Turns a request for an account token into what is owed.
    let intake: AccountTokenIntake
    let output: ReportOutput
    let cache: AccountCache
    let metrics: ReportMetrics
    let log: Log
    /// Of `distinct`, as the worker found it; nil until the log knows it, and until then no partition is
    /// checked.
    var partitionCount: Int?

    /// Takes a batch in.
    ///
    /// - Returns: the accounts that changed; they are staged.
    func absorb(
        _ batch: RecordBatch,
        into plan: inout BatchPlan
    ) -> [(place: AccountPlace, debtor: Debtor)] {
        let inputs = batch.records.map { read($0, of: batch, now: plan.now) }
        var accounts = AccountBatch(state: plan.state, cache: cache)
        do throws(StoreFault) {
            try accounts.load(
                zip(batch.records, inputs).compactMap { record, input in
                    input.place(in: record.partition)
                }
            )
        } catch {
            plan.storeFault = error
            for _ in batch.records {
                plan.conclude(.settled("fault"))
            }
            return []
        }
        for (record, input) in zip(batch.records, inputs) {
            switch input {
            case .refusedAccountToken(let outcome, let fault):
                output.append(outcome, to: &plan)
                plan.conclude(.deadLetter(fault, outputCount: 1))
            case .accountToken(let order):
                plan.conclude(
                    absorb(
                        order,
                        record,
                        batch,
                        trace: trace(of: record, in: batch),
                        accounts: &accounts
                    )
                )
            case .refusedSales(let request, let fault):
                let account = TokenAccount(
                    externalPurchaseID: request.externalPurchaseID,
                    touchedAt: plan.now
                )
                plan.conclude(answer(to: request, fault, of: account, into: &plan))
            case .refused(let fault):
                plan.conclude(.deadLetter(fault), app: Self.app(of: input, record))
            case .distinct, .notice, .request:
                let verdict = absorb(
                    input,
                    record,
                    batch,
                    trace: trace(of: record, in: batch),
                    accounts: &accounts,
                    into: &plan
                )
                plan.conclude(verdict, app: Self.app(of: input, record))
            }
        }
        return accounts.put()
    }

    /// A request that cannot be met: whoever asked for sales gets an answer, any other request is
    /// dead-lettered.
    private func answer(
        to request: ReportRequested,
        _ fault: Fault,
        of account: TokenAccount,
        into plan: inout BatchPlan
    ) -> Verdict {
        guard let answer = account.answer(to: request, fault, policy: policy) else {
            return .deadLetter(fault)
        }
        output.append(answer, of: request.externalPurchaseID, to: &plan)
        return .forward(outputCount: 1)
    }

    // MARK: Absorbing

    /// A record in the account of its token, of which nothing has followed yet.
    private struct Taken {
        let place: AccountPlace
        /// As the account was; nil for a token that had none.
        let before: TokenAccount?
        var account: TokenAccount
        let absorption: Absorption
    }

    private func absorb(
        _ input: Input,
        _ record: RecordBatch.Record,
        _ batch: RecordBatch,
        trace: TraceParent?,
        accounts: inout AccountBatch,
        into plan: inout BatchPlan
    ) -> Verdict {
        let now = plan.now
        var taken = take(input, record, batch, accounts, now: now)
        if case .conflict = taken.absorption {
            log.alarm(
                "a request names an identifier under which Apple has accepted another report",
                trace
            )
        }
        // What was due before is the sweep's: it knows whether the primary was heard.
        let wasDue =
            taken.account.duplicateDue(by: now) != nil
            && taken.before?.duplicateDue(by: now) != nil
        let effects = taken.account.advance(now: now, mayTellDuplicate: !wasDue, policy: policy)
        if let refusal = refusal(of: taken, byteCountMax: plan.recordByteCountMax) {
            guard case .request(let request, _) = input else {
                return .deadLetter(refusal)
            }
            return answer(to: request, refusal, of: taken.account, into: &plan)
        }
        let answerCount = enact(effects, of: taken.account.externalPurchaseID, into: &plan)
        keep(&taken, of: input, trace: trace, in: &accounts, &plan)
        guard answerCount == 0 else {
            return .forward(outputCount: answerCount)
        }
        let verdict = verdict(taken.absorption, trace: trace)
        return tellRefused(taken, input, record, into: &plan) ?? verdict
    }

    /// Takes a record into the account of its token, a new one where it has none.
    private func take(
        _ input: Input,
        _ record: RecordBatch.Record,
        _ batch: RecordBatch,
        _ accounts: AccountBatch,
        now: Timestamp
    ) -> Taken {
        let origin = RecordOrigin(
            topic: record.topic,
            partition: record.partition,
            offset: record.offset
        )
        func open(
            _ id: TokenID,
            _ time: Timestamp,
            _ absorb: (inout TokenAccount) -> Absorption
        ) -> Taken {
            let place = AccountPlace(id, partition: record.partition)
            let before = accounts.token(at: place)
            var account = before ?? TokenAccount(externalPurchaseID: id, touchedAt: time)
            let absorption = absorb(&account)
            return Taken(place: place, before: before, account: account, absorption: absorption)
        }
        switch input {
        case .distinct(let distinct):
            return open(distinct.externalPurchaseID, distinct.receivedAt) { account in
                account.absorb(distinct, origin: origin, now: now, policy: policy)
            }
        case .notice(let notice):
            return open(notice.token.externalPurchaseID, notice.receivedAt) { account in
                account.absorb(notice, origin: origin, now: now, policy: policy)
            }
        case .request(let request, let parts):
            return open(request.externalPurchaseID, record.time ?? now) { account in
                account.absorb(
                    request,
                    parts: parts,
                    origin: origin,
                    time: record.time,
                    now: now,
                    history: ReplayHistory(of: record, in: batch),
                    policy: policy
                )
            }
        case .refused, .refusedSales, .accountToken, .refusedAccountToken:
            preconditionFailure("it is concluded before an account is opened")
        }
    }

    /// Why a record cannot be taken in; nil where it can.
    private func refusal(of taken: Taken, byteCountMax: Int) -> Fault? {
        if let fault = taken.absorption.fault {
            return fault
        }
        let bound = taken.account.byteCountBound
        guard bound > byteCountMax, bound > taken.before?.byteCountBound ?? 0 else {
            return nil
        }
        return taken.account.tooLarge(byteCountMax: byteCountMax)
    }

    private func keep(
        _ taken: inout Taken,
        of input: Input,
        trace: TraceParent?,
        in accounts: inout AccountBatch,
        _ plan: inout BatchPlan
    ) {
        if input.isRequest || input.isNotice || taken.absorption == .promoted {
            // The replay of a refused debt, a primary's in its place, or Apple's word: it is held once more.
            plan.tally.moved(from: taken.before, to: taken.account)
        }
        // What changes nothing must not be written for its trace's sake.
        if taken.account != taken.before {
            taken.account.trace = trace ?? taken.account.trace
        }
        // CREATED for a token not known leaves nothing behind.
        if taken.before != nil || taken.account.hasSubstance {
            _ = accounts.keep(.token(taken.account), at: taken.place)
        }
    }

    /// Tells of a customer who is new to a token that Apple does not know; nil where there is none.
    private func tellRefused(
        _ taken: Taken,
        _ input: Input,
        _ record: RecordBatch.Record,
        into plan: inout BatchPlan
    ) -> Verdict? {
        guard case .distinct(let distinct) = input,
            let refused = taken.account.refusal(toTell: distinct, before: taken.before)
        else {
            return nil
        }
        output.append(refused, to: &plan)
        // As the loop counts it where nothing goes out.
        if let app = Self.app(of: input, record) {
            switch taken.absorption {
            case .repeated, .ownerConflict: plan.tally.add(.repeated, app: app)
            case .alreadyReported: plan.tally.add(.reported, app: app)
            default: break
            }
        }
        return .forward(outputCount: 1)
    }

    /// The app of a token that came in, also where its record could not be taken; nil for what is no
    /// such token's, and for one among our dead letters.
    private static func app(of input: Input, _ record: RecordBatch.Record) -> Int64? {
        switch input {
        case .distinct(let distinct):
            if case .seen = distinct.role {
                return nil
            }
            return distinct.appAppleID ?? TokenTally.unknownApp
        case .refused:
            return Worker.report.sources[record.topic] == .tokensDistinct
                ? TokenTally.unknownApp : nil
        case .notice, .request, .refusedSales, .accountToken, .refusedAccountToken:
            return nil
        }
    }

    private func absorb(
        _ order: AccountTokenIntake.Order,
        _ record: RecordBatch.Record,
        _ batch: RecordBatch,
        trace: TraceParent?,
        accounts: inout AccountBatch
    ) -> Verdict {
        let place = AccountPlace(key: order.key, partition: record.partition)
        var debt =
            accounts.transaction(at: place)
            ?? AccountTokenDebt(
                originalTransactionID: order.originalTransactionID,
                lane: order.lane,
                bundleID: order.bundleID,
                touchedAt: order.requestedAt
            )
        let absorption = debt.absorb(
            AccountTokenDebt.Request(
                appAccountToken: order.appAccountToken,
                requestedAt: order.requestedAt,
                requestID: order.requestID,
                origin: RecordOrigin(
                    topic: record.topic,
                    partition: record.partition,
                    offset: record.offset
                ),
                trace: trace,
                history: ReplayHistory(of: record, in: batch)
            )
        )
        _ = accounts.keep(.transaction(debt), at: place)
        switch absorption {
        case .owed: return .settled("owed")
        case .outdated: return .settled("outdated")
        }
    }

    private func verdict(_ absorption: Absorption, trace: TraceParent?) -> Verdict {
        switch absorption {
        case .owed: return .settled("owed")
        case .repeated: return .settled("repeat")
        case .ownerConflict:
            metrics.ownerConflict()
            return .settled("owner_conflict")
        case .seen: return .settled("seen")
        case .promoted:
            metrics.promoted(isLate: false)
            return .settled("promoted")
        case .promotedLate:
            output.tellPromotedLate(trace: trace)
            return .settled("promoted_late")
        case .noticeForSeen:
            log.alarm("Apple asks for a token that is in our dead letters: replay it", trace)
            return .settled("notice_for_seen")
        case .alreadyReported: return .settled("already_reported")
        case .parked:
            log.alarm("Apple asks for a report that it has refused: see the dead letters", trace)
            return .settled("parked")
        case .underWay: return .settled("under_way")
        case .guarded: return .settled("guarded")
        case .noted: return .settled("noted")
        case .unknownSubtype(let subtype):
            log.limited(
                .error,
                "Apple asks for something about a token with a subtype that nobody knows",
                per: trace?.traceID,
                ("subtype", .text(subtype ?? "none")),
                ("traceId", .text(trace?.traceID ?? ""))
            )
            return .settled("unknown_subtype")
        case .refused(let fault), .conflict(let fault): return .deadLetter(fault)
        }
    }

    /// What a change of an account asks for that needs no answer of Apple.
    ///
    /// - Returns: how many answers were written, to those who asked for sales that Apple has already.
    private func enact(
        _ effects: [ReportEffect],
        of id: TokenID,
        into plan: inout BatchPlan
    ) -> Int {
        var answerCount = 0
        for effect in effects {
            switch effect {
            case .cancelled(let intent): metrics.cancelled(intent)
            case .answered(let answer):
                output.append(answer, of: id, to: &plan)
                answerCount += 1
            case .outcome, .deadLetter, .refusedToken, .promotedLate:
                preconditionFailure("only an answer ends a report, or the wait behind one")
            }
        }
        return answerCount
    }
}
