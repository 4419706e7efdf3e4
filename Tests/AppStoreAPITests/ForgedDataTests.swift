import AppStoreAPI
import Crypto
import Testing
import TokenDomain

/// Each row is good but for one thing, which one check alone finds.
struct Forgery: Sendable, CustomTestStringConvertible {
    var name: String
    var code: String
    var change: @Sendable (inout JWSDraft) -> Void

    var testDescription: String { name }

    init(_ name: String, _ code: String, _ change: @escaping @Sendable (inout JWSDraft) -> Void) {
        self.name = name
        self.code = code
        self.change = change
    }

    static let all = form + header + certificates + signatures

    static let form: [Forgery] = [
        Forgery("empty", "jws.malformed") { $0.text = { _ in "" } },
        Forgery("two parts", "jws.malformed") { draft in
            draft.text = { text in
                text.split(separator: ".").dropLast().joined(separator: ".")
            }
        },
        Forgery("four parts", "jws.malformed") { $0.text = { $0 + ".AAAA" } },
        Forgery("a part after a dot at the end", "jws.malformed") { $0.text = { $0 + "." } },
        Forgery("blank before it", "jws.malformed") { $0.text = { " " + $0 } },
        Forgery("line end after it", "jws.malformed") { $0.text = { $0 + "\n" } },
        Forgery("padding", "jws.malformed") { $0.text = { $0 + "==" } },
        Forgery("the other alphabet", "jws.malformed") { draft in
            draft.payload = #"{"signedDate":1700000000000,"x":"???>>>"}"#
            draft.text = { $0.replacing("_", with: "/").replacing("-", with: "+") }
        },
        Forgery("payload no object", "jws.malformed") { $0.payload = "[1700000000000]" },
        Forgery("payload no JSON", "jws.malformed") {
            $0.payload = #"{"signedDate":1700000000000"#
        },
        Forgery("payload empty", "jws.malformed") { $0.payload = "" },
        Forgery("payload with something after it", "jws.malformed") { $0.payload += "{}" },
    ]

