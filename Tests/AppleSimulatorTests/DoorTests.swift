import Crypto
import Testing

@testable import AppleSimulator

@Suite struct `S2: who may speak` {
    private static let now = SimulatedApp.start / 1000

    @Test(
        arguments: [
            ("iss", JSONValue.string("someone")), ("iss", nil),
            ("aud", .string("appstoreconnect-v2")),
            ("aud", nil), ("bid", .string("com.example.foreign")), ("bid", nil), ("iat", nil),
            ("iat", .integer(now + 61)), ("iat", .string("now")), ("exp", nil),
            ("exp", .integer(now)),
            ("exp", .integer(now + 3601)),
        ] as [(String, JSONValue?)]
    )
    func `refuses a claim`(name: String, value: JSONValue?) throws {
        let app = try SimulatedApp()
        let authorization = app.authorization([name: value])
        #expect(app.world.caller(authorization, real: SimulatedApp.start) == nil)
    }

    @Test(
        arguments: [
            ("alg", JSONValue.string("HS256")), ("alg", .string("none")), ("kid", .string("OTHER")),
            ("kid", nil), ("typ", .string("JWE")),
        ] as [(String, JSONValue?)]
    )
    func `refuses a header`(name: String, value: JSONValue?) throws {
        let app = try SimulatedApp()
        let authorization = app.authorization(header: [name: value])
        #expect(app.world.caller(authorization, real: SimulatedApp.start) == nil)
    }

    @Test func `refuses another key's signature and a JWT that has run out`() throws {
        let app = try SimulatedApp()
        let forged = app.authorization(signedBy: try P256PrivateKey.generate())
        #expect(app.world.caller(forged, real: SimulatedApp.start) == nil)
        let good = app.authorization()
        #expect(app.world.caller(good, real: SimulatedApp.start)?.bundleID == app.bundleID)
        #expect(app.world.caller(good, real: SimulatedApp.start + 299_999) != nil)
        #expect(app.world.caller(good, real: SimulatedApp.start + 300_000) == nil)
    }

    @Test func `takes a JWT of one hour`() throws {
        let app = try SimulatedApp()
        let authorization = app.authorization(["exp": .integer(Self.now + 3600)])
        #expect(app.world.caller(authorization, real: SimulatedApp.start) != nil)
    }

    @Test(arguments: [
        (nil, Self.now + 3600, 404), (nil, Self.now + 3601, 401),
        (Int64.min, Self.now + 300, 401), (Self.now, Self.now + 300, 404),
    ])
    func `lets a JWT without iat pass beside the reports, as Apple's library sends it`(
        issuedAt: Int64?,
        expiresAt: Int64,
        status: Int
    ) throws {
        let app = try SimulatedApp()
        let claims: [String: JSONValue?] = [
            "iat": issuedAt.map { .integer($0) }, "exp": .integer(expiresAt),
        ]
        let path = "/inApps/v1/transactions/1/appAccountToken"
        var request = app.request("PUT", path, #"{"appAccountToken":"\#(identifier(1))"}"#)
        request.authorization = app.authorization(claims)
        let answer = app.world.exchange(request, real: SimulatedApp.start).answer
        #expect(answer.status == status)
    }

    @Test(arguments: [nil, "", "Bearer", "Bearer a.b", "Basic eDp5", "Bearer a.b.c.d"])
    func `answers 401 without JSON`(authorization: String?) throws {
        let app = try SimulatedApp()
        app.issue("t")
        var request = app.request("PUT", "/externalPurchase/v1/reports", report(1, "t"))
        request.authorization = authorization
        let answer = app.world.exchange(request, real: SimulatedApp.start).answer
        #expect(answer.status == 401)
        #expect(answer.json == nil)
        #expect(app.world.reports(.production).entries.isEmpty)
    }
}

@Suite struct `S14: rate limits` {
    @Test(arguments: [
        (StoreEnvironment.production, 20), (.sandbox, 2),
    ])
    func `count per app and window, a tenth in the sandbox`(
        environment: StoreEnvironment,
        allowance: Int
    ) throws {
        let app = try SimulatedApp {
            $0.limitPerSecond[.report] = 2
            $0.rateWindowsMilliseconds = [10_000]
        }
        let windowStart = SimulatedApp.start
        for number in 0..<allowance {
            #expect(app.exchange(report(number, "x"), in: environment).answer.status == 400)
        }
        let limited = app.exchange(report(99, "x"), in: environment, real: windowStart + 9_999)
        #expect(limited.answer.status == 429)
        #expect(limited.answer.json?["errorCode"]?.integer == 4_290_000)
        #expect(limited.answer.headers["Retry-After"] == String(windowStart + 10_000))
        let next = app.exchange(report(99, "x"), in: environment, real: windowStart + 10_000)
        #expect(next.answer.status == 400)
    }

