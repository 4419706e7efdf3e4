/// Writes the forms of Kafka's protocol; the compact ones are those of its flexible versions.
struct WireWriter {
    private(set) var bytes: [UInt8] = []

    mutating func put(_ value: some FixedWidthInteger) {
        for shift in stride(from: value.bitWidth - 8, through: 0, by: -8) {
            bytes.append(UInt8(truncatingIfNeeded: value >> shift))
        }
    }

    mutating func put(bytes more: [UInt8]) {
        bytes += more
    }

    mutating func put(text: String) {
        put(Int16(clamping: text.utf8.count))
        bytes += text.utf8
    }

    mutating func putCompact(text: String) {
        putCompact(count: text.utf8.count)
        bytes += text.utf8
    }

    /// A length, one more than it is, in groups of seven bits.
    mutating func putCompact(count: Int) {
        var rest = UInt(count + 1)
        while rest > 0x7f {
            bytes.append(UInt8(rest & 0x7f) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(rest))
    }

    mutating func putNoTags() {
        bytes.append(0)
    }
}

/// Reads what ``WireWriter`` writes, and trusts nothing: a length beyond the end is a fault.
struct WireReader {
    struct CutShort: Error {}

    private let bytes: ArraySlice<UInt8>
    private var at: Int

    init(_ bytes: ArraySlice<UInt8>) {
        self.bytes = bytes
        at = bytes.startIndex
    }

    /// What was not read yet.
    var rest: ArraySlice<UInt8> { bytes[at...] }

    private mutating func take(_ count: Int) throws(CutShort) -> ArraySlice<UInt8> {
        guard count >= 0, count <= bytes.endIndex - at else {
            throw CutShort()
        }
        defer { at += count }
        return bytes[at..<at + count]
    }

    mutating func integer<Integer: FixedWidthInteger>(
        _: Integer.Type = Integer.self
    ) throws(CutShort) -> Integer {
        try take(Integer.bitWidth / 8).reduce(0) { $0 << 8 | Integer(truncatingIfNeeded: $1) }
    }

    private mutating func variable() throws(CutShort) -> UInt {
        var value: UInt = 0
        for shift in stride(from: 0, to: 35, by: 7) {
            let byte = try integer(UInt8.self)
            value |= UInt(byte & 0x7f) << UInt(shift)
            if byte < 0x80 {
                return value
            }
        }
        throw CutShort()
    }

    /// The length of an array; 0 for none.
    mutating func count(isCompact: Bool) throws(CutShort) -> Int {
        let count = isCompact ? Int(try variable()) - 1 : Int(try integer(Int32.self))
        // Every item has a byte at least.
        guard count <= bytes.endIndex - at else {
            throw CutShort()
        }
        return max(count, 0)
    }

    mutating func text(isCompact: Bool) throws(CutShort) -> String {
        let count = isCompact ? Int(try variable()) - 1 : Int(try integer(Int16.self))
        return String(decoding: try take(max(count, 0)), as: UTF8.self)
    }

    mutating func skipTags() throws(CutShort) {
        for _ in 0..<(try variable()) {
            _ = try variable()
            _ = try take(Int(try variable()))
        }
    }
}
