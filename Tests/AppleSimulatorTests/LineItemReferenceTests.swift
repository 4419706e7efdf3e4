import Testing

@testable import AppleSimulator

@Suite struct `S9 and S10: line items among each other` {
    private static let year = LineItemRules.yearMilliseconds

    /// A world in which the items were accepted, under the identifier 100.
    private func app(_ accepted: JSONValue...) throws -> SimulatedApp {
        let app = try SimulatedApp()
        app.issue("t")
        if !accepted.isEmpty { #expect(app.put(100, accepted).errors == nil) }
        return app
    }

    // MARK: S10

    @Test func `1: an identifier is taken once for the app, over all tokens`() throws {
        let app = try app(SampleItems.oneTime())
        #expect(app.put(1, [SampleItems.oneTime()]).errors == ["1 lineItemId a"])
        let twice = [SampleItems.oneTime("b"), SampleItems.oneTime("b")]
        #expect(app.put(1, twice).errors == ["1 lineItemId b"])
        #expect(app.put(1, [SampleItems.oneTime("b")]).errors == nil)
    }

    @Test func `3: only what exists can be restated`() throws {
        let app = try app(SampleItems.oneTime())
        #expect(app.put(1, [SampleItems.oneTime("b").restated()]).errors == ["3 lineItemId b"])
        #expect(app.put(1, [SampleItems.oneTime("a").restated()]).errors == nil)
    }

    @Test func `30: an item is retracted once, and may be put back`() throws {
        let retraction = SampleItems.oneTime().restated([
            "erroneouslySubmitted": .bool(true), "netAmountTaxExclusive": .integer(0),
        ])
        let app = try app(SampleItems.oneTime())
        #expect(app.put(1, [retraction]).errors == nil)
        #expect(app.put(2, [retraction]).errors == ["30 erroneouslySubmitted a"])
        let undone = SampleItems.oneTime().restated(["erroneouslySubmitted": .bool(false)])
        #expect(app.put(2, [undone]).errors == nil)
        #expect(app.put(3, [retraction]).errors == nil)
    }

    @Test func `38: a restatement keeps the date`() throws {
        let app = try app(SampleItems.oneTime())
        let moved = SampleItems.oneTime().restated(["creationDate": .integer(SampleItems.date - 1)])
        #expect(app.put(1, [moved]).errors == ["38 creationDate a"])
    }

    @Test func `39: a restatement comes within a year`() throws {
        let app = try app(SampleItems.oneTime())
        let again = [SampleItems.oneTime().restated()]
        #expect(app.put(1, again, now: SampleItems.date + Self.year).errors == nil)
        let late = app.put(2, again, now: SampleItems.date + Self.year + 1)
        #expect(late.errors == ["39 creationDate a"])
    }

    // MARK: Refunds

    @Test func `a refund repeats its buy and carries the net`() throws {
        let app = try app(SampleItems.oneTime())
        #expect(app.put(1, [SampleItems.refund()]).errors == nil)
    }

    @Test(arguments: [
        (
            ["reportingCurrency": .string("USD"), "pricingCurrency": .string("USD")] as Changes,
            ["2 reportingCurrency r", "32 pricingCurrency r"]
        ),
        (["taxCountry": .string("PRT")], ["23 taxCountry r"]),
        (
            ["pricingCurrency": .string("ISK"), "exchangeRate": .number("0.5")],
            ["32 pricingCurrency r", "33 exchangeRate r"]
        ),
        (
            ["creationDate": .integer(SampleItems.date - 1)],
            ["31 creationDate r"]
        ),
        (["netAmountTaxExclusive": .integer(3127)], ["12 netAmountTaxExclusive r"]),
        (["referenceLineItemId": .string("zz")], ["3 referenceLineItemId r"]),
        (["referenceLineItemId": .string("r")], ["13 referenceLineItemId r"]),
        (["productType": .string("ONE_TIME_BUY")], ["5 productType r"]),
        (["quantity": .integer(1)], ["5 quantity r"]),
        (["productIdentifier": .string("x")], ["5 productIdentifier r"]),
    ])
    func `2, 3, 5, 12, 13, 23, 31, 32, 33: and nothing else passes`(
        changes: Changes,
        errors: [String]
    ) throws {
        let app = try app(SampleItems.oneTime())
        #expect(app.put(1, [SampleItems.refund("r", of: "a", changes)]).errors == errors)
    }

    @Test func `33: rates are compared by value`() throws {
        let island: Changes = ["pricingCurrency": .string("ISK"), "exchangeRate": .number("0.50")]
        let app = try app(SampleItems.oneTime("a", island))
        let same = island.merging(["exchangeRate": .number("0.5")]) { $1 }
        #expect(app.put(1, [SampleItems.refund("r", of: "a", same)]).errors == nil)
    }

    @Test func `28: a refund is not refunded`() throws {
        let app = try app(SampleItems.oneTime().netting(3126), SampleItems.refund())
        let second = SampleItems.refund("q", of: "r")
        #expect(app.put(1, [second]).errors == ["28 lineItemId q"])
    }

    @Test(arguments: [
        (["taxCountry": .string("PRT")] as Changes, ["23 taxCountry a"]),
        (
            ["reportingCurrency": .string("USD"), "pricingCurrency": .string("USD")],
            ["2 reportingCurrency a", "32 pricingCurrency a"]
        ),
        (
            ["pricingCurrency": .string("ISK"), "exchangeRate": .number("0.5")],
            ["32 pricingCurrency a", "33 exchangeRate a"]
        ),
    ])
    func `2, 23, 32, 33: a restated buy keeps what its accepted refunds repeat`(
        changes: Changes,
        errors: [String]
    ) throws {
        let app = try app(SampleItems.oneTime().netting(3126), SampleItems.refund())
        let buy = SampleItems.oneTime().netting(3126).restated(changes)
        #expect(app.put(1, [buy]).errors == errors)
        // With its refund beside it, and again once the refund is retracted.
        let refund = SampleItems.refund().restated(changes)
        #expect(app.put(1, [buy, refund]).errors == nil)
        let retracted = refund.netting(4126).restated(["erroneouslySubmitted": .bool(true)])
        #expect(app.put(2, [retracted]).errors == nil)
        #expect(app.put(3, [SampleItems.oneTime().restated()]).errors == nil)
    }

    @Test func `28: a refunded buy is not restated as a refund`() throws {
        let small = SampleItems.oneTime("a", SampleItems.amount(1000, net: 700))
        let refund = SampleItems.refund("r", of: "a", SampleItems.amount(300, net: 700))
        let app = try app(small, refund, SampleItems.oneTime("b"))
        let turned = SampleItems.refund(
            "a",
            of: "b",
            SampleItems.amount(1000, net: 3126).merging([
                "creationDate": .integer(SampleItems.date)
            ]) { $1 }
        )
        #expect(app.put(1, [turned.restated()]).errors == ["28 lineItemId a"])
    }

    @Test func `14, 29: a start with renewals is not restated as a renewal`() throws {
        let renewal = SampleItems.subscription(
            "n",
            event: "RENEWAL",
            ["referenceLineItemId": .string("s")]
        )
        let app = try app(SampleItems.subscription(), renewal, SampleItems.subscription("s2"))
        let turned = SampleItems.subscription(
            "s",
            event: "RENEWAL",
            ["referenceLineItemId": .string("s2")]
        )
        let answer = app.put(1, [turned.restated()])
        #expect(answer.errors == ["14 referenceLineItemId s", "29 lineItemId s"])
    }

    @Test func `40: a refund comes within a year of its buy`() throws {
        let app = try app(SampleItems.oneTime())
        let refund = [SampleItems.refund()]
        let late = app.put(1, refund, now: SampleItems.date + Self.year + 1)
        #expect(late.errors == ["40 creationDate r"])
        #expect(app.put(1, refund, now: SampleItems.date + Self.year).errors == nil)
    }

    // MARK: Net amounts

    @Test func `net amounts follow refunds, restatements and retractions`() throws {
        let buy = SampleItems.oneTime("a", SampleItems.amount(1000, net: 1000))
        let app = try app(buy)
        let refund = SampleItems.refund("r", of: "a", SampleItems.amount(300, net: 700))
        #expect(app.put(1, [refund]).errors == nil)
        let wrong = buy.restated(SampleItems.amount(800, net: 800))
        #expect(app.put(2, [wrong]).errors == ["12 netAmountTaxExclusive a"])
        #expect(app.put(2, [buy.restated(SampleItems.amount(800, net: 500))]).errors == nil)
        let retracted = refund.restated(
            SampleItems.amount(300, net: 800).merging(["erroneouslySubmitted": .bool(true)]) { $1 }
        )
        #expect(app.put(3, [retracted]).errors == nil)
    }

    @Test func `24: items of one calculation agree within a report`() throws {
        let app = try app()
        let buy = SampleItems.oneTime("a", SampleItems.amount(1000, net: 1000))
        let refund = SampleItems.refund("r", of: "a", SampleItems.amount(300, net: 700))
        #expect(
            app.put(1, [buy, refund]).errors
                == ["24 netAmountTaxExclusive a", "24 netAmountTaxExclusive r"]
        )
        #expect(app.put(1, [buy.netting(700), refund]).errors == nil)
    }

