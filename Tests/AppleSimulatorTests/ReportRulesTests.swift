import Testing

@testable import AppleSimulator

@Suite struct `S1 and S7: which tokens Apple knows` {
    @Test func `accepts a token in its own environment only`() throws {
        let app = try SimulatedApp()
        app.issue("prod-1")
        app.issue("SANDBOX_1")
        #expect(app.put(report(1, "prod-1"), in: .sandbox).errors == ["3 externalPurchaseId"])
        #expect(app.put(report(1, "SANDBOX_1")).errors == ["3 externalPurchaseId"])
        #expect(app.put(report(1, "prod-1")).status == 200)
        #expect(app.put(report(1, "SANDBOX_1"), in: .sandbox).status == 200)
        #expect(app.world.reports(.production).entries.count == 1)
        #expect(app.world.reports(.sandbox).entries.count == 1)
    }

    @Test func `knows nothing of a token never issued, nor of another app's`() throws {
        var app = try SimulatedApp()
        app.issue("mine")
        #expect(app.put(report(1, "never")).errors == ["3 externalPurchaseId"])
        app.bundleID = "com.example.other"
        #expect(app.put(report(1, "mine")).errors == ["3 externalPurchaseId"])
    }
}

@Suite struct `S3 and S4: once, and whole or not at all` {
    @Test func `answers success with the identifier and keeps the report`() throws {
        let app = try SimulatedApp()
        app.issue("t")
        let answer = app.put(report(7, "t"))
        #expect(answer.status == 200)
        #expect(answer.headers["Content-Type"] == "application/json")
        #expect(answer.bodyText == #"{"requestIdentifier":"\#(identifier(7))"}"#)
    }

    @Test func `refuses an identifier once accepted, however alike the body`() throws {
        let app = try SimulatedApp()
        app.issue("t")
        app.issue("u")
        #expect(app.put(report(1, "t")).status == 200)
        #expect(app.put(report(1, "t")).errors == ["1 requestIdentifier"])
        #expect(app.put(report(1, "u")).errors == ["1 requestIdentifier"])
        #expect(app.put(report(1, "t").uppercasedIdentifier).errors == ["1 requestIdentifier"])
        #expect(app.world.reports(.production).entries.count == 1)
    }

    @Test func `takes the same identifier after a failure`() throws {
        let app = try SimulatedApp()
        #expect(app.put(report(1, "later")).status == 400)
        #expect(app.world.reports(.production).entries.isEmpty)
        app.issue("later")
        #expect(app.put(report(1, "later")).status == 200)
    }
}

extension String {
    fileprivate var uppercasedIdentifier: String {
        replacing("5b0c1a52", with: "5B0C1A52")
    }
}

@Suite struct `S5 and S6: errors, and what is no report` {
    @Test func `collects every violation`() throws {
        let app = try SimulatedApp()
        app.issue("t")
        #expect(app.put(report(1, "t")).status == 200)
        let body =
            #"{"requestIdentifier":"\#(identifier(1))","externalPurchaseId":"x","#
            + #""status":"NO_LINE_ITEM","lineItems":[]}"#
        #expect(
            app.put(body).errors == ["1 requestIdentifier", "3 externalPurchaseId", "10 status"]
        )
    }

    @Test(arguments: [
        ("{}", ["4 requestIdentifier", "4 externalPurchaseId", "4 status"]),
        (
            #"{"requestIdentifier":null,"externalPurchaseId":"t","status":null}"#,
            ["4 requestIdentifier", "4 status"]
        ),
    ])
    func `names what is missing`(body: String, errors: [String]) throws {
        let app = try SimulatedApp()
        app.issue("t")
        #expect(app.put(body).errors == errors)
    }

    @Test(arguments: [
        "", "{", "[]", "7", "{\"a\":1,}", "\u{FEFF}{}", "{} x",
        #"{"requestIdentifier":7}"#,
        #"{"requestIdentifier":"5b0c1a52-4f0e-4a55-9f1e-00000000000"}"#,
        #"{"requestIdentifier":"5b0c1a524-f0e-4a55-9f1e-000000000001"}"#,
        #"{"requestIdentifier":"5b0c1a5214f0e-4a55-9f1e-000000000001"}"#,
        #"{"status":"LINE_ITEMS"}"#, #"{"status":true}"#, #"{"lineItems":{}}"#,
        #"{"lineItems":[7]}"#, #"{"lineItems":[{"eventType":"CHARGEBACK"}]}"#,
        #"{"lineItems":[{"productType":"GIFT"}]}"#,
        #"{"lineItems":[{"subscriptionEvent":"INITIAL_BUY"}]}"#,
        #"{"lineItems":[{"quantity":"1"}]}"#, #"{"lineItems":[{"quantity":1.0}]}"#,
        #"{"lineItems":[{"exchangeRate":1e2}]}"#, #"{"lineItems":[{"restatement":"true"}]}"#,
        #"{"lineItems":[{"subscriptionDaysOfPaidService":2147483648}]}"#,
        #"{"lineItems":[{"creationDate":9223372036854775808}]}"#,
    ])
    func `answers what is no report without an error list`(body: String) throws {
        let app = try SimulatedApp()
        app.issue("t")
        let answer = app.put(body)
        #expect(answer.status == 400)
        #expect(answer.json?["errors"] == nil)
    }

    @Test func `S20: asks for the content type of JSON`() throws {
        let app = try SimulatedApp()
        app.issue("t")
        var request = app.request("PUT", "/externalPurchase/v1/reports", report(1, "t"))
        for type in [nil, "text/plain", "application/jsonp"] {
            request.contentType = type
            let answer = app.world.exchange(request, real: SimulatedApp.start).answer
            #expect(answer.status == 400)
            #expect(answer.json?["errors"] == nil)
        }
        request.contentType = "Application/JSON; charset=utf-8"
        #expect(app.world.exchange(request, real: SimulatedApp.start).answer.status == 200)
    }
}

