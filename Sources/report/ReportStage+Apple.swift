internal import AppStoreAPI
internal import Kafka
internal import StageRuntime
internal import StateStore
internal import Telemetry
internal import TokenDomain
internal import TokenWire

extension ReportStage {
    // MARK: Answers

    /// Collects what came back: the lanes hear of it at once, the accounts in this tick's transaction.
    func hearApple(now: Timestamp) {
        for (tag, reply) in apple.collect(now: now) {
            guard let flight = flights.removeValue(forKey: tag) else {
                continue
            }
            countFlight(flight.queue, -1)
            let budget = lanes[flight.queue]?.retryBudget ?? RetryBudget()
            let wait = backoff.delay(
                failureCount: budget.failureCount(flight.errand.failureCount + 1),
                using: &generator
            )
            let (answer, word) = Self.judge(reply, to: flight, now: now, retryAt: now + wait)
            note(reply, answer, flight, now: now)
            hear(word, flight, now: now)
            inbox.append(PlacedAnswer(place: flight.place, answer: answer))
        }
    }

    private static func judge(
        _ reply: AppleReply,
        to flight: Flight,
        now: Timestamp,
        retryAt: Timestamp
    ) -> (Answer, LaneGate.Word) {
        switch flight.errand {
        case .report(let number, let requestCount, let request, let report):
            let meaning = ReportAnswer(
                reply,
                to: request,
                identifier: report.identifier,
                newestDate: report.newestDate,
                now: now
            )
            let answer = AnsweredReport(
                number: number,
                requestCount: requestCount,
                request: request,
                meaning: meaning,
                httpStatus: reply.httpStatus,
                errors: reply.errors ?? [],
                sentAt: flight.sentAt,
                answeredAt: now,
                retryAt: retryAt,
                lineItemCount: report.lineItemCount
            )
            return (.report(answer), LaneGate.Word(meaning))
        case .accountToken(let token, let attempts):
            let meaning = AccountTokenAnswer(reply)
            let answer = AnsweredAccountToken(
                appAccountToken: token,
                attempts: attempts,
                meaning: meaning,
                httpStatus: reply.httpStatus,
                errorCode: reply.errors?.first?.code,
                answeredAt: now,
                retryAt: retryAt
            )
            return (.accountToken(answer), LaneGate.Word(meaning))
        }
    }

    /// What an answer says about its lane.
    private func hear(_ word: LaneGate.Word, _ flight: Flight, now: Timestamp) {
        let queue = flight.queue
        guard var lane = lanes[queue] else {
            return
        }
        switch word {
        case .fine:
            lane.retryBudget.accepted()
            lane.pace.accepted(sentAt: flight.sentAt, now: now)
        case .inconclusive:
            lane.retryBudget.failed()
        case .trouble(.rateLimited, let until):
            let isHeld = lane.pace.rateLimited(
                sentAt: flight.sentAt,
                until: until,
                now: now,
                using: &generator
            )
            if isHeld {
                tellHeld(queue, until: lane.pace.holdEnd(now: now) ?? now, now: now)
            }
        case .trouble:
            break
        }
        let change = lane.gate.heard(
            word.ofEndpoint,
            isProbe: flight.isEndpointProbe,
            now: now
        )
        lanes[queue] = lane
        tell(change, of: [queue])
        let keyChange = keyGates[queue.lane, default: LaneGate()].heard(
            word.ofKey,
            isProbe: flight.isKeyProbe,
            now: now
        )
        // The key is that of every endpoint.
        tell(keyChange, of: queues.filter { $0.lane == queue.lane })
    }

    private func tellHeld(_ queue: SendQueue, until: Timestamp, now: Timestamp) {
        metrics.changed([queue], "held", isStopped: false)
        log.limited(
            .warning,
            "Apple limits the rate of a lane",
            ("appAppleId", .integer(queue.lane.appAppleID)),
            ("environment", .text(queue.lane.environment.rawValue)),
            ("seconds", .number(Double((until - now).count) / 1_000))
        )
    }

    private func tell(_ change: LaneGate.Change?, of queues: [SendQueue]) {
        guard let change, let lane = queues.first?.lane else {
            return
        }
        let app = LogValue.integer(lane.appAppleID)
        let environment = LogValue.text(lane.environment.rawValue)
        switch change {
        case .resigning:
            metrics.changed(queues, "resigning", isStopped: false)
        case .stopped(let trouble):
            metrics.changed(queues, trouble.rawValue, isStopped: true)
            log.error(
                "a lane is stopped: nothing is reported for this app until its probe succeeds",
                ("appAppleId", app),
                ("environment", environment),
                ("because", .text(trouble.rawValue))
            )
        case .reopened:
            metrics.changed(queues, "reopened", isStopped: false)
            log.info(
                "a lane works again",
                ("appAppleId", app),
                ("environment", environment)
            )
        }
    }

