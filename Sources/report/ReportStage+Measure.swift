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
            view.deadlines = try firstDeadlines(state)
            measureGuard(count: try guardedCount(state), now: now)
            if let held = try heldCount.count(in: partitions, state, now: now) {
                metrics.held(held)
            }
            if let due = try dueCount.count(in: partitions, state, now: now) {
                metrics.due(due)
            }
            if let due = try monthDueCount.count(in: partitions, state, now: now) {
                metrics.monthDue(due)
            }
            _ = try dayCount.count(in: partitions, state, now: now)
        } catch {
            // A measure is not worth a worker; the next look at the table meets the fault.
            return
        }
        measureLanes(now: now)
        lookAtSpells(now: now)
        view.bound(
            rates: lanes.filter { maySend($0.key.lane) }
                .mapValues { $0.pace.rateFound(now: now) },
            flightCountMax: limits.flightCountMax
        )
    }

    /// Without partitions nothing waits here, and no rate is ours.
    func measureNothing() {
        view.deadlines = [:]
        metrics.inFlight(flights.count)
        metrics.guarded(count: 0, seconds: 0)
        metrics.held(heldCount.forgetAll())
        metrics.due(dueCount.forgetAll())
        metrics.monthDue(monthDueCount.forgetAll())
        dayCount.forgetAll()
        spells = [:]
        health?.setCondition("apple", nil)
        measureLanes(now: Timestamp(milliseconds: 0))
    }

    private func measureLanes(now: Timestamp) {
        for (queue, lane) in lanes {
            metrics.paced(queue, requestsPerSecond: lane.pace.requestsPerSecond(now: now))
            metrics.failing(queue, for: spells[queue]?.lasted(now: now) ?? Milliseconds(0))
        }
        for lane in laneSet {
            metrics.paused(lane, partitions.isEmpty ? nil : pause(of: lane) != nil)
            let deadline = view.deadlines[.reports(of: lane)]
            metrics.slack(lane, seconds: deadline.map { Double(($0 - now).count) / 1_000 })
            metrics.held(lane, for: heldTime(of: lane, now: now))
        }
    }

    /// Those that have something to send here, and those that are paused.
    private var laneSet: Set<Lane> {
        Set(lanes.keys.map(\.lane)).union(orderReader?.orders.pausedLanes ?? [])
    }

    /// Of the endpoint that has been held longest.
    private func heldTime(of lane: Lane, now: Timestamp) -> Milliseconds {
        var longest = Milliseconds(0)
        for queue in queues where queue.lane == lane {
            let isWaiting = lanes[queue].map { $0.flightCount > 0 } ?? false
            let time = lanes[queue]?.pace.heldTime(
                isWaiting: isWaiting || view.deadlines[queue] != nil && maySend(lane),
                now: now
            )
            longest = max(longest, time ?? longest)
        }
        return longest
    }

    /// The most urgent report of each queue that has one due, from the due table and not from the
    /// few that are at hand: a lane that is stopped takes none, and what waits to be tried again is
    /// due all the same.
    private func firstDeadlines(_ state: StagedState) throws(StoreFault) -> [SendQueue: Timestamp] {
        var first: [SendQueue: Timestamp] = [:]
        for partition in partitions {
            try visitMostUrgent(partition: partition, state) { queue, deadline in
                first[queue] = min(first[queue] ?? deadline, deadline)
            }
        }
        return first
    }

    /// Other partitions are ours now.
    func restartCounts() {
        heldCount.restart()
        dueCount.restart()
        monthDueCount.restart()
        dayCount.restart()
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
        let state = keyState == .open ? lane.gate.state : keyState
        if let order = pause(of: queue.lane) {
            writer.field("state", "paused")
            writer.field("because", order.sentence)
            writer.field("since", order.at.milliseconds)
        } else {
            write(state, queue, lane, &writer, now: now)
        }
        // In thousandths: a rate below one a second is one too.
        writer.field("milliRequestsPerSecond", Int64(lane.pace.requestsPerSecond(now: now) * 1_000))
        writer.field("milliConfiguredPerSecond", Int64(lane.pace.rate * 1_000))
        writer.field("startedCount", lane.startedCount)
        writer.field("inFlight", lane.flightCount)
        writer.field("nextDeadline", view.deadlines[queue]?.milliseconds)
        if queue.endpoint == .reports {
            writer.field("due", dueCount.complete[queue.lane] ?? 0)
            writeDays(queue.lane, &writer)
        }
        writer.endObject()
    }

    private func writeDays(_ lane: Lane, _ writer: inout JSONWriter) {
        let days = dayCount.complete.filter { $0.key.lane == lane && $0.value > 0 }
        writer.name("days")
        writer.beginArray()
        for number in Set(days.keys.map(\.number)).sorted() {
            let ofDay = days.filter { $0.key.number == number }
            func count(_ kind: DueDay.Kind) -> Int {
                ofDay.filter { $0.key.kind == kind }.reduce(0) { $0 + $1.value }
            }
            writer.beginObject()
            writer.field("startsAt", ofDay.keys.first?.start.milliseconds)
            writer.field("deadlines", count(.deadline))
            writer.field("falling", count(.falling))
            writer.endObject()
        }
        writer.endArray()
    }

    private func write(
        _ state: LaneGate.State,
        _ queue: SendQueue,
        _ lane: SendLane,
        _ writer: inout JSONWriter,
        now: Timestamp
    ) {
        switch state {
        case .open:
            let until = lane.pace.holdEnd(now: now)
            writer.field("state", until == nil ? "open" : "held")
            writer.field("because", spells[queue]?.reason)
            writer.field("until", until?.milliseconds)
        case .stopped(let trouble, let probeAt, _):
            writer.field("state", "stopped")
            writer.field("because", trouble.rawValue)
            writer.field("until", probeAt.milliseconds)
        case .probing(let trouble, _):
            writer.field("state", "probing")
            writer.field("because", trouble.rawValue)
        }
    }
}
