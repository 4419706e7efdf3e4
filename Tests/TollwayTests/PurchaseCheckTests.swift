import Foundation
import Testing

@Suite struct `tollway purchase check` {
    private func file(_ text: String) throws -> String {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(
            UUID().uuidString
        )
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let file = folder.appendingPathComponent("file")
        try Data(text.utf8).write(to: file)
        return file.path
    }

    /// An hour ago: refunds are possible for a year.
    private static let date = Int64(Date().timeIntervalSince1970 - 3_600) * 1_000
    private static let day = ISO8601DateFormatter().string(from: Date()).prefix(10)

    private let buy = """
        {"lineItemId":"a","customer":"anna","appAppleId":1,"bundleId":"com.example",\
        "creationDate":\(date),"productIdentifier":"coins","taxCountry":"DEU",\
        "pricingCurrency":"EUR","amountTaxInclusive":11900,"taxAmount":1900}
        """
    private let refund = """
        {"type":"refund","lineItemId":"r","customer":"anna","appAppleId":1,\
        "creationDate":\(date + 1_000),"referenceLineItemId":"a","amountTaxExclusive":4000,\
        "taxAmount":760}
        """

    @Test func `compiles the line items of a file, a refund before its buy`() throws {
        let run = try TollwayProcess.run(
            ["purchase", "check", try file("\(refund)\n\n\(buy)\n"), "-o", "json"]
        )
        #expect(run.exitCode == 0)
        let events = try #require(try run.object()["events"] as? [[String: Any]])
        #expect(events.map { $0["line"] as? Int } == [1, 3])
        let items = events.compactMap { $0["item"] as? [String: Any] }
        #expect(items.map { $0["netAmountTaxExclusive"] as? Int } == [6_000, 10_000])
        #expect(items[0]["eventType"] as? String == "REFUND")
        #expect(items[0]["pricingCurrency"] as? String == "EUR")
    }

