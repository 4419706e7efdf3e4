import Foundation
import Testing

@Suite struct `tollway token decode` {
    private func encoded(_ json: String) -> String {
        Data(json.utf8).base64EncodedString()
    }

    private let services = """
        {"appAppleId":1234567890,"bundleId":"com.example","tokenCreationDate":1750896000000,\
        "externalPurchaseId":"SANDBOX_1","tokenType":"SERVICES","tokenExpirationDate":1782432000000}
        """

    @Test func `shows the fields of a token`() throws {
        let token = encoded(services)
        let run = try TollwayProcess.run(["token", "decode", token, "-o", "json"])
        #expect(run.exitCode == 0)
        let object = try run.object()
        #expect(
            object.keys.sorted() == [
                "appAppleId", "bundleId", "environment", "externalPurchaseId", "token",
                "tokenCreationDate", "tokenExpirationDate", "tokenType",
            ]
        )
        #expect(object["environment"] as? String == "sandbox")
        #expect(object["tokenExpirationDate"] as? Int == 1_782_432_000_000)
        #expect(object["token"] as? String == token)
        let table = try TollwayProcess.run(["token", "decode", token])
        #expect(table.output.contains("tokenCreationDate    1750896000000  (2025-06-26T"))
    }

    @Test(arguments: [
        ("!", "decode.not_base64url"), ("", "decode.empty"), ("  ", "decode.empty"),
        (String(repeating: "A", count: 4_097), "decode.too_long"), ("e30", "decode.missing_field"),
        ("W10", "decode.not_json"), ("AAAA", "decode.not_json"),
    ])
    func `gives the code of what is no token`(token: String, code: String) throws {
        let run = try TollwayProcess.run(["token", "decode", "-o", "json", "--", token])
        #expect(run.exitCode == 1)
        #expect(try run.errorCode() == code)
        let plain = try TollwayProcess.run(["token", "decode", "--", token])
        #expect(plain.exitCode == 1)
        #expect(plain.output.isEmpty)
        #expect(plain.talk.split(separator: "\n").count == 1)
    }

    @Test func `reads links`() throws {
        let token = encoded(services).replacingOccurrences(of: "=", with: "%3D")
        let link = "https://example.com/?a=b&externalPurchaseToken=\(token)&bundleId=com.example"
        let run = try TollwayProcess.run(["token", "decode", "--url", link, "-o", "json"])
        #expect(run.exitCode == 0)
        #expect(try run.object()["externalPurchaseId"] as? String == "SANDBOX_1")
        let other = link.replacingOccurrences(of: "Id=com.example", with: "Id=com.other")
        let refused = try TollwayProcess.run(["token", "decode", "--url", other, "-o", "json"])
        #expect(refused.exitCode == 1)
        #expect(try refused.errorCode() == "decode.bundle_mismatch")
    }

    /// There is no record of a topic that the sentence could speak of.
    @Test func `says what is wrong with a link`() throws {
        let token = encoded(services).replacingOccurrences(of: "=", with: "%3D")
        let parameter = "externalPurchaseToken=\(token)"
        let link = "https://example.com/?\(parameter)&\(parameter)"
        let sentence = "The link cannot be read: the link has externalPurchaseToken twice."
        let run = try TollwayProcess.run(["token", "decode", "--url", link])
        #expect(run.exitCode == 1)
        #expect(run.talk == "tollway: \(sentence)\n")
        let lines = try TollwayProcess.run(
            ["token", "decode", "--url"],
            input: Data("\(link)\n".utf8)
        )
        let error = try #require(try lines.objects().first?["error"] as? [String: Any])
        #expect(error["code"] as? String == "decode.bad_envelope")
        #expect(error["message"] as? String == sentence)
    }

    @Test(arguments: [[], ["-"], ["-", "-o", "json"]])
    func `reads a token a line and answers a line each`(arguments: [String]) throws {
        let token = encoded(services)
        let input = "\(token)\r\nbad!\n\n\(token)"
        let run = try TollwayProcess.run(["token", "decode"] + arguments, input: Data(input.utf8))
        #expect(run.exitCode == 1)
        let objects = try run.objects()
        #expect(objects.count == 4)
        #expect(objects[0]["token"] as? String == token)
        #expect(objects[1]["line"] as? Int == 2)
        #expect(
            (objects[1]["error"] as? [String: Any])?["code"] as? String
                == "decode.not_base64url"
        )
        #expect((objects[2]["error"] as? [String: Any])?["code"] as? String == "decode.empty")
        #expect(objects[3]["externalPurchaseId"] as? String == "SANDBOX_1")
    }

    @Test func `answers every line of hostile input`() throws {
        var input = Data(repeating: UInt8(ascii: "A"), count: 1_000_000)
        input.append(UInt8(ascii: "\n"))
        input.append(Data((0...255).map { UInt8($0) }))
        input.append(Data("\n\(encoded(services))\n".utf8))
        let run = try TollwayProcess.run(["token", "decode"], input: input)
        #expect(run.exitCode == 1)
        let objects = try run.objects()
        #expect((objects[0]["error"] as? [String: Any])?["code"] as? String == "decode.too_long")
        #expect(objects.last?["externalPurchaseId"] as? String == "SANDBOX_1")
        let none = try TollwayProcess.run(["token", "decode"])
        #expect(none.exitCode == 0 && none.output.isEmpty)
    }

    @Test func `keeps what a token says from steering the terminal`() throws {
        let token = encoded(services.replacingOccurrences(of: "com.example", with: "\\u001b[2J"))
        let run = try TollwayProcess.run(["token", "decode", token])
        #expect(run.exitCode == 0)
        #expect(!run.output.contains("\u{1b}"))
    }
}
