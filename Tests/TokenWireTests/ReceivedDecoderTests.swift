import Testing
import TokenDomain

@testable import TokenWire

/// Records of `tokens.received` to records of `tokens.decoded`.
struct `A received token` {
    private static let apps = ReceivedDecoder.Apps([
        (appAppleID: 3, bundleID: "com.example.three"), (appAppleID: 1, bundleID: "com.example"),
        (appAppleID: 2, bundleID: "com.other"), (appAppleID: 3, bundleID: "com.third"),
    ])

    /// What is written of it, and its key.
    private static func decode(
        _ members: String,
        _ envelope: String
    ) throws(DecodeFault) -> (value: String, key: String) {
        var decoder = ReceivedDecoder()
        var arena = Array("before".utf8)
        let token = Base64URL.encode(Array("{\(members)}".utf8).span)
        let written = try decoder.decode(
            Array(#"{"token":"\#(token)"\#(envelope)}"#.utf8).span,
            recordTime: Timestamp(milliseconds: 1_760_000_000_123),
            apps: apps,
            into: &arena
        )
        #expect(arena.starts(with: "before".utf8))
        let value = String(decoding: arena[written.value], as: UTF8.self)
        // The texts of tokens that say the same differ.
        return (
            value.replacing(token, with: "…"), String(decoding: arena[written.key], as: UTF8.self)
        )
    }

    @Test(arguments: [
        (#""externalPurchaseId":"SANDBOX_a-b""#, ""),
        (#""externalPurchaseId":"5b0c1a52-4f0e","tokenType":"SERVICES""#, ""),
        (
            #""externalPurchaseId":"i","tokenType":"","tokenExpirationDate":999999999999999999"#,
            #","customer":"c1.iDBl1tJ_dR7rjK7zOio7hq2CDWH1C8Y6vtUCNrwvC-4","receivedAt":1760000000000"#
        ),
    ])
    func `is written alike from the plain form and from any other`(
        members: String,
        envelope: String
    ) throws {
        let rest = #","appAppleId":1,"bundleId":"com.example","tokenCreationDate":1700000000000"#
        let plain = try Self.decode(members + rest, envelope)
        // Unknown members are skipped by the scanner of all forms only.
        let other = try Self.decode(#""\u0078":0,"# + members + rest, envelope)
        #expect(plain == other)
        #expect(plain.value.hasSuffix(#","token":"…"}"#))
    }

    @Test(
        arguments: [
            (1, "com.example", nil), (2, "com.other", nil), (3, "com.third", nil),
            (3, "com.example.three", DecodeFault.bundleMismatch),
            (1, "com.exampl", .bundleMismatch),
            (4, "com.example", .unknownApp(appAppleID: 4)),
        ] as [(Int64, String, DecodeFault?)]
    )
    func `is of an app of ours`(app: Int64, bundleID: String, fault: DecodeFault?) throws {
        let members = #""externalPurchaseId":"i","appAppleId":\#(app),"bundleId":"\#(bundleID)""#
        do {
            _ = try Self.decode(members + #","tokenCreationDate":1700000000000"#, "")
            #expect(fault == nil)
        } catch {
            #expect(error == fault)
        }
    }
}
