package import Kafka

/// One worker instance's view of a ``MemoryCluster``.
package final class MemoryLog: RecordLog {
    package let sources: [String]
    package let targets: [String]
    package let group: String
    package let transactionalID: String

    /// A worker that does nothing may wait long for somebody to write the markers it lacks.
    private static let repairOneIn = 50

    let member: Int
    private(set) var generation = -1
    private let cluster: MemoryCluster
    private let clock: () -> Int64
    private var assigned: [TopicPartition] = []
    /// Partition numbers of which nothing is delivered.
    private var held: Set<Int32> = []
    /// Nobody told where these begin when they were assigned.
    private var startless: Set<TopicPartition> = []
    private var fetched: [TopicPartition: Int] = [:]
    private var announcedEnds: [TopicPartition: Int] = [:]
    private var pendingEvent: GroupEvent?
    private var underWay: (transaction: Int, delay: Int)?
    /// Let go with its partitions: it ends in its own time, and before the next assignment.
    private var discarded: Int?
    private var nextPartition = 0
    /// The headers of every record read since the last transaction was handed over.
    private var keptHeaders: [[UInt8]] = []

    /// Of every changelog: what was before it is gone.
    package var changelogStartOffset: Int64 = 0
    /// So many questions about a changelog are refused, as without the right.
    package var refusedChangelogCount = 0
    /// A reader of a changelog is refused with its second read, as without the right.
    package var refusesChangelogReads = false

    package var wakeDescriptor: Int32 { -1 }

    /// Joins its group.
    ///
    /// An older instance with the same id is fenced: its open transaction ends.
    package init(
        cluster: MemoryCluster,
        group: String,
        transactionalID: String,
        sources: [String],
        targets: [String],
        clock: @escaping () -> Int64
    ) {
        self.cluster = cluster
        self.group = group
        self.transactionalID = transactionalID
        self.sources = sources
        self.targets = targets
        self.clock = clock
        member = cluster.makeMember()
        cluster.settleTransactions { $0.transactionalID == transactionalID }
        cluster.groups[group, default: MemoryGroup()].join(member)
    }

    /// The process is gone, at any instruction.
    ///
    /// The group rebalances when its session ends.
    package func crash() {
        underWay = nil
        discarded = nil
    }

    /// The group gives up on it: it is dead, or has not polled for too long.
    package func expireSession() {
        cluster.groups[group]?.leave(member)
    }

    package func poll(
        into batch: inout RecordBatch,
        recordCountMax: Int,
        waitMilliseconds: Int
    ) throws(LogFault) -> GroupEvent? {
        // Reported also without a broker: the client library ends a session by itself.
        if pendingEvent == nil, !isMember, !assigned.isEmpty {
            pendingEvent = .lost(assigned)
        }
        guard case .lost = pendingEvent else {
            try checkUp()
            if underWay == nil, cluster.generator.oneIn(Self.repairOneIn) {
                cluster.repair { [transactionalID] in $0.transactionalID == transactionalID }
            }
            pendingEvent = nextEvent()
            if pendingEvent == nil, recordCountMax > 0 {
                let first = batch.records.count
                read(into: &batch, recordCountMax: recordCountMax)
                for index in first..<batch.records.count {
                    let headers = batch.arena[batch.records[index].headers.indices]
                    batch.records[index].keptHeaders = KeptHeaders(number: Int32(keptHeaders.count))
                    keptHeaders.append(Array(headers))
                }
            }
            return pendingEvent
        }
        return pendingEvent
    }

    private var isMember: Bool { cluster.groups[group]?.members[member] != nil }

    private func nextEvent() -> GroupEvent? {
        if let pendingEvent {
            return pendingEvent
        }
        guard isMember else {
            cluster.groups[group]?.join(member)
            return nil
        }
        cluster.groups[group]?.settle()
        guard let current = cluster.groups[group],
            current.generation != generation || current.isRebalancing
        else {
            return nil
        }
        if !assigned.isEmpty {
            return current.isRebalancing && current.generation == generation
                ? .revoking(assigned) : .lost(assigned)
        }
        guard !current.isRebalancing else {
            cluster.groups[group]?.letGo(member)
            return nil
        }
        let topics = sources.map { ($0, cluster.partitionCount(of: $0)) }
        let partitions = current.partitions(of: member, topics: topics)
        if let discarded {
            _ = cluster.end(discarded)
        }
        discarded = nil
        generation = current.generation
        return partitions.isEmpty ? nil : .assigning(partitions)
    }

    private func read(into batch: inout RecordBatch, recordCountMax: Int) {
        var room = recordCountMax
        for step in assigned.indices {
            let partition = assigned[(step + nextPartition) % assigned.count]
            let entries = cluster.entries(of: partition)
            let end = cluster.lastStableOffset(partition)
            var offset = fetched[partition] ?? 0
            guard !held.contains(partition.partition), !cluster.leaderless.contains(partition),
                let topic = sources.firstIndex(of: partition.topic)
            else {
                continue
            }
            while offset < end, room > 0 {
                if entries[offset].state == .committed {
                    batch.append(entries[offset], topic: topic, partition.partition, offset)
                    room -= 1
                }
                offset += 1
            }
            fetched[partition] = offset
            if offset == end, announcedEnds[partition] != end {
                announcedEnds[partition] = end
                batch.ends.append(
                    RecordBatch.PartitionEnd(
                        topic: topic,
                        partition: partition.partition,
                        offset: Int64(end)
                    )
                )
            }
        }
        nextPartition += 1
    }

    package func completeAssignment(
        isHeld: Bool
    ) throws(LogFault) -> [TopicPartition: Int64] {
        guard case .assigning(let partitions) = pendingEvent else {
            preconditionFailure("no assignment is pending")
        }
        try checkUp()
        pendingEvent = nil
        // Committed offsets are asked with require-stable: transactions that would still move them
        // are waited out, that is, ended by their timeout.
        cluster.settleTransactions { [member, group] in $0.group == group && $0.member != member }
        assigned = partitions
        held = isHeld ? Set(partitions.map(\.partition)) : []
        startless = cluster.leaderless
        rewind()
        return positions()
    }

    package func release(_ partition: Int32) { held.remove(partition) }

    package func completeRevocation() throws(LogFault) {
        pendingEvent = nil
        keptHeaders = []
        discarded = underWay?.transaction
        underWay = nil
        assigned = []
        fetched = [:]
        announcedEnds = [:]
        generation = -1
        cluster.groups[group]?.letGo(member)
    }

    package func submit(
        _ outputs: consuming OutputBatch,
        positions: [TopicPartition: Int64]
    ) throws(LogFault) {
        precondition(underWay == nil, "one transaction is under way at most")
        precondition(!positions.isEmpty, "a transaction without offsets has no fence")
        for (index, output) in outputs.outputs.enumerated() {
            let kept = Int(output.keptHeaders.number)
            precondition(
                kept < 0 || keptHeaders[kept] == Array(outputs.arena[output.headers.indices]),
                "output \(index) goes out with another record's headers"
            )
            let byteCount = output.key.count + output.value.count + output.headers.count
            guard byteCount <= MemoryCluster.recordByteCountMax else {
                throw .recordTooLarge(
                    outputIndex: index,
                    byteCount: byteCount,
                    byteCountMax: MemoryCluster.recordByteCountMax
                )
            }
        }
        keptHeaders = []
        let delay =
            cluster.faults.outcomeDelayMax == 0
            ? 0 : Int.random(in: 0...cluster.faults.outcomeDelayMax, using: &cluster.generator)
        let transaction = cluster.begin(
            outputs,
            topics: targets,
            positions: positions,
            by: self,
            timestampMilliseconds: clock()
        )
        underWay = (transaction, delay)
    }

    package func takeCommitResult(waitMilliseconds: Int) throws(LogFault) -> CommitResult? {
        guard let (transaction, delay) = underWay else {
            return nil
        }
        if waitMilliseconds > 0, case .lost = pendingEvent {
            throw .unusable(message: "lost partitions are kept: the group takes it for a twin")
        }
        if delay > 0, waitMilliseconds == 0 {
            underWay = (transaction, delay - 1)
            return nil
        }
        if waitMilliseconds == 0 {
            try checkUp()
        }
        underWay = nil
        switch cluster.end(transaction) {
        case .committed(let nextOffsets):
            return .committed(nextOffsets: nextOffsets)
        case .aborted(let code, _):
            rewind()
            return .aborted(code: code, resumedAt: positions())
        }
    }

    package func endOffsets(ofTopic topic: String) throws(LogFault) -> [Int64]? {
        try checkUp()
        guard !isInquiryDelayed else {
            return nil
        }
        return (0..<cluster.partitionCount(of: topic)).map {
            Int64(cluster.entries(of: TopicPartition(topic: topic, partition: Int32($0))).count)
        }
    }

    package func committedOffsets(
        ofGroup group: String,
        topic: String
    ) throws(LogFault) -> [Int64?]? {
        try checkUp()
        guard !isInquiryDelayed else {
            return nil
        }
        return (0..<cluster.partitionCount(of: topic)).map {
            cluster.groups[group]?.committed[TopicPartition(topic: topic, partition: Int32($0))]
        }
    }

    package func changelogReader(
        _ partition: TopicPartition,
        from offset: Int64
    ) throws(LogFault) -> any ChangelogReader {
        try checkUp()
        guard refusedChangelogCount == 0 else {
            refusedChangelogCount -= 1
            throw .misconfigured(message: "the right to read \(partition) is missing")
        }
        guard partition.partition < cluster.partitionCount(of: partition.topic) else {
            throw .unavailable(code: "_UNKNOWN_PARTITION", message: "there is no \(partition)")
        }
        return MemoryChangelogReader(
            cluster: cluster,
            partition: partition,
            startOffset: changelogStartOffset,
            from: Int(offset),
            isRefused: refusesChangelogReads
        )
    }

    package func close(deadlineMilliseconds: Int) {
        expireSession()
    }

    private var isInquiryDelayed: Bool {
        cluster.faults.inquiryDelayOneIn > 0
            && cluster.generator.oneIn(cluster.faults.inquiryDelayOneIn)
    }

    private func checkUp() throws(LogFault) {
        guard !cluster.isDown else {
            throw .unavailable(code: "_TRANSPORT", message: "the cluster is down")
        }
    }

    /// Reading goes on where the group's committed offsets say.
    private func rewind() {
        keptHeaders = []
        for partition in assigned {
            fetched[partition] = Int(cluster.groups[group]?.committed[partition] ?? 0)
        }
        announcedEnds = [:]
    }

    private func positions() -> [TopicPartition: Int64] {
        var positions: [TopicPartition: Int64] = [:]
        for partition in assigned {
            let isUnknown =
                startless.contains(partition) && cluster.groups[group]?.committed[partition] == nil
            positions[partition] = isUnknown ? -1 : Int64(fetched[partition] ?? 0)
        }
        return positions
    }
}

