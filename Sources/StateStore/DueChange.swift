/// An entry of the due table, which a stage derives from a record of the state table.
package typealias DueEntry = (key: [UInt8], note: [UInt8])

/// What the due table has of one record before the record changes, and afterwards.
package struct DueChange {
    package var before: [DueEntry]
    package var after: [DueEntry]

    package init(before: [DueEntry], after: [DueEntry]) {
        self.before = before
        self.after = after
    }
}

extension StoreChanges {
    /// Removes the entries that a record has no more, and puts those that it did not have.
    package mutating func make(_ change: DueChange) {
        for old in change.before where !change.after.contains(where: { $0.key == old.key }) {
            remove(key: old.key, from: .due)
        }
        for new in change.after where !change.before.contains(where: { $0 == new }) {
            put(new.note, forKey: new.key, in: .due)
        }
    }
}
