internal import StageRuntime
internal import StateStore
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// What is shown of the stage: gauges once a second, and the lanes of `/debug/status`.
extension ReportStage {
    func measure(now: Timestamp) {
        guard nextMeasure <= now, let state else {
            return
        }
        nextMeasure = now + limits.measureInterval
        metrics.inFlight(flights.count)
        do throws(StoreFault) {
            for queue in queues {
                view.deadlines[queue] = try firstDeadline(of: queue, state)
            }
            measureGuard(count: try guardedCount(state), now: now)
            if let held = try heldCount.count(in: partitions, state) {
                metrics.held(held)
            }
        } catch {
            // A measure is not worth a worker; the next look at the table meets the fault.
            return
        }
        measureLanes(now: now)
        view.bound(
            rates: lanes.mapValues { $0.pace.rateFound(now: now) },
            flightCountMax: limits.flightCountMax
        )
    }

    /// One answer ended: whether Apple is there, and how long it takes.
    func tellHealth(_ reply: AppleReply, _ flight: Flight, now: Timestamp) {
        switch reply.transport {
        case .answered:
            view.answered(after: now - flight.sentAt)
            health?.setCondition("apple", nil)
        case .notSent, .doubtful:
            view.unanswered(sentAt: flight.sentAt)
            let since = WallClock.rfc3339(milliseconds: view.silentSince?.milliseconds ?? 0)
            health?.setCondition("apple", "no answer since \(since)")
        case .noKey:
            break
        }
    }

    /// Without partitions nothing waits here, and no rate is ours.
    func measureNothing() {
        view.deadlines = [:]
        metrics.inFlight(flights.count)
        metrics.guarded(count: 0, seconds: 0)
        metrics.held(heldCount.forgetAll())
        measureLanes(now: Timestamp(milliseconds: 0))
    }

    private func measureLanes(now: Timestamp) {
        for (queue, lane) in lanes {
            metrics.paced(queue, requestsPerSecond: lane.pace.requestsPerSecond(now: now))
        }
        for lane in Set(lanes.keys.map(\.lane)) {
            let deadline = view.deadlines[.reports(of: lane)]
            metrics.slack(lane, seconds: deadline.map { Double(($0 - now).count) / 1_000 })
        }
    }

    /// From the due table, not from the few that are at hand: a lane that is stopped takes none.
    private func firstDeadline(
        of queue: SendQueue,
        _ state: StagedState
    ) throws(StoreFault) -> Timestamp? {
        var first: Timestamp?
        for partition in partitions {
            try state.scan(.due, partition: partition, from: DueKey.start(queue)) { entry, _ in
                if let (found, deadline, _) = DueKey.ready(entry), found == queue {
                    first = min(first ?? deadline, deadline)
                }
                return false
            }
        }
        return first
    }

    private func guardedCount(_ state: StagedState) throws(StoreFault) -> Int {
        var count = 0
        for partition in partitions {
            try state.scan(
                .due,
                partition: partition,
                from: DueKey.start(DueKey.Region.guarded)
            ) { entry, _ in
                guard entry.first == DueKey.Region.guarded.rawValue else {
                    return false
                }
                count += 1
                return count < limits.guardedCountMax * partitions.count
            }
        }
        return count
    }

    private func measureGuard(count: Int, now: Timestamp) {
        let oldest = sweeps.values.compactMap(\.nextGuarded).min()
        let waited = oldest.map { Double(max((now - $0).count, 0)) / 1_000 } ?? 0
        metrics.guarded(count: count, seconds: waited)
    }
}

extension ReportStage: BoundedStage {
    var usefulReplicaBound: Int { view.usefulReplicaBound }
}

extension ReportStage: ShowingStage {
    func show(_ writer: inout JSONWriter, now: Timestamp) {
        writer.field("requestsInFlight", flights.count)
        writer.field("answerMilliseconds", view.answerSeconds.map { Int64($0 * 1_000) })
        writer.field("guardIsRunning", proof.isRunning)
        writer.name("lanes")
        writer.beginArray()
        for queue in queues {
            if let lane = lanes[queue] {
                write(queue, lane, &writer, now: now)
            }
        }
        writer.endArray()
    }

    private func write(
        _ queue: SendQueue,
        _ lane: SendLane,
        _ writer: inout JSONWriter,
        now: Timestamp
    ) {
        writer.beginObject()
        writer.field("appAppleId", queue.lane.appAppleID)
        writer.field("environment", queue.lane.environment.rawValue)
        writer.field("endpoint", queue.endpoint.name)
        // What the key is refused for stands before what the endpoint is.
        let keyState = keyGates[queue.lane]?.state ?? .open
        switch keyState == .open ? lane.gate.state : keyState {
        case .open:
            writer.field("state", "open")
        case .held(_, let until):
            // What the time has opened, the next request will.
            writer.field("state", until > now ? "held" : "open")
            writer.field("until", until > now ? until.milliseconds : nil)
        case .stopped(let trouble, let probeAt, _):
            writer.field("state", "stopped")
            writer.field("because", trouble.rawValue)
            writer.field("until", probeAt.milliseconds)
        case .probing(let trouble, _):
            writer.field("state", "probing")
            writer.field("because", trouble.rawValue)
        }
        // In thousandths: a rate below one a second is one too.
        writer.field("milliRequestsPerSecond", Int64(lane.pace.requestsPerSecond(now: now) * 1_000))
        writer.field("startedCount", lane.startedCount)
        writer.field("inFlight", lane.flightCount)
        writer.field("nextDeadline", view.deadlines[queue]?.milliseconds)
        writer.endObject()
    }
}
