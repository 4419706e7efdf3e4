internal import Crypto
internal import TokenWire

/// Replaces a customer, who is personal, by what the pipeline may know: `c1.` and 43 characters of
/// base64url over HMAC-SHA-256.
///
/// The same customer and key give the same text, so tokens of one customer share it.
final class CustomerPseudonyms {
    private let hmac: HMACSHA256

    /// - Parameter key: at least 16 bytes.
    init(key: [UInt8]) {
        hmac = HMACSHA256(key: key)
    }

    /// Appends the pseudonym of a customer, whose text is in UTF-8, unescaped.
    func append(of customer: [UInt8], to arena: inout [UInt8]) {
        arena.append(contentsOf: "c1.".utf8)
        Base64URL.encode(hmac.code(for: customer).span, to: &arena)
    }
}
