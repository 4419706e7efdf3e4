/// Walks the headers of one record where they lie, without an allocation: for who reads millions.
///
/// ``HeaderList/entries(in:of:)`` is the same for who reads a few.
package struct HeaderCursor {
    private var position: Int
    private let end: Int

    package init(_ headers: ByteRange) {
        position = headers.start
        end = headers.indices.upperBound
    }

    /// The next header: where its name and its value lie (absent where null); nil after the last.
    package mutating func next(in arena: Span<UInt8>) -> (name: ByteRange, value: ByteRange)? {
        guard position < end else {
            return nil
        }
        let name = ByteRange(start: position + 4, count: Int(Self.length(at: position, in: arena)))
        let valueLength = Self.length(at: name.indices.upperBound, in: arena)
        let valueStart = name.indices.upperBound + 4
        guard valueLength != HeaderList.nullValue else {
            position = valueStart
            return (name, .absent)
        }
        let value = ByteRange(start: valueStart, count: Int(valueLength))
        position = value.indices.upperBound
        return (name, value)
    }

    private static func length(at position: Int, in arena: Span<UInt8>) -> UInt32 {
        UInt32(arena[position]) | UInt32(arena[position + 1]) << 8
            | UInt32(arena[position + 2]) << 16 | UInt32(arena[position + 3]) << 24
    }
}
