import Testing

@testable import AppleSimulator

@Suite struct `S21: the admin calls` {
    /// An order that registers one token with a member more.
    private static func token(_ member: String) -> String {
        #"{"register":[{"externalPurchaseId":"x","appAppleId":1,"bundleId":"b","#
            + #""tokenCreationDate":2,\#(member)}]}"#
    }

    private func call(
        _ app: SimulatedApp,
        _ method: String,
        _ path: String,
        query: String = "",
        _ body: String = ""
    ) -> AppleAnswer {
        AdminAPI(world: app.world, real: SimulatedApp.start)
            .answer(method: method, path: path, query: query, body: Array(body.utf8))
    }

    @Test func `show every accepted report once, in pages`() throws {
        let app = try SimulatedApp()
        for number in 0..<5 {
            app.issue("t\(number)")
            #expect(app.put(report(number, "t\(number)")).status == 200)
        }
        app.issue("SANDBOX_1", type: "SERVICES")
        let duplicate = app.put(report(9, "SANDBOX_1", "DUPLICATE_TOKEN"), in: .sandbox)
        #expect(duplicate.status == 200)
        #expect(app.put(report(10, "never")).status == 400)

        var seen: [String] = []
        var offset: Int64? = 0
        while let start = offset {
            let page = call(app, "GET", "/reports", query: "limit=2&offset=\(start)").json
            #expect(page?["count"]?.integer == 6)
            seen += page?["reports"]?.elements?.compactMap { $0["externalPurchaseId"]?.text } ?? []
            offset = page?["next"]?.integer
        }
        #expect(seen == ["t0", "t1", "t2", "t3", "t4", "SANDBOX_1"])

        let all = call(app, "GET", "/reports").json
        #expect(
            all?["counts"]?.bytes
                == Array(
                    (#"[{"environment":"production","status":"NO_LINE_ITEM","count":5},"#
                        + #"{"environment":"sandbox","status":"DUPLICATE_TOKEN","count":1}]"#).utf8
                )
        )
        let lines = call(app, "GET", "/reports", query: "format=ndjson&environment=sandbox")
        #expect(lines.bodyText.split(separator: "\n").count == 1)
    }

    @Test func `show the newest version of each line item, and how many there were`() throws {
        let app = try SimulatedApp()
        app.issue("t")
        func put(_ number: Int, _ items: [JSONValue]) {
            let body = JSONValue.object([
                JSONMember("requestIdentifier", .string(identifier(number))),
                JSONMember("externalPurchaseId", .string("t")),
                JSONMember("status", .string("LINE_ITEM")),
                JSONMember("lineItems", .array(items)),
            ])
            #expect(app.put(String(decoding: body.bytes, as: UTF8.self)).status == 200)
        }
        put(1, [SampleItems.oneTime("b"), SampleItems.oneTime("a")])
        put(2, [SampleItems.oneTime("a", ["restatement": .bool(true), "quantity": .integer(2)])])
        let page = call(app, "GET", "/line-items").json
        #expect(page?["count"]?.integer == 2)
        let items = page?["lineItems"]?.elements ?? []
        #expect(items.map { $0["item"]?["lineItemId"]?.text } == ["a", "b"])
        #expect(items.map { $0["versions"]?.integer } == [2, 1])
        #expect(items.first?["item"]?["quantity"]?.integer == 2)
        let last = call(app, "GET", "/line-items", query: "offset=1&format=ndjson")
        #expect(last.bodyText.split(separator: "\n").count == 1)
    }

