import AppStoreAPI
import Crypto
import Testing
import TokenDomain
import TokenWire

@Suite struct `Signed data` {
    static let now = Timestamp(milliseconds: 1_800_000_000_000)

    private func verify(_ draft: JWSDraft, now: Timestamp = now) throws -> SignedPayload {
        let (text, rootPEM) = try draft.make()
        let verifier = SignedDataVerifier(roots: try TrustedRoots(pem: rootPEM))
        return try verifier.verify(text, now: now)
    }

    @Test func `is believed when Apple signed it`() throws {
        let draft = JWSDraft()
        let payload = try verify(draft)
        #expect(payload.bytes == Array(draft.payload.utf8))
        #expect(payload.value["notificationType"]?.text == "TEST")
    }

    @Test func `may carry any third certificate, for our own roots decide`() throws {
        var draft = JWSDraft()
        draft.chain = { [JWSDraft.base64($0[0]), JWSDraft.base64($0[1]), "not even base64"] }
        _ = try verify(draft)
    }

    @Test func `may carry other names in its header, and none in its certificates' identifiers`()
        throws
    {
        var draft = JWSDraft()
        draft.header = {
            #"{ "kid":"é","typ":"JWT","alg":"ES256", "x5c":[\#($0)], "more":{"a":1} }"#
        }
        draft.root.hasKeyIdentifiers = false
        draft.intermediate.hasKeyIdentifiers = false
        draft.leaf.hasKeyIdentifiers = false
        _ = try verify(draft)
    }

