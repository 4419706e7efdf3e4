import Testing

@testable import AppleSimulator

@Suite struct `S13: Set App Account Token` {
    private static let uuid = "4f0e4a55-9f1e-4f6a-8c1d-2e3f5b0c1a52"

    private func world() throws -> SimulatedApp {
        let app = try SimulatedApp()
        for (id, original, family) in [("1", "1", false), ("2", "1", false), ("3", "3", true)] {
            app.world.register(
                StoreTransaction(
                    transactionID: id,
                    originalTransactionID: original,
                    environment: .production,
                    bundleID: app.bundleID,
                    appTransactionID: "70",
                    isFamilyShared: family
                )
            )
        }
        return app
    }

    private func set(_ app: SimulatedApp, _ id: String, _ body: String) -> AppleAnswer {
        let path = "/inApps/v1/transactions/\(id)/appAccountToken"
        return app.world.exchange(app.request("PUT", path, body), real: SimulatedApp.start).answer
    }

    private func body(_ token: String) -> String { #"{"appAccountToken":"\#(token)"}"# }

    @Test func `sets, repeats and replaces, with an empty 200`() throws {
        let app = try world()
        for token in [Self.uuid.uppercased(), Self.uuid, identifier(9)] {
            let answer = set(app, "1", body(token))
            #expect(answer.status == 200)
            #expect(answer.body.isEmpty)
            #expect(
                app.world.appAccountToken(originalTransactionID: "1", environment: .production)
                    == token.lowercased()
            )
        }
    }

    @Test(arguments: [
        ("abc", uuid, 400, 4_000_006), ("123456789012345678901", uuid, 400, 4_000_006),
        ("70", uuid, 400, 4_000_048), ("1", "", 400, 4_000_183), ("1", "x", 400, 4_000_183),
        ("3", uuid, 400, 4_000_185), ("2", uuid, 400, 4_000_187), ("9", uuid, 404, 4_040_005),
    ])
    func `answers each error as one object`(
        id: String,
        token: String,
        status: Int,
        code: Int64
    ) throws {
        let answer = set(try world(), id, body(token))
        #expect(answer.status == status)
        #expect(answer.json?["errorCode"]?.integer == code)
        #expect(answer.json?["errorMessage"]?.text?.isEmpty == false)
    }

