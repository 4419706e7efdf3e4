package import Kafka
package import TokenDomain

/// How far a worker is behind each partition that it reads, in records and in seconds.
///
/// Pure: what happened is told to it, and the time with it.
package struct LagWatch: Sendable {
    /// One partition as its reader sees it.
    package struct Partition: Equatable, Sendable {
        /// The next offset that the group will be given; all before it is done.
        package var committed: Int64
        package var end: Int64
        package var lastStable: Int64
        /// Records, or transaction markers, that are not done; never negative.
        package var records: Int64
        /// For how long the first of them has waited, by the time of the last record that was
        /// judged; 0 where none waits.
        package var seconds: Double
        /// For how long the last stable offset has stood still though something lies behind it.
        package var stuckSeconds: Double
    }

    private struct Memory {
        /// The time of the last record judged, or of the last look that found nothing to do.
        var doneUntil: Timestamp
        var lastStable: Int64 = -1
        /// Since when it has stood there with something behind it.
        var stuckSince: Timestamp?
    }

    private var memory: [TopicPartition: Memory] = [:]
    package private(set) var partitions: [TopicPartition: Partition] = [:]

    package init() {}

    /// Forgets what is not ours any more; what is new counts from now.
    package mutating func assigned(_ assigned: [TopicPartition], now: Timestamp) {
        let ours = Set(assigned)
        memory = memory.filter { ours.contains($0.key) }
        partitions = partitions.filter { ours.contains($0.key) }
        for partition in assigned where memory[partition] == nil {
            memory[partition] = Memory(doneUntil: now)
        }
    }

    /// A record was judged; `time` is Kafka's own.
    package mutating func judged(_ partition: TopicPartition, time: Timestamp) {
        memory[partition]?.doneUntil = time
    }

    /// Takes a look: `committed` has what is done of each partition that is ours.
    package mutating func look(
        committed: [TopicPartition: Int64],
        marks: [TopicPartition: ConsumerStatistics.Marks],
        now: Timestamp
    ) {
        for (partition, committed) in committed {
            guard var known = memory[partition], let marks = marks[partition] else {
                continue
            }
            let records = max(0, marks.end - committed)
            if records == 0 {
                known.doneUntil = now
            }
            if marks.lastStable >= marks.end {
                known.stuckSince = nil
            } else if known.stuckSince == nil || known.lastStable != marks.lastStable {
                known.stuckSince = now
            }
            known.lastStable = marks.lastStable
            memory[partition] = known
            partitions[partition] = Partition(
                committed: committed,
                end: marks.end,
                lastStable: marks.lastStable,
                records: records,
                seconds: Self.seconds(from: known.doneUntil, to: now),
                stuckSeconds: known.stuckSince.map { Self.seconds(from: $0, to: now) } ?? 0
            )
        }
    }

    /// A clock that was set back makes nothing negative.
    private static func seconds(from: Timestamp, to now: Timestamp) -> Double {
        Double(max((now - from).count, 0)) / 1_000
    }
}
