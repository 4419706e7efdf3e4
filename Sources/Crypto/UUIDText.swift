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
        return text(Array(Hash.sha1(namespace + Array(name.utf8)).prefix(byteCount)), version: 5)
    }

    /// A random UUID, made of 122 bits of the 16 bytes given.
    package static func v4(random: [UInt8]) -> String {
        precondition(random.count == byteCount, "a UUID is made of 16 bytes")
        return text(random, version: 4)
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

    private static func text(_ bytes: [UInt8], version: UInt8) -> String {
        var bytes = bytes
        bytes[6] = bytes[6] & 0x0F | version << 4
        bytes[8] = bytes[8] & 0x3F | 0x80
        return unsafe String(unsafeUninitializedCapacity: characterCount) { text in
            var count = 0
            for byte in bytes {
                if hyphenIndices.contains(count) {
                    unsafe text[count] = UInt8(ascii: "-")
                    count += 1
                }
                unsafe text[count] = digit(byte >> 4)
                unsafe text[count + 1] = digit(byte & 0x0F)
                count += 2
            }
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
