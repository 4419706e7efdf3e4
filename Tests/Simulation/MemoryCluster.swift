package import Kafka
package import TokenDomain

/// A Kafka in memory, one thread, no clock: topics with transactions and isolation, groups with
/// generations.
///
/// Whatever is left to chance in a real cluster is drawn from its seed.
///
/// It keeps what the workers rely on: a transaction is seen whole or not at all, readers stop at the
/// first open transaction, markers take offsets, positions of a stale generation are refused.
package final class MemoryCluster {
    enum EntryState {
        case open, committed, aborted, marker
    }

    /// One record or transaction marker; its offset is its index.
    struct Entry {
        var key: [UInt8]?
        var value: [UInt8]?
        var headers: [UInt8]
        var timestampMilliseconds: Int64
        var state: EntryState
        var transaction: Int
    }

    /// A transaction from submit until it is resolved.
    package struct Transaction {
        var id: Int
        var member: Int
        var group: String
        var generation: Int
        var transactionalID: String
        var positions: [TopicPartition: Int64]
        var written: [TopicPartition: [Int]]
        var resolution: CommitResult?
    }

    /// How often things go wrong: once in so many times; 0 is never.
    package struct Faults: Sendable {
        package var abortOneIn = 0
        /// A commit is left without its markers (KAFKA-20734).
        package var skippedMarkersOneIn = 0
        package var inquiryDelayOneIn = 0
        package var outcomeDelayMax = 0
        /// Transactions with this value in a topic that takes it not are aborted.
        package var refusedValue: [UInt8]?
        /// Topics whose names have this prefix take everything.
        package var takingPrefix = "dlq."
        /// Kafka's word for it.
        package var refusalCode = "MSG_SIZE_TOO_LARGE"
        /// What is committed to these is lost before anybody reads it, as where a topic is made anew.
        package var lostTopics: Set<String> = []

        package init() {}
    }

    /// Kafka's own default for the bytes of a record.
    static let recordByteCountMax = 1_048_576

    package var faults = Faults()
    /// While down, every call of every log throws `.unavailable`.
    package var isDown = false
    /// Of these nobody tells the first record, and nothing is read.
    package var leaderless: Set<TopicPartition> = []
    package var generator: SeededGenerator

    private(set) var topics: [String: [[Entry]]] = [:]
    var groups: [String: MemoryGroup] = [:]
    private var transactions: [Int: Transaction] = [:]
    /// Committed and without their markers, by transactional id: their records stay open until the next
    /// commit of their producer, or until they are repaired.
    private var hanging: [String: Transaction] = [:]
    private var nextTransaction = 0
    private var nextMember = 0

    package init(seed: UInt64) {
        generator = SeededGenerator(seed: seed)
    }

    package func createTopic(_ name: String, partitionCount: Int) {
        precondition(topics[name] == nil, "a topic is made once")
        topics[name] = Array(repeating: [], count: partitionCount)
    }

    /// A record is one of a transaction that was aborted.
    package func abort(topic: String, partition: Int = 0, offset: Int) {
        topics[topic]?[partition][offset].state = .aborted
    }

    /// Deletes a topic and makes it anew: its offsets begin at 0.
    package func remakeTopic(_ name: String) {
        precondition(topics[name] != nil, "a topic was made")
        topics[name]?.indices.forEach { topics[name]?[$0] = [] }
    }

    func makeMember() -> Int {
        nextMember += 1
        return nextMember
    }

    // MARK: Reading

    /// The first offset that a read-committed reader cannot pass.
    func lastStableOffset(_ partition: TopicPartition) -> Int {
        let entries = entries(of: partition)
        return entries.firstIndex { $0.state == .open } ?? entries.count
    }

    func entries(of partition: TopicPartition) -> [Entry] {
        guard let partitions = topics[partition.topic],
            partitions.indices.contains(Int(partition.partition))
        else {
            preconditionFailure("no such partition: \(partition)")
        }
        return partitions[Int(partition.partition)]
    }

    func partitionCount(of topic: String) -> Int { topics[topic]?.count ?? 0 }

    /// What a read-committed reader sees of a topic, in order of partition and offset: for the
    /// account at the end of a simulation.
    package func committedRecords(
        of topic: String
    ) -> [(partition: Int32, offset: Int64, key: [UInt8]?, value: [UInt8]?, headers: [UInt8])] {
        (topics[topic] ?? []).enumerated().flatMap { partition, entries in
            entries.enumerated().compactMap { offset, entry in
                entry.state == .committed
                    ? (Int32(partition), Int64(offset), entry.key, entry.value, entry.headers)
                    : nil
            }
        }
    }

    package var hasOpenTransaction: Bool {
        topics.values.contains { $0.contains { $0.contains { $0.state == .open } } }
    }

    // MARK: Writing

    /// Appends one record outside any transaction, as `ingest` does; its key chooses the partition
    /// where none is given.
    package func append(
        topic: String,
        partition: Int32? = nil,
        key: [UInt8]?,
        value: [UInt8]?,
        headers: [UInt8] = [],
        timestampMilliseconds: Int64
    ) {
        let entry = Entry(
            key: key,
            value: value,
            headers: headers,
            timestampMilliseconds: timestampMilliseconds,
            state: .committed,
            transaction: -1
        )
        let chosen = partition.map { Int($0) } ?? choosePartition(of: topic, key: key)
        topics[topic]?[chosen].append(entry)
    }

    private func choosePartition(of topic: String, key: [UInt8]?) -> Int {
        let count = partitionCount(of: topic)
        guard let key else {
            return Int.random(in: 0..<count, using: &generator)
        }
        return Int(Partitioner.partition(ofKey: key.span, partitionCount: Int32(count)))
    }

    /// Has a group read a topic again from its beginning, as soon as it reads anew.
    package func setBack(group: String, topic: String) {
        for partition in 0..<partitionCount(of: topic) {
            let place = TopicPartition(topic: topic, partition: Int32(partition))
            groups[group]?.committed[place] = 0
        }
    }

    // MARK: Transactions

    /// Writes the outputs as an open transaction.
    func begin(
        _ outputs: OutputBatch,
        topics targets: [String],
        positions: [TopicPartition: Int64],
        by log: MemoryLog,
        timestampMilliseconds: Int64
    ) -> Int {
        nextTransaction += 1
        var transaction = Transaction(
            id: nextTransaction,
            member: log.member,
            group: log.group,
            generation: log.generation,
            transactionalID: log.transactionalID,
            positions: positions,
            written: [:]
        )
        for output in outputs.outputs {
            let topic = targets[output.topic]
            let key = output.key.isAbsent ? nil : Array(outputs.arena[output.key.indices])
            let partition =
                output.partition >= 0
                ? Int(output.partition) : choosePartition(of: topic, key: key)
            let place = TopicPartition(topic: topic, partition: Int32(partition))
            transaction.written[place, default: []].append(entries(of: place).count)
            topics[topic]?[partition].append(
                Entry(
                    key: key,
                    value: output.value.isAbsent
                        ? nil : Array(outputs.arena[output.value.indices]),
                    headers: Array(outputs.arena[output.headers.indices]),
                    timestampMilliseconds: output.timestampMilliseconds == 0
                        ? timestampMilliseconds : output.timestampMilliseconds,
                    state: .open,
                    transaction: nextTransaction
                )
            )
        }
        transactions[nextTransaction] = transaction
        return nextTransaction
    }

    /// Ends a transaction as its member asked, or finds it ended already.
    func end(_ id: Int) -> CommitResult {
        guard let transaction = transactions[id] else {
            preconditionFailure("a transaction is heard of once")
        }
        transactions[id] = nil
        if let resolution = transaction.resolution {
            return resolution
        }
        let isFenced = groups[transaction.group]?.fences(transaction) ?? true
        if isFenced {
            repair { $0.transactionalID == transaction.transactionalID }
            return resolve(transaction, commits: false, code: "ILLEGAL_GENERATION")
        }
        let last = hanging[transaction.transactionalID]
        let outcome = decide(transaction)
        guard let last else {
            return outcome
        }
        hanging[transaction.transactionalID] = nil
        // Its next commit ends this one as well; before an abort the markers were written by hand.
        end(last, commits: true)
        return outcome
    }

    private func decide(_ transaction: Transaction) -> CommitResult {
        if faults.abortOneIn > 0, generator.oneIn(faults.abortOneIn) {
            return resolve(transaction, commits: false, code: "INJECTED")
        }
        if hasRefusedValue(transaction) {
            return resolve(transaction, commits: false, code: faults.refusalCode)
        }
        if faults.skippedMarkersOneIn > 0, hanging[transaction.transactionalID] == nil,
            generator.oneIn(faults.skippedMarkersOneIn)
        {
            return skipMarkers(of: transaction)
        }
        return resolve(transaction, commits: true, code: "")
    }

    // MARK: Commits without markers

    private func skipMarkers(of transaction: Transaction) -> CommitResult {
        groups[transaction.group]?.committed.merge(transaction.positions) { $1 }
        hanging[transaction.transactionalID] = transaction
        return .committed(nextOffsets: nextOffsets(of: transaction))
    }

    /// Writes the markers that are missing, as `tollway transactions repair` does.
    package func repair(where isMeant: (Transaction) -> Bool) {
        for (id, last) in hanging.sorted(by: { $0.key < $1.key }) where isMeant(last) {
            hanging[id] = nil
            end(last, commits: true)
        }
    }

    private func nextOffsets(of transaction: Transaction) -> [TopicPartition: Int64] {
        transaction.written.compactMapValues { $0.last.map { Int64($0) + 1 } }
    }

    private func hasRefusedValue(_ transaction: Transaction) -> Bool {
        guard let refused = faults.refusedValue else {
            return false
        }
        return transaction.written.contains { partition, offsets in
            !partition.topic.hasPrefix(faults.takingPrefix)
                && offsets.contains { entries(of: partition)[Int($0)].value == refused }
        }
    }

    /// Ends transactions whose member will not: a new producer with the same id, or the timeout.
    ///
    /// The member may have died before or after it asked for the commit, so either can be.
    func settleTransactions(where isOrphan: (Transaction) -> Bool) {
        repair(where: isOrphan)
        for (id, transaction) in transactions.sorted(by: { $0.key < $1.key })
        where transaction.resolution == nil && isOrphan(transaction) {
            let isFenced = groups[transaction.group]?.fences(transaction) ?? true
            let commits =
                !isFenced && !hasRefusedValue(transaction) && generator.oneIn(2)
            transactions[id]?.resolution = resolve(
                transaction,
                commits: commits,
                code: "FENCED"
            )
        }
    }

    private func resolve(
        _ transaction: Transaction,
        commits: Bool,
        code: String
    ) -> CommitResult {
        end(transaction, commits: commits)
        guard commits else {
            return .aborted(code: code, resumedAt: [:])
        }
        groups[transaction.group]?.committed.merge(transaction.positions) { $1 }
        return .committed(nextOffsets: nextOffsets(of: transaction))
    }

    private func end(_ transaction: Transaction, commits: Bool) {
        for (partition, offsets) in transaction.written {
            let number = Int(partition.partition)
            for offset in offsets {
                let isKept = commits && !faults.lostTopics.contains(partition.topic)
                topics[partition.topic]?[number][offset].state = isKept ? .committed : .aborted
            }
            topics[partition.topic]?[number].append(
                Entry(
                    key: nil,
                    value: nil,
                    headers: [],
                    timestampMilliseconds: 0,
                    state: .marker,
                    transaction: transaction.id
                )
            )
        }
    }
}
