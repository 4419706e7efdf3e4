internal import Glibc

/// Ranges of addresses, as a setting has them: `17.0.0.0/8,2620:149::/32`.
package struct AddressRanges: Equatable, Sendable {
    /// More is no setting but a mistake.
    static let countMax = 64

    private struct Range: Equatable {
        /// 4 bytes or 16.
        var base: [UInt8]
        var prefixBitCount: Int

        func contains(_ address: [UInt8]) -> Bool {
            guard address.count == base.count else {
                return false
            }
            let byteCount = prefixBitCount / 8
            guard address[..<byteCount] == base[..<byteCount] else {
                return false
            }
            let mask = ~(UInt8.max >> (prefixBitCount % 8))
            return mask == 0 || (address[byteCount] ^ base[byteCount]) & mask == 0
        }
    }

    private var ranges: [Range] = []

    /// Nil where the text is no such list, or where a range has bits beyond its prefix, as
    /// `17.1.0.0/8`: whoever wrote it meant another one.
    package init?(_ text: String) {
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            guard let range = Self.range(part), ranges.count < Self.countMax else {
                return nil
            }
            ranges.append(range)
        }
    }

    /// Whether a peer's numeric address is in one of them; what is no address does not.
    package func contains(_ address: String) -> Bool {
        guard let bytes = NumericAddress.bytes(address) else {
            return false
        }
        return ranges.contains { $0.contains(bytes) }
    }

    private static func range(_ text: Substring) -> Range? {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count <= 2, let base = NumericAddress.bytes(String(parts[0])) else {
            return nil
        }
        let bitCount = base.count * 8
        var range = Range(base: base, prefixBitCount: bitCount)
        if parts.count == 2 {
            let hasOnlyDigits = parts[1].utf8.allSatisfy { (0x30...0x39).contains($0) }
            guard hasOnlyDigits, let count = Int(parts[1]), count <= bitCount else {
                return nil
            }
            range.prefixBitCount = count
        }
        let isBare = (range.prefixBitCount..<bitCount).allSatisfy { bit in
            base[bit / 8] & 0x80 >> (bit % 8) == 0
        }
        return isBare ? range : nil
    }
}

/// The bytes of a numeric address.
package enum NumericAddress {
    /// What one peer holds as a rule: an IPv4 address, or an IPv6 network of 64 bits (RFC 4291, 2.5.4).
    ///
    /// What is no address stands for itself.
    package static func network(of text: String) -> [UInt8] {
        guard let bytes = bytes(text) else {
            return Array(text.utf8)
        }
        return bytes.count == 16 ? Array(bytes[..<8]) : bytes
    }

    /// 4 bytes, or 16; nil where it is none.
    ///
    /// `::ffff:17.0.0.1`, as a socket that takes both kinds shows 17.0.0.1, is 4.
    static func bytes(_ text: String) -> [UInt8]? {
        guard let bytes = bytes(text, family: AF_INET) ?? bytes(text, family: AF_INET6) else {
            return nil
        }
        let mapped = [UInt8](repeating: 0, count: 10) + [0xff, 0xff]
        return bytes.count == 16 && bytes[..<12] == mapped[...] ? Array(bytes[12...]) : bytes
    }

    static func bytes(_ text: String, family: Int32) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: family == AF_INET6 ? 16 : 4)
        let status = unsafe bytes.withUnsafeMutableBytes { buffer in
            unsafe inet_pton(family, text, buffer.baseAddress)
        }
        return status == 1 ? bytes : nil
    }
}
