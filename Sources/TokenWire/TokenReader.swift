internal import CText
package import TokenDomain

/// Reads an external purchase token.
///
/// The text is trusted for nothing: its length is checked before a byte is decoded.
///
/// - Parameter text: base64url, padded or not, at most 4096 bytes without outer white space.
/// - Returns: the token; its dates are milliseconds since 1970, UTC.
/// - Throws: the first fault of the text; then the first byte that is not JSON; then, field by
///   field in the order of ``ExternalPurchaseToken``, what is missing, of the wrong type or out of range.
///
/// Source: developer.apple.com/documentation/appstoreservernotifications/externalpurchasetoken
package func decodeToken(_ text: Span<UInt8>) throws(DecodeFault) -> ExternalPurchaseToken {
    var reader = TokenReader()
    return try reader.read(text)
}

/// Reads tokens one after the other, in memory of its own.
@safe
package struct TokenReader: ~Copyable {
    /// The decoded bytes of the last token.
    private let scratch: UnsafeMutablePointer<UInt8>
    private var decodedByteCount = 0
    /// The id of the last token that was read, also where the token was then refused.
    package private(set) var externalPurchaseID: TokenID?

    package init() {
        unsafe scratch = .allocate(
            capacity: DecodeFault.textByteCountMax / 4 * 3 + 3 + Int(CTEXT_SLACK)
        )
    }

    deinit {
        unsafe scratch.deallocate()
    }

    package mutating func read(
        _ text: Span<UInt8>
    ) throws(DecodeFault) -> ExternalPurchaseToken {
        externalPurchaseID = nil
        try decode(text)
        var members = TokenMembers()
        defer { externalPurchaseID = members.readableID }
        do {
            try unsafe JSONScanner.scanObject(
                Span(_unsafeStart: scratch, count: decodedByteCount)
            ) { (key, scanner) throws(WireFault) in
                try members.take(key, from: &scanner)
            }
        } catch {
            switch error {
            case .notJSON(let byteIndex), .tooDeep(let byteIndex):
                throw .notJSON(byteIndex: byteIndex)
            case .missing, .wrongType, .outOfRange, .repeated:
                throw .notJSON(byteIndex: 0)
            }
        }
        return try members.token()
    }

    /// Fills the scratch memory.
    private mutating func decode(_ text: Span<UInt8>) throws(DecodeFault) {
        decodedByteCount = try unsafe text.withUnsafeBufferPointer { (text) throws(DecodeFault) in
            let text = unsafe TokenText.trimmed(text)
            guard text.count <= DecodeFault.textByteCountMax else {
                throw .tooLong(
                    byteCount: text.count,
                    byteCountMax: DecodeFault.textByteCountMax
                )
            }
            guard text.count > 0 else {
                throw .empty
            }
            var count = text.count
            while unsafe count > max(0, text.count - 2) && text[count - 1] == UInt8(ascii: "=") {
                count -= 1
            }
            let goodCount = unsafe ctext_base64_decode(
                scratch,
                text.baseAddress,
                count,
                Int32(CTEXT_LENIENT.rawValue)
            )
            guard goodCount == count, count % 4 != 1 else {
                throw .notBase64URL(byteIndex: goodCount)
            }
            return count / 4 * 3 + max(0, count % 4 - 1)
        }
    }
}
