internal import CCrypto

/// SHA-1 and SHA-256 of bytes in memory.
///
/// SHA-1 is here for name-based UUIDs (RFC 9562) and for nothing else.
package enum Hash {
    /// - Returns: 20 bytes.
    package static func sha1(_ bytes: [UInt8]) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: Int(CCRYPTO_SHA1_SIZE))
        let code = unsafe ccrypto_sha1(bytes, bytes.count, &digest)
        precondition(code == CCRYPTO_OK, "SHA-1 is not available in this OpenSSL")
        return digest
    }

    /// - Returns: 32 bytes.
    package static func sha256(_ bytes: [UInt8]) -> [UInt8] {
        sha256(bytes.span)
    }

    /// - Returns: 32 bytes.
    package static func sha256(_ bytes: Span<UInt8>) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: Int(CCRYPTO_SHA256_SIZE))
        let code = unsafe bytes.withUnsafeBufferPointer { bytes in
            unsafe ccrypto_sha256(bytes.baseAddress, bytes.count, &digest)
        }
        precondition(code == CCRYPTO_OK, "SHA-256 is not available in this OpenSSL")
        return digest
    }

    package static let sha256ByteCount = Int(CCRYPTO_SHA256_SIZE)

    /// SHA-256 of many texts that lie side by side, at a third of the cost of one at a time.
    ///
    /// - Parameters:
    ///   - bytes: the texts.
    ///   - ends: where each of them ends, in order.
    ///   - digests: becomes 32 bytes a text.
    package static func sha256(each bytes: [UInt8], ends: [Int], into digests: inout [UInt8]) {
        let byteCount = ends.count * sha256ByteCount
        if digests.count != byteCount {
            digests.removeAll(keepingCapacity: true)
            digests.append(contentsOf: repeatElement(0, count: byteCount))
        }
        precondition(ends.last ?? 0 <= bytes.count, "a text ends within the bytes")
        let code = unsafe ends.withUnsafeBufferPointer { ends in
            unsafe ends.withMemoryRebound(to: UInt.self) { ends in
                unsafe ccrypto_sha256_each(bytes, ends.baseAddress, ends.count, &digests)
            }
        }
        precondition(code == CCRYPTO_OK, "SHA-256 is not available in this OpenSSL")
    }
}
