internal import CStore

/// Changes to the state table of which the newest to each key can be found at once.
///
/// They lie in the form in which a store takes them: what look-ups were shown while a transaction
/// was under way is what the store is given after it.
package final class ChangeTable {
    package private(set) var changes = StoreChanges()
    /// A power of two of slots, a quarter of them empty: in the upper half the hash of the key, in
    /// the lower the position of the change and 1; 0 where empty.
    private var slots: [UInt64] = []
    private var keyCount = 0

    private static let slotCountMin = 64

    package enum Found: Equatable, Sendable {
        case removed
        /// Where the value lies among the ``bytes``.
        case value(Range<Int>)
    }

    package init() {}

    package var isEmpty: Bool { changes.isEmpty }
    package var bytes: [UInt8] { changes.encoded }

    /// The newest change to a key; nil where there is none.
    package func find(_ key: Span<UInt8>) -> Found? {
        guard keyCount > 0 else {
            return nil
        }
        let slot = slots[slotIndex(of: key, hash: Self.hash(of: key))]
        guard slot != 0 else {
            return nil
        }
        return changes.entry(at: Self.position(in: slot)).value.map { .value($0) } ?? .removed
    }

    package func put(_ value: Span<UInt8>, forKey key: Span<UInt8>) {
        index(key)
        changes.put(value, forKey: key, in: .state)
    }

    package func remove(key: Span<UInt8>) {
        index(key)
        changes.remove(key: key, from: .state)
    }

    // MARK: Slots

    /// Points the key's slot to the change that is appended next.
    private func index(_ key: Span<UInt8>) {
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

    private func grow() {
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
