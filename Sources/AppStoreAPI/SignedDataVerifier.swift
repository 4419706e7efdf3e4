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

    private let roots: TrustedRoots
    private var genuineChains = GenuineChains()

    package init(roots: TrustedRoots) {
        self.roots = roots
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
        guard text.count <= Self.byteCountMax else {
            throw .malformed("it is longer than 65,536 bytes")
        }
        let parts = try JWSParts(text)
        let signedAt = parts.payloadValue["signedDate"]?.integer ?? now.milliseconds
        let key = try leafKey(parts.chain, atSeconds: Self.seconds(ofMilliseconds: signedAt))
        let signed = text.extracting(0..<parts.signedByteCount)
        guard key.verify(signature: parts.signature, message: signed) else {
            throw .signature
        }
        return SignedPayload(bytes: parts.payload, value: parts.payloadValue)
    }

    package func verify(_ text: String, now: Timestamp) throws(JWSFault) -> SignedPayload {
        let bytes = Array(text.utf8)
        return try verify(bytes.span, now: now)
    }

    /// The whole second in which a time lies, also before 1970.
    private static func seconds(ofMilliseconds milliseconds: Int64) -> Int64 {
        let (quotient, remainder) = milliseconds.quotientAndRemainder(dividingBy: 1_000)
        return remainder < 0 ? quotient - 1 : quotient
    }

    private func leafKey(
        _ chain: [[UInt8]],
        atSeconds seconds: Int64
    ) throws(JWSFault) -> P256PublicKey {
        guard chain.count == Self.chainCount else {
            throw .chain(explanation: "it has not exactly three certificates")
        }
        let name = Hash.sha256(chain[0] + [UInt8(ascii: ",")] + chain[1])
        if let key = genuineChains.leafKey(ofChain: name, atSeconds: seconds) {
            return key
        }
        let leaf = try Self.certificate(chain[0], .leaf)
        let intermediate = try Self.certificate(chain[1], .intermediate)
        let genuine = try validated(leaf, intermediate, atSeconds: seconds)
        do throws(CryptoFault) {
            let key = try leaf.publicKey()
            genuineChains.remember(name, leafKey: key, validSeconds: genuine.validSeconds)
            return key
        } catch {
            throw .certificate(.leaf)
        }
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
            case .leafWithoutExtension: throw .objectIdentifier(.leaf)
            case .intermediateWithoutExtension: throw .objectIdentifier(.intermediate)
            }
        }
    }
}

/// Chains found genuine, so that one that signs thousands of notifications is validated once.
///
/// Only genuine ones come in, so a forger cannot drive them out.
private struct GenuineChains {
    static let countMax = 32

    private struct Chain {
        var name: [UInt8]
        var leafKey: P256PublicKey
        var validSeconds: ClosedRange<Int64>
    }

    /// The oldest first.
    private var chains: [Chain] = []

    /// The leaf's key, if the chain is known and was valid then.
    func leafKey(ofChain name: [UInt8], atSeconds seconds: Int64) -> P256PublicKey? {
        chains.first { $0.name == name && $0.validSeconds.contains(seconds) }?.leafKey
    }

    mutating func remember(
        _ name: [UInt8],
        leafKey: P256PublicKey,
        validSeconds: ClosedRange<Int64>
    ) {
        if chains.count == Self.countMax {
            chains.removeFirst()
        }
        chains.append(Chain(name: name, leafKey: leafKey, validSeconds: validSeconds))
    }
}
