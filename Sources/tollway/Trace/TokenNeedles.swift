internal import TokenDomain

/// Byte patterns one of which stands in every value that carries a token.
///
/// A million records are searched for them in less than a second; what has one is then read as
/// decode would read it.
struct TokenNeedles {
    private let needles: [ByteNeedle]
    /// An id may be too short to leave a pattern: then every value is read.
    private var isEverywhere = false

    /// Those of texts that are known.
    init(texts: Set<String>) {
        needles = texts.filter { !$0.isEmpty }.map { ByteNeedle(Array($0.utf8)) }
    }

    /// Those of a token of which only the id is known.
    ///
    /// Base64 encodes a text in one of three ways, by its offset modulo 3; only the first and last
    /// character also depend on their neighbours. Both alphabets are in use.
    init(id: TokenID) {
        let url = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
        var found: [[UInt8]] = []
        for shift in 0..<3 {
            let bytes = [UInt8](repeating: 0, count: shift) + Array(id.text.utf8)
            // Characters made of the bytes before it, and of those after it, are left out.
            let first = (shift * 8 + 5) / 6
            let count = bytes.count * 8 / 6
            let text = (first..<max(count, first)).map { index -> UInt8 in
                let bit = index * 6
                let high = UInt16(bytes[bit / 8]) << 8
                let low = bit / 8 + 1 < bytes.count ? UInt16(bytes[bit / 8 + 1]) : 0
                return url[Int((high | low) >> (10 - UInt16(bit % 8))) & 63]
            }
            found.append(text)
            if text.contains(UInt8(ascii: "-")) || text.contains(UInt8(ascii: "_")) {
                found.append(
                    text.map { byte in
                        switch byte {
                        case UInt8(ascii: "-"): UInt8(ascii: "+")
                        case UInt8(ascii: "_"): UInt8(ascii: "/")
                        default: byte
                        }
                    }
                )
            }
        }
        isEverywhere = found.contains { $0.isEmpty }
        needles = found.filter { !$0.isEmpty }.map { ByteNeedle($0) }
    }

    /// Those of both: a text may be written in another alphabet, without padding, or with escapes.
    init(id: TokenID, texts: Set<String>) {
        let (ofID, ofTexts) = (TokenNeedles(id: id), TokenNeedles(texts: texts))
        isEverywhere = ofID.isEverywhere
        needles = ofID.needles + ofTexts.needles
    }

    func isIn(_ value: Span<UInt8>) -> Bool {
        if isEverywhere {
            return true
        }
        for needle in needles where needle.isIn(value) {
            return true
        }
        return false
    }
}