    // MARK: Subscriptions

    @Test(arguments: ["RENEWAL", "SUBSCRIPTION_CHANGE", "SUBSCRIPTION_PAYMENT"])
    func `later events point at the start, in the same report or before`(event: String) throws {
        let later = SampleItems.subscription(
            "n",
            event: event,
            ["referenceLineItemId": .string("s")]
        )
        #expect(try app(SampleItems.subscription()).put(1, [later]).errors == nil)
        #expect(try app().put(1, [later, SampleItems.subscription()]).errors == nil)
        #expect(try app().put(1, [later]).errors == ["3 referenceLineItemId n"])
    }

    @Test func `14, 21, 29: and at nothing else`() throws {
        let renewal = SampleItems.subscription(
            "n",
            event: "RENEWAL",
            ["referenceLineItemId": .string("s")]
        )
        let app = try app(
            SampleItems.oneTime().netting(3126),
            SampleItems.refund(),
            SampleItems.subscription(),
            renewal
        )
        for (target, errors) in [
            ("n", ["14 referenceLineItemId m", "29 lineItemId m"]), ("a", ["29 lineItemId m"]),
            ("r", ["31 creationDate m", "21 referenceLineItemId m"]),
        ] {
            let item = SampleItems.subscription(
                "m",
                event: "RENEWAL",
                ["referenceLineItemId": .string(target)]
            )
            #expect(app.put(1, [item]).errors == errors)
        }
    }

