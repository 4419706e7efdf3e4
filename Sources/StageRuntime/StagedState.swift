package import Kafka
package import StateStore

/// The state of the partitions assigned, as the batch in hand sees it: store + staged.
///
/// What a stage puts is visible to it at once, goes to the changelog inside the transaction, and
/// reaches the store only after the commit is known: the store is behind its changelog at times,
/// never ahead of it.
package final class StagedState {
    /// One partition: its store, and what was put since the store was last written.
    private final class Held {
        let store: any PartitionStore
        /// Put since the last submit.
        var open = Changes()
        /// Under way with a transaction: the store does not have it yet, a look-up must find it.
        var submitted = Changes()
        /// Of a transaction that is durable: the store learns of it before anybody looks again.
        var settled = Changes()

        init(store: any PartitionStore) {
            self.store = store
        }

        var isStaged: Bool { !open.isEmpty || !submitted.isEmpty }

        func value(forKey key: [UInt8]) -> [UInt8]?? {
            open.value(forKey: key) ?? submitted.value(forKey: key)
        }
    }

    /// The newest value of a record; nil removes it.
    private struct Value {
        var bytes: [UInt8]?
        /// The changes of its due table.
        var due: DueChange
    }

    /// A key that hashes all of its bytes at once: an array hashes them one by one.
    struct Key: Hashable {
        let bytes: [UInt8]

        func hash(into hasher: inout Hasher) {
            unsafe bytes.withUnsafeBytes { unsafe hasher.combine(bytes: $0) }
        }
    }

    /// Changelog records that are not in the store yet.
    private struct Changes {
        /// By key, newest value only.
        var values: [Key: Value] = [:]
        /// About what the values take in memory, and will take among the outputs.
        var byteCount = 0
        /// Records to be written that were put with their entries; look-ups see those at once.
        var recordCount = 0
        /// Nil where no record was put with its entries.
        var entries: ChangeTable?

        /// Records of the changelog.
        var writtenCount: Int { values.count + recordCount }
        var isEmpty: Bool { writtenCount == 0 }

        func value(forKey key: [UInt8]) -> [UInt8]?? {
            switch entries?.find(key.span) {
            case .removed?: .some(nil)
            case .value(let range)?: entries.map { Array($0.bytes[range]) }
            case nil: values.isEmpty ? nil : values[Key(bytes: key)].map(\.bytes)
            }
        }

        /// Puts its table with those that are spared.
        mutating func removeAll(sparing tables: inout [ChangeTable]) {
            if let entries {
                entries.removeAll()
                tables.append(entries)
            }
            self = Changes()
        }
    }

    /// By partition number.
    private var held: [Held?] = []
    /// Put with their entries since the last submit, in order: their bytes lie among the outputs of
    /// the next transaction.
    private var records: [OutputBatch.Output] = []
    /// Emptied ones, kept for their memory.
    private var sparedTables: [ChangeTable] = []
    /// Goes up whenever ``records`` loses entries: a ``PutRecord`` of an earlier one is stale.
    private var generation = 0

    /// The topic of a record until ``submit(to:topic:)`` names the changelog.
    private static let staged = -1
    /// That of one that is not written, for a newer one of its key is.
    private static let replaced = -2

    /// Of ``value(_:partition:)``, kept for its memory.
    private let lookup = StoreLookup()

    package init() {}

    /// The partitions whose state is here, in order.
    package var partitions: [Int32] {
        held.indices.filter { held[$0] != nil }.map { Int32($0) }
    }

    /// Whether no partition's state is here.
    var isEmpty: Bool { held.allSatisfy { $0 == nil } }

    /// Whether the state of a partition is here and restored.
    package func holds(partition: Int32) -> Bool { find(partition) != nil }

    /// Up to where its store has its changelog; nil where it has nothing, or is not here.
    func changelogOffset(of partition: Int32) -> Int64? { find(partition)?.store.changelogOffset }

    /// How many records the last transaction wrote to its changelog; 0 once the store has them.
    func settledCount(of partition: Int32) -> Int { find(partition)?.settled.writtenCount ?? 0 }

    private func find(_ partition: Int32) -> Held? {
        held.indices.contains(Int(partition)) ? held[Int(partition)] : nil
    }

    /// A partition that is not ours is a fault of ours.
    private func held(_ partition: Int32) -> Held {
        guard let held = find(partition) else {
            preconditionFailure("state of a partition that is not assigned was asked for or put")
        }
        return held
    }

    // MARK: Records by their own key

    /// Looks up many keys of one partition at once.
    ///
    /// - Returns: one value a key, in order; nil where the key is unknown or removed.
    /// - Throws: what the disk answers.
    package func values(_ keys: [[UInt8]], partition: Int32) throws(StoreFault) -> [[UInt8]?] {
        let held = held(partition)
        guard held.isStaged else {
            return try held.store.get(keys)
        }
        var values = [[UInt8]?](repeating: nil, count: keys.count)
        var missing: [[UInt8]] = []
        var missingIndices: [Int] = []
        for (index, key) in keys.enumerated() {
            if let value = held.value(forKey: key) {
                values[index] = value
            } else {
                missing.append(key)
                missingIndices.append(index)
            }
        }
        guard !missing.isEmpty else {
            return values
        }
        for (index, value) in zip(missingIndices, try held.store.get(missing)) {
            values[index] = value
        }
        return values
    }

    /// Looks up one key.
    ///
    /// - Returns: nil where it is unknown or removed.
    /// - Throws: what the disk answers.
    package func value(_ key: [UInt8], partition: Int32) throws(StoreFault) -> [UInt8]? {
        let held = held(partition)
        if let staged = held.value(forKey: key) {
            return staged
        }
        lookup.removeAll()
        lookup.ask(key.span)
        try held.store.get(lookup)
        return lookup.value(0).map { Array(lookup.values[$0]) }
    }

    /// What was put for a key since the last commit; the outer nil: nothing was.
    package func stagedValue(forKey key: [UInt8], partition: Int32) -> [UInt8]?? {
        find(partition)?.value(forKey: key)
    }

    /// Stages a value, nil removes the key, and the changes of its entries in the due table: to read
    /// those out of the values again, old and new, costs as much as deciding does.
    ///
    /// `deriveChanges` of the stage makes the same of the records on restore.
    package func put(
        _ value: [UInt8]?,
        forKey key: [UInt8],
        partition: Int32,
        due: DueChange
    ) {
        let held = held(partition)
        held.open.byteCount += key.count + (value?.count ?? 0)
        let key = Key(bytes: key)
        // The store has the entries of the value before the first put.
        let before = held.open.values[key]?.due.before ?? due.before
        held.open.values[key] = Value(
            bytes: value,
            due: DueChange(before: before, after: due.after)
        )
    }

    // MARK: Records with their entries

    /// Has the questions of `lookup` answered as of the last submit.
    ///
    /// ``entry(_:of:partition:)`` returns what was put since as well.
    ///
    /// - Throws: what the disk answers.
    package func look(up lookup: StoreLookup, partition: Int32) throws(StoreFault) {
        let held = held(partition)
        try held.store.get(lookup)
        if let entries = held.submitted.entries {
            lookup.apply(entries)
        }
    }

    /// The value of an entry as it is now; nil where there is no such entry.
    package func entry(_ index: Int, of lookup: StoreLookup, partition: Int32) -> [UInt8]? {
        if let open = held(partition).open.entries {
            let keys = lookup.keys
            switch open.find(keys.span.extracting(lookup.key(index))) {
            case nil: break
            case .removed: return nil
            case .value(let range): return Array(open.bytes[range])
            }
        }
        return lookup.value(index).map { Array(lookup.values[$0]) }
    }

    /// Stages a changelog record, a removal where the value is absent; its bytes lie in the arena of
    /// the next transaction's outputs.
    ///
    /// The store is given these entries once the record is durable: reading them out of the record
    /// again costs as much as judging does. ``deriveChanges(key:value:previous:into:)`` of the stage
    /// makes the same of it on restore.
    ///
    /// - Returns: where the caller puts every entry of the state table that the stage derives from it.
    @discardableResult
    package func put(
        recordWithKey key: ByteRange,
        value: ByteRange,
        partition: Int32
    ) -> ChangeTable {
        let held = held(partition)
        records.append(
            OutputBatch.Output(topic: Self.staged, partition: partition, key: key, value: value)
        )
        held.open.recordCount += 1
        if let entries = held.open.entries {
            return entries
        }
        let entries = sparedTables.popLast() ?? ChangeTable()
        held.open.entries = entries
        return entries
    }

    /// One changelog record that was put, until it is submitted.
    package struct PutRecord {
        fileprivate var generation: Int
        fileprivate var index: Int
    }

    /// Stages a changelog record that is the entry of the state table as it stands, a removal where the
    /// value is absent, and the changes of its entries in the due table; its bytes lie in the arena of
    /// `outputs`, those of the next transaction.
    ///
    /// `earlier` is the record of the same key that was put last: where that is not submitted yet, it is not
    /// written at all.
    package func put(
        recordWithKey key: ByteRange,
        value: ByteRange,
        partition: Int32,
        due: DueChange,
        insteadOf earlier: PutRecord?,
        in outputs: OutputBatch
    ) -> PutRecord {
        if let earlier, earlier.generation == generation {
            records[earlier.index].topic = Self.replaced
            held(partition).open.recordCount -= 1
        }
        let entries: ChangeTable = put(recordWithKey: key, value: value, partition: partition)
        let bytes = outputs.arena.span
        if value.isAbsent {
            entries.remove(key: bytes.extracting(key.indices))
        } else {
            entries.put(
                bytes.extracting(value.indices),
                forKey: bytes.extracting(key.indices)
            )
        }
        entries.make(due)
        return PutRecord(generation: generation, index: records.count - 1)
    }

    /// Visits the stored keys of a table in byte order, those that begin with `prefix`.
    ///
    /// Name the prefix wherever there is one: without it the store reads through all that was removed
    /// behind the last key, until it meets another one.
    ///
    /// Staged changes are not among them: the caller looks at ``values(_:partition:)`` before it
    /// acts on a key.
    package func scan(
        _ table: StoreTable,
        partition: Int32,
        from start: [UInt8],
        within prefix: [UInt8] = [],
        visit: (_ key: [UInt8], _ value: [UInt8]) -> Bool
    ) throws(StoreFault) {
        try find(partition)?.store.scan(table, from: start, within: prefix, visit: visit)
    }

    // MARK: What the loop does with it

    /// Takes over a restored store.
    package func open(_ store: any PartitionStore, partition: Int32) {
        while held.count <= Int(partition) {
            held.append(nil)
        }
        held[Int(partition)] = Held(store: store)
    }

    /// Drops what was staged and closes the stores.
    ///
    /// - Returns: what kept some from writing what they had in memory.
    @discardableResult
    package func close(_ partitions: [Int32]) -> [(partition: Int32, fault: StoreFault)] {
        records.removeAll { partitions.contains($0.partition) }
        generation += 1
        var faults: [(partition: Int32, fault: StoreFault)] = []
        for partition in partitions {
            if let fault = find(partition)?.store.close() {
                faults.append((partition, fault))
            }
            if held.indices.contains(Int(partition)) {
                held[Int(partition)] = nil
            }
        }
        return faults
    }

    /// Whether anything was put since the last submit.
    var hasOpenChanges: Bool { held.contains { $0?.open.isEmpty == false } }

    /// About how many bytes were put since the last submit, beside those that lie in the arena already.
    var openByteCount: Int { held.reduce(0) { $0 + ($1?.open.byteCount ?? 0) } }

    /// Moves what was put under way with a transaction, as outputs to the changelog: every key put
    /// since the last submit with its newest value.
    func submit(to outputs: inout OutputBatch, topic: Int) {
        outputs.outputs.reserveCapacity(outputs.outputs.count + records.count)
        for var record in records where record.topic != Self.replaced {
            record.topic = topic
            outputs.outputs.append(record)
        }
        dropRecords()
        for (partition, held) in held.enumerated() {
            guard let held, !held.open.isEmpty else {
                continue
            }
            precondition(held.submitted.isEmpty, "one transaction is under way at most")
            swap(&held.open, &held.submitted)
            for (key, value) in held.submitted.values {
                let keyRange = outputs.place(key.bytes.span)
                outputs.outputs.append(
                    OutputBatch.Output(
                        topic: topic,
                        partition: Int32(partition),
                        key: keyRange,
                        value: value.bytes.map { outputs.place($0.span) } ?? .absent
                    )
                )
            }
        }
    }

    /// The transaction is durable: what was under way is for the stores to learn, and the next
    /// transaction may be submitted.
    func settle() {
        for case let held? in held {
            precondition(held.settled.isEmpty, "a store learns of every transaction")
            swap(&held.submitted, &held.settled)
        }
    }

    /// Writes what is settled to the stores, with the changelog's offsets, one atomic write a
    /// partition.
    func learn(changelogOffsets: [Int32: Int64]) throws(StoreFault) {
        for (partition, held) in held.enumerated() {
            guard let held, !held.settled.isEmpty else {
                continue
            }
            guard let offset = changelogOffsets[Int32(partition)] else {
                preconditionFailure("a committed changelog record has no offset")
            }
            try held.store.apply(Self.changes(of: held.settled), changelogOffset: offset)
            held.settled.removeAll(sparing: &sparedTables)
        }
    }

    private static func changes(of settled: Changes) -> StoreChanges {
        guard !settled.values.isEmpty else {
            return settled.entries?.changes ?? StoreChanges()
        }
        precondition(
            settled.recordCount == 0,
            "a stage puts its records with their entries, or none of them"
        )
        var changes = StoreChanges()
        // The entries of the due table are about as long as the keys.
        changes.reserve(byteCount: settled.byteCount * 3 / 2)
        for (key, value) in settled.values {
            changes.make(value.due)
            if let bytes = value.bytes {
                changes.put(bytes, forKey: key.bytes, in: .state)
            } else {
                changes.remove(key: key.bytes, from: .state)
            }
        }
        return changes
    }

    /// Nothing of it happened, nor of what was judged on top of it.
    func abort() {
        dropRecords()
        for held in held {
            held?.open.removeAll(sparing: &sparedTables)
            held?.submitted.removeAll(sparing: &sparedTables)
        }
    }

    private func dropRecords() {
        records.removeAll(keepingCapacity: true)
        generation += 1
    }
}