    @Test(arguments: ["", "[]", "{}", #"{"appAccountToken":7}"#])
    func `answers 400 without a code to what is no request`(text: String) throws {
        let answer = set(try world(), "1", text)
        #expect(answer.status == 400)
        #expect(!answer.bodyText.contains("errorCode"))
    }

    @Test func `knows nothing of another app's purchase or of the other environment's`() throws {
        var app = try world()
        app.bundleID = "com.example.other"
        #expect(set(app, "1", body(Self.uuid)).json?["errorCode"]?.integer == 4_040_005)
    }

    @Test(arguments: [
        ("404-retryable", 404, 4_040_006), ("429", 429, 4_290_000), ("500", 500, 5_000_000),
        ("500-retryable", 500, 5_000_001),
    ])
    func `fails on demand`(fault: String, status: Int, code: Int64) throws {
        let app = try world()
        app.world.add(try FaultRule("\(fault):on=account-token"))
        let answer = set(app, "1", body(Self.uuid))
        #expect(answer.status == status)
        #expect(answer.json?["errorCode"]?.integer == code)
    }

    @Test func `the admin call registers a purchase and signs it`() throws {
        let app = try SimulatedApp()
        let admin = AdminAPI(world: app.world, real: SimulatedApp.start)
        let body = #"{"transactionId":"5","bundleId":"\#(app.bundleID)"}"#
        let answer = admin.answer(
            method: "POST",
            path: "/transactions",
            query: "",
            body: Array(body.utf8)
        )
        #expect(answer.json?["signedTransaction"]?.text?.split(separator: ".").count == 3)
        #expect(set(app, "5", self.body(Self.uuid)).status == 200)
        let list = admin.answer(method: "GET", path: "/transactions", query: "", body: [])
        #expect(list.json?["transactions"]?.elements?.first?["setCount"]?.integer == 1)
    }
}

@Suite struct `S19: notification history and test notifications` {
    private static let now = SimulatedApp.start

    private func history(
        _ app: SimulatedApp,
        _ body: String,
        query: String = ""
    ) -> AppleAnswer {
        var request = app.request("POST", "/inApps/v1/notifications/history", body)
        request.query = query
        return app.world.exchange(request, real: Self.now).answer
    }

    private func range(_ more: String = "") -> String {
        #"{"startDate":\#(Self.now - 1000),"endDate":\#(Self.now + 1000)\#(more)}"#
    }

    /// Forty-five notifications, every third of which failed.
    private func world() throws -> SimulatedApp {
        let app = try SimulatedApp()
        app.world.setNotificationURL("http://127.0.0.1:1/", for: .production)
        for number in 0..<45 {
            let token = try #require(app.world.token(app.issue("t\(number)")))
            app.world.notify(token, subtype: number < 40 ? .unreported : .created, now: Self.now)
        }
        for delivery in app.world.takeDeliveries(at: Self.now, limit: 100) {
            app.world.noteAttempt(
                delivery.notificationIndex % 3 == 0 ? .timedOut : .success,
                notificationIndex: delivery.notificationIndex,
                now: Self.now
            )
        }
        return app
    }

    @Test func `comes in pages of twenty`() throws {
        let app = try world()
        var counts: [Int] = []
        var token: String? = ""
        while let page = token {
            let answer = history(app, range(), query: "paginationToken=\(page)").json
            counts.append(answer?["notificationHistory"]?.elements?.count ?? 0)
            token = answer?["paginationToken"]?.text
            #expect(answer?["hasMore"]?.flag == (token != nil))
        }
        #expect(counts == [20, 20, 5])
    }

    @Test func `a page skips nothing that a delivery between two pages took out`() throws {
        let app = try world()
        let all = 0..<45
        for index in all where index % 3 != 0 {
            app.world.noteAttempt(.timedOut, notificationIndex: index, now: Self.now)
        }
        let failures = range(#","onlyFailures":true"#)
        let first = history(app, failures).json
        for index in 0..<3 {
            app.world.noteAttempt(.success, notificationIndex: index, now: Self.now)
        }
        let page = first?["paginationToken"]?.text ?? ""
        let second = history(app, failures, query: "paginationToken=\(page)").json
        let seen = [first, second].flatMap { $0?["notificationHistory"]?.elements ?? [] }
        let payloads = seen.compactMap { $0["signedPayload"]?.text }
        #expect(payloads == app.world.notifications.stored[..<40].map(\.signedPayload))
    }

    @Test(arguments: [
        (#","onlyFailures":true"#, 15),
        (
            #","notificationType":"EXTERNAL_PURCHASE_TOKEN","#
                + #""notificationSubtype":"CREATED""#, 5
        ), (#","notificationType":"TEST""#, 0),
        (#","transactionId":"1""#, 0),
    ])
    func `filters`(filter: String, count: Int) throws {
        let answer = history(try world(), range(filter)).json
        #expect(answer?["notificationHistory"]?.elements?.count == count)
    }

    @Test(
        arguments: [
            ("[", 4_000_000), ("{}", 4_000_015), (#"{"startDate":1}"#, 4_000_016),
            (#"{"startDate":\#(now - 180 * SimulatedApp.day - 1),"endDate":\#(now)}"#, 4_000_012),
            (#"{"startDate":\#(now),"endDate":\#(now - 1)}"#, 4_000_013),
            (
                #"{"startDate":\#(now),"endDate":\#(now),"transactionId":"1","notificationType":"TEST"}"#,
                4_000_019
            ),
            (#"{"startDate":\#(now),"endDate":\#(now),"notificationType":"NEWS"}"#, 4_000_018),
        ] as [(String, Int64)]
    )
    func `refuses`(body: String, code: Int64) throws {
        let answer = history(try SimulatedApp(), body)
        #expect(answer.status == 400)
        #expect(answer.json?["errorCode"]?.integer == code)
    }

    @Test func `a test notification is asked for, sent and looked up`() throws {
        let app = try SimulatedApp()
        func call(_ method: String, _ path: String) -> AppleAnswer {
            app.world.exchange(
                app.request(method, "/inApps/v1/notifications/test\(path)"),
                real: Self.now
            ).answer
        }
        #expect(call("POST", "").json?["errorCode"]?.integer == 4_040_007)
        app.world.setNotificationURL("http://127.0.0.1:1/", for: .production)
        let token = try #require(call("POST", "").json?["testNotificationToken"]?.text)
        #expect(call("GET", "/\(token)").json?["errorCode"]?.integer == 4_040_008)
        for delivery in app.world.takeDeliveries(at: Self.now, limit: 9) {
            app.world.noteAttempt(
                .success,
                notificationIndex: delivery.notificationIndex,
                now: Self.now
            )
        }
        let status = call("GET", "/\(token)").json
        #expect(status?["signedPayload"]?.text?.isEmpty == false)
        #expect(
            status?["sendAttempts"]?.elements?.first?["sendAttemptResult"]?.text == "SUCCESS"
        )
        #expect(call("GET", "/unknown").status == 404)
    }
}
