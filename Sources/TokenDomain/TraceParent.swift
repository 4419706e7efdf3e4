/// The W3C `traceparent` that goes with a token from the request that brought it to the request to
/// Apple: a header of HTTP, and of every record on the way.
///
/// No spans are recorded here, so it is passed on as it came. The door makes one for a request that has
/// none, or one that is not valid; a record without one stays without.
///
/// Source: www.w3.org/TR/trace-context-1
package struct TraceParent: Hashable, Sendable {
    /// The name of the header, of HTTP and of Kafka.
    package static let headerName: StaticString = "traceparent"
    /// Version, trace id, parent id and flags in hexadecimal digits, joined by `-`.
    package static let byteCount = 55
    /// Of a later version more may follow; so much of it is looked at.
    package static let byteCountMax = 512
    /// What ``init(random:)`` takes: the trace id's 16 bytes and the parent id's 8.
    package static let randomByteCount = 24

    package let text: String

    /// Reads a header; nil where it is not valid.
    ///
    /// Of a later version, what version 00 knows of it is kept, as the recommendation asks.
    package init?(_ bytes: Span<UInt8>) {
        guard Self.isValid(bytes) else {
            return nil
        }
        var kept: [UInt8] = []
        Self.append(bytes, to: &kept)
        text = String(decoding: kept, as: UTF8.self)
    }

    package init?(_ text: String) {
        self.init(text.utf8.span)
    }

    /// A new one.
    package init(random bytes: [UInt8]) {
        precondition(bytes.count == Self.randomByteCount, "ids have 16 and 8 bytes")
        let words = (0..<3).map { word in
            bytes[word * 8..<word * 8 + 8].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        }
        var made: [UInt8] = []
        Self.append(words[0], words[1], words[2], to: &made)
        text = String(decoding: made, as: UTF8.self)
    }

    /// Appends a new one.
    package static func append(
        using random: inout some RandomNumberGenerator,
        to arena: inout [UInt8]
    ) {
        append(random.next(), random.next(), random.next(), to: &arena)
    }

    /// What all requests and records of one story have in common: 32 hexadecimal digits.
    package var traceID: String {
        String(decoding: text.utf8.dropFirst(3).prefix(32), as: UTF8.self)
    }

    // MARK: Bytes, for what is done once a record

    package static func isValid(_ bytes: Span<UInt8>) -> Bool {
        guard bytes.count >= byteCount, bytes.count <= byteCountMax,
            isHex(bytes, 0..<2), bytes[2] == dash, isHex(bytes, 3..<35), bytes[35] == dash,
            isHex(bytes, 36..<52), bytes[52] == dash, isHex(bytes, 53..<55)
        else {
            return false
        }
        let isVersionZero = isZero(bytes, 0..<2)
        let isVersionLast = bytes[0] == UInt8(ascii: "f") && bytes[1] == UInt8(ascii: "f")
        if bytes.count > byteCount, isVersionZero || bytes[byteCount] != dash {
            return false
        }
        return !isVersionLast && !isZero(bytes, 3..<35) && !isZero(bytes, 36..<52)
    }

    /// Whether a valid header is what ``append(_:to:)`` makes of it.
    package static func isOfVersionZero(_ valid: Span<UInt8>) -> Bool {
        isZero(valid, 0..<2)
    }

    /// Appends a valid header as version 00 has it: ``byteCount`` bytes.
    package static func append(_ valid: Span<UInt8>, to arena: inout [UInt8]) {
        let known = valid.extracting(2..<byteCount)
        arena.append(UInt8(ascii: "0"))
        arena.append(UInt8(ascii: "0"))
        unsafe known.withUnsafeBufferPointer { unsafe arena.append(contentsOf: $0) }
    }

    private static let dash = UInt8(ascii: "-")

    /// Not sampled: whoever records spans has said so in a header of his own.
    private static func append(
        _ high: UInt64,
        _ low: UInt64,
        _ parent: UInt64,
        to arena: inout [UInt8]
    ) {
        // Zero is no id.
        let ids = (digits(of: high), digits(of: low | 1), digits(of: parent | 1))
        unsafe withUnsafeBytes(of: ids) { ids in
            arena.append(contentsOf: "00-".utf8)
            unsafe arena.append(contentsOf: ids[..<32])
            arena.append(dash)
            unsafe arena.append(contentsOf: ids[32...])
        }
        arena.append(contentsOf: "-00".utf8)
    }

    /// Sixteen hexadecimal digits in the order of the text, made eight at once.
    private static func digits(of word: UInt64) -> (UInt64, UInt64) {
        func eight(_ half: UInt64) -> UInt64 {
            // A digit a byte, the first on top.
            var digits = (half << 16 | half) & 0x0000_ffff_0000_ffff
            digits = (digits << 8 | digits) & 0x00ff_00ff_00ff_00ff
            digits = (digits << 4 | digits) & 0x0f0f_0f0f_0f0f_0f0f
            let letters = ((digits &+ 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101
            return (digits &+ 0x3030_3030_3030_3030 &+ letters &* 0x27).bigEndian
        }
        return (eight(word >> 32), eight(word & 0xffff_ffff))
    }

    /// Lower case only: the recommendation knows no other.
    private static func isHex(_ bytes: Span<UInt8>, _ range: Range<Int>) -> Bool {
        ASCIIClass.holdsAll(of: bytes.extracting(range)) { byte in
            ASCIIClass.isOne(byte, of: 10, from: UInt8(ascii: "0"))
                | ASCIIClass.isOne(byte, of: 6, from: UInt8(ascii: "a"))
        }
    }

    private static func isZero(_ bytes: Span<UInt8>, _ range: Range<Int>) -> Bool {
        for index in range where bytes[index] != UInt8(ascii: "0") {
            return false
        }
        return true
    }
}
