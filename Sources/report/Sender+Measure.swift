internal import StageRuntime
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// What is shown of the lanes: gauges once a second, and `/debug/status`.
extension Sender {
    /// - Parameters:
    ///   - deadlines: of the most urgent report of each queue that has one due.
    ///   - now: the time of the tick.
    func measure(deadlines: [SendQueue: Timestamp], now: Timestamp) {
        view.deadlines = deadlines
        measureLanes(now: now)
        lookAtSpells(now: now)
        noteTrouble(now: now)
        view.bound(
            rates: lanes.filter { maySend($0.key.lane) }
                .mapValues { $0.limiter.rateFound(now: now) },
            flightCounts: lanes.mapValues(\.flightCount),
            flightCountMax: limits.flightCountMax
        )
    }

    /// Without partitions nothing waits here, and no rate is ours.
    func measureNothing() {
        view.deadlines = [:]
        spells = [:]
        health?.setCondition("apple", nil)
        measureLanes(now: Timestamp(milliseconds: 0))
    }

    private func measureLanes(now: Timestamp) {
        metrics.inFlight(flights.count)
        for (queue, lane) in lanes {
            metrics.paced(queue, requestsPerSecond: lane.limiter.requestsPerSecond(now: now))
            metrics.failing(queue, for: spells[queue]?.lasted(now: now) ?? Milliseconds(0))
            // A paused lane is sent no probe: whether its trouble is over cannot be known.
            let stops = isStopped(queue) && hasSomething(queue) && maySend(queue.lane)
            metrics.stopped(queue, partitions.isEmpty ? nil : stops)
        }
        for lane in laneSet {
            metrics.paused(lane, partitions.isEmpty ? nil : pause(of: lane) != nil)
            let deadline = view.deadlines[.reports(of: lane)]
            metrics.slack(lane, seconds: deadline.map { Double(($0 - now).count) / 1_000 })
            // What is held stays held: only a lane that is ours says that nothing waits any more.
            let time = partitions.isEmpty ? Milliseconds(0) : heldTime(of: lane, now: now)
            metrics.held(lane, for: time)
        }
    }

    /// Whether the circuit breaker of the key or that of the endpoint stops it.
    func isStopped(_ queue: SendQueue) -> Bool {
        lanes[queue]?.breaker.isStopped == true || keyBreakers[queue.lane]?.isStopped == true
    }

    /// Whether anything of a queue is due here, or under way.
    ///
    /// A circuit breaker listens to its probe alone: where the queue's last debt went to another
    /// replica it stays stopped, and stops nothing.
    func hasSomething(_ queue: SendQueue) -> Bool {
        view.deadlines[queue] != nil || (lanes[queue]?.flightCount ?? 0) > 0
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
            let time = lanes[queue]?.limiter.heldTime(
                isWaiting: isWaiting || view.deadlines[queue] != nil && maySend(lane),
                now: now
            )
            longest = max(longest, time ?? longest)
        }
        return longest
    }

    func show(_ writer: inout JSONWriter, _ counts: DueCounts, now: Timestamp) {
        writer.name("lanes")
        writer.beginArray()
        for queue in queues {
            if let lane = lanes[queue] {
                write(queue, lane, counts, &writer, now: now)
            }
        }
        for order in silentPauses {
            write(order, counts, &writer)
        }
        writer.endArray()
    }

    /// The pauses of lanes that have had nothing to send since this process started.
    private var silentPauses: [LaneOrder] {
        laneSet.subtracting(lanes.keys.map(\.lane)).compactMap { pause(of: $0) }.sorted {
            ($0.lane.appAppleID, $0.lane.environment.rawValue)
                < ($1.lane.appAppleID, $1.lane.environment.rawValue)
        }
    }

    private func write(_ order: LaneOrder, _ counts: DueCounts, _ writer: inout JSONWriter) {
        let queue = SendQueue.reports(of: order.lane)
        writer.beginObject()
        Self.write(queue, &writer)
        Self.writeState(order, &writer)
        writer.field("milliConfiguredPerSecond", Int64(requestsPerSecond(of: queue) * 1_000))
        counts.write(order.lane, &writer)
        writer.endObject()
    }

    private static func write(_ queue: SendQueue, _ writer: inout JSONWriter) {
        writer.field("appAppleId", queue.lane.appAppleID)
        writer.field("environment", queue.lane.environment.rawValue)
        writer.field("endpoint", queue.endpoint.name)
    }

    private static func writeState(_ order: LaneOrder, _ writer: inout JSONWriter) {
        writer.field("state", "paused")
        writer.field("because", order.sentence)
        writer.field("since", order.at.milliseconds)
    }

    private func write(
        _ queue: SendQueue,
        _ lane: SendLane,
        _ counts: DueCounts,
        _ writer: inout JSONWriter,
        now: Timestamp
    ) {
        writer.beginObject()
        Self.write(queue, &writer)
        // What the key is refused for stands before what the endpoint is.
        let keyState = keyBreakers[queue.lane]?.state ?? .open
        let stopped = keyState == .open ? lane.breaker.state : keyState
        let state = hasSomething(queue) ? stopped : .open
        if orderReader?.isWhole == false {
            writer.field("state", "paused")
            writer.field("because", "the orders for lanes have not been read yet")
        } else if let order = pause(of: queue.lane) {
            Self.writeState(order, &writer)
        } else {
            write(state, queue, lane, &writer, now: now)
        }
        // In thousandths: a rate below one a second is one too.
        writer.field(
            "milliRequestsPerSecond",
            Int64(lane.limiter.requestsPerSecond(now: now) * 1_000)
        )
        writer.field("milliConfiguredPerSecond", Int64(lane.limiter.rate * 1_000))
        writer.field("startedCount", lane.startedCount)
        writer.field("inFlight", lane.flightCount)
        writer.field("nextDeadline", view.deadlines[queue]?.milliseconds)
        if queue.endpoint == .reports {
            counts.write(queue.lane, &writer)
        }
        writer.endObject()
    }

    private func write(
        _ state: CircuitBreaker.State,
        _ queue: SendQueue,
        _ lane: SendLane,
        _ writer: inout JSONWriter,
        now: Timestamp
    ) {
        switch state {
        case .open:
            let until = lane.limiter.holdEnd(now: now)
            writer.field("state", until == nil ? "open" : "held")
            writer.field("because", spells[queue]?.reason)
            writer.field("until", until?.milliseconds)
        case .stopped(let trouble, let probeAt, _):
            writer.field("state", "stopped")
            writer.field("because", trouble.rawValue)
            writer.field("until", probeAt.milliseconds)
        case .probing(let trouble, _, _):
            writer.field("state", "probing")
            writer.field("because", trouble.rawValue)
        }
    }
}
