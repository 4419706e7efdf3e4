import Crypto
import Foundation
import Testing

/// Certificates that Apple signed with: public, as every signed notification carries them.
///
/// The leaf expired in 2023; the root is Apple Root CA – G3, whose SHA-256 Apple publishes.
@Suite struct `Apple's own chain` {
    private let leaf: Certificate
    private let intermediate: Certificate
    private let root: Certificate

    init() throws {
        let url = try #require(
            Bundle.module.url(forResource: "Fixtures/apple-chain", withExtension: "pem")
        )
        let certificates = try String(contentsOf: url, encoding: .utf8)
            .components(separatedBy: "-----BEGIN CERTIFICATE-----")
            .dropFirst()
            .map { part in
                let base64 = part.components(separatedBy: "-----END")[0]
                let der = try #require(
                    Data(base64Encoded: base64, options: .ignoreUnknownCharacters)
                )
                return try Certificate(der: Array(der))
            }
        try #require(certificates.count == 3)
        (leaf, intermediate, root) = (certificates[0], certificates[1], certificates[2])
    }

    private func verify(atSeconds seconds: Int64) throws -> CertificateChain {
        try CertificateChain.verify(
            leaf: leaf,
            intermediate: intermediate,
            roots: TrustedRoots(pem: root.pem),
            atSeconds: seconds,
            requiringLeafOID: TestCertificateAuthority.leafOID,
            intermediateOID: TestCertificateAuthority.intermediateOID
        )
    }

    @Test func `ends at the root that Apple publishes`() {
        #expect(
            Hash.sha256(root.der)
                == bytes("63343abfb89a6a03ebb57e9b3f5fa7be7c4f5c756f3017b3a8c488c3653e9179")
        )
    }

    @Test func `is genuine while its leaf is valid, and not after`() throws {
        let chain = try verify(atSeconds: 1_681_312_846)
        #expect(chain.validSeconds == 1_629_859_834...1_695_523_833)
        _ = try verify(atSeconds: 1_695_523_833)
        #expect(throws: CertificateChainFault.self) { try verify(atSeconds: 1_695_523_834) }
        _ = try leaf.publicKey()
    }

    @Test func `is nothing under a root of ours`() throws {
        let roots = try TrustedRoots(
            pem: TestCertificateAuthority(validSeconds: 1_600_000_000...1_900_000_000).rootPEM
        )
        #expect(throws: CertificateChainFault.self) {
            try CertificateChain.verify(
                leaf: leaf,
                intermediate: intermediate,
                roots: roots,
                atSeconds: 1_681_312_846,
                requiringLeafOID: TestCertificateAuthority.leafOID,
                intermediateOID: TestCertificateAuthority.intermediateOID
            )
        }
    }
}
