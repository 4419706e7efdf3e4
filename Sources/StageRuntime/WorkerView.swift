internal import Kafka
package import Telemetry
package import TokenDomain
package import TokenWire

/// What a worker shows of itself while it runs: its lag, how many of it would help, and
/// `/debug/status`.
///
/// It lives on the loop's thread and looks once a second.
package final class WorkerView {
    /// Who is shown.
    package struct Subject {
        package var worker: Worker
        package var instance: String
        package var group: String
        package var clusterID: String
        package var delivery: String

        package init(
            worker: Worker,
            instance: String,
            group: String,
            clusterID: String,
            delivery: String
        ) {
            self.worker = worker
            self.instance = instance
            self.group = group
            self.clusterID = clusterID
            self.delivery = delivery
        }
    }

    private static let lookInterval = Milliseconds.seconds(1)
    /// Over so long the share of time at work is taken.
    private static let busyWindow = Milliseconds.seconds(10)

    private let subject: Subject
    private let board: StatusBoard
    private let health: Health
    private let gauges: LagGauges
    private let startedAt: Timestamp
    private var lag = LagWatch()
    private var statistics = ConsumerStatistics()
    private var nextLook = Timestamp(milliseconds: 0)
    private var busyNanoseconds: UInt64 = 0
    private var busySince: Timestamp
    private var busyShare = 0.0
    private var commitCount: Int64 = 0
    private var abortCount: Int64 = 0
    private var lastCommittedAt: Timestamp?
    private var lastAbort: (code: String, at: Timestamp)?
    private var underWaySince: Timestamp?

    package init(
        _ subject: Subject,
        board: StatusBoard,
        metrics: Metrics,
        health: Health,
        now: Timestamp
    ) {
        self.subject = subject
        self.board = board
        self.health = health
        gauges = LagGauges(worker: subject.worker, metrics: metrics)
        startedAt = now
        busySince = now
    }

    /// Partitions of ours that a hanging transaction holds back.
    var hanging: [TopicPartition] { lag.hanging }

    // MARK: The loop's events

    func assigned(_ partitions: [TopicPartition], now: Timestamp) {
        lag.assigned(partitions, now: now)
        gauges.keep(only: Set(partitions))
    }

    func received(_ batch: RecordBatch, sources: [String]) {
        batch.forEachRunEnd { record in
            guard record.timestampMilliseconds >= 0 else {
                return
            }
            lag.judged(
                TopicPartition(topic: sources[record.topic], partition: record.partition),
                next: record.offset + 1,
                time: Timestamp(milliseconds: record.timestampMilliseconds)
            )
        }
    }

    func committed(now: Timestamp) {
        commitCount += 1
        lastCommittedAt = now
    }

    func aborted(code: String, now: Timestamp) {
        abortCount += 1
        lastAbort = (code, now)
        lag.aborted()
    }

    /// One turn of the loop that did something took so long.
    package func worked(nanoseconds: UInt64) {
        busyNanoseconds += nanoseconds
    }

    // MARK: Looking

    /// Whether it is time for ``look(at:stage:statistics:isAway:producerCount:now:)``.
    package func isDue(now: Timestamp) -> Bool {
        // A clock that was set back does not blind it.
        now >= nextLook || nextLook - now > Self.lookInterval
    }

    /// Takes a look at the loop and publishes what it saw.
    ///
    /// `text` is the client library's newest statistics; empty where nothing is new.
    package func look(
        at loop: WorkerLoop,
        stage: any Stage,
        statistics text: [UInt8],
        isAway: Bool = false,
        producerCount: Int,
        positionsSetElsewhere: Int = 0,
        now: Timestamp
    ) {
        nextLook = now + Self.lookInterval
        if !text.isEmpty {
            do throws(WireFault) {
                statistics = try ConsumerStatistics(reading: text.span)
            } catch {
                // The library's own text: without it the watermarks stay as they were.
            }
        }
        lag.look(
            committed: loop.done,
            marks: statistics.marks,
            isReading: !isAway && loop.room > 0,
            now: now
        )
        measureWork(now: now)
        underWaySince = loop.isCommitUnderWay ? underWaySince ?? now : nil
        let useful = usefulReplicas(loop, stage)
        gauges.show(
            lag.partitions,
            usefulReplicas: useful,
            positionsSetElsewhere: positionsSetElsewhere
        )
        board.publish(status(loop, stage, producerCount, useful, now: now))
    }

    private func measureWork(now: Timestamp) {
        let window = now - busySince
        guard window >= Self.busyWindow || window < Milliseconds(0) else {
            return
        }
        if window > Milliseconds(0) {
            busyShare = min(Double(busyNanoseconds) / 1e6 / Double(window.count), 1)
        }
        busyNanoseconds = 0
        busySince = now
    }

    private func usefulReplicas(_ loop: WorkerLoop, _ stage: any Stage) -> Int {
        var assignedCounts: [String: Int] = [:]
        var laggingCounts: [String: Int] = [:]
        for partition in loop.assigned {
            assignedCounts[partition.topic, default: 0] += 1
            if lag.partitions[partition].map({ $0.seconds > UsefulReplicas.lagSecondsMin }) == true
            {
                laggingCounts[partition.topic, default: 0] += 1
            }
        }
        // The topic that is furthest behind counts: one member reads the same numbers of each.
        let bounded = stage as? any BoundedStage
        return assignedCounts.map { topic, assignedCount in
            UsefulReplicas(
                partitionCount: statistics.partitionCounts[topic] ?? assignedCount,
                assignedCount: assignedCount,
                laggingCount: laggingCounts[topic] ?? 0,
                busyShare: busyShare,
                bound: bounded?.usefulReplicaBound,
                isFull: bounded?.isFull ?? false
            ).count
        }
        .max() ?? 0
    }

    // MARK: Status

    private func status(
        _ loop: WorkerLoop,
        _ stage: any Stage,
        _ producerCount: Int,
        _ usefulReplicas: Int,
        now: Timestamp
    ) -> [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        writer.field("worker", subject.worker.rawValue)
        writer.field("instance", subject.instance)
        writer.field("version", BuildInfo.version)
        writer.field("at", now.milliseconds)
        writer.field("startedAt", startedAt.milliseconds)
        HealthText.write(health, &writer)
        writer.name("kafka")
        writer.beginObject()
        writer.field("clusterId", subject.clusterID)
        writer.field("group", subject.group)
        writer.field("delivery", subject.delivery)
        writer.field("producerCount", producerCount)
        writer.endObject()
        writeTransaction(&writer, now: now)
        writer.field("usefulReplicas", usefulReplicas)
        writer.field("busyPercent", Int((busyShare * 100).rounded()))
        writer.name("partitions")
        writer.beginArray()
        for partition in loop.assigned {
            write(partition, loop, &writer)
        }
        writer.endArray()
        writer.name("restoring")
        writer.beginArray()
        for restore in loop.restoring {
            writer.beginObject()
            writer.field("partition", Int(restore.partition))
            writer.field("nextOffset", restore.progress?.next)
            writer.field("endOffset", restore.progress?.end)
            writer.endObject()
        }
        writer.endArray()
        (stage as? any ShowingStage)?.show(&writer, now: now)
        writer.endObject()
        return writer.bytes + [UInt8(ascii: "\n")]
    }

    private func writeTransaction(_ writer: inout JSONWriter, now: Timestamp) {
        writer.name("transaction")
        writer.beginObject()
        writer.field("isUnderWay", underWaySince != nil)
        writer.field("underWayMilliseconds", underWaySince.map { (now - $0).count })
        writer.field("committedCount", commitCount)
        writer.field("lastCommittedAt", lastCommittedAt?.milliseconds)
        writer.field("abortedCount", abortCount)
        writer.field("lastAbortCode", lastAbort?.code)
        writer.field("lastAbortedAt", lastAbort?.at.milliseconds)
        writer.endObject()
    }

    private func write(
        _ partition: TopicPartition,
        _ loop: WorkerLoop,
        _ writer: inout JSONWriter
    ) {
        let known = lag.partitions[partition]
        writer.beginObject()
        writer.field("topic", partition.topic)
        writer.field("partition", Int(partition.partition))
        writer.field("position", loop.position(of: partition))
        writer.field("committed", loop.done[partition])
        writer.field("end", known?.end)
        writer.field("lastStable", known?.lastStable)
        writer.field("lagRecords", known?.records)
        writer.field("lagMilliseconds", known.map { Int64($0.seconds * 1_000) })
        if let known, known.stuckSeconds > 0 {
            writer.field("lastStableStuckMilliseconds", Int64(known.stuckSeconds * 1_000))
        }
        writer.endObject()
    }
}

/// What the probes say, as members of a status.
package enum HealthText {
    package static func write(_ health: Health, _ writer: inout JSONWriter) {
        let (live, ready, started) = (health.live, health.ready, health.started)
        writer.field("isLive", live.isGood)
        writer.field("isReady", ready.isGood)
        writer.field("isStarted", started.isGood)
        writer.name("health")
        writer.beginArray()
        for line in live.lines + ready.lines + started.lines {
            writer.string(line)
        }
        writer.endArray()
    }
}
