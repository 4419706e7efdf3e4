internal import CStore

/// Changes to the state table of which the newest to each key can be found at once.
///
/// They lie in the form in which a store takes them: what look-ups were shown while a transaction
/// was under way is what the store is given after it.
package final class ChangeTable {
    /// A value, whose members are reached without an object's checks at each of them.
    private var table = Table()

    package enum Found: Equatable, Sendable {
        case removed
        /// Where the value lies among the ``bytes``.
        case value(Range<Int>)
    }

    package init() {}

    package var isEmpty: Bool { table.changes.isEmpty }
    package var changes: StoreChanges { table.changes }
    package var bytes: [UInt8] { table.changes.encoded }

    /// Forgets the changes, and keeps memory for as many where they were not unusually many.
    package func removeAll() { table.removeAll() }

    /// The newest change to a key; nil where there is none.
    package func find(_ key: Span<UInt8>) -> Found? { table.find(key) }

    package func put(_ value: Span<UInt8>, forKey key: Span<UInt8>) {
        table.put(value, forKey: key)
    }

    package func remove(key: Span<UInt8>) { table.remove(key: key) }

    /// Changes entries of the due table, which are not looked up.
    package func make(_ change: DueChange) { table.changes.make(change) }
}

/// The changes of a ``ChangeTable``.
private struct Table {
    var changes = StoreChanges()
    /// A power of two of slots, a quarter of them empty: of each a part of its key's hash, 0 where it is
    /// empty.
    ///
    /// Most keys that are looked for are not there. Bytes by themselves say so from the nearest cache.
    private var tags: [UInt8] = []
    /// Where the change to the key of each slot lies.
    private var positions: [UInt32] = []
    private var keyCount = 0

    private static let slotCountMin = 64
    /// What is kept of an emptied one, of changes and of slots: a partition's share of a transaction,
    /// and not the largest share it ever had.
    private static let keptByteCountMax = 512 * 1024
    private static let keptSlotCountMax = 8 * 1024

    mutating func removeAll() {
        changes.removeAll(keepingByteCountMax: Self.keptByteCountMax)
        keyCount = 0
        guard tags.count <= Self.keptSlotCountMax else {
            tags = []
            positions = []
            return
        }
        for index in tags.indices {
            tags[index] = 0
        }
    }

    /// Mutating, though it changes nothing: a member that an object only reads is copied for the call, with
    /// a count for each of its arrays.
    mutating func find(_ key: Span<UInt8>) -> ChangeTable.Found? {
        guard keyCount > 0 else {
            return nil
        }
        let (index, tag) = slot(of: key)
        guard tags[index] == tag else {
            return nil
        }
        return changes.entry(at: Int(positions[index])).value.map { .value($0) } ?? .removed
    }

    mutating func put(_ value: Span<UInt8>, forKey key: Span<UInt8>) {
        index(key)
        changes.put(value, forKey: key, in: .state)
    }

    mutating func remove(key: Span<UInt8>) {
        index(key)
        changes.remove(key: key, from: .state)
    }

    // MARK: Slots

    /// Points the key's slot to the change that is appended next.
    private mutating func index(_ key: Span<UInt8>) {
        if (keyCount + 1) * 4 > tags.count * 3 {
            grow()
        }
        let (index, tag) = slot(of: key)
        if tags[index] == 0 {
            keyCount += 1
        }
        tags[index] = tag
        positions[index] = UInt32(changes.encoded.count)
    }

    /// The slot that has the key, or the empty one where it would go, and the key's tag.
    private func slot(of key: Span<UInt8>) -> (index: Int, tag: UInt8) {
        let (start, tag) = Self.start(of: key)
        let mask = tags.count - 1
        var index = start & mask
        while tags[index] != 0, tags[index] != tag || !isKey(key, at: Int(positions[index])) {
            index = (index + 1) & mask
        }
        return (index, tag)
    }

    private func isKey(_ key: Span<UInt8>, at position: Int) -> Bool {
        let range = changes.entry(at: position).key
        guard range.count == key.count else {
            return false
        }
        for index in key.indices
        where changes.encoded[range.lowerBound + index] != key[index] {
            return false
        }
        return true
    }

    private mutating func grow() {
        let (oldTags, oldPositions) = (tags, positions)
        let count = max(Self.slotCountMin, oldTags.count * 2)
        tags = [UInt8](repeating: 0, count: count)
        positions = [UInt32](repeating: 0, count: count)
        for (old, tag) in oldTags.enumerated() where tag != 0 {
            let key = changes.entry(at: Int(oldPositions[old])).key
            var index = Self.start(of: changes.encoded.span.extracting(key)).index & (count - 1)
            while tags[index] != 0 {
                index = (index + 1) & (count - 1)
            }
            tags[index] = tag
            positions[index] = oldPositions[old]
        }
    }

    /// Where the search for a key begins, and its tag: different bits of its hash.
    private static func start(of key: Span<UInt8>) -> (index: Int, tag: UInt8) {
        let hash = unsafe key.withUnsafeBufferPointer { bytes in
            unsafe cstore_hash(bytes.baseAddress, bytes.count, UInt64(bytes.count))
        }
        return (Int(hash >> 32), UInt8(truncatingIfNeeded: hash) | 1)
    }
}
