import Crypto
import TokenWire

/// Signs payloads as Apple would, with a chain of our own.
struct SignedPayloads {
    static let signedSeconds: Int64 = 1_700_000_000
    let authority: TestCertificateAuthority
    let roots: TrustedRoots

    init() throws {
        authority = try TestCertificateAuthority(
            validSeconds: (Self.signedSeconds - 1_000)...(Self.signedSeconds + 1_000)
        )
        roots = try TrustedRoots(pem: authority.rootPEM)
    }

    func sign(_ payload: String) -> String {
        let listed = authority.chainDER.map { "\"\(Self.base64($0))\"" }.joined(separator: ",")
        let signed =
            Self.encoded(#"{"alg":"ES256","x5c":[\#(listed)]}"#) + "." + Self.encoded(payload)
        let signature = authority.leaf.sign(Array(signed.utf8))
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
