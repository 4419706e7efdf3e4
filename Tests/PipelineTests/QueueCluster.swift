import Kafka
import TokenDomain

/// A Kafka in memory for long runs: it forgets what was read, and nothing ever fails.
///
/// One member a group, which owns every partition. ``MemoryCluster`` has the faults.
final class QueueCluster {
    /// A partition of a topic: of one that somebody reads it keeps what is not committed yet, of any
    /// other only the offset.
    final class Partition {
        /// Bytes of a record lie side by side: key, value, headers.
        private struct Entry {
            var start: Int
            var keyCount: Int
            var valueCount: Int
            var headerCount: Int
            var timestampMilliseconds: Int64
        }

        /// So much that was read is moved out of the way at once.
        private static let forgottenCountMax = 4_096

        let place: TopicPartition
        fileprivate(set) var isRead = false
        fileprivate var isObserved = false
        /// Whether the transaction in hand has a record of it.
        fileprivate var isTouched = false
        private var arena: [UInt8] = []
        private var entries: [Entry] = []
        /// Offset of the first entry that is kept, and where its bytes lay when it came.
        private var start: Int64 = 0
        private var base = 0
        private(set) var end: Int64 = 0

        init(_ place: TopicPartition) {
            self.place = place
        }

        var waitingCount: Int { entries.count }

        /// Takes a record whose bytes lie in `arena`.
        fileprivate func append(
            _ record: OutputBatch.Output,
            in arena: [UInt8],
            timestampMilliseconds: Int64
        ) {
            end += 1
            guard isRead else {
                return
            }
            entries.append(
                Entry(
                    start: base + self.arena.count,
                    keyCount: record.key.count,
                    valueCount: record.value.count,
                    headerCount: max(record.headers.count, 0),
                    timestampMilliseconds: timestampMilliseconds
                )
            )
            for range in [record.key, record.value, record.headers] {
                self.arena.append(contentsOf: arena[range.indices])
            }
        }

        /// Appends at most so many records to a batch, from an offset on.
        ///
        /// - Returns: how many.
        fileprivate func read(
            from offset: Int64,
            countMax: Int,
            topic: Int,
            into batch: inout RecordBatch
        ) -> Int {
            let first = Int(offset - start)
            let count = min(entries.count - first, countMax)
            guard count > 0 else {
                return 0
            }
            let last = first + count
            let bytesEnd = last < entries.count ? entries[last].start - base : arena.count
            var position = batch.arena.count
            batch.arena.append(contentsOf: arena[(entries[first].start - base)..<bytesEnd])
            func next(_ count: Int) -> ByteRange {
                defer { position += max(count, 0) }
                return count < 0 ? .absent : ByteRange(start: position, count: count)
            }
            for (index, entry) in entries[first..<last].enumerated() {
                batch.records.append(
                    RecordBatch.Record(
                        topic: topic,
                        partition: place.partition,
                        offset: offset + Int64(index),
                        timestampMilliseconds: entry.timestampMilliseconds,
                        key: next(entry.keyCount),
                        value: next(entry.valueCount),
                        headers: next(entry.headerCount)
                    )
                )
            }
            return count
        }

        /// Forgets what was committed, once it is worth moving the rest.
        fileprivate func forget(before offset: Int64) {
            let count = Int(offset - start)
            if count == entries.count {
                base += arena.count
                arena.removeAll(keepingCapacity: true)
                entries.removeAll(keepingCapacity: true)
                start = offset
            } else if count > Self.forgottenCountMax {
                let bytesEnd = entries[count].start
                arena.removeFirst(bytesEnd - base)
                entries.removeFirst(count)
                (base, start) = (bytesEnd, offset)
            }
        }
    }

    let partitionCount: Int32
    /// Is shown the value of every record of some topics.
    private let observe: (_ topic: String, _ value: Span<UInt8>) -> Void
    private let isObserved: (_ topic: String) -> Bool
    private var topics: [String: [Partition]] = [:]

    init(
        partitionCount: Int32,
        observing isObserved: @escaping (_ topic: String) -> Bool,
        _ observe: @escaping (_ topic: String, _ value: Span<UInt8>) -> Void
    ) {
        self.partitionCount = partitionCount
        self.isObserved = isObserved
        self.observe = observe
    }

    /// The partitions of a topic, which is there as soon as somebody asks for it.
    func partitions(of topic: String) -> [Partition] {
        if let partitions = topics[topic] {
            return partitions
        }
        let partitions = (0..<partitionCount).map {
            Partition(TopicPartition(topic: topic, partition: $0))
        }
        for partition in partitions {
            partition.isObserved = isObserved(topic)
        }
        topics[topic] = partitions
        return partitions
    }