    @Test func `35: a payment is of something`() throws {
        let app = try app(SampleItems.subscription())
        let free = SampleItems.subscription(
            "n",
            event: "SUBSCRIPTION_PAYMENT",
            SampleItems.amount(0, net: 0).merging(["referenceLineItemId": .string("s")]) { $1 }
        )
        #expect(app.put(1, [free]).errors == ["35 amountTaxInclusive n"])
    }

    // MARK: Retractions

    @Test func `22 and 25: retracted items have no live ones pointing at them`() throws {
        let start = SampleItems.subscription()
        let renewal = SampleItems.subscription(
            "n",
            event: "RENEWAL",
            ["referenceLineItemId": .string("s")]
        )
        func retracted(_ item: JSONValue) -> JSONValue {
            item.restated([
                "erroneouslySubmitted": .bool(true), "netAmountTaxExclusive": .integer(0),
            ])
        }
        let app = try app(start, renewal)
        #expect(app.put(1, [retracted(start)]).errors == ["22 erroneouslySubmitted s"])
        #expect(app.put(1, [retracted(start), retracted(renewal)]).errors == nil)
        let late = renewal.with(["lineItemId": .string("m")])
        #expect(app.put(2, [late]).errors == ["25 erroneouslySubmitted m"])
    }

    @Test func `nothing of a refused report is kept`() throws {
        let app = try app()
        let bad = SampleItems.oneTime("b", ["quantity": .integer(0)])
        #expect(app.put(1, [SampleItems.oneTime("a"), bad]).errors == ["16 quantity b"])
        #expect(app.put(1, [SampleItems.oneTime("a"), SampleItems.oneTime("b")]).errors == nil)
    }

    @Test func `8: after LINE_ITEM no other status but a later LINE_ITEM`() throws {
        let app = try app(SampleItems.oneTime())
        for status in ["NO_LINE_ITEM", "UNRECOGNIZED_TOKEN"] {
            #expect(app.put(report(1, "t", status)).errors == ["8 status"])
        }
        #expect(app.put(1, [SampleItems.oneTime("b")]).errors == nil)
    }

    @Test func `NO_LINE_ITEM may become LINE_ITEM`() throws {
        let app = try app()
        #expect(app.put(report(1, "t")).status == 200)
        #expect(app.put(2, [SampleItems.oneTime()]).errors == nil)
    }
}

extension SampleItems {
    /// Amounts without tax.
    static func amount(_ exclusive: Int64, net: Int64) -> Changes {
        [
            "amountTaxExclusive": .integer(exclusive), "taxAmount": .integer(0),
            "amountTaxInclusive": .integer(exclusive), "netAmountTaxExclusive": .integer(net),
        ]
    }
}

extension JSONValue {
    func netting(_ amount: Int64) -> JSONValue {
        with(["netAmountTaxExclusive": .integer(amount)])
    }
}
