package import StateStore

/// The state of the partitions assigned, as the batch in hand sees it: store + staged.
///
/// What a stage puts is visible to it at once, goes to the changelog inside the transaction, and
/// reaches the store only after the commit is known: the store is behind its changelog at times,
/// never ahead of it.
package final class StagedState {
    /// One partition: its store, and what was put since the store was last written.
    private struct Staged {
        var store: any PartitionStore
        /// Put since the last submit.
        var open = Changes()
        /// Under way with a transaction: the store does not have it yet, a look-up must find it.
        var submitted = Changes()

        func value(forKey key: [UInt8]) -> [UInt8]?? {
            open.value(forKey: key) ?? submitted.value(forKey: key)
        }
    }

    /// Changelog records that are not in the store yet.
    private struct Changes {
        /// By key, newest value only.
        ///
        /// The inner nil removes the key.
        var values: [[UInt8]: [UInt8]?] = [:]
        /// Records put once, which nobody looks up by their own key.
        var records: [(key: [UInt8], value: [UInt8]?)] = []
        /// What look-ups see of those records: entries that the store will derive from them.
        var shown: [[UInt8]: [UInt8]] = [:]

        var isEmpty: Bool { values.isEmpty && records.isEmpty }

        func value(forKey key: [UInt8]) -> [UInt8]?? {
            if !values.isEmpty, let value = values[key] {
                return value
            }
            if !shown.isEmpty, let value = shown[key] {
                return .some(value)
            }
            return nil
        }

        mutating func removeAll() {
            values.removeAll(keepingCapacity: true)
            records.removeAll(keepingCapacity: true)
            shown.removeAll(keepingCapacity: true)
        }

        /// Every record; those put once in the order in which they were put.
        func all() -> [(key: [UInt8], value: [UInt8]?)] {
            records + values.map { ($0.key, $0.value) }
        }
    }

    private var staged: [Int32: Staged] = [:]

    package init() {}

    /// The partitions whose state is here, in order.
    package var partitions: [Int32] { staged.keys.sorted() }

    /// Whether the state of a partition is here and restored.
    package func holds(partition: Int32) -> Bool { staged[partition] != nil }

    /// Looks up many keys of one partition at once.
    ///
    /// - Returns: one value a key, in order; nil where the key is unknown or removed.
    /// - Throws: what the disk answers. A partition that is not ours is a fault of ours.
    package func values(_ keys: [[UInt8]], partition: Int32) throws(StoreFault) -> [[UInt8]?] {
        guard let staged = staged[partition] else {
            preconditionFailure("state of a partition that is not assigned was asked for")
        }
        guard !staged.open.isEmpty || !staged.submitted.isEmpty else {
            return try staged.store.get(keys)
        }
        var values = [[UInt8]?](repeating: nil, count: keys.count)
        var missing: [[UInt8]] = []
        var missingIndices: [Int] = []
        for (index, key) in keys.enumerated() {
            if let value = staged.value(forKey: key) {
                values[index] = value
            } else {
                missing.append(key)
                missingIndices.append(index)
            }
        }
        guard !missing.isEmpty else {
            return values
        }
        for (index, value) in zip(missingIndices, try staged.store.get(missing)) {
            values[index] = value
        }
        return values
    }

    /// What was put for a key since the last commit; the outer nil: nothing was.
    package func stagedValue(forKey key: [UInt8], partition: Int32) -> [UInt8]?? {
        guard let staged = staged[partition] else {
            return nil
        }
        return staged.value(forKey: key)
    }

    /// Stages a value; nil removes the key.
    package func put(_ value: [UInt8]?, forKey key: [UInt8], partition: Int32) {
        precondition(holds(partition: partition), "state is put for an assigned partition only")
        staged[partition]?.open.values[key] = .some(value)
    }

    /// Stages a record whose key is new to the changelog, or a removal, and that is looked up by
    /// other keys than its own: those which the store derives from it.
    ///
    /// The key is put once between two commits. `shown` has the derived entries of the state table,
    /// so that look-ups see them at once.
    package func put(
        _ value: [UInt8]?,
        forKey key: [UInt8],
        showing shown: [(key: [UInt8], value: [UInt8])],
        partition: Int32
    ) {
        precondition(holds(partition: partition), "state is put for an assigned partition only")
        staged[partition]?.open.records.append((key, value))
        for entry in shown {
            staged[partition]?.open.shown[entry.key] = entry.value
        }
    }

    /// Visits the stored keys of a table in byte order.
    ///
    /// Staged changes are not among them: the caller looks at ``values(_:partition:)`` before it
    /// acts on a key.
    package func scan(
        _ table: StoreTable,
        partition: Int32,
        from start: [UInt8],
        visit: (_ key: [UInt8], _ value: [UInt8]) -> Bool
    ) throws(StoreFault) {
        guard let staged = staged[partition] else {
            return
        }
        try staged.store.scan(table, from: start, visit: visit)
    }

    // MARK: What the loop does with it

    /// Takes over a restored store.
    package func open(_ store: any PartitionStore, partition: Int32) {
        staged[partition] = Staged(store: store)
    }

    /// Drops what was staged and closes the stores.
    package func close(_ partitions: [Int32]) {
        for partition in partitions {
            staged.removeValue(forKey: partition)?.store.close()
        }
    }

    /// Whether anything was put since the last submit.
    var hasOpenChanges: Bool { staged.values.contains { !$0.open.isEmpty } }

    /// Moves what was put under way with a transaction.
    ///
    /// - Returns: every key put since the last submit with its newest value, by partition.
    func submit() -> [(partition: Int32, changes: [(key: [UInt8], value: [UInt8]?)])] {
        var result: [(partition: Int32, changes: [(key: [UInt8], value: [UInt8]?)])] = []
        for partition in partitions {
            guard let open = staged[partition]?.open, !open.isEmpty else {
                continue
            }
            precondition(
                staged[partition]?.submitted.isEmpty == true,
                "one transaction is under way at most"
            )
            staged[partition]?.submitted = open
            staged[partition]?.open = Changes()
            result.append((partition, open.all()))
        }
        return result
    }

    /// The transaction is durable: writes what was under way to the stores, with the changelog's
    /// offsets, one atomic write a partition.
    func commit(
        changelogOffsets: [Int32: Int64],
        stage: any StatefulStage
    ) throws(StoreFault) {
        for partition in partitions {
            guard let current = staged[partition], !current.submitted.isEmpty else {
                continue
            }
            guard let offset = changelogOffsets[partition] else {
                preconditionFailure("a committed changelog record has no offset")
            }
            try Self.apply(
                current.submitted.all(),
                changelogOffset: offset,
                to: current.store,
                stage: stage
            )
            staged[partition]?.submitted.removeAll()
        }
    }

    /// Nothing of it happened, nor of what was judged on top of it.
    func abort() {
        for partition in staged.keys {
            staged[partition]?.open.removeAll()
            staged[partition]?.submitted.removeAll()
        }
    }

    /// Writes changelog records to a store as the stage reads them: after a commit and on restore.
    static func apply(
        _ records: [(key: [UInt8], value: [UInt8]?)],
        changelogOffset: Int64,
        to store: any PartitionStore,
        stage: any StatefulStage
    ) throws(StoreFault) {
        var changes = StoreChanges()
        guard stage.derivesFromPrevious else {
            for (index, record) in records.enumerated() {
                stage.deriveChanges(
                    key: record.key,
                    value: record.value,
                    previous: nil,
                    into: &changes
                )
                try refuseIfUnreadable(changes, index)
            }
            try store.apply(changes, changelogOffset: changelogOffset)
            return
        }
        // On restore a key may stand in a batch more than once: its predecessor is then the one
        // before it in the batch, not the one in the store.
        let stored = try store.get(records.map(\.key))
        var newest: [[UInt8]: [UInt8]?] = [:]
        for (index, record) in records.enumerated() {
            let previous = newest[record.key] ?? stored[index]
            stage.deriveChanges(
                key: record.key,
                value: record.value,
                previous: previous,
                into: &changes
            )
            try refuseIfUnreadable(changes, index)
            newest[record.key] = .some(record.value)
        }
        try store.apply(changes, changelogOffset: changelogOffset)
    }

    private static func refuseIfUnreadable(
        _ changes: StoreChanges,
        _ index: Int
    ) throws(StoreFault) {
        guard let refusal = changes.refusal else {
            return
        }
        throw .unreadable(recordIndex: index, message: refusal)
    }
}
