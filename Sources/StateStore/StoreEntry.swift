/// An entry that is derived from a record of the changelog, besides the record itself.
package struct StoreEntry: Equatable, Sendable {
    package var table: StoreTable
    package var key: [UInt8]
    package var value: [UInt8]

    package init(table: StoreTable, key: [UInt8], value: [UInt8]) {
        self.table = table
        self.key = key
        self.value = value
    }
}

extension StoreChanges {
    /// Has the entries of a record in place of those of the record before it; what is the same in both
    /// is not written.
    package mutating func move(from old: [StoreEntry], to new: [StoreEntry]) {
        for entry in old
        where !new.contains(where: { $0.table == entry.table && $0.key == entry.key }) {
            remove(key: entry.key, from: entry.table)
        }
        for entry in new where !old.contains(entry) {
            put(entry.value, forKey: entry.key, in: entry.table)
        }
    }
}
