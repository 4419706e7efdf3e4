internal import CCrypto

/// A public key on P-256.
package struct P256PublicKey: Sendable {
    let handle: KeyHandle

    /// Reads SubjectPublicKeyInfo in PEM.
    package init(pem: [UInt8]) throws(CryptoFault) {
        guard !pem.isEmpty else {
            throw .malformed
        }
        handle = try unsafe KeyHandle { unsafe ccrypto_key_read_pem(pem, pem.count, 0, $0) }
    }

    init(handle: KeyHandle) {
        self.handle = handle
    }

    /// SubjectPublicKeyInfo in PEM.
    package var pem: [UInt8] { handle.written(Int(CCRYPTO_PUBLIC_PEM)) }

    /// Whether `signature` is this key's over `message`, with ECDSA and SHA-256.
    ///
    /// A signature is r and s of 32 bytes each; one of any other length is none.
    package func verify(signature: [UInt8], message: [UInt8]) -> Bool {
        handle.verify(signature: signature, message: message.span)
    }

    /// As above, for bytes that lie in a larger run.
    package func verify(signature: [UInt8], message: Span<UInt8>) -> Bool {
        handle.verify(signature: signature, message: message)
    }
}
