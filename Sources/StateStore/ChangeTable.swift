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
    /// A power of two of slots, a quarter of them empty: in the upper half the hash of the key, in
    /// the lower the position of the change and 1; 0 where empty.
    private var slots: [UInt64] = []
    private var keyCount = 0

    private static let slotCountMin = 64
    /// What is kept of an emptied one, of changes and of slots: a partition's share of a transaction,
    /// and not the largest share it ever had.
    private static let keptByteCountMax = 512 * 1024
    private static let keptSlotCountMax = 8 * 1024

    mutating func removeAll() {
        changes.removeAll(keepingByteCountMax: Self.keptByteCountMax)
        keyCount = 0
        guard slots.count <= Self.keptSlotCountMax else {
            slots = []
            return
        }
        for index in slots.indices {
            slots[index] = 0
        }
    }

    func find(_ key: Span<UInt8>) -> ChangeTable.Found? {
        guard keyCount > 0 else {
            return nil
        }
        let slot = slots[slotIndex(of: key, hash: Self.hash(of: key))]
        guard slot != 0 else {
            return nil
        }
        return changes.entry(at: Self.position(in: slot)).value.map { .value($0) } ?? .removed
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
        if (keyCount + 1) * 4 > slots.count * 3 {
            grow()
        }
        let hash = Self.hash(of: key)
        let index = slotIndex(of: key, hash: hash)
        if slots[index] == 0 {
            keyCount += 1
        }
        slots[index] = UInt64(hash) << 32 | UInt64(changes.encoded.count + 1)
    }

    /// The slot that has the key, or the empty one where it would go.
    private func slotIndex(of key: Span<UInt8>, hash: UInt32) -> Int {
        let mask = slots.count - 1
        var index = Int(hash) & mask
        while slots[index] != 0 {
            if slots[index] >> 32 == UInt64(hash), isKey(key, at: Self.position(in: slots[index])) {
                return index
            }
            index = (index + 1) & mask
        }
        return index
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
        let old = slots
        slots = [UInt64](repeating: 0, count: max(Self.slotCountMin, old.count * 2))
        let mask = slots.count - 1
        for slot in old where slot != 0 {
            var index = Int(slot >> 32) & mask
            while slots[index] != 0 {
                index = (index + 1) & mask
            }
            slots[index] = slot
        }
    }

    private static func position(in slot: UInt64) -> Int {
        Int(UInt32(truncatingIfNeeded: slot)) - 1
    }

    private static func hash(of key: Span<UInt8>) -> UInt32 {
        let hash = unsafe key.withUnsafeBufferPointer { bytes in
            unsafe cstore_hash(bytes.baseAddress, bytes.count, UInt64(bytes.count))
        }
        return UInt32(truncatingIfNeeded: hash ^ hash >> 32)
    }
}