/// Reads committed records up to the end of the partition at the time it was made.
private final class MemoryChangelogReader: ChangelogReader {
    let endOffset: Int64
    let startOffset: Int64
    let topicIdentity: String
    private let cluster: MemoryCluster
    private let partition: TopicPartition
    private var offset: Int
    private let isRefused: Bool
    private var readCount = 0

    init(
        cluster: MemoryCluster,
        partition: TopicPartition,
        startOffset: Int64,
        from offset: Int,
        isRefused: Bool
    ) {
        self.isRefused = isRefused
        self.cluster = cluster
        self.partition = partition
        self.startOffset = startOffset
        self.offset = offset
        topicIdentity = partition.topic
        endOffset = Int64(cluster.entries(of: partition).count)
    }

    func firstRecordTime() throws(LogFault) -> Int64? {
        startOffset == 0 ? cluster.entries(of: partition).first?.timestampMilliseconds : nil
    }

    func read(
        into batch: inout RecordBatch,
        recordCountMax: Int,
        waitMilliseconds: Int
    ) throws(LogFault) -> Bool {
        readCount += 1
        guard !isRefused else {
            guard readCount < 2 else {
                throw .misconfigured(message: "the right to read \(partition) is missing")
            }
            return false
        }
        let entries = cluster.entries(of: partition)
        let stable = cluster.lastStableOffset(partition)
        var room = recordCountMax
        while offset < stable, offset < Int(endOffset), room > 0 {
            if entries[offset].state == .committed {
                batch.append(entries[offset], topic: 0, partition.partition, offset)
                room -= 1
            }
            offset += 1
        }
        return offset >= Int(endOffset)
    }

    func close() {}
}

extension RecordBatch {
    fileprivate mutating func append(
        _ entry: MemoryCluster.Entry,
        topic: Int,
        _ partition: Int32,
        _ offset: Int
    ) {
        append(
            key: entry.key,
            value: entry.value,
            headers: entry.headers,
            timestampMilliseconds: entry.timestampMilliseconds,
            topic: topic,
            partition: partition,
            offset: Int64(offset)
        )
    }
}
