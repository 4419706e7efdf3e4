internal import AppStoreAPI
internal import Kafka
internal import StageRuntime
internal import StateStore
internal import Telemetry
internal import TokenDomain
internal import TokenWire

extension ReportStage {
    /// One record, read.
    private enum Input {
        case distinct(TokenDistinct)
        case notice(NotificationVerified)
        case request(ReportRequested)
        case wish(TransactionDesk.Order)
        /// A wish that cannot be: its outcome goes out beside its dead letter.
        case refusedWish(AccountTokenOutcome, Fault)
        case refused(Fault)

        var externalPurchaseID: TokenID? {
            switch self {
            case .distinct(let distinct): distinct.externalPurchaseID
            case .notice(let notice): notice.token.externalPurchaseID
            case .request(let request): request.externalPurchaseID
            case .wish, .refusedWish, .refused: nil
            }
        }

        func place(in partition: Int32) -> AccountPlace? {
            if case .wish(let order) = self {
                return AccountPlace(key: order.key, partition: partition)
            }
            return externalPurchaseID.map { AccountPlace($0, partition: partition) }
        }
    }

    func judge(_ batch: RecordBatch, into plan: inout BatchPlan) {
        if let milliseconds = batch.oldestTimestampMilliseconds {
            forgetting.heard(recordTime: Timestamp(milliseconds: milliseconds))
        }
        let inputs = batch.records.map { read($0, of: batch, now: plan.now) }
        var desk = AccountDesk(state: plan.state)
        do throws(StoreFault) {
            try desk.load(
                zip(batch.records, inputs).compactMap { record, input in
                    input.place(in: record.partition)
                }
            )
        } catch {
            plan.storeFault = error
            for _ in batch.records {
                plan.conclude(.settled("fault"))
            }
            return
        }
        for (record, input) in zip(batch.records, inputs) {
            switch input {
            case .refusedWish(let outcome, let fault):
                append(outcome, to: &plan)
                plan.conclude(.deadLetterAndForward(fault, outputCount: 1))
            case .wish(let order):
                plan.conclude(
                    absorb(order, record, batch, trace: trace(of: record, in: batch), desk: &desk)
                )
            case .distinct, .notice, .request, .refused:
                let verdict = absorb(
                    input,
                    record,
                    batch,
                    trace: trace(of: record, in: batch),
                    desk: &desk,
                    into: &plan
                )
                plan.conclude(verdict, app: Self.app(of: input, record))
            }
        }
        touch(desk.put())
    }

    // MARK: Reading

    private func read(
        _ record: RecordBatch.Record,
        of batch: RecordBatch,
        now: Timestamp
    ) -> Input {
        guard !record.value.isAbsent else {
            return .refused(Fault(code: "report.bad_record", message: "the record has no value"))
        }
        let value = batch.arena.span.extracting(record.value.indices)
        do throws(WireFault) {
            let input: Input
            switch Worker.report.sources[record.topic] {
            case .tokensDistinct: input = .distinct(try TokenDistinct(reading: value))
            case .notificationsVerified: input = .notice(try NotificationVerified(reading: value))
            case .reportsRequested: input = .request(try ReportRequested(reading: value))
            case .accountTokensRequested:
                return Self.order(
                    try AccountTokenRequested(reading: value),
                    desk: self.desk,
                    now: now
                )
            default:
                preconditionFailure("report reads four topics")
            }
            return fault(of: input, record, batch).map { .refused($0) } ?? input
        } catch {
            return .refused(Fault(code: "report.bad_record", message: error.message))
        }
    }

    /// What is wrong with a record beside its form.
    private func fault(
        of input: Input,
        _ record: RecordBatch.Record,
        _ batch: RecordBatch
    ) -> Fault? {
        guard let id = input.externalPurchaseID else {
            return nil
        }
        // All about a token must lie in one partition: an account in two places would report twice.
        guard !record.key.isAbsent, batch.arena[record.key.indices].elementsEqual(id.text.utf8)
        else {
            return Fault(
                code: "report.bad_key",
                message: "the record's key is not its externalPurchaseId",
                externalPurchaseID: id
            )
        }
        if let partitionCount,
            Partitioner.partition(
                ofKey: batch.arena.span.extracting(record.key.indices),
                partitionCount: Int32(partitionCount)
            ) != record.partition
        {
            return Fault(
                code: "report.wrong_partition",
                message: "the record was not partitioned by murmur2 of its key",
                externalPurchaseID: id
            )
        }
        guard case .request(let request) = input, let lineItems = request.lineItems else {
            return nil
        }
        do throws(ReportRequestFault) {
            _ = try ReportRequestBody(
                requestIdentifier: request.requestIdentifier ?? "",
                externalPurchaseID: id,
                lineItems: lineItems
            )
            return nil
        } catch {
            return Fault(code: "report.line_items", message: error.message, externalPurchaseID: id)
        }
    }

    private func trace(of record: RecordBatch.Record, in batch: RecordBatch) -> TraceParent? {
        TraceHeader.trace(of: record, in: batch)
    }

