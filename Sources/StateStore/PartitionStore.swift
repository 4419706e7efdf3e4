/// The local state of one partition: what its changelog says, up to the offset kept beside it.
///
/// Kept by RocksDB (`RocksStore`) and by a dictionary (`MemoryStore`), with the same promises; the
/// tests write them down once, in `PartitionStoreContract`. One thread calls it.
package protocol PartitionStore: AnyObject {
    /// The changelog offset up to which it is complete; nil in an empty store.
    var changelogOffset: Int64? { get }
    /// When changes were last applied, or it was made; UNIX milliseconds.
    var lastUsedMilliseconds: Int64 { get }

    /// Looks up many keys of the state table at once: answers every question of `lookup`.
    func get(_ lookup: StoreLookup) throws(StoreFault)

    /// All the changes and the offset, or nothing: one atomic write.
    ///
    /// - Parameters:
    ///   - changes: made in order.
    ///   - changelogOffset: never below the one the store has.
    /// - Throws: what the disk answers; the store has then to be closed and opened anew.
    func apply(_ changes: StoreChanges, changelogOffset: Int64) throws(StoreFault)

    /// Announces that many changes follow before anybody asks: a restore.
    ///
    /// Optional, and without effect where it saves nothing. A look-up ends it: report and
    /// purchases, which look up what stood before each record, end it with their first slice.
    func beginRestore() throws(StoreFault)

    /// Ends a restore: from here on the store is what its changelog says.
    func endRestore() throws(StoreFault)

    /// Visits keys in byte order from `start` on, until `visit` returns false.
    ///
    /// Only keys that begin with `prefix`: what was removed behind them costs nothing. Without one
    /// the store reads through all that was removed, until it meets a key. What was removed from the
    /// due table before the first key found is passed once, and not by the next scan.
    func scan(
        _ table: StoreTable,
        from start: [UInt8],
        within prefix: [UInt8],
        visit: (_ key: [UInt8], _ value: [UInt8]) -> Bool
    ) throws(StoreFault)

    /// An order-independent hash over the state table, to compare with a fold of the changelog: the
    /// sum of ``StoreChecksum`` over its entries.
    func checksum() throws(StoreFault) -> UInt64

    /// Writes what it has in memory, and lets go.
    ///
    /// - Returns: what kept it from writing that; its changelog has it.
    @discardableResult
    func close() -> StoreFault?
}

extension PartitionStore {
    /// Visits keys in byte order from `start` on, until `visit` returns false.
    package func scan(
        _ table: StoreTable,
        from start: [UInt8],
        visit: (_ key: [UInt8], _ value: [UInt8]) -> Bool
    ) throws(StoreFault) {
        try scan(table, from: start, within: [], visit: visit)
    }

    /// Looks up many keys of the state table at once.
    ///
    /// - Returns: one value a key, in order; nil where the key is unknown.
    package func get(_ keys: [[UInt8]]) throws(StoreFault) -> [[UInt8]?] {
        let lookup = StoreLookup()
        for key in keys {
            lookup.ask(key.span)
        }
        try get(lookup)
        return keys.indices.map { index in lookup.value(index).map { Array(lookup.values[$0]) } }
    }

    package func beginRestore() throws(StoreFault) {}
    package func endRestore() throws(StoreFault) {}
}

package enum StoreTable: Int, Sendable, CaseIterable {
    /// What the changelog holds.
    case state
    /// What the stage derives from it, ordered by due time; rebuilt with it.
    case due
}

/// What is wrong with the disk or with what lies on it.
package enum StoreFault: Error, Equatable, Sendable {
    /// No space: release the partition, exit 75. Going on from memory would lose the proof.
    case diskFull(message: String)
    /// Damaged, or another changelog's: wipe and replay.
    case damaged(message: String)
    /// This changelog's, in another form: wipe and replay, where the changelog is still whole.
    ///
    /// Its offset is nil where it is empty; it was last used at UNIX milliseconds.
    case otherForm(message: String, changelogOffset: Int64?, lastUsedMilliseconds: Int64)
    /// This changelog's, and not used for longer than removals are kept: wipe and replay, where the changelog
    /// has as much.
    case idle(message: String, changelogOffset: Int64, lastUsedMilliseconds: Int64)
    /// A changelog record, the one at this index of those handed over, is not what the worker
    /// writes there: our own fault, exit 70. Nothing was applied.
    case unreadable(recordIndex: Int, message: String)
    /// Another process holds it.
    case locked(message: String)
    /// Anything else the disk answers.
    case failed(message: String)

    /// Whether the same is to be expected where it is opened again here, and not elsewhere.
    package var isOfDisk: Bool {
        switch self {
        case .diskFull, .failed: true
        case .damaged, .otherForm, .idle, .unreadable, .locked: false
        }
    }
}
