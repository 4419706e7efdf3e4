internal import AppStoreAPI
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// What Apple answers: what it means for the lanes, and for the accounts.
extension Sender {
    /// Whether answers will come: to what is under way, or to what its lane has still to send.
    var isExpectingAnswers: Bool {
        !flights.isEmpty || lanes.values.contains(where: \.isWaiting)
    }

    /// Takes what came back: the lanes know it at once, the accounts with what is returned.
    func collect(now: Timestamp) -> [PlacedAnswer] {
        apple.collect(now: now).compactMap { tag, reply in
            guard let flight = flights.removeValue(forKey: tag) else {
                return nil
            }
            countFlight(flight.queue, -1)
            let budget = lanes[flight.queue]?.retryBudget ?? RetryBudget()
            var (answer, outcome) = Self.judge(reply, to: flight, now: now)
            // What was accepted is not tried again: its wait is not drawn. Nor is that of the lane's only
            // request: the lane's probe is its.
            if (reply.httpStatus != 200 || answer.isAgain) && !isOnlyProbe(flight, outcome) {
                let wait = backoff.delay(
                    failureCount: budget.failureCount(flight.purpose.failureCount + 1),
                    using: &generator
                )
                answer.retry(at: now + wait)
            }
            note(reply, answer, flight, now: now)
            apply(outcome, to: flight, now: now)
            return PlacedAnswer(place: flight.place, answer: answer)
        }
    }

    /// Whether it was answered as a wrong address is, and nothing else can probe its lane.
    private func isOnlyProbe(_ flight: Flight, _ outcome: CircuitBreaker.Outcome) -> Bool {
        guard case .trouble(.misdirected, _) = outcome else {
            return false
        }
        return lanes[flight.queue]?.isWaiting != true
    }

    /// The answer may be retried at once: who needs a wait draws one.
    private static func judge(
        _ reply: AppleReply,
        to flight: Flight,
        now: Timestamp
    ) -> (PlacedAnswer.Answer, CircuitBreaker.Outcome) {
        switch flight.purpose {
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
                retryAt: now
            )
            return (.report(answer), CircuitBreaker.Outcome(meaning))
        case .accountToken(let token, let attempts):
            let meaning = AccountTokenAnswer(reply)
            let answer = AnsweredAccountToken(
                appAccountToken: token,
                attempts: attempts,
                meaning: meaning,
                httpStatus: reply.httpStatus,
                errorCode: reply.errors?.first?.code,
                answeredAt: now,
                retryAt: now
            )
            return (.accountToken(answer), CircuitBreaker.Outcome(meaning))
        }
    }

    /// What an answer says about its lane.
    private func apply(_ outcome: CircuitBreaker.Outcome, to flight: Flight, now: Timestamp) {
        let queue = flight.queue
        guard var lane = lanes[queue] else {
            return
        }
        switch outcome {
        case .fine:
            lane.retryBudget.accepted()
            lane.limiter.accepted(sentAt: flight.sentAt, now: now)
        case .inconclusive:
            lane.retryBudget.failed()
            lane.limiter.failedOtherwise(sentAt: flight.sentAt, now: now)
        case .trouble(.rateLimited, let until):
            let isHeld = lane.limiter.rateLimited(
                sentAt: flight.sentAt,
                until: until,
                now: now,
                using: &generator
            )
            if isHeld {
                tellHeld(queue, until: lane.limiter.holdEnd(now: now) ?? now, now: now)
            }
        case .trouble(.misdirected, _):
            lane.noteMisdirected(flight.place)
            lane.limiter.failedOtherwise(sentAt: flight.sentAt, now: now)
        case .trouble:
            lane.limiter.failedOtherwise(sentAt: flight.sentAt, now: now)
        }
        let change = lane.breaker.record(
            outcome.ofEndpoint,
            isProbe: flight.isEndpointProbe,
            now: now
        )
        lanes[queue] = lane
        tell(change, of: [queue])
        let keyChange = keyBreakers[queue.lane, default: CircuitBreaker()].record(
            outcome.ofKey,
            isProbe: flight.isKeyProbe,
            now: now
        )
        // The key is that of every endpoint.
        tell(keyChange, of: queues.filter { $0.lane == queue.lane })
    }

    private func tellHeld(_ queue: SendQueue, until: Timestamp, now: Timestamp) {
        metrics.changed(queue.lane, "held")
        log.limited(
            .warning,
            "Apple limits the rate of a lane",
            per: "\(queue.lane.appAppleID) \(queue.lane.environment.rawValue)",
            ("appAppleId", .integer(queue.lane.appAppleID)),
            ("environment", .text(queue.lane.environment.rawValue)),
            ("seconds", .number(Double((until - now).count) / 1_000))
        )
    }

    private func tell(_ change: CircuitBreaker.Change?, of queues: [SendQueue]) {
        guard let change, let lane = queues.first?.lane else {
            return
        }
        let app = LogValue.integer(lane.appAppleID)
        let environment = LogValue.text(lane.environment.rawValue)
        switch change {
        case .resigning:
            metrics.changed(lane, "resigning")
        case .stopped(let trouble):
            metrics.changed(lane, trouble.rawValue)
            log.error(
                "a lane is stopped: nothing is reported for this app until its probe succeeds",
                ("appAppleId", app),
                ("environment", environment),
                ("because", .text(trouble.rawValue))
            )
        case .reopened:
            metrics.changed(lane, "reopened")
            guard !queues.allSatisfy(isStopped) else {
                // The other circuit breaker still stops them.
                return
            }
            log.info(
                "a lane works again",
                ("appAppleId", app),
                ("environment", environment)
            )
        }
    }
}