    /// Appends records to the topics that they name by their number in `targets`.
    func append(_ outputs: OutputBatch, to targets: [[Partition]], now: Timestamp) {
        for output in outputs.outputs {
            let partition = targets[output.topic][number(of: output, in: outputs)]
            partition.isTouched = true
            partition.append(
                output,
                in: outputs.arena,
                timestampMilliseconds: output.timestampMilliseconds == 0
                    ? now.milliseconds : output.timestampMilliseconds
            )
            if partition.isObserved, !output.value.isAbsent {
                observe(
                    partition.place.topic,
                    outputs.arena.span.extracting(output.value.indices)
                )
            }
        }
    }

    private func number(of output: OutputBatch.Output, in outputs: OutputBatch) -> Int {
        if output.partition >= 0 {
            return Int(output.partition)
        }
        guard !output.key.isAbsent else {
            return 0
        }
        let key = outputs.arena.span.extracting(output.key.indices)
        return Int(Partitioner.partition(ofKey: key, partitionCount: partitionCount))
    }

    /// Records of a topic that wait for the worker that reads it.
    func waitingCount(in topic: String) -> Int {
        partitions(of: topic).reduce(0) { $0 + $1.waitingCount }
    }
}

/// One worker's view of a ``QueueCluster``.
final class QueueLog: RecordLog {
    /// A partition that the worker reads.
    private struct Source {
        let topic: Int
        let partition: QueueCluster.Partition
        /// The next offset to be read, and the end that the worker knows of.
        var next: Int64 = 0
        var announced: Int64 = -1
    }

    let sources: [String]
    let targets: [String]
    private let cluster: QueueCluster
    private let clock: () -> Timestamp
    private var isAssigned = false
    /// Partition numbers of which nothing is delivered.
    private var held: Set<Int32> = []
    private var partitions: [Source]
    private let targetPartitions: [[QueueCluster.Partition]]
    private var outcome: CommitResult?

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
        targetPartitions = targets.map { cluster.partitions(of: $0) }
        partitions = sources.enumerated().flatMap { topic, name in
            cluster.partitions(of: name).map { Source(topic: topic, partition: $0) }
        }
        for source in partitions {
            source.partition.isRead = true
        }
    }

    func poll(
        into batch: inout RecordBatch,
        recordCountMax: Int,
        waitMilliseconds: Int
    ) throws(LogFault) -> GroupEvent? {
        guard isAssigned else {
            return .assigning(partitions.map(\.partition.place))
        }
        var room = recordCountMax
        for index in partitions.indices
        where room > 0 && !held.contains(partitions[index].partition.place.partition) {
            read(&partitions[index], into: &batch, room: &room)
        }
        return nil
    }

    private func read(_ source: inout Source, into batch: inout RecordBatch, room: inout Int) {
        let end = source.partition.end
        let count = source.partition.read(
            from: source.next,
            countMax: room,
            topic: source.topic,
            into: &batch
        )
        room -= count
        source.next += Int64(count)
        if source.next == end, source.announced != end {
            source.announced = end
            batch.ends.append(
                RecordBatch.PartitionEnd(
                    topic: source.topic,
                    partition: source.partition.place.partition,
                    offset: end
                )
            )
        }
    }

    func release(_ partition: Int32) { held.remove(partition) }

    func completeAssignment(isHeld: Bool) throws(LogFault) -> [TopicPartition: Int64] {
        isAssigned = true
        held = isHeld ? Set(partitions.map(\.partition.place.partition)) : []
        return Dictionary(
            uniqueKeysWithValues: partitions.map { ($0.partition.place, $0.next) }
        )
    }

    func completeRevocation() throws(LogFault) {
        isAssigned = false
    }

    func submit(
        _ outputs: consuming OutputBatch,
        positions: [TopicPartition: Int64]
    ) throws(LogFault) {
        cluster.append(outputs, to: targetPartitions, now: clock())
        var next: [TopicPartition: Int64] = [:]
        for partition in targetPartitions.joined() where partition.isTouched {
            partition.isTouched = false
            next[partition.place] = partition.end
        }
        for source in partitions {
            if let offset = positions[source.partition.place] {
                source.partition.forget(before: offset)
            }
        }
        outcome = .committed(nextOffsets: next)
    }

    func takeCommitResult(waitMilliseconds: Int) throws(LogFault) -> CommitResult? {
        defer { outcome = nil }
        return outcome
    }

    func endOffsets(ofTopic topic: String) throws(LogFault) -> [Int64]? {
        cluster.partitions(of: topic).map(\.end)
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

    func firstRecordTime() throws(LogFault) -> Int64? { nil }

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
