extension CustomerID {
    /// `c1.` and an HMAC-SHA-256 in base64url without padding: 3 + 43 bytes.
    package static let byteCount = 46

    /// Whether bytes have the only form in which a customer may stand in a topic.
    ///
    /// The last character of 32 bytes carries two bits of nothing, which an encoder leaves zero.
    package static func isWellFormed(_ text: Span<UInt8>) -> Bool {
        guard text.count == byteCount, text[0] == UInt8(ascii: "c"), text[1] == UInt8(ascii: "1"),
            text[2] == UInt8(ascii: ".")
        else {
            return false
        }
        let isBase64URL = ASCIIClass.holdsAll(of: text.extracting(3..<byteCount)) { byte in
            ASCIIClass.isOne(byte | 0x20, of: 26, from: UInt8(ascii: "a"))
                | ASCIIClass.isOne(byte, of: 10, from: UInt8(ascii: "0"))
                | ASCIIClass.isOne(byte, of: 1, from: UInt8(ascii: "-"))
                | ASCIIClass.isOne(byte, of: 1, from: UInt8(ascii: "_"))
        }
        return isBase64URL && value(of: text[byteCount - 1]).map { $0 & 3 == 0 } ?? false
    }

    /// The six bits of a character of base64url.
    private static func value(of byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): byte - UInt8(ascii: "A")
        case UInt8(ascii: "a")...UInt8(ascii: "z"): byte - UInt8(ascii: "a") + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0") + 52
        case UInt8(ascii: "-"): 62
        case UInt8(ascii: "_"): 63
        default: nil
        }
    }
}
