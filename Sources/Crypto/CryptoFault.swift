internal import CCrypto

/// Why a key, a certificate or a bundle of roots could not be used.
package enum CryptoFault: Error, Equatable, Sendable {
    /// Not the key, certificate or bundle that it should be, or bytes after its end.
    case malformed
    /// A key on another curve than P-256, or of another kind.
    case wrongCurve
    /// A key file that wants a passphrase.
    case encrypted
    /// No certificate in a bundle of roots, or more than ``TrustedRoots/countMax``.
    case rootCount
    /// Certificates, and each was issued by another: no path ends at one of them.
    case noRoot
    /// OpenSSL itself could not: no memory, no randomness.
    case library

    /// For the person whose file it is; the caller names the file.
    package var explanation: String {
        switch self {
        case .malformed: "it is not in the form expected"
        case .wrongCurve: "its key is not on the curve P-256"
        case .encrypted: "it is encrypted; store it without a passphrase"
        case .rootCount: "it must hold 1 to \(TrustedRoots.countMax) PEM certificates"
        case .noRoot: "it holds no root: each certificate in it was issued by another"
        case .library: "the cryptographic library failed"
        }
    }

    /// - Parameter code: a negative answer of one of our C functions.
    init(code: Int) {
        self =
            switch code {
            case Int(CCRYPTO_ERROR_FORM): .malformed
            case Int(CCRYPTO_ERROR_CURVE): .wrongCurve
            case Int(CCRYPTO_ERROR_ENCRYPTED): .encrypted
            case Int(CCRYPTO_ERROR_COUNT): .rootCount
            case Int(CCRYPTO_ERROR_NO_ROOT): .noRoot
            default: .library
            }
    }
}
