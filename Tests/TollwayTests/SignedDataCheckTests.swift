import Crypto
import Foundation
import Testing
import TokenWire

/// Signs payloads with a chain of its own, in a folder that goes away with it.
private struct SigningFolder {
    private let authority: TestCertificateAuthority
    private let folder: TemporaryFolder
    let rootsPath: String

    init() throws {
        authority = try TestCertificateAuthority(validSeconds: 1_699_999_000...1_700_001_000)
        folder = try TemporaryFolder()
        rootsPath = try folder.file("roots.pem", Data(authority.rootPEM)).path
    }

    /// A file's path.
    func file(_ name: String, _ text: String) throws -> String {
        try folder.file(name, Data(text.utf8)).path
    }

    func sign(_ payload: String) -> String {
        let listed = authority.chainDER
            .map { "\"\(Data($0).base64EncodedString())\"" }
            .joined(separator: ",")
        let signed = encoded(#"{"alg":"ES256","x5c":[\#(listed)]}"#) + "." + encoded(payload)
        let signature = authority.leaf.sign(Array(signed.utf8))
        return signed + "." + Base64URL.encode(signature.span)
    }

    private func encoded(_ text: String) -> String {
        let bytes = Array(text.utf8)
        return Base64URL.encode(bytes.span)
    }
}

@Suite struct `tollway notification verify and transaction verify` {
    private let folder: SigningFolder

    init() throws {
        folder = try SigningFolder()
    }

    private let notification = """
        {"notificationType":"EXTERNAL_PURCHASE_TOKEN","signedDate":1700000000000,
         "externalPurchaseToken":{"externalPurchaseId":"1c2d","appAppleId":1234567890,
         "bundleId":"com.example"}}
        """
    private let transaction = """
        {"bundleId":"com.example","environment":"Sandbox","signedDate":1700000000000,"new":[1.50]}
        """

    private func verify(
        _ what: String,
        _ text: String,
        _ more: [String] = []
    ) throws -> TollwayProcess {
        let path = try folder.file("in-\(UUID().uuidString)", text)
        return try TollwayProcess.run(
            [what, "verify", path, "--roots", folder.rootsPath, "-o", "json"] + more
        )
    }

    @Test func `print the payload as it was signed, and nothing else`() throws {
        let signed = folder.sign(transaction)
        for text in [
            signed, "\n \t\(signed)\r\n", #"{"signedTransaction":"\#(signed)"}"#,
            #" { "x": null, "signedPayload" : "\#(signed)" } "#,
        ] {
            let run = try verify("transaction", text)
            #expect(run.exitCode == 0)
            #expect(run.output == transaction + "\n")
            #expect(run.talk.isEmpty)
        }
        let lines = try verify("notification", folder.sign(notification), ["-o", "ndjson"])
        #expect(lines.output == notification.replacingOccurrences(of: "\n", with: " ") + "\n")
    }

    @Test func `read standard input`() throws {
        let signed = Data(folder.sign(notification).utf8)
        for operands in [[], ["-"]] {
            let run = try TollwayProcess.run(
                ["notification", "verify", "--roots", folder.rootsPath] + operands,
                input: signed
            )
            #expect(run.exitCode == 0)
            #expect(run.output == notification + "\n")
        }
    }

    @Test(
        arguments: [
            (["--bundle-id", "com.example"], nil),
            (["--app-apple-id", "1234567890", "--environment", "Production"], nil),
            (["--bundle-id", "com.other"], "jws.wrong_app"),
            (["--app-apple-id", "1"], "jws.wrong_app"),
            (["--environment", "sandbox"], "jws.wrong_environment"),
        ] as [([String], String?)]
    )
    func `compare a notification with what is asked for`(options: [String], code: String?) throws {
        let run = try verify("notification", folder.sign(notification), options)
        #expect(run.exitCode == (code == nil ? 0 : 1))
        if let code {
            #expect(try run.errorCode() == code)
        }
    }

    @Test(
        arguments: [
            (["--bundle-id", "com.example", "--environment", "sandbox"], nil),
            // A transaction names no Apple id: nothing to compare.
            (["--app-apple-id", "1"], nil),
            (["--environment", "production"], "jws.wrong_environment"),
            (["--bundle-id", "com.other", "--environment", "production"], "jws.wrong_app"),
        ] as [([String], String?)]
    )
    func `compare a transaction with what is asked for`(options: [String], code: String?) throws {
        let run = try verify("transaction", folder.sign(transaction), options)
        #expect(run.exitCode == (code == nil ? 0 : 1))
        if let code {
            #expect(try run.errorCode() == code)
        }
    }

