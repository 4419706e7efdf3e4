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
        guard characters.count == 36 else {
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
    private static let digits = Array("0123456789abcdef".utf8)

    private static func text(_ bytes: [UInt8], version: UInt8) -> String {
        var characters: [UInt8] = []
        characters.reserveCapacity(36)
        for (index, byte) in bytes.enumerated() {
            let marked =
                switch index {
                case 6: byte & 0x0F | version << 4
                case 8: byte & 0x3F | 0x80
                default: byte
                }
            characters.append(digits[Int(marked >> 4)])
            characters.append(digits[Int(marked & 0x0F)])
            if hyphenIndices.contains(characters.count) {
                characters.append(UInt8(ascii: "-"))
            }
        }
        return String(decoding: characters, as: UTF8.self)
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
