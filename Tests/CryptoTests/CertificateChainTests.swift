import Crypto
import Testing

/// A chain in the making: every test changes one thing.
struct ChainDraft {
    var root = TestCertificateAuthority.rootTemplate(1_000...2_000)
    var intermediate = TestCertificateAuthority.intermediateTemplate(1_000...2_000)
    var leaf = TestCertificateAuthority.leafTemplate(1_000...2_000)
    var seconds: Int64 = 1_500
    /// Another root of the same name is trusted.
    var trustsAnotherRoot = false
    /// The intermediate that comes along has the issuer's name, but another key.
    var bringsAnotherIntermediate = false
    /// A second intermediate stands between the first and the leaf.
    var isLong = false
    /// The root signs the leaf, and the intermediate comes along for nothing.
    var isShort = false

    func verify() throws -> CertificateChain {
        let root = try IssuedCertificate(root, curve: .p384)
        var issuer = try IssuedCertificate(intermediate, curve: .p384, issuer: root)
        if isLong {
            var second = intermediate
            second.commonName = "Second"
            issuer = try IssuedCertificate(second, issuer: issuer)
        }
        let leaf = try IssuedCertificate(leaf, issuer: isShort ? root : issuer)
        if bringsAnotherIntermediate {
            issuer = try IssuedCertificate(intermediate, curve: .p384, issuer: root)
        }
        let trusted = trustsAnotherRoot ? try IssuedCertificate(self.root, curve: .p384) : root
        return try CertificateChain.verify(
            leaf: leaf.certificate,
            intermediate: issuer.certificate,
            roots: TrustedRoots(pem: trusted.certificate.pem),
            atSeconds: seconds,
            requiringLeafOID: TestCertificateAuthority.leafOID,
            intermediateOID: TestCertificateAuthority.intermediateOID
        )
    }
}

@Suite struct `A chain of certificates` {
    @Test(arguments: [1_000, 1_500, 2_000] as [Int64])
    func `is genuine from its first second to its last`(seconds: Int64) throws {
        var draft = ChainDraft()
        draft.seconds = seconds
        #expect(try draft.verify().validSeconds == 1_000...2_000)
    }

    @Test func `is valid while all three are`() throws {
        var draft = ChainDraft()
        draft.root.validSeconds = 0...9_000
        draft.intermediate.validSeconds = 1_200...8_000
        draft.leaf.validSeconds = 1_100...1_700
        #expect(try draft.verify().validSeconds == 1_200...1_700)
    }

    @Test func `needs no key identifiers`() throws {
        var draft = ChainDraft()
        draft.root.hasKeyIdentifiers = false
        draft.intermediate.hasKeyIdentifiers = false
        draft.leaf.hasKeyIdentifiers = false
        _ = try draft.verify()
    }

    @Test func `may have a root without key usage and a leaf that is silent about authority`()
        throws
    {
        var draft = ChainDraft()
        draft.root.keyUsage = nil
        draft.leaf.authority = .unsaid
        draft.leaf.keyUsage = nil
        _ = try draft.verify()
    }

    /// Each row is the only thing wrong with its chain.
    static let untrusted: [(String, @Sendable (inout ChainDraft) -> Void)] = [
        ("a second before its first", { $0.seconds = 999 }),
        ("a second after its last", { $0.seconds = 2_001 }),
        ("at no time that a calendar knows", { $0.seconds = .max }),
        ("long before 1970", { $0.seconds = .min }),
        ("leaf expired", { $0.leaf.validSeconds = 1_000...1_499 }),
        ("leaf not yet valid", { $0.leaf.validSeconds = 1_501...2_000 }),
        ("intermediate expired", { $0.intermediate.validSeconds = 1_000...1_499 }),
        ("intermediate not yet valid", { $0.intermediate.validSeconds = 1_501...2_000 }),
        ("root expired", { $0.root.validSeconds = 1_000...1_499 }),
        ("root not yet valid", { $0.root.validSeconds = 1_501...2_000 }),
        ("another root of the same name", { $0.trustsAnotherRoot = true }),
        (
            "another root of the same name, without key identifiers",
            { draft in
                draft.trustsAnotherRoot = true
                draft.root.hasKeyIdentifiers = false
                draft.intermediate.hasKeyIdentifiers = false
                draft.leaf.hasKeyIdentifiers = false
            }
        ),
        ("an intermediate that did not sign the leaf", { $0.bringsAnotherIntermediate = true }),
        ("an intermediate that is no authority", { $0.intermediate.authority = .no }),
        ("an intermediate silent about authority", { $0.intermediate.authority = .unsaid }),
        (
            "an intermediate that may not sign certificates",
            { $0.intermediate.keyUsage = "critical,digitalSignature" }
        ),
        ("a root that is no authority", { $0.root.authority = .no }),
        ("a root that allows no intermediate", { $0.root.authority = .yes(pathLengthMax: 0) }),
        ("a root that may not sign certificates", { $0.root.keyUsage = "critical,cRLSign" }),
        ("a critical extension in the leaf", { $0.leaf.criticalOIDs = ["1.2.3.4"] }),
        (
            "a critical extension in the intermediate",
            { $0.intermediate.criticalOIDs = ["1.2.3.4"] }
        ),
        (
            "a name outside the intermediate's constraints",
            { draft in
                draft.intermediate.nameConstraints = "critical,permitted;DNS:example.com"
                draft.leaf.commonName = "leaf.example.org"
            }
        ),
        ("a chain of two", { $0.isShort = true }),
        (
            "a chain of four",
            { draft in
                draft.intermediate.authority = .yes(pathLengthMax: nil)
                draft.isLong = true
            }
        ),
    ]

    @Test(arguments: untrusted.indices)
    func `is refused for`(row: Int) throws {
        let (name, change) = Self.untrusted[row]
        var draft = ChainDraft()
        change(&draft)
        let fault = #expect(throws: CertificateChainFault.self, "\(name)") { try draft.verify() }
        guard case .untrusted(let explanation) = fault else {
            Issue.record("\(name): \(String(describing: fault))")
            return
        }
        #expect(!explanation.isEmpty, "\(name)")
    }

    @Test func `must have both marks, each in its place`() {
        var draft = ChainDraft()
        draft.leaf.markerOIDs = [TestCertificateAuthority.intermediateOID]
        let leafOID = TestCertificateAuthority.leafOID
        #expect(throws: CertificateChainFault.leafWithoutExtension(oid: leafOID)) {
            try draft.verify()
        }
        draft = ChainDraft()
        draft.intermediate.markerOIDs = [leafOID]
        let intermediateOID = TestCertificateAuthority.intermediateOID
        #expect(throws: CertificateChainFault.intermediateWithoutExtension(oid: intermediateOID)) {
            try draft.verify()
        }
    }

    @Test func `is refused where leaf or intermediate is the trusted root itself`() throws {
        let authority = try TestCertificateAuthority(validSeconds: 1_000...2_000)
        let roots = try TrustedRoots(pem: authority.rootPEM)
        let (leaf, middle, root) = (
            authority.leaf.certificate, authority.intermediate.certificate,
            authority.root.certificate
        )
        for (first, second) in [(middle, root), (root, root), (root, leaf), (leaf, root)] {
            #expect(throws: CertificateChainFault.self) {
                try CertificateChain.verify(
                    leaf: first,
                    intermediate: second,
                    roots: roots,
                    atSeconds: 1_500,
                    requiringLeafOID: TestCertificateAuthority.intermediateOID,
                    intermediateOID: TestCertificateAuthority.intermediateOID
                )
            }
        }
    }
}
