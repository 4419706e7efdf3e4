internal import StageRuntime
internal import StateStore
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// What is shown of the stage: gauges once a second, and `/debug/status`.
extension ReportStage {
    func measure(now: Timestamp) {
        guard nextMeasure <= now, let state else {
            return
        }
        nextMeasure = now + limits.measureInterval
        let table = DueTable(state: state)
        do throws(StoreFault) {
            let guardedCount = try table.guardedCount(
                in: partitions.filter { sweeps[$0]?.nextGuarded != nil },
                countMax: limits.guardedCountMax * partitions.count
            )
            let oldest = sweeps.values.compactMap(\.nextGuarded).min()
            let waited = oldest.map { Double(max((now - $0).count, 0)) / 1_000 } ?? 0
            metrics.guarded(count: guardedCount, seconds: waited)
            try counts.count(in: partitions, table, metrics, now: now)
            sender.measure(deadlines: try deadlines.look(in: partitions, table), now: now)
        } catch {
            // A failed measure must not end the worker; the table's next read throws the fault.
        }
    }

    /// Without partitions nothing waits here.
    func measureNothing() {
        metrics.guarded(count: 0, seconds: 0)
        counts.forgetAll(metrics)
        sender.measureNothing()
    }
}

extension ReportStage: BoundedStage {
    var usefulReplicaBound: Int { sender.view.usefulReplicaBound }
    var isFull: Bool { sender.view.isFull }
}

extension ReportStage: ShowingStage {
    func show(_ writer: inout JSONWriter, now: Timestamp) {
        writer.field("requestsInFlight", sender.flights.count)
        writer.field(
            "answerMilliseconds",
            sender.view.answerSeconds.map { Int64($0 * 1_000) }
        )
        writer.field("guardIsRunning", guardRunner.isRunning)
        sender.show(&writer, counts, now: now)
    }
}
