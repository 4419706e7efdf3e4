/// Changes for one atomic write, in order; of two for one key the later one stands.
///
/// They lie side by side in one run of bytes, in the form that the C shim reads: no allocation a
/// change. Each: key length (UInt32, little-endian), value length (UInt32; `UInt32.max` removes the
/// key), table (UInt8), key, value.
package struct StoreChanges: Sendable {
    private static let removal = UInt32.max
    static let prefixByteCount = 9

    package private(set) var count = 0
    /// Why the current record cannot be read, if it cannot: the caller throws it.
    package private(set) var refusal: String?
    private(set) var encoded: [UInt8] = []

    package init() {}

    package var isEmpty: Bool { count == 0 }

    /// Makes room at once: to grow by copies costs as much as the changes.
    package mutating func reserve(byteCount: Int) {
        encoded.reserveCapacity(encoded.count + byteCount)
    }

    package mutating func put(
        _ value: some Collection<UInt8>,
        forKey key: some Collection<UInt8>,
        in table: StoreTable
    ) {
        appendPrefix(keyCount: key.count, valueLength: UInt32(value.count), table: table)
        encoded.append(contentsOf: key)
        encoded.append(contentsOf: value)
        count += 1
    }

    package mutating func put(
        _ value: Span<UInt8>,
        forKey key: Span<UInt8>,
        in table: StoreTable
    ) {
        appendPrefix(keyCount: key.count, valueLength: UInt32(value.count), table: table)
        append(key)
        append(value)
        count += 1
    }

    package mutating func remove(key: some Collection<UInt8>, from table: StoreTable) {
        appendPrefix(keyCount: key.count, valueLength: Self.removal, table: table)
        encoded.append(contentsOf: key)
        count += 1
    }

    package mutating func remove(key: Span<UInt8>, from table: StoreTable) {
        appendPrefix(keyCount: key.count, valueLength: Self.removal, table: table)
        append(key)
        count += 1
    }

    /// Forgets the changes, and their memory where it is more than so much.
    mutating func removeAll(keepingByteCountMax byteCountMax: Int) {
        count = 0
        refusal = nil
        encoded.removeAll(keepingCapacity: encoded.capacity <= byteCountMax)
    }

    /// Says that a changelog record is not what the worker writes there: a fault of ours.
    package mutating func refuse(because sentence: String) {
        refusal = sentence
    }

    /// Visits the changes in order; a nil value removes the key.
    package func forEach(
        _ visit: (_ table: StoreTable, _ key: ArraySlice<UInt8>, _ value: ArraySlice<UInt8>?) ->
            Void
    ) {
        var position = 0
        while position < encoded.count {
            let (key, value) = entry(at: position)
            guard let table = StoreTable(rawValue: Int(encoded[position + 8])) else {
                preconditionFailure("a change names a table that there is")
            }
            visit(table, encoded[key], value.map { encoded[$0] })
            position = value?.upperBound ?? key.upperBound
        }
    }

    /// Where key and value of the change at a position lie; a nil value removes the key.
    func entry(at position: Int) -> (key: Range<Int>, value: Range<Int>?) {
        let keyStart = position + Self.prefixByteCount
        let valueStart = keyStart + Int(length(at: position))
        let valueLength = length(at: position + 4)
        return (
            keyStart..<valueStart,
            valueLength == Self.removal ? nil : valueStart..<valueStart + Int(valueLength)
        )
    }

    /// One change to a table that is not for others to name.
    static func encode(_ value: [UInt8], forKey key: [UInt8], table: UInt8) -> [UInt8] {
        var changes = StoreChanges()
        changes.put(value, forKey: key, in: .state)
        changes.encoded[8] = table
        return changes.encoded
    }

    /// The lengths of the entry at a position; entries that a scan reads have the same form.
    static func lengths(
        at position: Int,
        of bytes: UnsafeBufferPointer<UInt8>
    ) -> (keyCount: Int, valueCount: Int) {
        var words = (0, 0)
        for index in 0..<4 {
            words.0 |= unsafe Int(bytes[position + index]) << (8 * index)
            words.1 |= unsafe Int(bytes[position + 4 + index]) << (8 * index)
        }
        return words
    }

    private mutating func append(_ bytes: Span<UInt8>) {
        unsafe bytes.withUnsafeBufferPointer { bytes in
            unsafe encoded.append(contentsOf: bytes)
        }
    }

    private mutating func appendPrefix(keyCount: Int, valueLength: UInt32, table: StoreTable) {
        // As one word: two halves that are copied as a word wait for the processor's store buffer.
        let lengths = (UInt64(UInt32(keyCount)) | UInt64(valueLength) << 32).littleEndian
        unsafe withUnsafeBytes(of: lengths) { bytes in
            unsafe encoded.append(contentsOf: bytes)
        }
        encoded.append(UInt8(table.rawValue))
    }

    private func length(at position: Int) -> UInt32 {
        var length: UInt32 = 0
        for index in 0..<4 {
            length |= UInt32(encoded[position + index]) << UInt32(8 * index)
        }
        return length
    }
}