    @Test func `show requests of every outcome`() throws {
        let app = try SimulatedApp { $0.requestLogCapacity = 4 }
        app.issue("t")
        app.world.add(try FaultRule("reset-after:times=1"))
        _ = app.exchange(report(1, "t"))
        _ = app.exchange(report(1, "t"))
        _ = app.exchange("nonsense")
        _ = app.world.exchange(
            app.request("GET", "/externalPurchase/v1/reports/\(identifier(1))"),
            real: SimulatedApp.start
        )
        var stranger = app.request("PUT", "/externalPurchase/v1/reports")
        stranger.authorization = nil
        _ = app.world.exchange(stranger, real: SimulatedApp.start)
        let answer = call(app, "GET", "/requests").json
        let requests = answer?["requests"]?.elements ?? []
        #expect(answer?["count"]?.integer == 5)
        #expect(
            requests.map { $0["outcome"]?.text }
                == ["refused", "malformed", "found", "unauthorized"]
        )
        #expect(requests.first?["errorCodes"]?.bytes == Array("[1]".utf8))
        #expect(answer?["counts"]?["production report accepted reset-after"]?.integer == 1)
    }

    @Test func `count refusals by code and field, as one code means several things`() throws {
        let app = try SimulatedApp()
        app.issue("t")
        #expect(app.put(1, [SampleItems.oneTime()]).errors == nil)
        func refuse(_ number: Int, _ items: [JSONValue]) {
            let body = JSONValue.object([
                JSONMember("requestIdentifier", .string(identifier(number))),
                JSONMember("externalPurchaseId", .string("t")),
                JSONMember("status", .string("LINE_ITEM")), JSONMember("lineItems", .array(items)),
            ])
            #expect(app.exchange(String(decoding: body.bytes, as: UTF8.self)).answer.status == 400)
        }
        refuse(1, [SampleItems.oneTime("b")])
        refuse(2, [SampleItems.oneTime()])
        refuse(3, [SampleItems.oneTime(), SampleItems.oneTime("c", ["quantity": .integer(0)])])
        let errors = call(app, "GET", "/requests").json?["errors"]
        #expect(
            errors?.bytes
                == Array(
                    #"{"1 lineItemId":2,"1 requestIdentifier":1,"16 quantity":1}"#.utf8
                )
        )
    }

    @Test func `register tokens and say which were taken`() throws {
        let app = try SimulatedApp()
        app.issue("old")
        let token =
            #"{"externalPurchaseId":"ID","appAppleId":1,"bundleId":"b","tokenCreationDate":2}"#
        let body =
            "{\"register\":[\(token.replacing("ID", with: "new")),"
            + "\(token.replacing("ID", with: "old"))]}"
        let answer = call(app, "POST", "/tokens", body)
        #expect(answer.bodyText == #"{"registered":1,"taken":["old"]}"#)
        #expect(app.world.token("new")?.bundleID == "b")
        #expect(call(app, "GET", "/tokens").json?["count"]?.integer == 2)
    }

    @Test func `set faults and count them`() throws {
        let app = try SimulatedApp()
        let set = call(app, "POST", "/faults", #"{"faults":["500:times=1","slow"],"clear":true}"#)
        #expect(set.status == 200)
        _ = app.exchange(report(1, "x"))
        let faults = call(app, "GET", "/faults").json?["faults"]?.elements ?? []
        #expect(faults.map { $0["struck"]?.integer } == [1, 0])
        #expect(faults.map { $0["matched"]?.integer } == [1, 1])
        #expect(call(app, "DELETE", "/faults").json?["faults"]?.elements?.isEmpty == true)
    }

    @Test func `set the clock, its pace, and move it`() throws {
        let app = try SimulatedApp()
        let set = call(app, "PUT", "/clock", #"{"now":1000,"rate":60}"#)
        #expect(set.json?["now"]?.integer == 1000)
        #expect(app.world.clock.now(real: SimulatedApp.start + 1000) == 61_000)
        #expect(
            call(app, "PUT", "/clock", #"{"advance":"10d"}"#).json?["now"]?.integer == 864_001_000
        )
    }

    @Test(arguments: [
        ("GET", "/nothing", "", 404), ("PUT", "/reports", "", 404), ("POST", "/tokens", "{", 400),
        ("POST", "/tokens", "{}", 400), ("POST", "/tokens", #"{"register":[{}]}"#, 400),
        ("POST", "/faults", #"{"faults":["teapot"]}"#, 400), ("PUT", "/clock", "[", 400),
        ("PUT", "/clock", #"{"advance":"soon"}"#, 400), ("PUT", "/clock", #"{"rate":-1}"#, 400),
        ("POST", "/faults", #"{"faults":"429"}"#, 400), ("POST", "/faults", "{}", 400),
        ("POST", "/faults", #"{"fault":"429","clear":true}"#, 400),
        ("POST", "/faults", #"{"clear":"yes"}"#, 400),
        ("PUT", "/clock", #"{"now":"1760000000000"}"#, 400), ("PUT", "/clock", "{}", 400),
        ("PUT", "/clock", #"{"now":1.76e12}"#, 400), ("PUT", "/clock", #"{"rate":"60"}"#, 400),
        ("PUT", "/clock", #"{"now":1,"speed":60}"#, 400),
        ("POST", "/tokens", token(#""tokenExpirationDate":"1800000000000""#), 400),
        ("POST", "/tokens", token(#""tokenExpirationDate":1.8e12"#), 400),
        ("POST", "/tokens", token(#""tokenType":7"#), 400),
        ("POST", "/tokens", token(#""customer":7"#), 400),
        ("POST", "/tokens", token(#""tokenCreationDate":-1"#), 400),
        ("POST", "/tokens", #"{"register":[],"notify":"yes"}"#, 400),
        ("POST", "/keys", "{}", 400),
        ("POST", "/keys", #"{"keyId":"k","issuerId":"i","publicKey":"x"}"#, 400),
    ])
    func `refuse with a sentence`(
        method: String,
        path: String,
        body: String,
        status: Int
    ) throws {
        let answer = call(try SimulatedApp(), method, path, body)
        #expect(answer.status == status)
        #expect(answer.json?["error"]?.text?.isEmpty == false)
    }
}
