/// An entry of the due table, which a stage derives from a record of the state table.
package typealias DueEntry = (key: [UInt8], note: [UInt8])

/// What the due table has of one record, side by side in one run of bytes: that of many records is kept
/// until they are committed and longer, and each entry would take two allocations.
package struct DueEntries: Equatable, Sendable {
    /// Each: length of the key and of the note (UInt32), key, note.
    private var bytes: [UInt8] = []

    private static let lengthByteCount = 4
    /// Most have less.
    private static let byteCountMostly = 256

    package init() {}

    package init(_ entries: [DueEntry]) {
        bytes.reserveCapacity(
            entries.reduce(0) { $0 + 2 * Self.lengthByteCount + $1.key.count + $1.note.count }
        )
        for (key, note) in entries {
            append(length: key.count)
            append(length: note.count)
            bytes.append(contentsOf: key)
            bytes.append(contentsOf: note)
        }
    }

    /// Appends an entry whose key is appended to what is given to `key`.
    package mutating func append(note: [UInt8] = [], key: (inout [UInt8]) -> Void) {
        if bytes.isEmpty {
            bytes.reserveCapacity(Self.byteCountMostly)
        }
        let start = bytes.count
        append(length: 0)
        append(length: note.count)
        let keyStart = bytes.count
        key(&bytes)
        let count = bytes.count - keyStart
        for index in 0..<Self.lengthByteCount {
            bytes[start + index] = UInt8(truncatingIfNeeded: count >> (8 * index))
        }
        bytes.append(contentsOf: note)
    }

    package func forEach(_ visit: (_ key: ArraySlice<UInt8>, _ note: ArraySlice<UInt8>) -> Void) {
        var position = 0
        while position < bytes.count {
            let keyStart = position + 2 * Self.lengthByteCount
            let noteStart = keyStart + length(at: position)
            position = noteStart + length(at: position + Self.lengthByteCount)
            visit(bytes[keyStart..<noteStart], bytes[noteStart..<position])
        }
    }

    /// The note of a key; nil where there is no such entry.
    func note(of key: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        var found: ArraySlice<UInt8>?
        forEach { other, note in
            if other == key {
                found = note
            }
        }
        return found
    }

    private mutating func append(length: Int) {
        let length = UInt32(length).littleEndian
        unsafe withUnsafeBytes(of: length) { unsafe bytes.append(contentsOf: $0) }
    }

    private func length(at position: Int) -> Int {
        var length = 0
        for index in 0..<Self.lengthByteCount {
            length |= Int(bytes[position + index]) << (8 * index)
        }
        return length
    }
}

/// What the due table has of one record before the record changes, and afterwards.
package struct DueChange {
    package var before: DueEntries
    package var after: DueEntries

    package init(before: DueEntries, after: DueEntries) {
        self.before = before
        self.after = after
    }

    package init(before: [DueEntry], after: [DueEntry]) {
        self.init(before: DueEntries(before), after: DueEntries(after))
    }
}

extension StoreChanges {
    /// Removes the entries that a record has no more, and puts those that it did not have.
    package mutating func make(_ change: DueChange) {
        change.before.forEach { key, _ in
            if change.after.note(of: key) == nil {
                remove(key: key, from: .due)
            }
        }
        change.after.forEach { key, note in
            if change.before.note(of: key) != note {
                put(note, forKey: key, in: .due)
            }
        }
    }
}
