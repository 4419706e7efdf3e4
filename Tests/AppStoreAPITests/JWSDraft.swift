import AppStoreAPI
import Crypto
import Testing
import TokenWire

/// Signed data in the making, good as it stands; every forgery changes one thing.
///
/// Source: JWSDecodedHeader
struct JWSDraft: Sendable {
    /// 2023-11-14T22:13:20Z, and a day on either side of it.
    static let signedSeconds: Int64 = 1_700_000_000
    static let validSeconds = (signedSeconds - 86_400)...(signedSeconds + 86_400)

    var root = TestCertificateAuthority.rootTemplate(validSeconds)
    var intermediate = TestCertificateAuthority.intermediateTemplate(validSeconds)
    var leaf = TestCertificateAuthority.leafTemplate(validSeconds)
    var leafCurve = IssuedCertificate.Curve.p256
    var payload = #"{"notificationType":"TEST","signedDate":1700000000000}"#
    /// Turns the list of certificates (base64, in quotes, commas between) into a header.
    var header: @Sendable (String) -> String = { #"{"alg":"ES256","x5c":[\#($0)]}"# }
    /// Turns the DER of leaf, intermediate and root into what the header lists.
    var chain: @Sendable ([[UInt8]]) -> [String] = { $0.map { JWSDraft.base64($0) } }
    /// Changes the raw signature.
    var signature: @Sendable ([UInt8]) -> [UInt8] = { $0 }
    /// Signs with another key than the leaf's.
    var signsWithAnotherKey = false
    /// Another root of the same name is trusted.
    var trustsAnotherRoot = false
    /// Changes the finished text.
    var text: @Sendable (String) -> String = { $0 }

    /// The certificates that a text is signed with.
    struct Signer {
        let root: IssuedCertificate
        let intermediate: IssuedCertificate
        let leaf: IssuedCertificate
    }

    /// New certificates; how long they are, their random signatures decide.
    func issue() throws -> Signer {
        let root = try IssuedCertificate(root, curve: .p384)
        let intermediate = try IssuedCertificate(intermediate, curve: .p384, issuer: root)
        let leaf = try IssuedCertificate(leaf, curve: leafCurve, issuer: intermediate)
        return Signer(root: root, intermediate: intermediate, leaf: leaf)
    }

    /// The text, and the roots to judge it by; signed with new certificates where none are given.
    func make(by given: Signer? = nil) throws -> (text: String, rootPEM: [UInt8]) {
        let issued = try given ?? issue()
        let (root, intermediate, leaf) = (issued.root, issued.intermediate, issued.leaf)
        let listed = chain([leaf, intermediate, root].map(\.certificate.der))
            .map { "\"\($0)\"" }
            .joined(separator: ",")
        let signed = Self.encoded(header(listed)) + "." + Self.encoded(payload)
        let signer = signsWithAnotherKey ? try IssuedCertificate(self.leaf) : leaf
        let raw = signature(signer.sign(Array(signed.utf8)))
        let trusted = trustsAnotherRoot ? try IssuedCertificate(self.root, curve: .p384) : root
        return (
            text(signed + "." + Base64URL.encode(raw.span)),
            trusted.certificate.pem
        )
    }

    static func encoded(_ text: String) -> String {
        let bytes = Array(text.utf8)
        return Base64URL.encode(bytes.span)
    }

    /// Standard base64 with padding.
    static func base64(_ bytes: [UInt8]) -> String {
        let text = Base64URL.encode(bytes.span)
            .replacing("-", with: "+")
            .replacing("_", with: "/")
        return text + String(repeating: "=", count: (4 - text.count % 4) % 4)
    }
}
