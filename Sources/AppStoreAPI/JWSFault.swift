internal import Crypto

/// Why signed data of Apple's is not genuine, or not ours.
package enum JWSFault: Error, Equatable, Sendable {
    /// Not a JWS of the form that Apple writes; the text says what is wrong.
    case malformed(StaticReasonText)
    /// Signed by another method than ES256, or by none.
    case algorithm
    /// Not a chain of three certificates that ends at one of our roots at the time of signing.
    case chain(explanation: String)
    /// A certificate of the chain cannot be read, or the leaf is not for signing data: its key is not
    /// on P-256, it is an authority, or its key usage does not name digitalSignature.
    case certificate(CertificateRole)
    /// A certificate of the chain is not marked as one that signs for the App Store.
    case objectIdentifier(CertificateRole)
    case signature
    /// It is about another app.
    case wrongApp(StaticReasonText)
    case wrongEnvironment

    /// Apple signs other data under the same certificates.
    package static let noNotification = JWSFault.malformed(
        "it is signed, and no notification: it has no notificationType"
    )

    package enum CertificateRole: String, Sendable {
        case leaf, intermediate
    }

    /// Stable: dashboards and scripts count by it.
    package var code: String {
        switch self {
        case .malformed: "jws.malformed"
        case .algorithm: "jws.alg"
        case .chain: "jws.chain"
        case .certificate: "jws.certificate"
        case .objectIdentifier: "jws.oid"
        case .signature: "jws.signature"
        case .wrongApp: "jws.wrong_app"
        case .wrongEnvironment: "jws.wrong_environment"
        }
    }

    /// One sentence, with nothing in it that a forger could have written.
    package var message: String {
        switch self {
        case .malformed(let what): "not signed data of Apple's form: \(what.text)"
        case .algorithm: "the signature's algorithm is not ES256"
        case .chain(let explanation): "the chain of certificates is not trusted: \(explanation)"
        case .certificate(let role): "the \(role.rawValue) certificate cannot be used"
        case .objectIdentifier(let role):
            "the \(role.rawValue) certificate is not marked for the App Store"
        case .signature: "the signature does not match"
        case .wrongApp(let what): "signed by Apple, but for another app: \(what.text)"
        case .wrongEnvironment: "signed by Apple, but for the other environment"
        }
    }
}

/// A fixed sentence.
package struct StaticReasonText: Equatable, Sendable, ExpressibleByStringLiteral {
    package let text: String

    package init(stringLiteral text: StaticString) {
        self.text = "\(text)"
    }
}
