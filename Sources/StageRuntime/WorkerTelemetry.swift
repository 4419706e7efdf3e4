internal import Kafka
internal import Telemetry
internal import TokenDomain

/// The loop's measures and log lines in a real worker.
final class WorkerTelemetry: LoopTelemetry {
    private let worker: Worker
    /// Full names, in the order of ``Worker/sources``.
    private let sources: [String]
    private let log: Log
    private let health: Health
    private let receivedRecords: Counter
    private let completedRecords: Counter
    private let deadLetters: Counter
    private let tokens: Counter
    private let transactions: Counter
    private let wipes: Counter
    private let duration: Histogram.Series
    private let assignedPartitions: Gauge.Series
    private let restoringPartitions: Gauge.Series
    private let view: WorkerView
    private var completedSeries: [String: Counter.Series] = [:]
    private var receivedSeries: [Int: Counter.Series] = [:]
    /// Of each source.
    private let clockBehind: [Gauge.Series]

    init(
        worker: Worker,
        sources: [String],
        log: Log,
        metrics: Metrics,
        health: Health,
        view: WorkerView
    ) {
        self.worker = worker
        self.sources = sources
        self.log = log
        self.health = health
        self.view = view
        let stage = worker.rawValue
        receivedRecords = metrics.counter(
            "records_received_total",
            help: "Records read from Kafka, by stage and topic.",
            labels: ["stage", "topic"]
        )
        completedRecords = metrics.counter(
            "records_completed_total",
            help: "Records of committed transactions, by stage and result.",
            labels: ["stage", "outcome"]
        )
        deadLetters = metrics.counter(
            "dlq_records_total",
            help: "Records sent to the dead letters, by stage and reason.",
            labels: ["stage", "reason"]
        )
        tokens = metrics.counter(
            "tokens_total",
            help: "Results of the tokens that came in, by stage, app and fate: over all stages,"
                + " accepted = repeat + dead_letter + reported + tollway_report_held.",
            labels: ["stage", "app", "fate"]
        )
        transactions = metrics.counter(
            "transactions_total",
            help: "Transactions ended, by stage and result.",
            labels: ["stage", "result"]
        )
        wipes = metrics.counter(
            "state_wipes_total",
            help: "Stores that could not be right and were wiped, to be read anew, by stage.",
            labels: ["stage"]
        )
        duration =
            metrics.histogram(
                "process_duration_seconds",
                help: "Time to judge one batch.",
                labels: ["stage"]
            ).series(stage)
        assignedPartitions =
            metrics.gauge(
                "partitions_assigned",
                help: "Partitions this worker reads.",
                labels: ["stage"]
            ).series(stage)
        restoringPartitions =
            metrics.gauge(
                "partitions_restoring",
                help: "Partitions whose state is still being read from the changelog.",
                labels: ["stage"]
            ).series(stage)
        let clockBehind = metrics.gauge(
            "clock_behind_seconds",
            help: "By how much the latest record last read from a topic, by its own time, was ahead"
                + " of this machine's clock; 0 where it was not. On every topic of a stage: its"
                + " clock is behind. On one: the clock of who writes that topic is ahead.",
            labels: ["stage", "topic"]
        )
        self.clockBehind = sources.map { clockBehind.series(stage, $0) }
        for code in worker.deadLetterCodes {
            _ = deadLetters.series(stage, String(Fault(code: code, message: "").reason))
        }
        for result in ["committed", "aborted"] {
            _ = transactions.series(stage, result)
        }
        // What begins with its first records has no increase: all may come within one scrape.
        for (topic, source) in sources.enumerated() {
            receivedSeries[topic] = receivedRecords.series(stage, source)
        }
        for outcome in worker.countedOutcomes {
            completedSeries[outcome] = completedRecords.series(stage, outcome)
        }
    }

    private var now: Timestamp { Timestamp(milliseconds: WallClock.nowMilliseconds()) }