    @Test(arguments: [
        (RateLimitAnswer.full, true, true), (.noHeader, false, true), (.bare, false, false),
    ])
    func `look as asked for reports`(form: RateLimitAnswer, hasHeader: Bool, hasBody: Bool) throws {
        let app = try SimulatedApp {
            $0.limitPerSecond[.report] = 0
            $0.rateLimitAnswer = form
        }
        let answer = app.exchange(report(1, "x")).answer
        #expect(answer.status == 429)
        #expect((answer.headers["Retry-After"] != nil) == hasHeader)
        #expect(answer.body.isEmpty != hasBody)
    }

    @Test func `keep every window, and tell when the last of the full ones ends`() throws {
        let app = try SimulatedApp {
            $0.limitPerSecond[.report] = 2
            $0.rateWindowsMilliseconds = [10_000, 1_000]
        }
        let start = SimulatedApp.start
        func status(_ milliseconds: Int64) -> (Int, String?) {
            let answer = app.exchange(report(1, "x"), real: start + milliseconds).answer
            return (answer.status, answer.headers["Retry-After"])
        }
        for second: Int64 in 0..<10 {
            #expect(status(second * 1_000).0 == 400)
            #expect(status(second * 1_000 + 500).0 == 400)
            // What a second refuses is not counted for the ten.
            let end = second < 9 ? second * 1_000 + 1_000 : 10_000
            #expect(status(second * 1_000 + 900) == (429, String(start + end)))
        }
        #expect(status(10_000).0 == 400)
    }

    @Test func `allow one request where a window's share is less than one`() throws {
        let app = try SimulatedApp {
            $0.limitPerSecond[.report] = 5
            $0.rateWindowsMilliseconds = [1_000]
        }
        func status(_ milliseconds: Int64) -> Int {
            let real = SimulatedApp.start + milliseconds
            return app.exchange(report(1, "x"), in: .sandbox, real: real).answer.status
        }
        #expect([0, 1, 999, 1_000, 1_001].map(status) == [400, 429, 429, 400, 429])
    }

    @Test func `are the published ones by default, none for reports`() {
        let limiter = RateLimiter()
        #expect(limiter.limitPerSecond[.accountToken] == 20)
        #expect(limiter.limitPerSecond[.notificationHistory] == 50)
        #expect(limiter.limitPerSecond[.testNotification] == 1)
        #expect(limiter.limitPerSecond[.report] == nil)
        #expect(limiter.windowsMilliseconds == [3_600_000])
    }
}

@Suite struct `S15: faults` {
    @Test(arguments: [
        ("500", 500, "{\"errorCode\":5000000"), ("500-retryable", 500, "{\"errorCode\":5000001"),
        ("500-empty", 500, ""), ("503", 503, ""), ("429", 429, "{\"errorCode\":4290000"),
        ("429-no-header", 429, "{\"errorCode\":4290000"), ("429-bare", 429, ""),
        ("401", 401, "Unauth"), ("26", 400, "{\"errors\":[{\"errorCode\":26"),
    ])
    func `answer instead of Apple, and nothing is stored`(
        kind: String,
        status: Int,
        beginning: String
    ) throws {
        let app = try SimulatedApp()
        app.issue("t")
        app.world.add(try FaultRule("\(kind):times=1"))
        let reply = app.exchange(report(1, "t"))
        #expect(reply.answer.status == status)
        #expect(reply.answer.bodyText.hasPrefix(beginning))
        #expect(reply.answer.body.isEmpty == beginning.isEmpty)
        #expect(app.world.reports(.production).entries.isEmpty)
        #expect(app.exchange(report(1, "t")).answer.status == 200)
    }

