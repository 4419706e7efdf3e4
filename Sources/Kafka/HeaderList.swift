/// Kafka headers in one run of bytes, so that a batch needs no allocation per record.
///
/// Each header: name length (UInt32, little-endian), name, value length (UInt32; `UInt32.max` is a
/// null value), value. The C shim reads and writes the same form.
package struct HeaderList {
    package static let nullValue = UInt32.max

    /// Appends one header to an arena.
    package static func append(
        name: some Collection<UInt8>,
        value: (some Collection<UInt8>)?,
        to arena: inout [UInt8]
    ) {
        appendLength(UInt32(name.count), to: &arena)
        arena.append(contentsOf: name)
        guard let value else {
            appendLength(nullValue, to: &arena)
            return
        }
        appendLength(UInt32(value.count), to: &arena)
        arena.append(contentsOf: value)
    }

    /// Every header in order: the name, and where the value lies (absent where null).
    package static func entries(
        in range: ByteRange,
        of arena: [UInt8]
    ) -> [(name: String, value: ByteRange)] {
        let bytes = arena.span
        var entries: [(name: String, value: ByteRange)] = []
        var cursor = HeaderCursor(range)
        while let (name, value) = cursor.next(in: bytes) {
            entries.append((String(decoding: arena[name.indices], as: UTF8.self), value))
        }
        return entries
    }

    /// Where the value of the first header of this name lies; nil where there is none, or a null.
    package static func value(
        named name: StaticString,
        in range: ByteRange,
        of arena: [UInt8]
    ) -> ByteRange? {
        let bytes = arena.span
        var cursor = HeaderCursor(range)
        while let (found, value) = cursor.next(in: bytes) {
            if !value.isAbsent, equals(bytes.extracting(found.indices), name) {
                return value
            }
        }
        return nil
    }

    private static func equals(_ bytes: Span<UInt8>, _ name: StaticString) -> Bool {
        guard bytes.count == name.utf8CodeUnitCount else {
            return false
        }
        for index in bytes.indices {
            guard unsafe bytes[index] == name.utf8Start[index] else {
                return false
            }
        }
        return true
    }

    private static func appendLength(_ length: UInt32, to arena: inout [UInt8]) {
        for shift in stride(from: 0, to: 32, by: 8) {
            arena.append(UInt8(truncatingIfNeeded: length >> shift))
        }
    }
}