@Suite struct `S8: statuses` {
    @Test(arguments: [
        ("NO_LINE_ITEM", nil as String?, 200), ("UNRECOGNIZED_TOKEN", nil, 200),
        ("DUPLICATE_TOKEN", "SERVICES", 200), ("DUPLICATE_TOKEN", "ACQUISITION", 200),
        ("DUPLICATE_TOKEN", nil, 400), ("DUPLICATE_TOKEN", "LINK_OUT", 400),
        ("DUPLICATE_TOKEN", "CORE_TECHNOLOGY", 400), ("NO_LINE_ITEM", "IN_APP", 200),
    ])
    func `DUPLICATE_TOKEN is for two types only`(status: String, type: String?, code: Int) throws {
        let app = try SimulatedApp()
        app.issue("t", type: type)
        let answer = app.put(report(1, "t", status))
        #expect(answer.status == code)
        #expect(answer.errors == (code == 400 ? ["37 status"] : nil))
    }

    @Test func `asks for line items with LINE_ITEM and for none without`() throws {
        let app = try SimulatedApp()
        app.issue("t")
        #expect(app.put(report(1, "t", "LINE_ITEM")).errors == ["9 status"])
    }

    @Test func `the strict switch asks for another token of the same period`() throws {
        let app = try SimulatedApp { $0.requiresSiblingForDuplicate = true }
        let expiry = SimulatedApp.start + SimulatedApp.day
        for (id, customer) in [("a", "p"), ("b", "p"), ("c", "q")] {
            app.issue(id, type: "SERVICES", expiresAt: expiry, customer: customer)
        }
        #expect(app.put(report(1, "a", "DUPLICATE_TOKEN")).status == 200)
        #expect(app.put(report(2, "c", "DUPLICATE_TOKEN")).errors == ["37 status"])
        // Its one sibling is a duplicate itself.
        #expect(app.put(report(2, "b", "DUPLICATE_TOKEN")).errors == ["37 status"])
        #expect(app.put(report(2, "b")).status == 200)
        #expect(app.put(report(3, "a", "DUPLICATE_TOKEN")).status == 200)
    }

    @Test(arguments: ["NO_LINE_ITEM", "UNRECOGNIZED_TOKEN"])
    func `the strict switch lets no token become a duplicate or cease to be one`(
        other: String
    ) throws {
        let expiry = SimulatedApp.start + SimulatedApp.day
        for isStrict in [true, false] {
            let app = try SimulatedApp { $0.requiresSiblingForDuplicate = isStrict }
            for id in ["a", "b", "c"] {
                app.issue(id, type: "SERVICES", expiresAt: expiry, customer: "p")
            }
            let errors = isStrict ? ["37 status"] : nil
            #expect(app.put(report(1, "a", "DUPLICATE_TOKEN")).status == 200)
            #expect(app.put(report(2, "a", other)).errors == errors)
            #expect(app.put(report(3, "b", other)).status == 200)
            #expect(app.put(report(4, "b", "DUPLICATE_TOKEN")).errors == errors)
        }
    }

    @Test func `S11: one report of a token at a time`() throws {
        let app = try SimulatedApp()
        app.issue("t")
        app.world.hold("t")
        #expect(app.put(report(1, "t")).errors == ["26"])
        app.world.release("t")
        #expect(app.put(report(1, "t")).status == 200)
    }
}

@Suite struct `S12: reports can be read again` {
    @Test func `returns the accepted report and nothing unknown`() throws {
        let app = try SimulatedApp()
        app.issue("t")
        let body = report(1, "t").dropLast() + #","note":"x"}"#
        #expect(app.put(String(body)).status == 200)
        let path = "/externalPurchase/v1/reports/\(identifier(1))"
        let answer = app.world.exchange(app.request("GET", path), real: SimulatedApp.start).answer
        #expect(answer.status == 200)
        #expect(answer.bodyText == #"{"report":\#(report(1, "t"))}"#)
    }

    @Test(arguments: [true, false])
    func `does not find what failed, in either form`(wraps: Bool) throws {
        let app = try SimulatedApp { $0.wrapsLookupErrors = wraps }
        #expect(app.put(report(1, "unknown")).status == 400)
        for id in [identifier(1), identifier(2), "no-uuid"] {
            let answer = app.world.get(id, environment: .production, bundleID: app.bundleID)
            #expect(answer.status == 400)
            let error = wraps ? answer.json?["errors"]?.elements?.first : answer.json
            #expect(error?.errorSummary == "3 requestIdentifier")
        }
    }

    @Test func `keeps the environments and the apps apart`() throws {
        let app = try SimulatedApp()
        app.issue("t")
        #expect(app.put(report(1, "t")).status == 200)
        let id = identifier(1)
        #expect(app.world.get(id, environment: .sandbox, bundleID: app.bundleID).status == 400)
        #expect(app.world.get(id, environment: .production, bundleID: "x").status == 400)
    }
}
