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
        var digest = [UInt8](repeating: 0, count: Int(CCRYPTO_SHA256_SIZE))
        let code = unsafe ccrypto_sha256(bytes, bytes.count, &digest)
        precondition(code == CCRYPTO_OK, "SHA-256 is not available in this OpenSSL")
        return digest
    }
}