    // MARK: Absorbing

    private func absorb(
        _ input: Input,
        _ record: RecordBatch.Record,
        _ batch: RecordBatch,
        trace: TraceParent?,
        desk: inout AccountDesk,
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
        case .wish, .refusedWish:
            preconditionFailure("a wish has no token")
        case .distinct(let distinct):
            (place, account) = open(distinct.externalPurchaseID, record, desk, distinct.receivedAt)
            absorption = account.absorb(distinct, origin: origin, policy: policy)
        case .notice(let notice):
            (place, account) = open(
                notice.token.externalPurchaseID,
                record,
                desk,
                notice.receivedAt
            )
            absorption = account.absorb(notice, origin: origin, policy: policy)
        case .request(let request):
            let time =
                record.timestampMilliseconds >= 0
                ? Timestamp(milliseconds: record.timestampMilliseconds) : now
            (place, account) = open(request.externalPurchaseID, record, desk, time)
            absorption = account.absorb(
                request,
                origin: origin,
                time: time,
                history: ReplayHistory(of: record, in: batch),
                policy: policy
            )
        }
        switch absorption {
        case .refused(let fault):
            return .deadLetter(fault)
        case .conflict(let fault):
            log.limited(
                .error,
                "a request names an identifier under which Apple has accepted another report",
                ("traceId", .text(trace?.traceID ?? ""))
            )
            return .deadLetter(fault)
        default:
            break
        }
        let effects = account.advance(now: now, policy: policy)
        let bound = account.byteCountBound
        if bound > plan.recordByteCountMax, bound > desk.token(at: place)?.byteCountBound ?? 0 {
            return .deadLetter(account.tooLarge(byteCountMax: plan.recordByteCountMax))
        }
        tell(effects)
        if case .request = input {
            // The replay of a refused debt: the token is held once more.
            plan.tally.moved(from: desk.token(at: place), to: account)
        }
        // What changes nothing must not be written for its trace's sake.
        if account != desk.token(at: place) {
            account.trace = trace ?? account.trace
        }
        // CREATED for a token not known leaves nothing behind.
        if desk[place] != nil || account.hasSubstance {
            _ = desk.keep(.token(account), at: place)
        }
        return verdict(absorption, trace: trace)
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
        case .notice, .request, .wish, .refusedWish:
            return nil
        }
    }

    private static func order(
        _ requested: AccountTokenRequested,
        desk: TransactionDesk,
        now: Timestamp
    ) -> Input {
        do throws(TransactionDesk.Refusal) {
            return .wish(try desk.order(requested, now: now))
        } catch {
            return .refusedWish(error.outcome, error.fault)
        }
    }

    private func absorb(
        _ order: TransactionDesk.Order,
        _ record: RecordBatch.Record,
        _ batch: RecordBatch,
        trace: TraceParent?,
        desk: inout AccountDesk
    ) -> Verdict {
        let place = AccountPlace(key: order.key, partition: record.partition)
        var debt =
            desk.transaction(at: place)
            ?? AccountTokenDebt(
                originalTransactionID: order.originalTransactionID,
                lane: order.lane,
                bundleID: order.bundleID,
                touchedAt: order.requestedAt
            )
        let absorption = debt.absorb(
            AccountTokenDebt.Wish(
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
        _ = desk.keep(.transaction(debt), at: place)
        switch absorption {
        case .owed: return .settled("owed")
        case .outdated: return .settled("outdated")
        }
    }

    private func open(
        _ id: TokenID,
        _ record: RecordBatch.Record,
        _ desk: AccountDesk,
        _ time: Timestamp
    ) -> (AccountPlace, TokenAccount) {
        let place = AccountPlace(id, partition: record.partition)
        return (
            place, desk.token(at: place) ?? TokenAccount(externalPurchaseID: id, touchedAt: time)
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
        case .noticeForSeen:
            log.limited(
                .error,
                "Apple asks for a token that lies in our dead letters: replay it",
                ("traceId", .text(trace?.traceID ?? ""))
            )
            return .settled("notice_for_seen")
        case .alreadyReported: return .settled("already_reported")
        case .parked:
            log.limited(
                .error,
                "Apple asks for a report that it has refused: see the dead letters",
                ("traceId", .text(trace?.traceID ?? ""))
            )
            return .settled("parked")
        case .underWay: return .settled("under_way")
        case .guarded: return .settled("guarded")
        case .noted: return .settled("noted")
        case .unknownSubtype:
            log.limited(
                .warning,
                "a notification has a subtype that nobody knows",
                ("traceId", .text(trace?.traceID ?? ""))
            )
            return .settled("unknown_subtype")
        case .refused(let fault), .conflict(let fault): return .deadLetter(fault)
        }
    }

    /// What a change of an account asks for where there is nothing to write.
    private func tell(_ effects: [ReportEffect]) {
        for effect in effects {
            switch effect {
            case .cancelled(let intent): metrics.cancelled(intent)
            case .outcome, .deadLetter:
                preconditionFailure("only an answer ends a report, or the wait behind one")
            }
        }
    }
}
