/// The local state of one partition: what its changelog says, up to the offset kept beside it.
///
/// Kept by RocksDB (`RocksStore`) and by a dictionary (`MemoryStore`), with the same promises.
/// One thread calls it.
package protocol PartitionStore: AnyObject {
    /// The changelog offset up to which it is complete; nil in an empty store.
    var changelogOffset: Int64? { get }

    /// Looks up many keys of the state table at once.
    ///
    /// - Returns: one value a key, in order; nil where the key is unknown.
    func get(_ keys: [[UInt8]]) throws(StoreFault) -> [[UInt8]?]

    /// All the changes and the offset, or nothing: one atomic write.
    func apply(_ changes: StoreChanges, changelogOffset: Int64) throws(StoreFault)

    /// Visits keys in byte order from `start` on, until `visit` returns false.
    func scan(
        _ table: StoreTable,
        from start: [UInt8],
        visit: (_ key: [UInt8], _ value: [UInt8]) -> Bool
    ) throws(StoreFault)

    /// An order-independent hash over the state table, to compare with a fold of the changelog.
    func checksum() throws(StoreFault) -> UInt64

    func close()
}

package enum StoreTable: Int, Sendable, CaseIterable {
    /// What the changelog holds.
    case state
    /// What the stage derives from it, ordered by due time; rebuilt with it.
    case due
}

/// Changes for one atomic write; a nil value removes the key.
package struct StoreChanges: Sendable {
    package struct Change: Sendable {
        package var table: StoreTable
        package var key: [UInt8]
        package var value: [UInt8]?
    }

    package private(set) var changes: [Change] = []

    package init() {}

    package var isEmpty: Bool { changes.isEmpty }

    package mutating func put(_ value: [UInt8], forKey key: [UInt8], in table: StoreTable) {
        changes.append(Change(table: table, key: key, value: value))
    }

    package mutating func remove(key: [UInt8], from table: StoreTable) {
        changes.append(Change(table: table, key: key, value: nil))
    }

    package mutating func removeAll() {
        changes.removeAll(keepingCapacity: true)
    }
}

/// What is wrong with the disk or with what lies on it.
package enum StoreFault: Error, Equatable, Sendable {
    /// No space: release the partition, exit 75. Going on from memory would lose the proof.
    case diskFull(message: String)
    /// Damaged, or another changelog's: wipe and replay.
    case damaged(message: String)
    /// Another process holds it.
    case locked(message: String)
    /// Anything else the disk answers.
    case failed(message: String)
}
