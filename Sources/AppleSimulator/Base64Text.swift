/// Base64 in both alphabets, padded or not: the simulator's own, for minting, JWTs and JWS.
enum Base64Text {
    static let standardAlphabet = Array(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8
    )
    static let urlAlphabet = Array(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8
    )

    static func encode(_ bytes: [UInt8], alphabet: [UInt8], isPadded: Bool) -> String {
        var output: [UInt8] = []
        output.reserveCapacity((bytes.count + 2) / 3 * 4)
        var index = 0
        while index < bytes.count {
            let rest = min(3, bytes.count - index)
            var group: UInt32 = 0
            for position in 0..<3 {
                group = group << 8 | (position < rest ? UInt32(bytes[index + position]) : 0)
            }
            for position in 0...rest {
                output.append(alphabet[Int(group >> UInt32(18 - 6 * position) & 63)])
            }
            if isPadded { output.append(contentsOf: repeatElement(0x3D, count: 3 - rest)) }
            index += 3
        }
        return String(decoding: output, as: UTF8.self)
    }

    static func url(_ bytes: [UInt8]) -> String {
        encode(bytes, alphabet: urlAlphabet, isPadded: false)
    }

    static func standard(_ bytes: [UInt8]) -> String {
        encode(bytes, alphabet: standardAlphabet, isPadded: true)
    }

    /// Decodes the unpadded URL form of JWS; nil for any other byte or an impossible length.
    static func decodeURL(_ text: some StringProtocol) -> [UInt8]? {
        var output: [UInt8] = []
        var bits: UInt32 = 0
        var bitCount = 0
        for byte in text.utf8 {
            let digit: UInt8
            switch byte {
            case UInt8(ascii: "A")...UInt8(ascii: "Z"): digit = byte - UInt8(ascii: "A")
            case UInt8(ascii: "a")...UInt8(ascii: "z"): digit = byte - UInt8(ascii: "a") + 26
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digit = byte - UInt8(ascii: "0") + 52
            case UInt8(ascii: "-"): digit = 62
            case UInt8(ascii: "_"): digit = 63
            default: return nil
            }
            bits = bits << 6 | UInt32(digit)
            bitCount += 6
            if bitCount >= 8 {
                bitCount -= 8
                output.append(UInt8(truncatingIfNeeded: bits >> UInt32(bitCount)))
                bits &= (1 << UInt32(bitCount)) - 1
            }
        }
        return text.utf8.count % 4 == 1 ? nil : output
    }
}