    static let header: [Forgery] = [
        Forgery("header no JSON", "jws.malformed") { draft in
            draft.header = { #"{"alg":"ES256","x5c":[\#($0)],}"# }
        },
        Forgery("header no object", "jws.malformed") { draft in
            draft.header = { #"["ES256",\#($0)]"# }
        },
        Forgery("a name twice", "jws.malformed") { draft in
            draft.header = { #"{"alg":"ES256","x5c":[\#($0)],"kid":"a","kid":"a"}"# }
        },
        Forgery("a name twice, once escaped", "jws.malformed") { draft in
            draft.header = { #"{"alg":"ES256","x5c":[\#($0)],"\u0061lg":"ES256"}"# }
        },
        Forgery("critical extensions", "jws.malformed") { draft in
            draft.header = { #"{"alg":"ES256","x5c":[\#($0)],"crit":["b64"],"b64":true}"# }
        },
        Forgery("critical extensions, none of them", "jws.malformed") { draft in
            draft.header = { #"{"alg":"ES256","x5c":[\#($0)],"crit":null}"# }
        },
        Forgery("no certificates", "jws.malformed") { $0.header = { _ in #"{"alg":"ES256"}"# } },
        Forgery("certificates no list", "jws.malformed") { draft in
            draft.header = { _ in #"{"alg":"ES256","x5c":"MII"}"# }
        },
        Forgery("a certificate no text", "jws.malformed") { draft in
            draft.header = { #"{"alg":"ES256","x5c":[\#($0),7]}"# }
        },
        Forgery("alg none", "jws.alg") { draft in
            draft.header = { #"{"alg":"none","x5c":[\#($0)]}"# }
        },
        Forgery("alg none, unsigned and without certificates", "jws.alg") { draft in
            draft.header = { _ in #"{"alg":"none"}"# }
            draft.signature = { _ in [] }
        },
        Forgery("alg HS256", "jws.alg") { draft in
            draft.header = { #"{"alg":"HS256","x5c":[\#($0)]}"# }
        },
        Forgery("alg in small letters", "jws.alg") { draft in
            draft.header = { #"{"alg":"es256","x5c":[\#($0)]}"# }
        },
        Forgery("alg ES256K", "jws.alg") { draft in
            draft.header = { #"{"alg":"ES256K","x5c":[\#($0)]}"# }
        },
        Forgery("alg missing", "jws.alg") { $0.header = { #"{"x5c":[\#($0)]}"# } },
        Forgery("alg no text", "jws.alg") { draft in
            draft.header = { #"{"alg":["ES256"],"x5c":[\#($0)]}"# }
        },
    ]

    static let certificates: [Forgery] = [
        Forgery("two certificates", "jws.chain") { draft in
            draft.chain = { $0.dropLast().map { JWSDraft.base64($0) } }
        },
        Forgery("one certificate", "jws.chain") { draft in
            draft.chain = { [JWSDraft.base64($0[0])] }
        },
        Forgery("four certificates", "jws.chain") { draft in
            draft.chain = { ($0 + [$0[2]]).map { JWSDraft.base64($0) } }
        },
        Forgery("no certificate in the list", "jws.chain") { $0.chain = { _ in [] } },
        Forgery("certificates in another order", "jws.chain") { draft in
            draft.chain = { [$0[1], $0[0], $0[2]].map { JWSDraft.base64($0) } }
        },
        Forgery("another root of the same name", "jws.chain") { $0.trustsAnotherRoot = true },
        Forgery("leaf expired when it signed", "jws.chain") { draft in
            draft.leaf.validSeconds =
                JWSDraft.validSeconds.lowerBound...(JWSDraft.signedSeconds - 1)
        },
        Forgery("intermediate not yet valid when it signed", "jws.chain") { draft in
            draft.intermediate.validSeconds =
                (JWSDraft.signedSeconds + 1)...JWSDraft.validSeconds.upperBound
        },
        Forgery("intermediate no authority", "jws.chain") { $0.intermediate.authority = .no },
        Forgery("bytes after the leaf", "jws.certificate") { draft in
            draft.chain = { [$0[0] + [0], $0[1], $0[2]].map { JWSDraft.base64($0) } }
        },
        Forgery("bytes after the intermediate", "jws.certificate") { draft in
            draft.chain = { [$0[0], $0[1] + [0], $0[2]].map { JWSDraft.base64($0) } }
        },
        Forgery("leaf cut short", "jws.certificate") { draft in
            draft.chain = { [$0[0].dropLast(), $0[1], $0[2]].map { JWSDraft.base64(Array($0)) } }
        },
        Forgery("leaf in base64url without padding", "jws.certificate") { draft in
            draft.chain = { ders in
                ders.map { der in
                    // Some certificate has a length that needs padding, or a byte that differs.
                    JWSDraft.base64(der)
                        .replacing("+", with: "-")
                        .replacing("/", with: "_")
                        .replacing("=", with: "")
                }
            }
        },
        Forgery("leaf with a line end within", "jws.certificate") { draft in
            draft.chain = { ders in
                var texts = ders.map { JWSDraft.base64($0) }
                texts[0].insert(
                    contentsOf: #"\n"#,
                    at: texts[0].index(texts[0].startIndex, offsetBy: 64)
                )
                return texts
            }
        },
        Forgery("leaf's key on another curve of 256 bits", "jws.certificate") { draft in
            draft.leafCurve = .secp256k1
        },
        Forgery("leaf's key on P-384", "jws.certificate") { $0.leafCurve = .p384 },
        Forgery("a leaf that is an authority", "jws.certificate") { draft in
            draft.leaf.authority = .yes(pathLengthMax: nil)
        },
        Forgery("a leaf for key agreement", "jws.certificate") { draft in
            draft.leaf.keyUsage = "critical,keyAgreement"
        },
        Forgery("a leaf for non-repudiation alone", "jws.certificate") { draft in
            draft.leaf.keyUsage = "nonRepudiation"
        },
        Forgery("leaf without its mark", "jws.oid") { $0.leaf.markerOIDs = [] },
        Forgery("leaf with the intermediate's mark", "jws.oid") { draft in
            draft.leaf.markerOIDs = [SignedDataVerifier.intermediateOID]
        },
        Forgery("intermediate without its mark", "jws.oid") { $0.intermediate.markerOIDs = [] },
        Forgery("intermediate with the leaf's mark", "jws.oid") { draft in
            draft.intermediate.markerOIDs = [SignedDataVerifier.leafOID]
        },
    ]

    static let signatures: [Forgery] = [
        Forgery("signed by another key", "jws.signature") { $0.signsWithAnotherKey = true },
        Forgery("unsigned", "jws.signature") { $0.signature = { _ in [] } },
        Forgery("a bit of the signature", "jws.signature") { draft in
            draft.signature = { [$0[0] ^ 1] + $0.dropFirst() }
        },
        Forgery("63 bytes", "jws.signature") { $0.signature = { Array($0.dropLast()) } },
        Forgery("65 bytes", "jws.signature") { $0.signature = { $0 + [0] } },
        Forgery("signature in DER", "jws.signature") { draft in
            draft.signature = { raw in
                // Positive integers of 33 bytes each: OpenSSL's own form.
                let halves = [raw.prefix(32), raw.suffix(32)].flatMap { [0x02, 33, 0] + $0 }
                return [0x30, UInt8(halves.count)] + halves
            }
        },
        Forgery("signature all zero", "jws.signature") { draft in
            draft.signature = { _ in [UInt8](repeating: 0, count: 64) }
        },
        Forgery("another payload", "jws.signature") { draft in
            draft.text = { text in
                var parts = text.split(separator: ".").map(String.init)
                parts[1] = JWSDraft.encoded(#"{"signedDate":1700000000001}"#)
                return parts.joined(separator: ".")
            }
        },
    ]
}

@Suite struct `Forged data` {
    @Test(arguments: Forgery.all)
    func `is refused with its code`(forgery: Forgery) throws {
        var draft = JWSDraft()
        forgery.change(&draft)
        let (text, rootPEM) = try draft.make()
        let verifier = SignedDataVerifier(roots: try TrustedRoots(pem: rootPEM))
        let fault = #expect(throws: JWSFault.self) {
            try verifier.verify(text, now: Timestamp(milliseconds: JWSDraft.signedSeconds * 1_000))
        }
        #expect(fault?.code == forgery.code)
        #expect(fault?.message.isEmpty == false)
    }
}