    /// As the worker: the door makes two pseudonyms of two names that look alike.
    @Test func `compares names byte for byte`() throws {
        func sale(_ id: String, of customer: String) -> String {
            buy.replacingOccurrences(of: #""a""#, with: "\"\(id)\"")
                .replacingOccurrences(of: "anna", with: customer)
        }
        let accents = ["cafe\u{301}", "caf\u{e9}"]
        let lines = [sale(accents[0], of: "anna"), sale(accents[1], of: "anna")]
        let both = try TollwayProcess.run(
            ["purchase", "check", try file(lines.joined(separator: "\n")), "-o", "json"]
        )
        let events = try #require(try both.object()["events"] as? [[String: Any]])
        #expect(events.compactMap { $0["item"] }.count == 2, "\(both.output)")
        let refund = refund.replacingOccurrences(of: "anna", with: accents[1])
        let path = try file("\(sale("a", of: accents[0]))\n\(refund)")
        let other = try TollwayProcess.run(["purchase", "check", path, "-o", "json"])
        #expect(other.exitCode == 1, "\(other.output)")
        #expect(other.output.contains("reference_unknown"), "\(other.output)")
    }

    @Test func `takes back a buy after the refund that stands before both`() throws {
        let retraction = #"{"type":"retract","lineItemId":"a","customer":"anna","appAppleId":1}"#
        // The same names in the other world are other items.
        let sandbox = refund.replacingOccurrences(of: "{", with: #"{"environment":"sandbox","#)
        let run = try TollwayProcess.run(
            [
                "purchase", "check",
                try file("\(sandbox)\n\(refund)\n\(buy)\n\(retraction)\n"), "-o", "json",
            ]
        )
        #expect(run.exitCode == 1)
        let events = try #require(try run.object()["events"] as? [[String: Any]])
        let faults = events.map { $0["faults"] as? [[String: Any]] }
        #expect(
            faults[0]?.map { $0["rule"] as? String } == ["purchases.reference_unknown"]
        )
        #expect(faults[1...].allSatisfy { $0 == nil }, "\(run.output)")
    }

    @Test func `takes the correction of a sale that waits for a rate`() throws {
        let foreign = buy.replacingOccurrences(of: "\"EUR\"", with: "\"ISK\"")
        let own =
            #"{"type":"restate","lineItemId":"a","customer":"anna","appAppleId":1,"#
            + #""reportingCurrency":"EUR","exchangeRate":0.007}"#
        let run = try TollwayProcess.run(
            ["purchase", "check", try file("\(foreign)\n\(own)\n"), "-o", "json"]
        )
        #expect(run.exitCode == 0)
        let events = try #require(try run.object()["events"] as? [[String: Any]])
        let item = try #require(events[1]["item"] as? [String: Any])
        #expect(item["amountTaxExclusive"] as? Int == 70)
    }

    @Test(arguments: [false, true])
    func `takes another reporting currency at a rate of its own`(isRated: Bool) throws {
        let foreign = buy.replacingOccurrences(
            of: "\"EUR\"",
            with: #""ISK","reportingCurrency":"EUR","exchangeRate":0.007"#
        )
        let other =
            #"{"type":"restate","lineItemId":"a","customer":"anna","appAppleId":1,"#
            + #""reportingCurrency":"USD"}"#
        let product = other.replacingOccurrences(
            of: #""reportingCurrency":"USD""#,
            with: #""quantity":2"#
        )
        let rates = try file(isRated ? "\(Self.day),ISK,USD,0.008\n" : "")
        let run = try TollwayProcess.run(
            [
                "purchase", "check", try file("\(foreign)\n\(other)\n\(product)\n\(refund)\n"),
                "--rates", rates, "-o", "json",
            ]
        )
        #expect(run.exitCode == 0, "\(run.talk)")
        let events = try #require(try run.object()["events"] as? [[String: Any]])
        let items = events.map { $0["item"] as? [String: Any] }
        #expect(
            items.map { $0?["exchangeRate"] as? Double }
                == (isRated ? [0.007, 0.008, 0.008, 0.008] : [0.007, nil, nil, nil])
        )
        #expect(
            events.map { $0["cause"] as? String }
                == [nil] + Array(repeating: isRated ? nil : "rate", count: 3)
        )
    }

    @Test func `knows that what refers to a sale that is not owed is not owed`() throws {
        let retraction = #"{"type":"retract","lineItemId":"a","customer":"anna","appAppleId":1}"#
        let run = try TollwayProcess.run(
            [
                "purchase", "check", try file("\(refund)\n\(buy)\n\(retraction)\n"), "--tokens",
                try file(""), "-o", "json",
            ]
        )
        #expect(run.exitCode == 0)
        let events = try #require(try run.object()["events"] as? [[String: Any]])
        #expect(events.map { $0["outcome"] as? String } == Array(repeating: "not_owed", count: 3))
    }

    @Test func `takes an array and a single object, with the line of each`() throws {
        let array = try TollwayProcess.run(
            ["purchase", "check", try file("[\n\(buy),\n\(refund)\n]"), "-o", "ndjson"]
        )
        #expect(array.exitCode == 0)
        #expect(array.output.contains("\"line\":2") && array.output.contains("\"line\":3"))
        let single = try TollwayProcess.run(
            ["purchase", "check", try file(buy.replacingOccurrences(of: ",", with: ",\n"))]
        )
        #expect(single.exitCode == 0)
        #expect(single.output.hasPrefix("line 1 a: {"))
    }

    @Test func `names each fault with its line, field, rule and repair`() throws {
        let bad = buy.replacingOccurrences(of: "\"DEU\"", with: "\"XXX\"")
            .replacingOccurrences(of: "\(Self.date)", with: "1760000000")
        let run = try TollwayProcess.run(
            ["purchase", "check", try file("\(bad)\n{\n\(refund)\n"), "-o", "json"]
        )
        #expect(run.exitCode == 1)
        let events = try #require(try run.object()["events"] as? [[String: Any]])
        let faults = events.map { $0["faults"] as? [[String: Any]] ?? [] }
        #expect(
            Set(faults[0].compactMap { $0["rule"] as? String }) == [
                "purchases.unknown_country", "purchases.date_too_old",
            ]
        )
        #expect(faults[0].allSatisfy { ($0["repair"] as? String)?.hasSuffix(".") == true })
        #expect(faults[1].map { $0["rule"] as? String } == ["purchases.not_json"])
        #expect(faults[2].map { $0["rule"] as? String } == ["purchases.reference_unknown"])
        #expect(faults[2].map { $0["appleCode"] as? Int } == [3])
    }

    @Test func `finds the token, and says what is not owed or waits for a rate`() throws {
        let token = """
            {"appAppleId":1,"bundleId":"com.example","tokenCreationDate":\(Self.date - 1),\
            "externalPurchaseId":"t","tokenType":"SERVICES","tokenExpirationDate":\(Self.date + 86_400_000)}
            """
        let tokens = try file(
            "{\"token\":\"\(Data(token.utf8).base64EncodedString())\",\"customer\":\"anna\"}\n"
        )
        let other = buy.replacingOccurrences(of: "anna", with: "otto")
            .replacingOccurrences(of: "\"a\"", with: "\"b\"")
        let foreign = buy.replacingOccurrences(of: "EUR", with: "ISK")
            .replacingOccurrences(of: "\"a\"", with: "\"c\"")
        let sales = try file("\(buy)\n\(other)\n\(foreign)\n")
        let run = try TollwayProcess.run(["purchase", "check", sales, "--tokens", tokens])
        #expect(run.exitCode == 0)
        let lines = run.output.split(separator: "\n")
        #expect(lines[0].hasSuffix(" under t"))
        #expect(lines[1] == "line 2 b: not_owed")
        #expect(lines[2] == "line 3 c: waits for rate")
        let rates = try file("date,from,to,rate\n\(Self.day),ISK,EUR,0.0068\n")
        let rated = try TollwayProcess.run(
            ["purchase", "check", sales, "--rates", rates, "-o", "ndjson"]
        )
        #expect(rated.output.contains("\"exchangeRate\":0.0068"))
        // Without the option, those of the worker.
        let asWorker = try TollwayProcess.run(
            ["purchase", "check", sales, "-o", "ndjson"],
            environment: ["TOLLWAY_EXCHANGE_RATES_FILE": rates]
        )
        #expect(asWorker.output == rated.output, "\(asWorker.talk)")
    }

    @Test(arguments: [
        (#""url":"https://shop.example/?externalPurchaseToken=TOKEN&bundleId=com.example""#, 0),
        (#""url":"https://shop.example/?externalPurchaseToken=TOKEN""#, 0),
        (#""url":"https://shop.example/?externalPurchaseToken=TOKEN&bundleId=com.other""#, 2),
        (#""url":"https://shop.example/""#, 2),
        (#""url":"https://shop.example/?externalPurchaseToken=TOKEN","token":"TOKEN""#, 2), ("", 2),
    ])
    func `takes the token of a link`(member: String, exitCode: Int32) throws {
        let token = """
            {"appAppleId":1,"bundleId":"com.example","tokenCreationDate":\(Self.date - 1),\
            "externalPurchaseId":"t","tokenType":"SERVICES","tokenExpirationDate":\(Self.date + 86_400_000)}
            """
        let named = member.replacingOccurrences(
            of: "TOKEN",
            with: Data(token.utf8).base64EncodedString()
        )
        let members = (named.isEmpty ? [] : [named]) + [#""customer":"anna""#]
        let run = try TollwayProcess.run(
            [
                "purchase", "check", try file(buy), "--tokens",
                try file("{\(members.joined(separator: ","))}\n"),
            ]
        )
        #expect(run.exitCode == exitCode, "\(run.talk)")
        #expect(run.output.hasSuffix(exitCode == 0 ? " under t\n" : ""))
    }

    @Test(arguments: [
        ([:], 0, "line 1 a: not_owed\n"),
        (["TOLLWAY_PURCHASES_TOKEN_WINDOW": "30d"], 0, " under t\n"),
        (["TOLLWAY_PURCHASES_TOKEN_WINDOW": "a month"], 2, ""),
        (["TOLLWAY_EXCHANGE_RATES_FILE": "/nowhere"], 2, ""),
        // It is not used.
        (
            ["TOLLWAY_PURCHASES_TOKEN_WINDOW": "30d", "TOLLWAY_REPORT_HOLD": "long"], 0,
            " under t\n"
        ),
    ])
    func `takes a token as old as the setting of the worker says`(
        environment: [String: String],
        exitCode: Int32,
        end: String
    ) throws {
        let token = """
            {"appAppleId":1,"bundleId":"com.example","tokenCreationDate":\(Self.date - 864_000_000),\
            "externalPurchaseId":"t","tokenType":"SERVICES"}
            """
        let tokens = try file(
            "{\"token\":\"\(Data(token.utf8).base64EncodedString())\",\"customer\":\"anna\"}\n"
        )
        let run = try TollwayProcess.run(
            ["purchase", "check", try file(buy), "--tokens", tokens],
            environment: environment
        )
        #expect(run.exitCode == exitCode, "\(run.talk)")
        #expect(run.output.hasSuffix(end))
    }

    @Test func `shows what is retracted with an item under the line of its retraction`() throws {
        let retraction = #"{"type":"retract","lineItemId":"a","customer":"anna","appAppleId":1}"#
        let run = try TollwayProcess.run(
            ["purchase", "check", try file("\(buy)\n\(refund)\n\(retraction)\n"), "-o", "json"]
        )
        #expect(run.exitCode == 0)
        let events = try #require(try run.object()["events"] as? [[String: Any]])
        #expect(events.map { $0["line"] as? Int } == [1, 2, 3, 3])
        #expect(events.map { $0["lineItemId"] as? String } == ["a", "r", "r", "a"])
    }

    @Test(arguments: [
        ("", [], 3), ("{}", ["--tokens", "/nowhere"], 2), ("{}", ["--rates", "/nowhere"], 2),
    ])
    func `says what it cannot ask`(text: String, options: [String], exitCode: Int32) throws {
        let run = try TollwayProcess.run(["purchase", "check", try file(text)] + options)
        #expect(run.exitCode == exitCode)
    }
}
