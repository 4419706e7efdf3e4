package import Kafka
package import TokenDomain

/// How far a worker is behind each partition that it reads, in records and in seconds.
///
/// Pure: the caller hands in the events, and the time with them.
package struct LagWatch: Sendable {
    /// One partition as its reader sees it.
    package struct Partition: Equatable, Sendable {
        /// The next offset that the group will be given; all before it is done.
        package var committed: Int64
        package var end: Int64
        package var lastStable: Int64
        /// Records, or transaction markers, that are not done; never negative.
        package var records: Int64
        /// For how long the first of them has waited, by the time of the last record that is done;
        /// 0 where none waits.
        package var seconds: Double
        /// For how long a transaction alone has held the reader back: all before the last stable
        /// offset is done, it stands still, and something lies behind it.
        package var stuckSeconds: Double
    }

    private struct Memory {
        /// The time of the last record done, or of the last look that found nothing to do.
        var doneUntil: Timestamp
        /// What was judged and was not yet done at the last look, oldest first: the offset after
        /// each record, and its time.
        ///
        /// One for each batch at most, of two transactions and what was done since that look.
        var judged: [(next: Int64, time: Timestamp)] = []
        var lastStable: Int64 = -1
        var lookedAt: Timestamp?
        /// For so long it has held the reader back.
        var stuckMilliseconds: Int64 = 0

        mutating func settle(committed: Int64) {
            let count = judged.firstIndex { $0.next > committed } ?? judged.count
            guard count > 0 else {
                return
            }
            doneUntil = judged[count - 1].time
            judged.removeFirst(count)
        }
    }

    /// An open transaction is ended by its producer within its 40 s, or by its coordinator at the latest
    /// 10 s later: what stands still for longer than this hangs (KIP-664, KAFKA-20734).
    ///
    /// The alert is at 75 s, so it has seen the metric before the worker ends.
    package static let stuckSecondsMax = 120.0
    /// A process that was stopped, or a clock that was set forward, has not looked meanwhile.
    private static let stepMaxMilliseconds: Int64 = 10_000

    private var memory: [TopicPartition: Memory] = [:]
    package private(set) var partitions: [TopicPartition: Partition] = [:]

    package init() {}

    /// Partitions that a hanging transaction holds back.
    package var hanging: [TopicPartition] {
        partitions.filter { $0.value.stuckSeconds > Self.stuckSecondsMax }.keys.sorted()
    }

    /// Forgets what is not ours any more; what is new counts from now.
    package mutating func assigned(_ assigned: [TopicPartition], now: Timestamp) {
        let ours = Set(assigned)
        memory = memory.filter { ours.contains($0.key) }
        partitions = partitions.filter { ours.contains($0.key) }
        for partition in assigned where memory[partition] == nil {
            memory[partition] = Memory(doneUntil: now)
        }
    }

    /// A record was judged: `next` is the offset after it, `time` Kafka's own.
    ///
    /// It counts once its transaction is committed. Before that nothing is done for it: a stage whose
    /// transactions are all aborted judges the newest records again and again.
    package mutating func judged(_ partition: TopicPartition, next: Int64, time: Timestamp) {
        memory[partition]?.judged.append((next, time))
    }

    /// What was judged and not committed is read, and judged, again.
    package mutating func aborted() {
        for partition in memory.keys {
            memory[partition]?.judged.removeAll(keepingCapacity: true)
        }
    }

    /// Takes a look: `committed` has what is done of each partition that is ours.
    ///
    /// Watermarks are old while nothing is fetched: while Kafka or the partition's leader is away, while
    /// state is read, and for as long as the next transaction is full, which a busy worker's is most of
    /// the time. Such time does not count as stuck.
    package mutating func look(
        committed: [TopicPartition: Int64],
        marks: [TopicPartition: ConsumerStatistics.Marks],
        isReading: Bool = true,
        now: Timestamp
    ) {
        for (partition, committed) in committed {
            memory[partition]?.settle(committed: committed)
            guard var known = memory[partition], let marks = marks[partition] else {
                continue
            }
            let records = max(0, marks.end - committed)
            if records == 0 {
                known.doneUntil = now
            }
            // Where something before it is left to do, the partition may not be fetched just now, and
            // its watermarks may be old.
            let isBlocked = marks.lastStable < marks.end && committed >= marks.lastStable
            if isBlocked, known.lastStable == marks.lastStable, let last = known.lookedAt {
                let step = min(max((now - last).count, 0), Self.stepMaxMilliseconds)
                known.stuckMilliseconds += isReading && marks.isLed ? step : 0
            } else {
                known.stuckMilliseconds = 0
            }
            known.lookedAt = now
            known.lastStable = marks.lastStable
            memory[partition] = known
            partitions[partition] = Partition(
                committed: committed,
                end: marks.end,
                lastStable: marks.lastStable,
                records: records,
                seconds: Self.seconds(from: known.doneUntil, to: now),
                stuckSeconds: Double(known.stuckMilliseconds) / 1_000
            )
        }
    }

    /// A clock that was set back makes nothing negative.
    private static func seconds(from: Timestamp, to now: Timestamp) -> Double {
        Double(max((now - from).count, 0)) / 1_000
    }
}
