import AppStoreAPI
import Crypto
import Synchronization
import TokenDomain
import TokenWire

/// Signed data and certificates, under roots of our own.
///
/// Keys are made anew in every run, so that no input can hold a signature that is good.
enum SignedRules {
    private static let seconds: Int64 = 1_700_000_000
    private static let now = Timestamp(milliseconds: seconds * 1_000)
    private static let authority: TestCertificateAuthority = {
        do {
            return try TestCertificateAuthority(validSeconds: seconds - 1_000...seconds + 1_000)
        } catch {
            fatalError("no certificates: \(error)")
        }
    }()
    private static let roots: TrustedRoots = {
        do {
            return try TrustedRoots(pem: authority.rootPEM)
        } catch {
            fatalError("no roots: \(error)")
        }
    }()

    // MARK: JWS

    /// A text of its parts, which may be genuine, or as it stands, which never is.
    ///
    /// With an odd first byte it is a text. Else it is header, payload and signature, with a zero
    /// byte between; `@0`, `@1` and `@2` in the header stand for the members of the chain, and the
    /// signature `@` for the one that the leaf's key makes.
    static func jws(_ input: [UInt8]) -> String? {
        guard let form = input.first else {
            return nil
        }
        guard form % 2 == 0 else {
            return verdict(Array(input.dropFirst()), maySucceed: false, isCompared: true)
        }
        let parts = input.dropFirst().split(
            separator: 0,
            maxSplits: 2,
            omittingEmptySubsequences: false
        )
        guard parts.count == 3 else {
            return nil
        }
        let signed = encoded(withChain(Array(parts[0]))) + [UInt8(ascii: ".")] + encoded(parts[1])
        let isSigned = parts[2].elementsEqual([UInt8(ascii: "@")])
        let signature = isSigned ? authority.leaf.sign(signed) : Array(parts[2])
        return verdict(
            signed + [UInt8(ascii: ".")] + encoded(signature),
            maySucceed: isSigned,
            isCompared: form < 16
        )
    }

    /// One that has seen our chain, so that no input costs its verification on P-384 again.
    private static let knowing: Mutex<SignedDataVerifier> = {
        let verifier = SignedDataVerifier(roots: roots)
        let header = withChain(Array(#"{"alg":"ES256","x5c":["@0","@1","@2"]}"#.utf8))
        let signed = encoded(header) + [UInt8(ascii: ".")] + encoded(Array("{}".utf8))
        let text = signed + [UInt8(ascii: ".")] + encoded(authority.leaf.sign(signed))
        guard case .success = verified(text, by: verifier) else {
            fatalError("what we signed is not genuine")
        }
        return Mutex(verifier)
    }()

    /// Where `isCompared`, one that has seen nothing must say the same.
    private static func verdict(
        _ text: [UInt8],
        maySucceed: Bool,
        isCompared: Bool
    ) -> String? {
        let verdict = knowing.withLock { verified(text, by: $0) }
        if isCompared {
            let other = verified(text, by: SignedDataVerifier(roots: roots))
            guard other == verdict else {
                return "a chain that is known changes the verdict from \(other) to \(verdict)"
            }
        }
        guard case .success(let payload) = verdict else {
            return nil
        }
        guard maySucceed else {
            return "what nobody signed is taken for genuine"
        }
        return notification(payload)
    }

    private static func verified(
        _ text: [UInt8],
        by verifier: SignedDataVerifier
    ) -> Result<SignedPayload, JWSFault> {
        do throws(JWSFault) {
            return .success(try verifier.verify(text.span, now: now))
        } catch {
            return .failure(error)
        }
    }

    /// Of a genuine payload the message must come back as it was written.
    private static func notification(_ payload: SignedPayload) -> String? {
        let notice = SignedNotification(payload)
        let message: NotificationVerified
        do throws(NotificationFault) {
            message = try notice.verified(receivedAt: now)
        } catch {
            return nil
        }
        var written: [UInt8] = []
        message.write(to: &written)
        do throws(WireFault) {
            return try NotificationVerified(reading: written.span) == message
                ? nil : "a notification comes back as another"
        } catch {
            return "a notification cannot be read as it was written: \(error.message)"
        }
    }

    private static let chain = authority.chainDER.map { standardBase64($0) }

    private static func withChain(_ header: [UInt8]) -> [UInt8] {
        var text: [UInt8] = []
        var rest = header[...]
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "@"), let next = rest.first, (0x30...0x32).contains(next) {
                text += chain[Int(next - 0x30)]
                rest.removeFirst()
            } else {
                text.append(byte)
            }
        }
        return text
    }

    private static func encoded(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
        encoded(Array(bytes))
    }

    private static func encoded(_ bytes: [UInt8]) -> [UInt8] {
        var text: [UInt8] = []
        Base64URL.encode(bytes.span, to: &text)
        return text
    }

    private static func standardBase64(_ bytes: [UInt8]) -> [UInt8] {
        let text = encoded(bytes).map { byte -> UInt8 in
            switch byte {
            case UInt8(ascii: "-"): UInt8(ascii: "+")
            case UInt8(ascii: "_"): UInt8(ascii: "/")
            default: byte
            }
        }
        return text + Array(repeating: UInt8(ascii: "="), count: (4 - text.count % 4) % 4)
    }

    // MARK: Certificates

    /// DER, or a bundle in PEM.
    static func certificate(_ input: [UInt8]) -> String? {
        if let bundle = read({ () throws(CryptoFault) in try TrustedRoots(pem: input) }) {
            guard (1...TrustedRoots.countMax).contains(bundle.count) else {
                return "a bundle has \(bundle.count) roots"
            }
        }
        guard let found = read({ () throws(CryptoFault) in try Certificate(der: input) }) else {
            return nil
        }
        let der = found.der
        guard let again = read({ () throws(CryptoFault) in try Certificate(der: der) }),
            again.der == der
        else {
            return "a certificate does not come back as it was written"
        }
        let pair = authority.rootPEM + found.pem
        guard read({ () throws(CryptoFault) in try TrustedRoots(pem: pair) })?.count == 2 else {
            return "a certificate in PEM is no member of a bundle"
        }
        return accepted(found) ? "a path is accepted that our root did not sign" : nil
    }

    /// As leaf and as intermediate, where its parts are looked at, too.
    private static func accepted(_ found: Certificate) -> Bool {
        _ = found.maySignData
        _ = found.hasExtension(SignedDataVerifier.leafOID)
        _ = read { () throws(CryptoFault) in try found.publicKey() }
        _ = roots.haveIssuer(of: found)
        let intermediate = authority.intermediate.certificate
        return found.namesIssuer(intermediate) && found.isSigned(by: intermediate)
            || isPath(found, intermediate) || isPath(authority.leaf.certificate, found)
    }

    private static func isPath(_ leaf: Certificate, _ intermediate: Certificate) -> Bool {
        do throws(CertificateChainFault) {
            _ = try CertificateChain.verify(
                leaf: leaf,
                intermediate: intermediate,
                roots: roots,
                atSeconds: seconds,
                requiringLeafOID: SignedDataVerifier.leafOID,
                intermediateOID: SignedDataVerifier.intermediateOID
            )
            return true
        } catch {
            return false
        }
    }

    private static func read<Value>(_ body: () throws(CryptoFault) -> Value) -> Value? {
        do throws(CryptoFault) {
            return try body()
        } catch {
            return nil
        }
    }
}
