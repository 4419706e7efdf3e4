internal import Crypto

/// The keys that open the door; two may be live, so that one can be changed for the other.
struct BearerKeys {
    /// SHA-256 of each key: equal lengths, whatever was sent.
    private let digests: [[UInt8]]

    init(_ keys: [[UInt8]]) {
        precondition(!keys.isEmpty, "a door with a lock has a key")
        digests = keys.map { Hash.sha256($0) }
    }

    /// Whether an `Authorization` header carries a live key; takes as long for every wrong one.
    func accept(_ authorization: String?) -> Bool {
        guard let authorization, authorization.utf8.count > 7,
            Substring(authorization.utf8.prefix(7)).lowercased() == "bearer "
        else {
            return false
        }
        let sent = Hash.sha256(
            Array(authorization.utf8.dropFirst(7).drop { $0 == UInt8(ascii: " ") })
        )
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
