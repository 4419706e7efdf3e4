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
        // To the end in any case: without a branch it takes many bytes at once.
        var strangeCount: UInt8 = 0
        unsafe text.extracting(3..<byteCount).withUnsafeBufferPointer { characters in
            for index in characters.indices {
                let byte = unsafe characters[index]
                let isLetter = (byte | 0x20) &- UInt8(ascii: "a") < 26
                let isDigit = byte &- UInt8(ascii: "0") < 10
                let isMark = byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
                strangeCount &+= isLetter || isDigit || isMark ? 0 : 1
            }
        }
        return strangeCount == 0
            && value(of: text[byteCount - 1]).map { $0 & 3 == 0 } ?? false
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
