package import Crypto
package import TokenDomain
internal import TokenWire

/// A payload that Apple signed.
package struct SignedPayload: Equatable, Sendable {
    /// As it was signed, byte for byte.
    package let bytes: [UInt8]
    package let value: JSONValue
}

/// Tells whether signed data (a JWS) is Apple's.
///
/// That is notifications, transactions and whatever else carries its chain of certificates. For one
/// thread at a time.
///
/// Roots are pinned: the third certificate of the chain that came along is not even read. There is
/// no question to Apple about revoked certificates, so that an answer depends on nothing but the
/// text, the roots and, for a text without `signedDate`, the time.
///
/// Two signatures of certificates on P-384 cost ten times what the rest costs, so they are looked at
/// last, once for a chain that is genuine, and once instead of twice for a forged leaf under an
/// intermediate that is genuine.
///
/// Source: JWSDecodedHeader; RFC 7515; RFC 5280
package final class SignedDataVerifier {
    /// The longest text looked at, in bytes.
    package static let byteCountMax = 64 << 10
    /// Leaf, intermediate, root.
    package static let chainCount = 3
    /// Marks a certificate that signs for the App Store.
    package static let leafOID = "1.2.840.113635.100.6.11.1"
    /// Marks Apple's intermediates for developers' services.
    package static let intermediateOID = "1.2.840.113635.100.6.2.1"

    package let roots: TrustedRoots
    private var genuineChains = GenuineChains()

    package init(roots: TrustedRoots) {
        self.roots = roots
    }

    /// A text whose form is good; whether it is genuine is not known yet.
    package struct Candidate {
        fileprivate let parts: JWSParts
        fileprivate let signedSeconds: Int64
        fileprivate let chainName: [UInt8]
        /// The leaf's key where the chain is known, else its certificates.
        fileprivate let proof: Proof

        fileprivate enum Proof {
            case known(leafKey: P256PublicKey)
            case open(leaf: Certificate, intermediate: Certificate)
        }

        /// Whether its chain was found genuine before: then one cheap signature is left to look at.
        package var isChainKnown: Bool {
            switch proof {
            case .known: true
            case .open: false
            }
        }

        /// Whether its payload names the type or the UUID of a notification: Apple signs transactions
        /// for every buyer's device under the same certificates.
        package var isNotification: Bool { parts.isNotification }

        /// The apps that its payload names; Apple names one.
        package var bundleIDs: Set<BundleID> {
            JSONValue(parts.payload).map { SignedIdentity($0).bundleIDs } ?? []
        }

        /// What a genuine one is known by: the first bytes of its signature, which are of r.
        ///
        /// With the opposite s the signature verifies as well, and anybody can make that one.
        package var identity: UInt64 {
            parts.signature.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
        }
    }

    /// Verifies a JWS in compact form.
    ///
    /// - Parameters:
    ///   - text: without outer white space.
    ///   - now: the time of the certificates' validity where the payload has no `signedDate` that
    ///     is an integer.
    /// - Returns: the payload, which is a JSON object.
    /// - Throws: the first thing that is wrong with it, in the order of the cases of ``JWSFault``.
    package func verify(_ text: Span<UInt8>, now: Timestamp) throws(JWSFault) -> SignedPayload {
        let candidate = try read(text, now: now)
        try check(candidate, text)
        guard let value = JSONValue(candidate.parts.payload) else {
            throw .malformed("its payload is not a JSON object")
        }
        return SignedPayload(bytes: candidate.parts.payload, value: value)
    }

    package func verify(_ text: String, now: Timestamp) throws(JWSFault) -> SignedPayload {
        let bytes = Array(text.utf8)
        return try verify(bytes.span, now: now)
    }

    /// The first half of ``verify(_:now:)``: all that costs little.
    package func read(_ text: Span<UInt8>, now: Timestamp) throws(JWSFault) -> Candidate {
        guard text.count <= Self.byteCountMax else {
            throw .malformed("it is longer than 65,536 bytes")
        }
        let parts = try JWSParts(text)
        let signedSeconds = Self.seconds(ofMilliseconds: parts.signedDate ?? now.milliseconds)
        guard parts.chain.count == Self.chainCount else {
            throw .chain(explanation: "it has not exactly three certificates")
        }
        let name = Hash.sha256(parts.chain[0] + [UInt8(ascii: ",")] + parts.chain[1])
        return Candidate(
            parts: parts,
            signedSeconds: signedSeconds,
            chainName: name,
            proof: try proof(of: parts.chain, named: name, atSeconds: signedSeconds)
        )
    }

    /// The second half: the chain, unless it is known, and the signature.
    ///
    /// `text` is the same that the candidate was read from.
    ///
    /// - Throws: what is wrong with the chain, or with the signature.
    package func check(_ candidate: Candidate, _ text: Span<UInt8>) throws(JWSFault) {
        let signature = candidate.parts.signature
        let signed = text.extracting(0..<candidate.parts.signedByteCount)
        switch candidate.proof {
        case .known(let key):
            guard key.verify(signature: signature, message: signed) else {
                throw .signature
            }
        case .open(let leaf, let intermediate):
            if genuineChains.intermediate(candidate.parts.chain[1]) != nil {
                guard leaf.isSigned(by: intermediate) else {
                    throw .chain(explanation: "the intermediate did not sign the leaf")
                }
            }
            let chain = try validated(leaf, intermediate, atSeconds: candidate.signedSeconds)
            genuineChains.rememberIntermediate(candidate.parts.chain[1], intermediate)
            let key = try Self.key(of: leaf)
            guard key.verify(signature: signature, message: signed) else {
                throw .signature
            }
            genuineChains.remember(
                candidate.chainName,
                leafKey: key,
                validSeconds: chain.validSeconds
            )
        }
    }

    /// The whole second in which a time lies, also before 1970.
    private static func seconds(ofMilliseconds milliseconds: Int64) -> Int64 {
        let (quotient, remainder) = milliseconds.quotientAndRemainder(dividingBy: 1_000)
        return remainder < 0 ? quotient - 1 : quotient
    }

    private func proof(
        of chain: [[UInt8]],
        named name: [UInt8],
        atSeconds seconds: Int64
    ) throws(JWSFault) -> Candidate.Proof {
        if let key = genuineChains.leafKey(ofChain: name, atSeconds: seconds) {
            return .known(leafKey: key)
        }
        let leaf = try Self.certificate(chain[0], .leaf)
        let known = genuineChains.intermediate(chain[1])
        let intermediate: Certificate
        if let known {
            intermediate = known
        } else {
            intermediate = try Self.certificate(chain[1], .intermediate)
        }
        guard leaf.namesIssuer(intermediate) else {
            throw .chain(explanation: "the intermediate is not the leaf's issuer")
        }
        guard roots.haveIssuer(of: intermediate) else {
            throw .chain(explanation: "the intermediate's issuer is none of the trusted roots")
        }
        return .open(leaf: leaf, intermediate: intermediate)
    }

    private static func certificate(
        _ text: [UInt8],
        _ role: JWSFault.CertificateRole
    ) throws(JWSFault) -> Certificate {
        do {
            return try Certificate(der: try Base64.decodeStandard(text.span))
        } catch {
            throw .certificate(role)
        }
    }

    private static func key(of leaf: Certificate) throws(JWSFault) -> P256PublicKey {
        do throws(CryptoFault) {
            return try leaf.publicKey()
        } catch {
            throw .certificate(.leaf)
        }
    }

    private func validated(
        _ leaf: Certificate,
        _ intermediate: Certificate,
        atSeconds seconds: Int64
    ) throws(JWSFault) -> CertificateChain {
        do throws(CertificateChainFault) {
            return try CertificateChain.verify(
                leaf: leaf,
                intermediate: intermediate,
                roots: roots,
                atSeconds: seconds,
                requiringLeafOID: Self.leafOID,
                intermediateOID: Self.intermediateOID
            )
        } catch {
            switch error {
            case .untrusted(let explanation): throw .chain(explanation: explanation)
            case .leafMayNotSign: throw .certificate(.leaf)
            case .leafWithoutExtension: throw .objectIdentifier(.leaf)
            case .intermediateWithoutExtension: throw .objectIdentifier(.intermediate)
            }
        }
    }
}
