package import Crypto
internal import TokenWire

/// Signs payloads as Apple would, with a chain of our own.
package struct SignedPayloads: Sendable {
    package static let signedSeconds: Int64 = 1_700_000_000
    private static let validSeconds = (signedSeconds - 1_000)...(signedSeconds + 1_000)

    package let authority: TestCertificateAuthority
    package let roots: TrustedRoots

    package init() throws {
        authority = try TestCertificateAuthority(validSeconds: Self.validSeconds)
        roots = try TrustedRoots(pem: authority.rootPEM)
    }

    package func sign(_ payload: String) -> String {
        sign(payload, by: authority.leaf)
    }

    /// Signs with a leaf that the intermediate did not sign, although it says so: Apple's
    /// intermediate is public, and so is its name.
    package func forge(_ payload: String) throws -> String {
        let foreign = try IssuedCertificate(
            TestCertificateAuthority.intermediateTemplate(Self.validSeconds),
            curve: .p384
        )
        return sign(payload, by: try newLeaf(under: foreign))
    }

    /// Signs with another leaf that is as good as the first: a chain that nobody has seen.
    package func signUnderNewChain(_ payload: String) throws -> String {
        sign(payload, by: try newLeaf(under: authority.intermediate))
    }

    private func newLeaf(under issuer: IssuedCertificate) throws -> IssuedCertificate {
        try IssuedCertificate(
            TestCertificateAuthority.leafTemplate(Self.validSeconds),
            issuer: issuer
        )
    }

    private func sign(_ payload: String, by leaf: IssuedCertificate) -> String {
        let listed = [leaf, authority.intermediate, authority.root]
            .map { "\"\(Self.base64($0.certificate.der))\"" }
            .joined(separator: ",")
        let signed =
            Self.encoded(#"{"alg":"ES256","x5c":[\#(listed)]}"#) + "." + Self.encoded(payload)
        let signature = leaf.sign(Array(signed.utf8))
        return signed + "." + Base64URL.encode(signature.span)
    }

    private static func encoded(_ text: String) -> String {
        let bytes = Array(text.utf8)
        return Base64URL.encode(bytes.span)
    }

    /// Standard base64 with padding.
    private static func base64(_ bytes: [UInt8]) -> String {
        let text = Base64URL.encode(bytes.span)
            .replacing("-", with: "+")
            .replacing("_", with: "/")
        return text + String(repeating: "=", count: (4 - text.count % 4) % 4)
    }
}
