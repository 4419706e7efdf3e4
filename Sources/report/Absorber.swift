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
            case .distinct, .notice, .request, .refused:
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

    private func absorb(
        _ input: Input,
        _ record: RecordBatch.Record,
        _ batch: RecordBatch,
        trace: TraceParent?,
        accounts: inout AccountBatch,
        into plan: inout BatchPlan
    ) -> Verdict {
        let now = plan.now
        let origin = RecordOrigin(
            topic: record.topic,
            partition: record.partition,
            offset: record.offset
        )
        let absorption: Absorption
        let place: AccountPlace
        var account: TokenAccount
        switch input {
        case .refused(let fault):
            return .deadLetter(fault)
        case .accountToken, .refusedAccountToken, .refusedSales:
            preconditionFailure("it is concluded before an account is opened")
        case .distinct(let distinct):
            (place, account) = open(
                distinct.externalPurchaseID,
                record,
                accounts,
                distinct.receivedAt
            )
            absorption = account.absorb(distinct, origin: origin, now: now, policy: policy)
        case .notice(let notice):
            (place, account) = open(
                notice.token.externalPurchaseID,
                record,
                accounts,
                notice.receivedAt
            )
            absorption = account.absorb(notice, origin: origin, now: now, policy: policy)
        case .request(let request, let parts):
            let time = record.time
            (place, account) = open(request.externalPurchaseID, record, accounts, time ?? now)
            absorption = account.absorb(
                request,
                parts: parts,
                origin: origin,
                time: time,
                now: now,
                history: ReplayHistory(of: record, in: batch),
                policy: policy
            )
        }
        if case .conflict = absorption {
            log.alarm(
                "a request names an identifier under which Apple has accepted another report",
                trace
            )
        }
        // What was due before is the sweep's: it knows whether the primary was heard.
        let wasDue =
            account.duplicateDue(by: now) != nil
            && accounts.token(at: place)?.duplicateDue(by: now) != nil
        let effects = account.advance(now: now, mayTellDuplicate: !wasDue, policy: policy)
        let bound = account.byteCountBound
        var refusal = absorption.fault
        if bound > plan.recordByteCountMax, bound > accounts.token(at: place)?.byteCountBound ?? 0 {
            refusal = refusal ?? account.tooLarge(byteCountMax: plan.recordByteCountMax)
        }
        if let refusal {
            guard case .request(let request, _) = input else {
                return .deadLetter(refusal)
            }
            return answer(to: request, refusal, of: account, into: &plan)
        }
        let answerCount = enact(effects, of: account.externalPurchaseID, into: &plan)
        if input.isRequest || input.isNotice || absorption == .promoted {
            // The replay of a refused debt, a primary's in its place, or Apple's word: it is held once more.
            plan.tally.moved(from: accounts.token(at: place), to: account)
        }
        let before = accounts.token(at: place)
        // What changes nothing must not be written for its trace's sake.
        if account != accounts.token(at: place) {
            account.trace = trace ?? account.trace
        }
        // CREATED for a token not known leaves nothing behind.
        if accounts[place] != nil || account.hasSubstance {
            _ = accounts.keep(.token(account), at: place)
        }
        guard answerCount == 0 else {
            return .forward(outputCount: answerCount)
        }
        let verdict = verdict(absorption, trace: trace)
        guard case .distinct(let distinct) = input,
            let refused = account.refusal(toTell: distinct, before: before)
        else {
            return verdict
        }
        output.append(refused, to: &plan)
        // As the loop counts it where nothing goes out.
        if let app = Self.app(of: input, record) {
            switch absorption {
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

    private func open(
        _ id: TokenID,
        _ record: RecordBatch.Record,
        _ accounts: AccountBatch,
        _ time: Timestamp
    ) -> (AccountPlace, TokenAccount) {
        let place = AccountPlace(id, partition: record.partition)
        return (
            place,
            accounts.token(at: place) ?? TokenAccount(externalPurchaseID: id, touchedAt: time)
        )
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
