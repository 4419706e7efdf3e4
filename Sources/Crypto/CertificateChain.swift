internal import CCrypto

/// The roots that decide: nothing that a peer sends is trusted.
///
/// OpenSSL's stores do not change once filled and may be used by many threads at once.
@safe
package final class TrustedRoots: @unchecked Sendable {
    /// The most certificates in one bundle.
    package static let countMax = Int(CCRYPTO_ROOT_COUNT_MAX)

    /// Owned: made in `init`, freed in `deinit`, used only between.
    private let pointer: OpaquePointer
    /// SHA-256 of the bundle: equal where the text is.
    private let digest: [UInt8]

    /// Reads a bundle of certificates in PEM; text between them is ignored.
    ///
    /// - Throws: ``CryptoFault/rootCount`` if it holds none or more than ``countMax``;
    ///   ``CryptoFault/malformed`` if one of them cannot be read; ``CryptoFault/noRoot`` if none of
    ///   them is its own issuer. Intermediates beside a root do no harm.
    package init(pem: [UInt8]) throws(CryptoFault) {
        guard !pem.isEmpty else {
            throw .rootCount
        }
        var made: OpaquePointer?
        let code = unsafe ccrypto_roots_read(pem, pem.count, &made)
        guard code == CCRYPTO_OK, let made = unsafe made else {
            throw CryptoFault(code: Int(code))
        }
        unsafe pointer = made
        digest = Hash.sha256(pem)
    }

    deinit {
        unsafe ccrypto_roots_free(pointer)
    }

    package var count: Int { unsafe ccrypto_roots_count(pointer) }

    /// Whether both were read from the same text.
    package func areThose(of other: TrustedRoots) -> Bool { digest == other.digest }

    /// Whether one of them has the name that a certificate gives for its issuer: no proof.
    package func haveIssuer(of certificate: Certificate) -> Bool {
        unsafe certificate.withPointer { certificate in
            unsafe ccrypto_roots_have_issuer(pointer, certificate) == 1
        }
    }

    func withPointer<Result>(_ body: (OpaquePointer) -> Result) -> Result {
        unsafe body(pointer)
    }
}

/// Why a chain of certificates is not genuine.
package enum CertificateChainFault: Error, Equatable, Sendable {
    /// RFC 5280 path validation said no; the text is OpenSSL's.
    case untrusted(explanation: String)
    /// The leaf is an authority, or its key usage does not name digitalSignature.
    case leafMayNotSign
    /// The leaf has not the extension asked for.
    case leafWithoutExtension(oid: String)
    /// The intermediate has not the extension asked for.
    case intermediateWithoutExtension(oid: String)
}

/// A chain of leaf, intermediate and one of our roots that was found to be genuine.
package struct CertificateChain: Equatable, Sendable {
    /// UNIX seconds in which the chain is valid: all three certificates are, both ends included.
    package let validSeconds: ClosedRange<Int64>

    /// Validates a path of exactly three certificates as RFC 5280 has it, then whether the leaf may
    /// sign data, then their marks.
    ///
    /// Key identifiers may be missing, as in Apple's own mock data: OpenSSL's strict flag is not set.
    ///
    /// - Parameters:
    ///   - leaf: whose key signs.
    ///   - intermediate: who signed the leaf.
    ///   - roots: one of them signed the intermediate.
    ///   - seconds: UNIX seconds at which all three must be valid.
    ///   - leafOID: an extension that the leaf must have, dotted.
    ///   - intermediateOID: an extension that the intermediate must have, dotted.
    /// - Returns: when the chain is valid.
    /// - Throws: the first thing that is wrong; the path comes first, and the marks last.
    package static func verify(
        leaf: Certificate,
        intermediate: Certificate,
        roots: TrustedRoots,
        atSeconds seconds: Int64,
        requiringLeafOID leafOID: String,
        intermediateOID: String
    ) throws(CertificateChainFault) -> CertificateChain {
        var path = ccrypto_path()
        let code = unsafe roots.withPointer { roots in
            unsafe leaf.withPointer { leaf in
                unsafe intermediate.withPointer { intermediate in
                    unsafe ccrypto_path_verify(roots, leaf, intermediate, seconds, &path)
                }
            }
        }
        precondition(code != CCRYPTO_ERROR_LIBRARY, "OpenSSL could not validate a path")
        guard code == CCRYPTO_OK, path.valid_from <= path.valid_to else {
            let text = unsafe ccrypto_path_reason(path.reason)
            throw .untrusted(explanation: unsafe text.map { unsafe String(cString: $0) } ?? "")
        }
        guard leaf.maySignData else {
            throw .leafMayNotSign
        }
        guard leaf.hasExtension(leafOID) else {
            throw .leafWithoutExtension(oid: leafOID)
        }
        guard intermediate.hasExtension(intermediateOID) else {
            throw .intermediateWithoutExtension(oid: intermediateOID)
        }
        return CertificateChain(validSeconds: path.valid_from...path.valid_to)
    }
}
