/// UUIDs as text: 36 characters, lower case.
///
/// Source: RFC 9562
package enum UUIDText {
    package static let byteCount = 16

    /// The UUID of a name in a name space: the same two give the same UUID, anywhere.
    ///
    /// The name space is given as the 16 bytes of its own UUID.
    package static func v5(namespace: [UInt8], name: String) -> String {
        precondition(namespace.count == byteCount, "a name space is a UUID of 16 bytes")
        let hash = Hash.sha1(namespace + Array(name.utf8))
        return text(word(hash[..<8]), word(hash[8..<16]), version: 5)
    }

    /// A random UUID, made of 122 bits of the 16 bytes given.
    package static func v4(random: [UInt8]) -> String {
        precondition(random.count == byteCount, "a UUID is made of 16 bytes")
        return text(word(random[..<8]), word(random[8...]), version: 4)
    }

    /// A random UUID.
    package static func v4(using random: inout some RandomNumberGenerator) -> String {
        text(random.next(), random.next(), version: 4)
    }

    /// Reads the 36 characters of a UUID, in either case.
    ///
    /// - Returns: its 16 bytes; nil if the text has another form.
    package static func bytes(of text: String) -> [UInt8]? {
        let characters = Array(text.utf8)
        guard characters.count == characterCount else {
            return nil
        }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(byteCount)
        var index = 0
        while index < characters.count {
            if hyphenIndices.contains(index) {
                guard characters[index] == UInt8(ascii: "-") else {
                    return nil
                }
                index += 1
                continue
            }
            guard let high = nibble(characters[index]), let low = nibble(characters[index + 1])
            else {
                return nil
            }
            bytes.append(high << 4 | low)
            index += 2
        }
        return bytes
    }

    private static let hyphenIndices = [8, 13, 18, 23]
    private static let characterCount = 36

    private static func word(_ bytes: ArraySlice<UInt8>) -> UInt64 {
        bytes.reduce(0) { $0 << 8 | UInt64($1) }
    }

    private static func text(_ high: UInt64, _ low: UInt64, version: UInt64) -> String {
        let high = high & ~0xf000 | version << 12
        let low = low & 0x3fff_ffff_ffff_ffff | 1 << 63
        return unsafe String(unsafeUninitializedCapacity: characterCount) { text in
            var count = 0
            func append(_ digitCount: Int, of word: UInt64, downTo lowest: Int) {
                for index in (0..<digitCount).reversed() {
                    unsafe text[count] = digit(UInt8(word >> UInt64(lowest + 4 * index) & 0xf))
                    count += 1
                }
                if count < characterCount {
                    unsafe text[count] = UInt8(ascii: "-")
                    count += 1
                }
            }
            append(8, of: high, downTo: 32)
            append(4, of: high, downTo: 16)
            append(4, of: high, downTo: 0)
            append(4, of: low, downTo: 48)
            append(12, of: low, downTo: 0)
            return count
        }
    }

    private static func digit(_ nibble: UInt8) -> UInt8 {
        nibble < 10 ? UInt8(ascii: "0") + nibble : UInt8(ascii: "a") + nibble - 10
    }

    private static func nibble(_ character: UInt8) -> UInt8? {
        switch character {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): character - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): character - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): character - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
