internal import CText

/// Why a text is not base64.
package struct Base64Fault: Error, Equatable, Sendable {
    /// The first byte that cannot stand there; the length where the text stops too early.
    package var byteIndex: Int

    package init(byteIndex: Int) {
        self.byteIndex = byteIndex
    }
}

/// Base64 in the alphabet for URLs and file names (RFC 4648, section 5).
package enum Base64URL {
    /// Encodes without padding.
    package static func encode(_ bytes: Span<UInt8>, to arena: inout [UInt8]) {
        arena.append(addingCapacity: (bytes.count * 4 + 2) / 3) { room in
            unsafe room.withUnsafeMutableBufferPointer { buffer, count in
                guard let start = buffer.baseAddress else {
                    return
                }
                unsafe bytes.withUnsafeBufferPointer { bytes in
                    unsafe count += ctext_base64url_encode(
                        start + count,
                        bytes.baseAddress,
                        bytes.count
                    )
                }
            }
        }
    }

    /// Encodes without padding.
    package static func encode(_ bytes: Span<UInt8>) -> String {
        var encoded: [UInt8] = []
        encode(bytes, to: &encoded)
        return String(decoding: encoded, as: UTF8.self)
    }

    /// Decodes as RFC 7515 has it: no padding, no other alphabet, no stray bits at the end.
    package static func decodeStrict(_ text: Span<UInt8>) throws(Base64Fault) -> [UInt8] {
        try Base64.decode(text, paddingCount: 0, alphabet: .url)
    }
}

/// Base64 in the standard alphabet (RFC 4648, section 4), as `x5c` has it.
package enum Base64 {
    enum Alphabet: Int32 {
        case url, standard
    }

    /// Decodes with exact padding, without line ends and stray bits.
    package static func decodeStandard(_ text: Span<UInt8>) throws(Base64Fault) -> [UInt8] {
        guard text.count % 4 == 0 else {
            throw Base64Fault(byteIndex: text.count)
        }
        var paddingCount = 0
        while paddingCount < min(2, text.count),
            text[text.count - 1 - paddingCount] == UInt8(ascii: "=")
        {
            paddingCount += 1
        }
        return try decode(text, paddingCount: paddingCount, alphabet: .standard)
    }

    static func decode(
        _ text: Span<UInt8>,
        paddingCount: Int,
        alphabet: Alphabet
    ) throws(Base64Fault) -> [UInt8] {
        let characterCount = text.count - paddingCount
        guard characterCount > 0 else {
            return []
        }
        var goodCount = 0
        let byteCount = characterCount / 4 * 3 + max(0, characterCount % 4 - 1)
        let decoded = unsafe [UInt8](
            unsafeUninitializedCapacity: byteCount + 3 + Int(CTEXT_SLACK)
        ) { buffer, count in
            unsafe text.withUnsafeBufferPointer { text in
                unsafe goodCount = ctext_base64_decode(
                    buffer.baseAddress,
                    text.baseAddress,
                    characterCount,
                    alphabet.rawValue
                )
            }
            count = goodCount == characterCount ? byteCount : 0
        }
        guard goodCount == characterCount, characterCount % 4 != 1 else {
            throw Base64Fault(byteIndex: goodCount)
        }
        guard !hasStrayBits(text, characterCount, decoded) else {
            throw Base64Fault(byteIndex: characterCount - 1)
        }
        return decoded
    }

    /// Whether the last character carries bits of no byte: its own encoding would be another.
    private static func hasStrayBits(
        _ text: Span<UInt8>,
        _ characterCount: Int,
        _ decoded: [UInt8]
    ) -> Bool {
        let rest = characterCount % 4
        guard rest > 0 else {
            return false
        }
        let last = decoded.count - 1
        let tail = rest == 2 ? [decoded[last]] : [decoded[last - 1], decoded[last]]
        var canonical: [UInt8] = []
        Base64URL.encode(tail.span, to: &canonical)
        let given = text[characterCount - 1]
        let asURL: UInt8 =
            switch given {
            case UInt8(ascii: "+"): UInt8(ascii: "-")
            case UInt8(ascii: "/"): UInt8(ascii: "_")
            default: given
            }
        return canonical.last != asURL
    }
}