    /// Takes answers into their accounts, in this tick's transaction.
    func settleAnswers(into plan: inout BatchPlan) throws(StoreFault) {
        guard !inbox.isEmpty,
            inbox.count >= limits.answerCountMax || nextSettling(now: plan.now) <= plan.now
        else {
            return
        }
        settledAt = plan.now
        let answers = Array(inbox.prefix(limits.answerCountMax))
        inbox.removeFirst(answers.count)
        var desk = AccountDesk(state: plan.state)
        try desk.load(answers.map(\.place))
        try desk.loadNext(answers.map(\.place))
        for placed in answers {
            let isChanged: Bool
            switch placed.answer {
            case .report(let answer):
                guard var account = desk.token(at: placed.place) else {
                    release(placed.place)
                    continue
                }
                let before = account
                enact(account.absorb(answer, policy: policy), of: account, into: &plan)
                plan.tally.moved(from: before, to: account)
                isChanged = desk.keep(.token(account), at: placed.place)
            case .accountToken(let answer):
                guard var debt = desk.transaction(at: placed.place) else {
                    release(placed.place)
                    continue
                }
                let trace = debt.current?.trace
                enact(debt.absorb(answer), trace: trace, into: &plan)
                isChanged = desk.keep(.transaction(debt), at: placed.place)
            }
            if isChanged || isStaged(placed.place) {
                unconfirmed.append(placed)
            } else {
                // The account moved on without it: it was taken in before an abort.
                release(placed.place)
            }
        }
        touch(desk.put())
    }

    /// At once after a rest; a clock that was set back ends the wait.
    func nextSettling(now: Timestamp) -> Timestamp {
        settledAt > now ? now : max(settledAt + limits.settleInterval, now)
    }

    /// The account may be sent for again, though nothing of it changed.
    private func release(_ place: AccountPlace) {
        busy.remove(place)
        for queue in queues {
            lanes[queue]?.needsRefill = true
        }
    }

    func tellPromotedLate(trace: TraceParent?) {
        metrics.promoted(isLate: true)
        log.limited(
            .error,
            "a token is the first of its period now, and Apple has it as a duplicate",
            ("traceId", .text(trace?.traceID ?? ""))
        )
    }

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
                append(answer, of: account.externalPurchaseID, trace: account.trace, to: &plan)
            case .promotedLate:
                tellPromotedLate(trace: account.trace)
            case .refusedToken(let refused):
                log.limited(
                    .warning,
                    "Apple does not know a token: another of its period takes its place",
                    ("appAppleId", .integer(account.appAppleID ?? 0)),
                    ("traceId", .text(account.trace?.traceID ?? ""))
                )
                append(refused, trace: account.trace, to: &plan)
            case .deadLetter(let request, let fault, let origin, let history):
                if fault.code == "report.\(Rejection.conflict.rawValue)" {
                    log.error(
                        "Apple holds another report under an identifier of ours",
                        ("appAppleId", .integer(request.appAppleID)),
                        ("requestIdentifier", .text(request.requestIdentifier ?? "")),
                        ("traceId", .text(account.trace?.traceID ?? ""))
                    )
                }
                var value: [UInt8] = []
                request.write(to: &value)
                bury(
                    value,
                    key: request.externalPurchaseID.text,
                    fault,
                    origin,
                    history,
                    trace: account.trace,
                    into: &plan
                )
            }
        }
    }

    private func enact(
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
                    preconditionFailure("a wish that was sent names its transaction")
                }
                var value: [UInt8] = []
                request.write(to: &value)
                bury(value, key: id, fault, origin, history, trace: trace, into: &plan)
            }
        }
    }

    func append(
        topic: Topic,
        key: String,
        trace: TraceParent?,
        to plan: inout BatchPlan,
        _ write: (inout [UInt8]) -> Void
    ) {
        // A transaction that is not genuine names nobody.
        let keyRange = key.isEmpty ? .absent : plan.outputs.place(key.utf8)
        let start = plan.outputs.arena.count
        write(&plan.outputs.arena)
        let value = plan.outputs.placed(from: start)
        let headers = TraceHeader.append(trace, to: &plan.outputs.arena)
        plan.outputs.outputs.append(
            OutputBatch.Output(
                topic: Self.target(topic),
                key: keyRange,
                value: value,
                headers: headers
            )
        )
    }

    private func bury(
        _ value: [UInt8],
        key: String,
        _ fault: Fault,
        _ origin: RecordOrigin,
        _ history: ReplayHistory?,
        trace: TraceParent?,
        into plan: inout BatchPlan
    ) {
        plan.append(
            DeadLetter(
                fault: fault,
                worker: .report,
                origin: DeadLetter.Origin(
                    topic: sources[origin.topic],
                    partition: origin.partition,
                    offset: origin.offset,
                    group: group
                ),
                failedAt: plan.now,
                history: history.map(DeadLetter.History.init) ?? .none
            ),
            topic: Worker.report.targets.count,
            key: Array(key.utf8),
            value: value,
            trace: trace
        )
    }
}

extension DeadLetter.History {
    init(_ history: ReplayHistory) {
        self = .none
        firstFailedAt = history.firstFailedAt
        attempts = history.attempts
        replayCount = history.replayCount
        replayID = history.replayID
    }
}

extension ReplayHistory {
    /// What a record's headers tell; nil where it is no replay.
    init?(of record: RecordBatch.Record, in batch: RecordBatch) {
        let history = DeadLetter.History(headers: record.headers, of: batch.arena)
        guard history != .none else {
            return nil
        }
        self.init(
            firstFailedAt: history.firstFailedAt,
            attempts: history.attempts,
            replayCount: history.replayCount,
            replayID: history.replayID
        )
    }
}
