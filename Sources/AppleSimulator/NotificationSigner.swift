internal import Crypto

/// How a notification is wrong on purpose (S18).
package enum NotificationForgery: String, CaseIterable, Sendable {
    /// A chain of the right shape below another root.
    case wrongRoot = "wrong-root"
    /// The leaf lacks its mark.
    case missingLeafOID = "missing-leaf-oid"
    /// The intermediate lacks its mark.
    case missingIntermediateOID = "missing-intermediate-oid"
    /// `x5c` holds leaf and intermediate only.
    case twoCertificates = "two-certificates"
    /// `alg` is `none`, the signature empty.
    case algorithmNone = "alg-none"
    /// One member of the payload was changed after signing.
    case tamperedPayload = "tampered-payload"
    /// Genuine, for an app that nobody here has.
    case wrongBundle = "wrong-bundle"
}

/// Signs as the App Store does: ES256 under a chain of three certificates with Apple's marks.
struct NotificationSigner {
    /// 2020 to 2045: wide enough for any clock the world is set to.
    private static let validSeconds: ClosedRange<Int64> = 1_577_836_800...2_366_841_600

    /// A leaf and the JWS header that goes with it, already encoded.
    private struct Identity {
        let leaf: IssuedCertificate
        let header: String

        init(_ leaf: IssuedCertificate, chain: [IssuedCertificate], algorithm: String = "ES256") {
            self.leaf = leaf
            let certificates = chain.map { Base64Text.standard($0.certificate.der) }
            header = Base64Text.url(
                JSONValue.object([
                    JSONMember("alg", .string(algorithm)),
                    JSONMember("x5c", .strings(certificates)),
                ]).bytes
            )
        }
    }

    /// What a verifier has to trust, in PEM.
    let rootPEM: [UInt8]
    private let genuine: Identity
    private let identityByForgery: [NotificationForgery: Identity]

    init() throws(CryptoFault) {
        let apple = try TestCertificateAuthority(validSeconds: Self.validSeconds)
        let foreign = try TestCertificateAuthority(validSeconds: Self.validSeconds)
        var template = TestCertificateAuthority.leafTemplate(Self.validSeconds)
        template.markerOIDs = []
        let unmarkedLeaf = try IssuedCertificate(template, issuer: apple.intermediate)
        template = TestCertificateAuthority.intermediateTemplate(Self.validSeconds)
        template.markerOIDs = []
        let unmarked = try IssuedCertificate(template, curve: .p384, issuer: apple.root)
        let leafBelow = try IssuedCertificate(
            TestCertificateAuthority.leafTemplate(Self.validSeconds),
            issuer: unmarked
        )
        let chain = [apple.leaf, apple.intermediate, apple.root]
        rootPEM = apple.rootPEM
        genuine = Identity(apple.leaf, chain: chain)
        identityByForgery = [
            .wrongRoot: Identity(
                foreign.leaf,
                chain: [foreign.leaf, foreign.intermediate, foreign.root]
            ),
            .missingLeafOID: Identity(
                unmarkedLeaf,
                chain: [unmarkedLeaf, apple.intermediate, apple.root]
            ),
            .missingIntermediateOID: Identity(leafBelow, chain: [leafBelow, unmarked, apple.root]),
            .twoCertificates: Identity(apple.leaf, chain: Array(chain.prefix(2))),
            .algorithmNone: Identity(apple.leaf, chain: chain, algorithm: "none"),
        ]
    }

    /// A JWS in compact form.
    func sign(_ payload: JSONValue, forgery: NotificationForgery? = nil) -> String {
        let identity = forgery.flatMap { identityByForgery[$0] } ?? genuine
        let input = "\(identity.header).\(Base64Text.url(payload.bytes))"
        if forgery == .algorithmNone { return input + "." }
        let signature = Base64Text.url(identity.leaf.sign(Array(input.utf8)))
        if forgery == .tamperedPayload {
            return "\(identity.header).\(Base64Text.url(Self.tampered(payload).bytes)).\(signature)"
        }
        return "\(input).\(signature)"
    }

    private static func tampered(_ payload: JSONValue) -> JSONValue {
        guard case .object(let members) = payload else { return payload }
        return .object(members + [JSONMember("tampered", .bool(true))])
    }
}