    func instant() -> UInt64 { WallClock.monotonicNanoseconds() }

    func judged(recordCount: Int, since instant: UInt64) {
        guard recordCount > 0 else {
            return
        }
        duration.observe(Double(self.instant() - instant) / 1e9)
    }

    func received(_ batch: RecordBatch) {
        var counts = [Int64](repeating: 0, count: sources.count)
        var newest = counts
        for record in batch.records {
            counts[record.topic] += 1
            newest[record.topic] = max(newest[record.topic], record.timestampMilliseconds)
        }
        let now = WallClock.nowMilliseconds()
        for (topic, count) in counts.enumerated() where count > 0 {
            receivedSeries[topic]?.add(count)
            clockBehind[topic].set(Double(max(0, newest[topic] - now)) / 1_000)
        }
        view.received(batch, sources: sources)
    }

    func completed(_ outcome: String, recordCount: Int) {
        let series =
            completedSeries[outcome] ?? completedRecords.series(worker.rawValue, outcome)
        completedSeries[outcome] = series
        series.add(Int64(recordCount))
    }

    func wroteDeadLetter(_ deadLetter: WrittenDeadLetter) {
        deadLetters.add(1, worker.rawValue, String(deadLetter.fault.reason))
        log.limited(
            .warning,
            "a record went to the dead letters",
            per: deadLetter.fault.code,
            ("code", .text(deadLetter.fault.code)),
            ("topic", .text(deadLetter.origin.topic)),
            ("partition", .count(deadLetter.origin.partition)),
            ("offset", .count(deadLetter.origin.offset)),
            ("traceId", .text(deadLetter.trace?.traceID ?? ""))
        )
    }

    func committed(_ tally: TokenTally) {
        tally.forEach { fate, app, count in
            tokens.add(
                count,
                worker.rawValue,
                app == TokenTally.unknownApp ? "unknown" : String(app),
                fate.rawValue
            )
        }
        transactions.add(1, worker.rawValue, "committed")
        view.committed(now: now)
    }

    func aborted(code: String) {
        transactions.add(1, worker.rawValue, "aborted")
        view.aborted(code: code, now: now)
        log.limited(
            .warning,
            "a transaction was aborted and will be repeated",
            per: code,
            ("code", .text(code))
        )
    }

    func assigned(_ partitions: [TopicPartition]) {
        assignedPartitions.set(Double(partitions.count))
        view.assigned(partitions, now: now)
        log.info("partitions assigned", ("count", .count(partitions.count)))
    }

    func lost(partitionCount: Int) {
        log.warning(
            "partitions were lost: this worker was away for longer than its session",
            ("count", .count(partitionCount))
        )
    }

    func wiped(partition: Int32, because reason: String) {
        wipes.add(1, worker.rawValue)
        log.warning(
            "the state is wiped and read anew from its changelog",
            ("partition", .count(partition)),
            ("because", .text(reason))
        )
    }

    func unwritten(partition: Int32, because reason: String) {
        log.warning(
            "the last of the state was not written; its changelog has it",
            ("partition", .count(partition)),
            ("because", .text(reason))
        )
    }

    func locked(partition: Int32, because reason: String) {
        log.warning(
            "another process holds the state",
            ("partition", .count(partition)),
            ("because", .text(reason))
        )
    }

    func restoring(partitionCount: Int) {
        restoringPartitions.set(Double(partitionCount))
    }

    func restoring(partition: Int32, progress: (next: Int64, end: Int64)) {
        log.limited(
            .info,
            "reading state from the changelog",
            ("partition", .count(partition)),
            ("next_offset", .count(progress.next)),
            ("end_offset", .count(progress.end))
        )
    }

    func restored(partition: Int32, recordCount: Int) {
        guard recordCount > 0 else {
            return
        }
        log.info(
            "state is complete",
            ("partition", .count(partition)),
            ("records", .count(recordCount))
        )
    }
}
