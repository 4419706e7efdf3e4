internal import CText
package import TokenDomain

/// Reads an external purchase token.
///
/// The text is trusted for nothing: its length is checked before a byte is decoded.
///
/// - Parameter text: base64url, padded or not, at most 4096 bytes without outer white space.
/// - Returns: the token; its dates are milliseconds since 1970, UTC.
/// - Throws: the first fault of the text; then the first byte that is not JSON; then, field by
///   field, what is missing, of the wrong type or out of range.
///
/// Source: developer.apple.com/documentation/appstoreservernotifications/externalpurchasetoken
package func decodeToken(_ text: Span<UInt8>) throws(DecodeFault) -> ExternalPurchaseToken {
    var reader = TokenReader()
    try reader.read(text)
    return reader.token
}

/// Reads tokens one after the other, in memory of its own, without an allocation for any that
/// looks as Apple writes them.
@safe
package struct TokenReader: ~Copyable {
    private static let decodedByteCountMax = DecodeFault.textByteCountMax / 4 * 3 + 3

    /// The decoded bytes of the last token and, where it took the careful parser, its texts behind
    /// one another instead; a zero byte and slack behind them.
    let bytes: UnsafeMutablePointer<UInt8>
    private let quotes: UnsafeMutablePointer<UInt64>
    /// Where in ``bytes`` the last token's texts lie, and its numbers.
    var fields = PlainToken.Fields()
    /// Whether its texts are ASCII without anything that JSON would escape; no where nobody looked.
    private(set) var isPlain = false
    /// What could be read of the last token if it was refused.
    private var refused = TokenFields<String>()
    private var isRefused = false

    package init() {
        // PlainToken may look as far past the end as a word of quotes and three loads reach.
        let capacity = Self.decodedByteCountMax + 2 * Int(CTEXT_SLACK)
        unsafe bytes = .allocate(capacity: capacity)
        unsafe bytes.initialize(repeating: 0, count: capacity)
        let wordCount = Self.decodedByteCountMax / 64 + 2
        unsafe quotes = .allocate(capacity: wordCount)
        unsafe quotes.initialize(repeating: 0, count: wordCount)
    }

    deinit {
        unsafe bytes.deallocate()
        unsafe quotes.deallocate()
    }

    /// Reads one token; what it says is then in the properties.
    package mutating func read(_ text: Span<UInt8>) throws(DecodeFault) {
        try unsafe text.withUnsafeBufferPointer { (text) throws(DecodeFault) in
            try unsafe read(trimmed: TokenText.trimmed(text))
        }
    }

    /// Reads a text that has no outer white space.
    mutating func read(trimmed text: UnsafeBufferPointer<UInt8>) throws(DecodeFault) {
        isRefused = true
        guard text.count > 0, text.count <= DecodeFault.textByteCountMax else {
            refused = TokenFields<String>()
            throw text.count == 0
                ? .empty
                : .tooLong(byteCount: text.count, byteCountMax: DecodeFault.textByteCountMax)
        }
        var count = text.count
        while unsafe count > max(0, text.count - 2) && text[count - 1] == UInt8(ascii: "=") {
            count -= 1
        }
        let byteCount = count / 4 * 3 + max(0, count % 4 - 1)
        var plain = ctext_plain()
        let goodCount = unsafe ctext_token_decode(
            bytes,
            quotes,
            &plain,
            text.baseAddress,
            count,
            byteCount
        )
        guard goodCount == count, count % 4 != 1 else {
            refused = TokenFields<String>()
            throw .notBase64URL(byteIndex: goodCount)
        }
        unsafe bytes[byteCount] = 0
        if plain.is_special == 0,
            let fields = unsafe PlainToken.read(
                bytes,
                quotes: quotes,
                count: byteCount,
                controlCount: plain.control_count
            )
        {
            self.fields = fields
            isPlain = true
        } else {
            isPlain = false
            try readCarefully(count: byteCount)
        }
        isRefused = false
    }

    /// Any valid form, and the right fault for any other.
    private mutating func readCarefully(count: Int) throws(DecodeFault) {
        var members = TokenMembers()
        do {
            try unsafe JSONScanner.scanObject(
                Span(_unsafeStart: bytes, count: count)
            ) { (key, scanner) throws(WireFault) in
                try members.take(key, from: &scanner)
            }
        } catch {
            refused = members.known
            switch error {
            case .notJSON(let byteIndex), .tooDeep(let byteIndex):
                throw .notJSON(byteIndex: byteIndex)
            case .missing, .wrongType, .outOfRange, .tooLong, .repeated:
                throw .notJSON(byteIndex: 0)
            }
        }
        do {
            keep(try members.token())
        } catch {
            refused = members.known
            throw error
        }
    }

    /// Puts the texts of a token where the fields can point at them: together they are never longer
    /// than the JSON that held them.
    private mutating func keep(_ token: ExternalPurchaseToken) {
        var end = 0
        func place(_ text: String) -> Range<Int> {
            let start = end
            for byte in text.utf8 {
                unsafe bytes[end] = byte
                end += 1
            }
            return start..<end
        }
        fields = PlainToken.Fields(
            externalPurchaseID: place(token.externalPurchaseID.text),
            bundleID: place(token.bundleID),
            tokenType: token.tokenType.map { place($0.text) },
            appAppleID: token.appAppleID,
            tokenCreationDate: token.tokenCreationDate.milliseconds,
            tokenExpirationDate: token.tokenExpirationDate?.milliseconds
        )
    }
}

/// What the last token that was read says.
extension TokenReader {
    package var token: ExternalPurchaseToken {
        ExternalPurchaseToken(
            externalPurchaseID: TokenID(text(fields.externalPurchaseID)),
            appAppleID: fields.appAppleID,
            bundleID: text(fields.bundleID),
            tokenType: fields.tokenType.map { TokenType(text: text($0)) },
            tokenCreationDate: Timestamp(milliseconds: fields.tokenCreationDate),
            tokenExpirationDate: fields.tokenExpirationDate.map { Timestamp(milliseconds: $0) }
        )
    }

    /// What is known of it, whether it was refused or not.
    package var known: TokenFields<String> { isRefused ? refused : TokenFields(token) }

    private func text(_ range: Range<Int>) -> String {
        unsafe String(decoding: slice(range), as: UTF8.self)
    }

    func slice(_ range: Range<Int>) -> UnsafeBufferPointer<UInt8> {
        unsafe UnsafeBufferPointer(start: bytes + range.lowerBound, count: range.count)
    }
}

extension TokenReader {
    /// Something of every field, for the benchmark to compare.
    package var checksum: UInt64 {
        UInt64(truncatingIfNeeded: fields.appAppleID &+ fields.tokenCreationDate)
            &+ UInt64(truncatingIfNeeded: fields.tokenExpirationDate ?? 0)
            &+ UInt64(fields.externalPurchaseID.count &+ fields.bundleID.count)
            &+ UInt64(fields.tokenType?.count ?? 0)
    }
}
