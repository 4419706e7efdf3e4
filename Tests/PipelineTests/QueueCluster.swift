import Kafka
import Simulation
import TokenDomain

/// A Kafka in memory for long runs: it forgets what was read, and nothing ever fails.
///
/// One member a group, which owns every partition. ``MemoryCluster`` has the faults.
final class QueueCluster {
    struct Entry {
        var key: [UInt8]?
        var value: [UInt8]?
        var headers: [UInt8]
        var timestampMilliseconds: Int64
    }

    /// A partition of a topic that somebody reads.
    struct Queue {
        var entries: [Entry] = []
        /// Offset of the first entry that is kept.
        var start: Int64 = 0
        var end: Int64 { start + Int64(entries.count) }

        /// Forgets what was committed, once it is worth moving the rest.
        mutating func forget(before offset: Int64) {
            let count = Int(offset - start)
            if count == entries.count || count > 4_096 {
                entries.removeFirst(count)
                start = offset
            }
        }
    }

    let partitionCount: Int32
    /// Is shown every record of a topic that nobody reads.
    let observe: (_ topic: String, _ entry: Entry) -> Void
    fileprivate(set) var queues: [TopicPartition: Queue] = [:]
    /// The next offset of each partition that nobody reads.
    fileprivate var ends: [TopicPartition: Int64] = [:]

    init(partitionCount: Int32, observe: @escaping (_ topic: String, _ entry: Entry) -> Void) {
        self.partitionCount = partitionCount
        self.observe = observe
    }

    func partitions(of topic: String) -> [TopicPartition] {
        (0..<partitionCount).map { TopicPartition(topic: topic, partition: $0) }
    }

    func append(_ entry: Entry, to topic: String, partition: Int32? = nil) -> TopicPartition {
        let chosen =
            partition
            ?? entry.key.map {
                Partitioner.partition(ofKey: $0.span, partitionCount: partitionCount)
            } ?? 0
        let place = TopicPartition(topic: topic, partition: chosen)
        if queues[place] != nil {
            queues[place]?.entries.append(entry)
        } else {
            ends[place, default: 0] += 1
            observe(topic, entry)
        }
        return place
    }

    func end(of place: TopicPartition) -> Int64 { queues[place]?.end ?? ends[place] ?? 0 }

    /// Records of a topic that wait for the worker that reads it.
    func waitingCount(in topic: String) -> Int {
        partitions(of: topic).reduce(0) { $0 + (queues[$1]?.entries.count ?? 0) }
    }
}

/// One worker's view of a ``QueueCluster``.
final class QueueLog: RecordLog {
    let sources: [String]
    let targets: [String]
    private let cluster: QueueCluster
    private let clock: () -> Timestamp
    private var isAssigned = false
    private var fetched: [TopicPartition: Int64] = [:]
    private var announced: [TopicPartition: Int64] = [:]
    private var outcome: CommitOutcome?

    var wakeDescriptor: Int32 { -1 }

    init(
        cluster: QueueCluster,
        sources: [String],
        targets: [String],
        clock: @escaping () -> Timestamp
    ) {
        self.cluster = cluster
        self.sources = sources
        self.targets = targets
        self.clock = clock
        for place in sources.flatMap({ cluster.partitions(of: $0) }) {
            cluster.queues[place] = QueueCluster.Queue()
            fetched[place] = 0
        }
    }

    func poll(
        into batch: inout RecordBatch,
        recordCountMax: Int,
        waitMilliseconds: Int
    ) throws(LogFault) -> GroupEvent? {
        guard isAssigned else {
            return .assigning(Array(fetched.keys))
        }
        var room = recordCountMax
        for (topic, name) in sources.enumerated() {
            for place in cluster.partitions(of: name) where room > 0 {
                read(place, topic: topic, into: &batch, room: &room)
            }
        }
        return nil
    }

    private func read(
        _ place: TopicPartition,
        topic: Int,
        into batch: inout RecordBatch,
        room: inout Int
    ) {
        guard let queue = cluster.queues[place], let from = fetched[place] else {
            return
        }
        let count = min(Int(queue.end - from), room)
        for offset in from..<from + Int64(count) {
            let entry = queue.entries[Int(offset - queue.start)]
            batch.append(
                key: entry.key,
                value: entry.value,
                headers: entry.headers,
                timestampMilliseconds: entry.timestampMilliseconds,
                topic: topic,
                partition: place.partition,
                offset: offset
            )
        }
        room -= count
        fetched[place] = from + Int64(count)
        if from + Int64(count) == queue.end, announced[place] != queue.end {
            announced[place] = queue.end
            batch.ends.append(
                RecordBatch.PartitionEnd(
                    topic: topic,
                    partition: place.partition,
                    offset: queue.end
                )
            )
        }
    }

    func completeAssignment() throws(LogFault) -> [TopicPartition: Int64] {
        isAssigned = true
        return fetched
    }

    func completeRevocation() throws(LogFault) {
        isAssigned = false
    }

    func submit(
        _ outputs: consuming OutputBatch,
        positions: [TopicPartition: Int64]
    ) throws(LogFault) {
        var next: [TopicPartition: Int64] = [:]
        for output in outputs.outputs {
            func bytes(_ range: ByteRange) -> [UInt8]? {
                range.isAbsent ? nil : Array(outputs.arena[range.indices])
            }
            let entry = QueueCluster.Entry(
                key: bytes(output.key),
                value: bytes(output.value),
                headers: bytes(output.headers) ?? [],
                timestampMilliseconds: output.timestampMilliseconds == 0
                    ? clock().milliseconds : output.timestampMilliseconds
            )
            let place = cluster.append(
                entry,
                to: targets[output.topic],
                partition: output.partition >= 0 ? output.partition : nil
            )
            next[place] = cluster.end(of: place)
        }
        for (place, offset) in positions {
            cluster.queues[place]?.forget(before: offset)
        }
        outcome = .committed(nextOffsets: next)
    }

    func takeOutcome(waitMilliseconds: Int) throws(LogFault) -> CommitOutcome? {
        defer { outcome = nil }
        return outcome
    }

    func endOffsets(ofTopic topic: String) throws(LogFault) -> [Int64]? {
        cluster.partitions(of: topic).map { cluster.end(of: $0) }
    }

    /// Every group has read everything: nobody sends notices here.
    func committedOffsets(ofGroup group: String, topic: String) throws(LogFault) -> [Int64?]? {
        try endOffsets(ofTopic: topic)
    }

    func changelogReader(
        _ partition: TopicPartition,
        from offset: Int64
    ) throws(LogFault) -> any ChangelogReader {
        EmptyChangelog(topicIdentity: partition.topic)
    }

    func close(deadlineMilliseconds: Int) {}
}

/// A worker that was never there before has nothing to restore.
private final class EmptyChangelog: ChangelogReader {
    let endOffset: Int64 = 0
    let startOffset: Int64 = 0
    let topicIdentity: String

    init(topicIdentity: String) {
        self.topicIdentity = topicIdentity
    }

    func read(
        into batch: inout RecordBatch,
        recordCountMax: Int,
        waitMilliseconds: Int
    ) throws(LogFault) -> Bool {
        true
    }

    func close() {}
}