    @Test(arguments: [
        (#"{"signedDate":1699913600000}"#, true),  // the first second
        (#"{"signedDate":1699913599999}"#, false),
        (#"{"signedDate":1700086400999}"#, true),  // within the last second
        (#"{"signedDate":1700086401000}"#, false),
        (#"{"signedDate":-1}"#, false),
        (#"{"signedDate":9223372036854775807}"#, false),
        (#"{"signedDate":-9223372036854775808}"#, false),
        // No integer: now decides, and now the certificates have expired.
        (#"{"signedDate":"1700000000000"}"#, false),
        (#"{"signedDate":1700000000000.5}"#, false),
        (#"{"signedDate":null}"#, false),
        (#"{"signedDate":92233720368547758070}"#, false),
        (#"{}"#, false),
    ])
    func `is judged at the time when it was signed`(payload: String, isGenuine: Bool) throws {
        var draft = JWSDraft()
        draft.payload = payload
        if isGenuine {
            _ = try verify(draft)
        } else {
            #expect(throws: JWSFault.self) { try verify(draft) }
        }
    }

    @Test(arguments: [
        #"{}"#, #"{"signedDate":"1800000000000"}"#, #"{"signedDate":null}"#,
        #"{"signedDate":1.5}"#, #"{"signedDate":92233720368547758070}"#,
    ])
    func `without a date is judged now`(payload: String) throws {
        var draft = JWSDraft()
        draft.payload = payload
        _ = try verify(draft, now: Timestamp(milliseconds: JWSDraft.signedSeconds * 1_000))
    }

    @Test func `may have 65,536 bytes and not one more`() throws {
        var draft = JWSDraft()
        let signer = try draft.issue()
        let byteCount = try draft.make(by: signer).text.utf8.count
        // Three bytes of payload are four of text: fill up to the limit, then go one step past it.
        func filled(_ count: Int) -> String {
            #"{"signedDate":1700000000000,"filler":"\#(String(repeating: "x", count: count))"}"#
        }
        let room = (SignedDataVerifier.byteCountMax - byteCount) / 4 * 3
        var fits = false
        for count in (room - 40)...(room + 40) {
            draft.payload = filled(count)
            let (text, rootPEM) = try draft.make(by: signer)
            let verifier = SignedDataVerifier(roots: try TrustedRoots(pem: rootPEM))
            if text.utf8.count <= SignedDataVerifier.byteCountMax {
                _ = try verifier.verify(text, now: Self.now)
                fits = fits || text.utf8.count > SignedDataVerifier.byteCountMax - 4
            } else {
                let fault = #expect(throws: JWSFault.self) {
                    try verifier.verify(text, now: Self.now)
                }
                #expect(fault?.code == "jws.malformed")
            }
        }
        #expect(fits, "no text came within 4 bytes of the limit")
    }

    @Test func `is not even looked at beyond that`() throws {
        let roots = try TrustedRoots(pem: try JWSDraft().make().rootPEM)
        let verifier = SignedDataVerifier(roots: roots)
        func fault(byteCount: Int) -> JWSFault? {
            #expect(throws: JWSFault.self) {
                try verifier.verify(String(repeating: "A", count: byteCount), now: Self.now)
            }
        }
        #expect(fault(byteCount: 65_536) == .malformed("it has not three parts"))
        #expect(fault(byteCount: 65_537) == .malformed("it is longer than 65,536 bytes"))
    }

    @Test func `is validated once for each chain, and still has its time checked`() throws {
        let (text, rootPEM) = try JWSDraft().make()
        let verifier = SignedDataVerifier(roots: try TrustedRoots(pem: rootPEM))
        for _ in 0..<3 {
            _ = try verifier.verify(text, now: Self.now)
        }
        // The same header with another date: the chain is known, but was not valid then.
        let header = text.prefix { $0 != "." }
        let late = header + "." + JWSDraft.encoded(#"{"signedDate":1900000000000}"#) + ".AAAA"
        let fault = #expect(throws: JWSFault.self) {
            try verifier.verify(String(late), now: Self.now)
        }
        #expect(fault?.code == "jws.chain")
        // And with another payload: the chain is known and valid, the signature is not.
        let tampered =
            header + "." + JWSDraft.encoded(#"{"signedDate":1700000000001}"#)
            + text[
                text.lastIndex(of: ".").map { $0..<text.endIndex } ?? text
                    .startIndex..<text.endIndex
            ]
        #expect(throws: JWSFault.signature) {
            try verifier.verify(String(tampered), now: Self.now)
        }
    }

    @Test func `is not signed by a leaf that a known intermediate did not sign`() throws {
        let draft = JWSDraft()
        let genuine = try draft.issue()
        let foreign = try draft.issue()
        let forger = JWSDraft.Signer(
            root: genuine.root,
            intermediate: genuine.intermediate,
            leaf: foreign.leaf
        )
        let roots = try TrustedRoots(pem: genuine.root.certificate.pem)
        let verifier = SignedDataVerifier(roots: roots)
        let forged = try draft.make(by: forger).text
        let next = JWSDraft.Signer(
            root: genuine.root,
            intermediate: genuine.intermediate,
            leaf: try IssuedCertificate(draft.leaf, issuer: genuine.intermediate)
        )
        // Before the intermediate is known, and after.
        for signer in [genuine, next] {
            #expect(throws: JWSFault.self) { try verifier.verify(forged, now: Self.now) }
            _ = try verifier.verify(try draft.make(by: signer).text, now: Self.now)
            let fault = #expect(throws: JWSFault.self) {
                try verifier.verify(forged, now: Self.now)
            }
            #expect(fault?.code == "jws.chain")
        }
    }

    @Test func `of a chain that is known shows so before its signature is looked at`() throws {
        let (text, rootPEM) = try JWSDraft().make()
        let verifier = SignedDataVerifier(roots: try TrustedRoots(pem: rootPEM))
        #expect(try !verifier.read(text.utf8.span, now: Self.now).isChainKnown)
        _ = try verifier.verify(text, now: Self.now)
        #expect(try verifier.read(text.utf8.span, now: Self.now).isChainKnown)
    }

    @Test func `makes no chain known by a signature that is wrong`() throws {
        var draft = JWSDraft()
        draft.signsWithAnotherKey = true
        let (text, rootPEM) = try draft.make()
        let verifier = SignedDataVerifier(roots: try TrustedRoots(pem: rootPEM))
        #expect(throws: JWSFault.signature) { try verifier.verify(text, now: Self.now) }
        #expect(try !verifier.read(text.utf8.span, now: Self.now).isChainKnown)
    }

    @Test func `remembers no more chains than it may, and believes on`() throws {
        let authority = try TestCertificateAuthority(validSeconds: JWSDraft.validSeconds)
        let verifier = SignedDataVerifier(roots: try TrustedRoots(pem: authority.rootPEM))
        var texts: [String] = []
        for _ in 0..<40 {
            let leaf = try IssuedCertificate(
                TestCertificateAuthority.leafTemplate(JWSDraft.validSeconds),
                issuer: authority.intermediate
            )
            let chain = [leaf.certificate.der] + authority.chainDER.dropFirst()
            let listed = chain.map { "\"\(JWSDraft.base64($0))\"" }.joined(separator: ",")
            let signed =
                JWSDraft.encoded(#"{"alg":"ES256","x5c":[\#(listed)]}"#) + "."
                + JWSDraft.encoded(#"{"signedDate":1700000000000}"#)
            let signature = leaf.sign(Array(signed.utf8))
            texts.append(signed + "." + Base64URL.encode(signature.span))
        }
        for text in texts + texts {
            _ = try verifier.verify(text, now: Self.now)
        }
    }
}
