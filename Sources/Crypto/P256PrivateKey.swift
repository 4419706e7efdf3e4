internal import CCrypto

/// A private key on P-256, such as App Store Connect gives out as a `.p8` file.
package struct P256PrivateKey: Sendable {
    let handle: KeyHandle

    /// Reads a key in PEM: PKCS#8 without a passphrase.
    ///
    /// - Throws: ``CryptoFault/encrypted``, ``CryptoFault/wrongCurve``, or
    ///   ``CryptoFault/malformed`` if it is no private key or its two halves do not match.
    package init(pem: [UInt8]) throws(CryptoFault) {
        guard !pem.isEmpty else {
            throw .malformed
        }
        handle = try unsafe KeyHandle { unsafe ccrypto_key_read_pem(pem, pem.count, 1, $0) }
    }

    init(handle: KeyHandle) {
        self.handle = handle
    }

    package static func generate() throws(CryptoFault) -> P256PrivateKey {
        P256PrivateKey(
            handle: try unsafe KeyHandle { unsafe ccrypto_key_generate(Int32(CCRYPTO_P256), $0) }
        )
    }

    /// PKCS#8 in PEM.
    package var pem: [UInt8] { handle.written(Int(CCRYPTO_PRIVATE_PEM)) }

    /// SubjectPublicKeyInfo in PEM.
    package var publicKeyPEM: [UInt8] { handle.written(Int(CCRYPTO_PUBLIC_PEM)) }

    package var publicKey: P256PublicKey { P256PublicKey(handle: handle) }

    /// Signs with ECDSA and SHA-256.
    ///
    /// - Returns: r and s of 32 bytes each, as JOSE wants them (RFC 7515, A.3).
    package func sign(_ message: [UInt8]) -> [UInt8] {
        handle.sign(message.span)
    }
}