    @Test func `Retry-After is an absolute time in milliseconds`() throws {
        let app = try SimulatedApp()
        app.world.add(try FaultRule("429:retry-after=2s"))
        let answer = app.exchange(report(1, "t")).answer
        #expect(answer.headers["Retry-After"] == String(SimulatedApp.start + 2000))
    }

    @Test func `a reset before is not processed, a reset after is`() throws {
        let app = try SimulatedApp()
        app.issue("t")
        app.world.add(try FaultRule("reset-before:times=1"))
        app.world.add(try FaultRule("reset-after:times=1"))
        app.world.add(try FaultRule("torn:times=1"))
        #expect(app.exchange(report(1, "t")).delivery == .reset)
        #expect(app.world.reports(.production).entries.isEmpty)
        #expect(app.exchange(report(1, "t")).delivery == .reset)
        #expect(app.world.reports(.production).entries.count == 1)
        let third = app.exchange(report(1, "t"))
        #expect(third.delivery == .torn)
        #expect(third.answer.errors == ["1 requestIdentifier"])
        #expect(app.exchange(report(1, "t")).delivery == .answered)
    }

    @Test func `a slow answer is late and right`() throws {
        let app = try SimulatedApp()
        app.issue("t")
        app.world.add(try FaultRule("slow:for=300ms"))
        let reply = app.exchange(report(1, "t"))
        #expect(reply.delayMilliseconds == 300)
        #expect(reply.answer.status == 200)
        #expect(reply.busyToken == "t")
    }

    @Test(arguments: [
        ("500:every=3", "..x..x..x."), ("500:after=2", "..xxxxxxxx"),
        ("500:after=2,times=3", "..xxx....."), ("500:every=2,times=2", ".x.x......"),
        ("500:on=report-get", ".........."), ("500:on=any", "xxxxxxxxxx"),
        ("500:environment=sandbox", ".........."), ("500:app=com.example.app", "xxxxxxxxxx"),
        ("500:app=com.example.other", ".........."), ("500:token=x", "xxxxxxxxxx"),
        ("500:token=y", ".........."), ("500:probability=0", ".........."),
        ("500:probability=1", "xxxxxxxxxx"),
    ])
    func `strike the requests they name`(fault: String, pattern: String) throws {
        let app = try SimulatedApp()
        app.world.add(try FaultRule(fault))
        let struck = (0..<10).map { app.exchange(report($0, "x")).answer.status == 500 }
        #expect(String(struck.map { $0 ? "x" : "." }) == pattern)
    }

    @Test func `chance comes from the seed alone`() throws {
        let patterns = try (0..<2).map { _ in
            let app = try SimulatedApp()
            app.world.add(try FaultRule("500:probability=0.3,seed=9"))
            return (0..<200).map { app.exchange(report($0, "x")).answer.status == 500 }
        }
        #expect(patterns[0] == patterns[1])
        #expect((30...90).contains(patterns[0].count { $0 }))
    }

    @Test(arguments: [
        ("", "unknown fault"), ("teapot", "unknown fault"), ("429:evry=3", "unknown fault setting"),
        ("429:every=0", "every=0"), ("429:every", "cannot be read"), ("slow:for=3", "for=3"),
        ("500:probability=1.5", "probability=1.5"), ("500:on=everything", "on=everything"),
        ("500:on=report-get,token=x", "token=x"), ("500:token=x,on=history", "token=x"),
    ])
    func `are refused with a sentence`(text: String, part: String) {
        let fault = #expect(throws: FaultRuleFault.self) { try FaultRule(text) }
        #expect(fault?.description.contains(part) == true)
    }

    @Test(arguments: [
        "429:every=50,retry-after=2000ms", "slow:times=3,on=any,for=500ms", "reset-after",
        "500:probability=0.05,seed=7,environment=sandbox", "26:after=1,on=report,token=abc",
    ])
    func `read back as they are written`(text: String) throws {
        #expect(try FaultRule(text).text == text)
    }
}