    @Test func `refuse a production notification that names no app where one is asked for`() throws
    {
        let bare = """
            {"notificationType":"TEST","signedDate":1700000000000,
             "data":{"environment":"Production","bundleId":"com.example"}}
            """
        let run = try verify("notification", folder.sign(bare), ["--app-apple-id", "1"])
        #expect(try run.errorCode() == "jws.wrong_app")
        let sandbox = bare.replacingOccurrences(of: "Production", with: "Sandbox")
        #expect(
            try verify("notification", folder.sign(sandbox), ["--app-apple-id", "1"]).exitCode == 0
        )
    }

    @Test(arguments: [
        ("", "jws.malformed"), ("{}", "jws.malformed"), ("{", "jws.malformed"),
        (#"{"signedPayload":7}"#, "jws.malformed"), ("a.b", "jws.malformed"),
        (String(repeating: " ", count: (1 << 20) + 1), "jws.malformed"),
        ("eyJhbGciOiJub25lIn0.e30.", "jws.alg"),
    ])
    func `give the code of what is not genuine`(text: String, code: String) throws {
        let run = try verify("notification", text)
        #expect(run.exitCode == 1)
        #expect(try run.errorCode() == code)
    }

    @Test(
        arguments: [
            (
                "notification", #"{"transactionId":"1","originalTransactionId":"1""#,
                "signed by Apple, but no notification: it is a transaction\n"
            ),
            (
                "notification", #"{"autoRenewStatus":1,"originalTransactionId":"1""#,
                "signed by Apple, but no notification: it is the renewal of a subscription\n"
            ),
            (
                "notification", #"{"new":1"#,
                "signed by Apple, but no notification: it is data of another sort\n"
            ),
            (
                "transaction", #"{"notificationType":"TEST""#,
                "signed by Apple, but no transaction: it is a notification\n"
            ),
            (
                "transaction", #"{"receiptType":"Sandbox""#,
                "signed by Apple, but no transaction: it is an app transaction\n"
            ),
            ("notification", #"{"notificationType":"RESCIND_CONSENT""#, ""),
            ("transaction", #"{"transactionId":"1","originalTransactionId":"1""#, ""),
            ("transaction", #"{"new":1"#, ""),
        ]
    )
    func `take what is genuine, and say what it is where they were asked about another sort`(
        what: String,
        beginning: String,
        talk: String
    ) throws {
        let payload = beginning + #","signedDate":1700000000000,"bundleId":"com.example"}"#
        let run = try verify(what, folder.sign(payload))
        #expect(run.exitCode == 0, "\(run.talk)\(run.output)")
        #expect(run.output == payload + "\n")
        #expect(run.talk == talk)
        // Of whatever sort, it must be for the app that was asked for.
        let other = try verify(what, folder.sign(payload), ["--bundle-id", "com.other"])
        #expect(try other.errorCode() == "jws.wrong_app")
        let stranger = try SigningFolder()
        #expect(try verify(what, stranger.sign(payload)).errorCode() == "jws.chain")
    }

    @Test func `trust no roots but those given`() throws {
        let stranger = try SigningFolder()
        let run = try verify("notification", stranger.sign(notification))
        #expect(try run.errorCode() == "jws.chain")
        let signed = try folder.file("plain", stranger.sign(notification))
        let plain = try TollwayProcess.run(
            ["notification", "verify", signed, "--roots", folder.rootsPath]
        )
        #expect(plain.exitCode == 1)
        #expect(plain.output.isEmpty)
        #expect(plain.talk.hasPrefix("tollway: jws.chain: "))
        #expect(plain.talk.split(separator: "\n").count == 1)
    }

    @Test(arguments: [
        ["--roots", "/nowhere/roots.pem"], ["--roots", "/dev/null"], ["--app-apple-id", "0"],
        ["--app-apple-id", "x"], ["--environment", "prod"], ["--bundle-id", ""], ["--root"],
    ])
    func `end with exit 2 where the question cannot be asked`(options: [String]) throws {
        let path = try folder.file("good", folder.sign(notification))
        let roots = options.first == "--roots" ? [] : ["--roots", folder.rootsPath]
        let run = try TollwayProcess.run(["notification", "verify", path] + roots + options)
        #expect(run.exitCode == 2)
        #expect(run.output.isEmpty)
        #expect(run.talk.split(separator: "\n").count == 1)
    }

    @Test func `need roots and a readable file`() throws {
        let signed = folder.sign(notification)
        let none = try TollwayProcess.run(["transaction", "verify"], input: Data(signed.utf8))
        #expect(none.exitCode == 2)
        let missing = try TollwayProcess.run(
            ["transaction", "verify", "/nowhere/file", "--roots", folder.rootsPath]
        )
        #expect(missing.exitCode == 2)
    }
}
