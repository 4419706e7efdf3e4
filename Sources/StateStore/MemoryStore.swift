/// A ``PartitionStore`` in a dictionary: for simulations and tests, and the fold of a changelog
/// that a real store is compared with.
package final class MemoryStore: PartitionStore {
    private var tables: [StoreTable: [[UInt8]: [UInt8]]] = [:]
    /// The keys of each table in byte order; nil after a change, made anew by the next scan.
    private var order: [StoreTable: [[UInt8]]] = [:]
    package private(set) var changelogOffset: Int64?
    /// It has no clock: whoever makes one says it.
    package var lastUsedMilliseconds: Int64 = 0

    package init() {}

    package func get(_ lookup: StoreLookup) throws(StoreFault) {
        lookup.forgetAnswers()
        for index in 0..<lookup.count {
            lookup.answer(tables[.state]?[Array(lookup.keys[lookup.key(index)])])
        }
    }

    package func apply(_ changes: StoreChanges, changelogOffset: Int64) throws(StoreFault) {
        precondition(
            changelogOffset >= self.changelogOffset ?? 0,
            "a store never goes back in its changelog"
        )
        changes.forEach { table, key, value in
            let key = Array(key)
            let previous = tables[table, default: [:]].updateValue(
                value.map { Array($0) },
                forKey: key
            )
            if (previous == nil) != (value == nil) {
                order[table] = nil
            }
        }
        self.changelogOffset = changelogOffset
    }

    package func scan(
        _ table: StoreTable,
        from start: [UInt8],
        within prefix: [UInt8],
        visit: (_ key: [UInt8], _ value: [UInt8]) -> Bool
    ) throws(StoreFault) {
        let entries = tables[table] ?? [:]
        let keys = order[table] ?? entries.keys.sorted { $0.lexicographicallyPrecedes($1) }
        order[table] = keys
        var low = 0
        var high = keys.count
        while low < high {
            let middle = (low + high) / 2
            if keys[middle].lexicographicallyPrecedes(start) {
                low = middle + 1
            } else {
                high = middle
            }
        }
        for key in keys[low...] {
            guard key.starts(with: prefix), let value = entries[key], visit(key, value) else {
                return
            }
        }
    }

    package func checksum() throws(StoreFault) -> UInt64 {
        (tables[.state] ?? [:]).reduce(0) { sum, entry in
            sum &+ StoreChecksum.of(key: entry.key, value: entry.value)
        }
    }

    package func close() -> StoreFault? { nil }
}

extension Dictionary {
    /// Puts a value, or removes the key where there is none.
    fileprivate mutating func updateValue(_ value: Value?, forKey key: Key) -> Value? {
        guard let value else {
            return removeValue(forKey: key)
        }
        return updateValue(value, forKey: key)
    }
}
