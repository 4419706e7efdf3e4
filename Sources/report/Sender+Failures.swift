internal import AppStoreAPI
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// What the worker says where Apple fails requests: how often and how long, not once for each.
extension Sender {
    /// Counts an answer, and notes whether Apple fails.
    func note(_ reply: AppleReply, _ answer: PlacedAnswer.Answer, _ flight: Flight, now: Timestamp)
    {
        let isNotHeld = answer.isNotHeld
        let wait = max(now - flight.sentAt, Milliseconds(0))
        metrics.ended(
            flight.queue.lane,
            method: flight.method,
            // To be asked for what it does not have is no mistake of ours, though Apple answers 400.
            status: isNotHeld ? "not_held" : reply.statusLabel,
            code: isNotHeld ? "" : reply.errors?.first.map { String($0.code) } ?? "",
            seconds: reply.transport == .noKey ? nil : Double(wait.count) / 1_000
        )
        if case .answered = reply.transport {
            view.answered(after: wait)
        }
        if let failure = reply.failure, failure.kind == .tlsUntrusted {
            log.limited(
                .error,
                "a certificate in Apple's place does not verify: nothing is sent there",
                per: flight.queue.lane.environment.rawValue,
                ("environment", .text(flight.queue.lane.environment.rawValue)),
                ("because", .text(failure.sentence))
            )
        }
        // A 200 that is not as Apple documents it is nobody's answer but a proxy's.
        if reply.isFailure || (200...299).contains(reply.httpStatus) && answer.isUnanswered {
            let text = reply.failureText(of: flight.queue.endpoint)
            change(flight.queue, now: now) {
                $0.failed(text, sentAt: flight.sentAt, now: now)
            }
        } else if reply.transport != .noKey, !answer.findsNothing {
            change(flight.queue, now: now) { $0.answered(now: now) }
        } else if reply.transport == .noKey {
            // Apple is asked nothing under any endpoint of the lane.
            for queue in queues where queue.lane == flight.queue.lane && spells[queue] != nil {
                change(queue, now: now) { $0.look(isDue: false, now: now) }
            }
        }
    }

    /// Once a second: what time alone changes.
    func lookAtSpells(now: Timestamp) {
        for queue in queues where spells[queue] != nil {
            // A stopped lane goes on asking with its probes, which may fail as all did before.
            let isDue = view.deadlines[queue] != nil && maySend(queue.lane)
            change(queue, now: now) { $0.look(isDue: isDue, now: now) }
            if spells[queue]?.since == nil {
                spells[queue] = nil
            }
        }
        let outages = queues.compactMap { queue -> String? in
            guard let spell = spells[queue], spell.isOutage, let since = spell.since else {
                return nil
            }
            let lane = queue.lane
            return
                "app \(lane.appAppleID) (\(lane.environment.rawValue), \(queue.endpoint.name)) since"
                + " \(WallClock.rfc3339(milliseconds: since.milliseconds)): \(spell.reason ?? "")"
        }
        let others = outages.count > 1 ? ", and \(outages.count - 1) more" : ""
        health?.setCondition("apple", outages.first.map { "fails for \($0)\(others)" })
    }

    private func change(
        _ queue: SendQueue,
        now: Timestamp,
        _ body: (inout FailureSpell) -> FailureSpell.Change?
    ) {
        var spell = spells[queue] ?? FailureSpell()
        let change = body(&spell)
        let app = LogValue.integer(queue.lane.appAppleID)
        let environment = LogValue.text(queue.lane.environment.rawValue)
        let endpoint = LogValue.text(queue.endpoint.name)
        switch change {
        case .began:
            log.warning(
                "Apple fails every request of a lane",
                ("appAppleId", app),
                ("environment", environment),
                ("endpoint", endpoint),
                ("because", .text(spell.reason ?? "")),
                ("seconds", .number(Double(spell.lasted(now: now).count) / 1_000))
            )
        case .ended(let failureCount, let lasted):
            log.info(
                "Apple answers a lane again",
                ("appAppleId", app),
                ("environment", environment),
                ("endpoint", endpoint),
                ("failures", .integer(Int64(failureCount))),
                ("seconds", .number(Double(lasted.count) / 1_000))
            )
        case nil:
            break
        }
        spells[queue] = spell
    }
}
