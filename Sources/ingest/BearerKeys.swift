internal import Crypto

/// The keys that open the door; two may be live, so that one can be changed for the other.
struct BearerKeys {
    /// SHA-256 of each key: equal lengths, whatever was sent.
    private let digests: [[UInt8]]

    /// In lower case; a capital differs from it in bit 0x20, which a blank has set, too.
    private static let scheme = Array("bearer ".utf8)

    init(_ keys: [[UInt8]]) {
        precondition(!keys.isEmpty, "a door with a lock has a key")
        digests = keys.map { Hash.sha256($0) }
    }

    /// Whether an `Authorization` header carries a live key; takes as long for every wrong one.
    func accept(_ authorization: Span<UInt8>?) -> Bool {
        guard let authorization, authorization.count > Self.scheme.count else {
            return false
        }
        for index in Self.scheme.indices
        where authorization[index] | Self.scheme[index] & 0x20 != Self.scheme[index] {
            return false
        }
        var start = Self.scheme.count
        while start < authorization.count, authorization[start] == UInt8(ascii: " ") {
            start += 1
        }
        let sent = Hash.sha256(authorization.extracting(start...))
        var isAccepted = false
        for digest in digests {
            var difference: UInt8 = 0
            for index in digest.indices {
                difference |= digest[index] ^ sent[index]
            }
            // No early return: which of the keys it was must not show either.
            isAccepted = difference == 0 || isAccepted
        }
        return isAccepted
    }
}
