internal import CCrypto

/// An X.509 certificate.
///
/// OpenSSL fills in a certificate's parsed extensions under a lock of its own, so that many threads
/// may use one.
@safe
package final class Certificate: @unchecked Sendable {
    /// The longest certificate read or written; Apple's have about 1,100 bytes.
    package static let byteCountMax = 16 * 1024

    /// Owned: given to `init`, freed in `deinit`, used only between.
    private let pointer: OpaquePointer

    /// Reads DER.
    ///
    /// - Parameter der: nothing may follow the certificate.
    /// - Throws: ``CryptoFault/malformed`` if it is no certificate, is longer than
    ///   ``byteCountMax``, has bytes after its end, or a key that is neither of RSA nor on P-256 or
    ///   P-384 with both coordinates.
    package convenience init(der: [UInt8]) throws(CryptoFault) {
        guard !der.isEmpty, der.count <= Self.byteCountMax else {
            throw .malformed
        }
        try unsafe self.init { unsafe ccrypto_certificate_read(der, der.count, $0) }
    }

    /// Takes over what `make` makes: one of our C functions that set a certificate.
    init(
        _ make: (UnsafeMutablePointer<OpaquePointer?>) -> Int32
    ) throws(CryptoFault) {
        var made: OpaquePointer?
        let code = unsafe make(&made)
        guard code == CCRYPTO_OK, let made = unsafe made else {
            throw CryptoFault(code: Int(code))
        }
        unsafe pointer = made
    }

    deinit {
        unsafe ccrypto_certificate_free(pointer)
    }

    package var der: [UInt8] {
        var bytes = [UInt8](repeating: 0, count: Self.byteCountMax)
        let count = unsafe ccrypto_certificate_write_der(pointer, &bytes, bytes.count)
        precondition(count > 0, "OpenSSL could not write a certificate")
        return Array(bytes.prefix(count))
    }

    package var pem: [UInt8] {
        // PEM is four characters for three bytes, with line ends and two marks.
        var bytes = [UInt8](repeating: 0, count: 2 * Self.byteCountMax)
        let count = unsafe ccrypto_certificate_write_pem(pointer, &bytes, bytes.count)
        precondition(count > 0, "OpenSSL could not write a certificate")
        return Array(bytes.prefix(count))
    }

    /// Whether it has an extension, critical or not; dotted, such as `1.2.840.113635.100.6.2.1`.
    package func hasExtension(_ oid: String) -> Bool {
        let answer = unsafe ccrypto_certificate_has_extension(pointer, oid)
        precondition(answer >= 0, "an object identifier is dotted numbers")
        return answer == 1
    }

    /// Whether its key is for signing data: it is no authority, and its key usage, where it has one,
    /// names digitalSignature.
    ///
    /// Without a key usage no use is excluded. Apple's leaves have the extension, and so has the leaf
    /// of the mock data in Apple's own library.
    ///
    /// Source: RFC 5280, 4.2.1.3 and 4.2.1.9
    package var maySignData: Bool {
        unsafe ccrypto_certificate_may_sign_data(pointer) == 1
    }

    /// Whether it gives the other's name for its issuer: a look at two names, and no proof.
    package func namesIssuer(_ issuer: Certificate) -> Bool {
        unsafe issuer.withPointer { issuer in
            unsafe ccrypto_certificate_names_issuer(pointer, issuer) == 1
        }
    }

    /// Whether the other's key signed it; nothing else of a path is looked at.
    package func isSigned(by issuer: Certificate) -> Bool {
        unsafe issuer.withPointer { issuer in
            unsafe ccrypto_certificate_is_signed_by(pointer, issuer) == CCRYPTO_OK
        }
    }

    /// The subject's key.
    ///
    /// - Throws: ``CryptoFault/wrongCurve`` if it is not on P-256.
    package func publicKey() throws(CryptoFault) -> P256PublicKey {
        P256PublicKey(
            handle: try unsafe KeyHandle { unsafe ccrypto_certificate_public_key(pointer, $0) }
        )
    }

    func withPointer<Result>(_ body: (OpaquePointer) -> Result) -> Result {
        unsafe body(pointer)
    }
}
