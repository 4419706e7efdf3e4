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
            lanes[flight.queue]?.flightCount -= 1
            count(reply, flight.queue.lane)
            let meaning = ReportAnswer(
                reply,
                to: flight.request,
                identifier: flight.identifier,
                newestDate: flight.newestDate,
                now: now
            )
            hear(LaneGate.Word(meaning), flight.queue, sentAt: flight.sentAt, now: now)
            let wait = backoff.delay(failureCount: flight.requestCount + 1, using: &generator)
            inbox.append(
                PlacedAnswer(
                    place: flight.place,
                    answer: AnsweredReport(
                        number: flight.number,
                        requestCount: flight.requestCount,
                        request: flight.request,
                        meaning: meaning,
                        httpStatus: reply.httpStatus,
                        errors: reply.errors ?? [],
                        sentAt: flight.sentAt,
                        answeredAt: now,
                        retryAt: now + wait
                    )
                )
            )
        }
    }

    private func count(_ reply: AppleReply, _ lane: Lane) {
        metrics.ended(
            lane,
            httpStatus: reply.httpStatus,
            code: reply.errors?.first.map { String($0.code) } ?? ""
        )
    }

    /// What an answer says about its lane.
    private func hear(
        _ word: LaneGate.Word,
        _ queue: SendQueue,
        sentAt: Timestamp,
        now: Timestamp
    ) {
        guard var lane = lanes[queue] else {
            return
        }
        var retryAt = now
        if case .trouble(.rateLimited, let until) = word {
            lane.pace.rateLimited(sentAt: sentAt, now: now)
            lane.limitedCount = until == nil ? lane.limitedCount + 1 : 0
            retryAt = now + backoff.delay(failureCount: lane.limitedCount, using: &generator)
        } else if word == .fine {
            lane.limitedCount = 0
        }
        let change = lane.gate.heard(word, retryAt: retryAt, now: now)
        lanes[queue] = lane
        let app = LogValue.integer(queue.lane.appAppleID)
        let environment = LogValue.text(queue.lane.environment.rawValue)
        switch change {
        case nil:
            break
        case .held(let until):
            metrics.changed(queue, "held", isStopped: false)
            log.limited(
                .warning,
                "Apple limits the rate of a lane",
                ("appAppleId", app),
                ("environment", environment),
                ("seconds", .number(Double((until - now).count) / 1_000))
            )
        case .resigning:
            apple.reloadKey(appAppleID: queue.lane.appAppleID)
            metrics.changed(queue, "resigning", isStopped: false)
        case .stopped(let trouble):
            metrics.changed(queue, trouble.rawValue, isStopped: true)
            log.error(
                "a lane is stopped: nothing is reported for this app until its probe succeeds",
                ("appAppleId", app),
                ("environment", environment),
                ("because", .text(trouble.rawValue))
            )
        case .reopened:
            metrics.changed(queue, "reopened", isStopped: false)
            log.info(
                "a lane works again",
                ("appAppleId", app),
                ("environment", environment)
            )
        }
    }

    /// Takes answers into their accounts, in this tick's transaction.
    func settleAnswers(into plan: inout BatchPlan) throws(StoreFault) {
        guard !inbox.isEmpty else {
            return
        }
        let answers = Array(inbox.prefix(limits.answerCountMax))
        inbox.removeFirst(answers.count)
        var desk = AccountDesk(state: plan.state)
        try desk.load(answers.map(\.place))
        for placed in answers {
            guard var account = desk[placed.place] else {
                release(placed.place)
                continue
            }
            let effects = account.absorb(placed.answer, policy: policy)
            if desk.keep(account, at: placed.place) || isStaged(placed.place) {
                unconfirmed.append(placed)
            } else {
                // The account moved on without it: it was taken in before an abort.
                release(placed.place)
            }
            enact(effects, into: &plan)
        }
        touch(desk.put())
    }

    /// The account may be sent for again, though nothing of it changed.
    private func release(_ place: AccountPlace) {
        busy.remove(place)
        for queue in queues {
            lanes[queue]?.needsRefill = true
        }
    }

    /// Writes what follows from a change: the ledger, dead letters, alarms.
    func enact(_ effects: [ReportEffect], into plan: inout BatchPlan) {
        for effect in effects {
            switch effect {
            case .cancelled(let intent):
                metrics.cancelled(intent)
            case .outcome(let outcome):
                metrics.settled(outcome)
                let key = plan.outputs.place(outcome.externalPurchaseID.text.utf8)
                let start = plan.outputs.arena.count
                outcome.write(to: &plan.outputs.arena)
                let value = ByteRange(start: start, count: plan.outputs.arena.count - start)
                plan.outputs.outputs.append(
                    OutputBatch.Output(topic: Self.outcomesIndex, key: key, value: value)
                )
            case .deadLetter(let request, let fault, let origin):
                bury(request, fault, origin, into: &plan)
            }
        }
    }

    /// Among `Worker.report.targets`; the dead letters come after all of them.
    static let outcomesIndex = 0
    private static let deadLettersIndex = Worker.report.targets.count

    private func bury(
        _ request: ReportRequested,
        _ fault: Fault,
        _ origin: RecordOrigin,
        into plan: inout BatchPlan
    ) {
        if fault.code == "report.\(Rejection.conflict.rawValue)" {
            log.error(
                "Apple holds another report under an identifier of ours: see the dead letters",
                ("appAppleId", .integer(request.appAppleID)),
                ("requestIdentifier", .text(request.requestIdentifier ?? ""))
            )
        }
        var value: [UInt8] = []
        request.write(to: &value)
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
                failedAt: plan.now
            ),
            topic: Self.deadLettersIndex,
            key: Array(request.externalPurchaseID.text.utf8),
            value: value
        )
    }

    // MARK: Sending

    /// Gives every lane its turns.
    func send(now: Timestamp) throws(StoreFault) {
        for queue in queues {
            while let debt = try nextDebt(queue, now: now) {
                guard lanes[queue]?.pace.take(now: now) == true else {
                    lanes[queue]?.putBack(debt)
                    break
                }
                if try !start(debt, queue, now: now) {
                    continue
                }
            }
        }
    }

    /// The most urgent debt of a queue that may send now.
    private func nextDebt(_ queue: SendQueue, now: Timestamp) throws(StoreFault) -> ReadyDebt? {
        while let lane = lanes[queue] {
            guard let turn = lane.nextTurn(now: now, flightCountMax: limits.flightCountMax),
                turn <= now
            else {
                return nil
            }
            if lane.needsRefill {
                try refill(queue)
            }
            guard let debt = lanes[queue]?.popMostUrgent() else {
                return nil
            }
            // What is under way or staged comes back after its commit.
            if !busy.contains(debt.place), !isStaged(debt.place) {
                return debt
            }
        }
        return nil
    }

    /// Reads the most urgent debts of a queue from the committed store, some of each partition.
    private func refill(_ queue: SendQueue) throws(StoreFault) {
        guard let state else {
            return
        }
        var debts: [ReadyDebt] = []
        var isWhole = true
        let prefix = DueKey.start(queue)
        for partition in partitions {
            var count = 0
            try state.scan(.due, partition: partition, from: prefix) { entry, _ in
                guard let (found, deadline, key) = DueKey.ready(entry), found == queue else {
                    return false
                }
                let place = AccountPlace(key: key, partition: partition)
                if !busy.contains(place), !isStaged(place) {
                    debts.append(ReadyDebt(place: place, deadline: deadline))
                    count += 1
                }
                isWhole = isWhole && count < limits.readyCountMax
                return count < limits.readyCountMax
            }
        }
        lanes[queue]?.refill(debts, isWhole: isWhole)
    }

    /// Sends the next request for a debt.
    ///
    /// - Returns: false where nothing was left to send.
    private func start(
        _ debt: ReadyDebt,
        _ queue: SendQueue,
        now: Timestamp
    ) throws(StoreFault) -> Bool {
        guard let state,
            let value = try state.values([debt.place.key], partition: debt.place.partition)[0]
        else {
            return false
        }
        let account = AccountDesk.read(value)
        guard let intent = account.current, let request = account.nextRequest,
            case .ready(queue.lane, _) = account.attention
        else {
            return false
        }
        let body = Self.body(of: intent, of: account.externalPurchaseID)
        let isProbe = lanes[queue]?.gate.isProbe == true
        if isProbe {
            apple.reloadKey(appAppleID: queue.lane.appAppleID)
        }
        lanes[queue]?.gate.started(now: now)
        lanes[queue]?.flightCount += 1
        busy.insert(debt.place)
        let tag = nextTag
        nextTag += 1
        flights[tag] = Flight(
            place: debt.place,
            queue: queue,
            number: intent.number,
            requestCount: intent.requestCount,
            request: request,
            identifier: intent.identifier,
            newestDate: body.newestCreationDate,
            sentAt: now,
            isProbe: isProbe
        )
        let action: AppleRequest.Action =
            request == .send
            ? .sendReport(body)
            : .retrieveReport(requestIdentifier: intent.identifier, sent: body)
        apple.submit(AppleRequest(tag: tag, lane: queue.lane, action: action), now: now)
        return true
    }

    private static func body(of intent: ReportIntent, of id: TokenID) -> ReportRequestBody {
        guard let lineItems = intent.lineItems else {
            return ReportRequestBody(
                requestIdentifier: intent.identifier,
                externalPurchaseID: id,
                status: intent.status
            )
        }
        do throws(ReportRequestFault) {
            return try ReportRequestBody(
                requestIdentifier: intent.identifier,
                externalPurchaseID: id,
                lineItems: lineItems
            )
        } catch {
            preconditionFailure("line items are checked when they are absorbed: \(error.message)")
        }
    }
}

extension AppleReply {
    /// 0 where there was no answer.
    var httpStatus: Int {
        if case .answered(let status) = transport {
            return status
        }
        return 0
    }
}
