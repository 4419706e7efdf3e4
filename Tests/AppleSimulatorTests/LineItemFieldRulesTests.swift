import Testing

@testable import AppleSimulator

/// One good item with one thing wrong, and what Apple says to it.
struct FieldCase: Sendable, CustomTestStringConvertible {
    var item: JSONValue
    var errors: [String]

    init(_ item: JSONValue, _ errors: String...) {
        self.item = item
        self.errors = errors
    }

    var testDescription: String { errors.joined(separator: ", ") }
}

@Suite struct `S9: what a line item says for itself` {
    private static let long = JSONValue.string(String(repeating: "x", count: 129))
    private static let edge = JSONValue.string(String(repeating: "x", count: 128))

    private func check(_ row: FieldCase) throws {
        let app = try SimulatedApp()
        app.issue("t")
        let answer = app.put(1, [row.item])
        #expect(answer.errors ?? [] == row.errors)
        #expect(answer.status == (row.errors.isEmpty ? 200 : 400))
    }

    @Test(arguments: [
        SampleItems.oneTime(), SampleItems.subscription(),
        SampleItems.oneTime("a", ["lineItemId": edge]),
        SampleItems.oneTime(
            "a",
            [
                "amountTaxExclusive": .integer(0), "taxAmount": .integer(0),
                "amountTaxInclusive": .integer(0), "netAmountTaxExclusive": .integer(0),
            ]
        ),
        SampleItems.oneTime(
            "a",
            [
                "restatement": .bool(false),
                "erroneouslySubmitted": .bool(false),
            ]
        ),
        SampleItems.oneTime(
            "a",
            [
                "pricingCurrency": .string("ISK"),
                "exchangeRate": .number("0.0066"),
            ]
        ),
        SampleItems.oneTime("a", ["unheardOf": .bool(true)]),
    ])
    func `good ones pass`(item: JSONValue) throws {
        try check(FieldCase(item))
    }

    @Test(arguments: [
        FieldCase(SampleItems.oneTime("a", ["lineItemId": nil]), "4 lineItemId"),
        FieldCase(SampleItems.oneTime("a", ["creationDate": nil]), "4 creationDate a"),
        FieldCase(SampleItems.oneTime("a", ["quantity": nil]), "4 quantity a"),
        FieldCase(SampleItems.oneTime("a", ["productType": nil]), "4 productType a"),
        FieldCase(SampleItems.oneTime("a", ["productIdentifier": nil]), "4 productIdentifier a"),
        FieldCase(SampleItems.oneTime("a", ["taxCountry": nil]), "4 taxCountry a"),
        FieldCase(SampleItems.oneTime("a", ["eventType": nil]), "4 eventType a"),
        FieldCase(
            SampleItems.oneTime("a", ["netAmountTaxExclusive": nil]),
            "4 netAmountTaxExclusive a"
        ),
        FieldCase(
            SampleItems.oneTime("a", ["pricingCurrency": .string("ISK")]),
            "4 exchangeRate a"
        ),
        FieldCase(
            SampleItems.subscription("s", event: "SUBSCRIPTION_START", ["subscriptionEvent": nil]),
            "4 subscriptionEvent s"
        ),
        FieldCase(
            SampleItems.subscription(
                "s",
                event: "SUBSCRIPTION_START",
                ["subscriptionDaysOfPaidService": nil]
            ),
            "4 subscriptionDaysOfPaidService s"
        ),
        FieldCase(
            SampleItems.subscription("s", event: "RENEWAL"),
            "4 referenceLineItemId s"
        ),
        FieldCase(
            SampleItems.refund("r", of: "a", ["referenceLineItemId": nil]),
            "4 referenceLineItemId r"
        ),
    ])
    func `4: a required field is missing`(row: FieldCase) throws {
        try check(row)
    }

    @Test(arguments: [
        FieldCase(
            SampleItems.oneTime("a", ["exchangeRate": .number("1")]),
            "5 exchangeRate a"
        ),
        FieldCase(
            SampleItems.oneTime("a", ["referenceLineItemId": .string("b")]),
            "5 referenceLineItemId a"
        ),
        FieldCase(
            SampleItems.oneTime("a", ["subscriptionEvent": .string("RENEWAL")]),
            "5 subscriptionEvent a"
        ),
        FieldCase(
            SampleItems.oneTime("a", ["subscriptionDaysOfPaidService": .integer(0)]),
            "5 subscriptionDaysOfPaidService a"
        ),
        FieldCase(
            SampleItems.subscription(
                "s",
                event: "SUBSCRIPTION_START",
                ["referenceLineItemId": .string("b")]
            ),
            "5 referenceLineItemId s"
        ),
    ])
    func `5: a field does not belong`(row: FieldCase) throws {
        try check(row)
    }

    @Test(arguments: [
        FieldCase(
            SampleItems.oneTime("a", ["creationDate": .integer(SimulatedApp.start + 1)]),
            "6 creationDate a"
        ),
        FieldCase(
            SampleItems.subscription(
                "s",
                event: "SUBSCRIPTION_START",
                ["subscriptionEndDate": .integer(SampleItems.date - 1)]
            ),
            "17 subscriptionEndDate s"
        ),
        FieldCase(
            SampleItems.oneTime("a", ["creationDate": .integer(1_760_000_000)]),
            "27 creationDate a",
            "36 creationDate a"
        ),
        FieldCase(
            SampleItems.subscription(
                "s",
                event: "SUBSCRIPTION_START",
                ["subscriptionStartDate": .integer(1_760_000_000)]
            ),
            "27 subscriptionStartDate s"
        ),
        FieldCase(
            SampleItems.subscription(
                "s",
                event: "SUBSCRIPTION_START",
                [
                    "subscriptionStartDate": .integer(1_640_995_199_999),
                    "subscriptionEndDate": .integer(1_640_995_199_999),
                ]
            ),
            "27 subscriptionStartDate s",
            "27 subscriptionEndDate s"
        ),
        FieldCase(
            SampleItems.oneTime(
                "a",
                ["creationDate": .integer(SimulatedApp.start - SimulatedApp.day - 1)]
            ),
            "36 creationDate a"
        ),
    ])
    func `6, 17, 27, 36: dates`(row: FieldCase) throws {
        try check(row)
    }

    @Test(arguments: [
        FieldCase(
            SampleItems.oneTime("a", ["reportingCurrency": .string("XTS")]),
            "4 exchangeRate a",
            "7 reportingCurrency a"
        ),
        FieldCase(SampleItems.oneTime("a", ["taxCountry": .string("ES")]), "7 taxCountry a"),
        FieldCase(SampleItems.oneTime("a", ["taxCountry": .string("esp")]), "7 taxCountry a"),
        FieldCase(
            SampleItems.oneTime(
                "a",
                ["pricingCurrency": .string("USD"), "exchangeRate": .number("0.9")]
            ),
            "18 reportingCurrency a"
        ),
        FieldCase(
            SampleItems.oneTime(
                "a",
                [
                    "pricingCurrency": .string("ISK"), "reportingCurrency": .string("GBP"),
                    "exchangeRate": .number("0.9"),
                ]
            ),
            "18 reportingCurrency a"
        ),
    ])
    func `7 and 18: codes and conversions`(row: FieldCase) throws {
        try check(row)
    }

    @Test(arguments: [
        FieldCase(
            SampleItems.oneTime("a", ["amountTaxInclusive": .integer(4991)]),
            "11 amountTaxInclusive a"
        ),
        FieldCase(
            SampleItems.oneTime(
                "a",
                [
                    "amountTaxExclusive": .integer(Int64.max),
                    "netAmountTaxExclusive": .integer(Int64.max),
                ]
            ),
            "11 amountTaxInclusive a"
        ),
        FieldCase(
            SampleItems.oneTime(
                "a",
                ["taxAmount": .integer(-1), "amountTaxInclusive": .integer(4125)]
            ),
            "15 taxAmount a"
        ),
        FieldCase(
            SampleItems.oneTime(
                "a",
                [
                    "amountTaxExclusive": .integer(-1), "amountTaxInclusive": .integer(-1),
                    "taxAmount": .integer(0), "netAmountTaxExclusive": .integer(-1),
                ]
            ),
            "15 netAmountTaxExclusive a",
            "15 amountTaxExclusive a",
            "15 amountTaxInclusive a"
        ),
        FieldCase(SampleItems.oneTime("a", ["quantity": .integer(0)]), "16 quantity a"),
        FieldCase(
            SampleItems.oneTime(
                "a",
                ["pricingCurrency": .string("ISK"), "exchangeRate": .number("0.000")]
            ),
            "16 exchangeRate a"
        ),
        FieldCase(
            SampleItems.oneTime(
                "a",
                ["pricingCurrency": .string("ISK"), "exchangeRate": .number("-1.5")]
            ),
            "16 exchangeRate a"
        ),
        FieldCase(
            SampleItems.subscription(
                "s",
                event: "SUBSCRIPTION_START",
                ["subscriptionDaysOfPaidService": .integer(1)]
            ),
            "34 subscriptionDaysOfPaidService s"
        ),
        FieldCase(
            SampleItems.subscription(
                "s",
                event: "SUBSCRIPTION_START",
                ["subscriptionDaysOfPaidService": .integer(-1)]
            ),
            "15 subscriptionDaysOfPaidService s",
            "34 subscriptionDaysOfPaidService s"
        ),
    ])
    func `11, 15, 16, 34: amounts`(row: FieldCase) throws {
        try check(row)
    }

    @Test(arguments: [
        FieldCase(
            SampleItems.oneTime(
                "a",
                ["productIdentifier": .string(String(repeating: "x", count: 257))]
            ),
            "19 productIdentifier a"
        ),
        FieldCase(
            SampleItems.oneTime("a", ["pricingCurrency": long, "exchangeRate": .number("1.5")]),
            "19 pricingCurrency a"
        ),
        FieldCase(
            SampleItems.oneTime(
                "a",
                [
                    "pricingCurrency": .string("ISK"),
                    "exchangeRate": .number("1." + String(repeating: "5", count: 127)),
                ]
            ),
            "19 exchangeRate a"
        ),
        FieldCase(
            SampleItems.oneTime("a", ["lineItemId": long]),
            "19 lineItemId " + String(repeating: "x", count: 129)
        ),
    ])
    func `19: lengths`(row: FieldCase) throws {
        try check(row)
    }

    /// A letter with its accent apart is one character in print and two in a database.
    @Test(arguments: [(128, nil as [String]?), (129, ["19 productIdentifier a"])])
    func `19: a length counts code points`(accentedCount: Int, errors: [String]?) throws {
        let app = try SimulatedApp()
        app.issue("t")
        let text = String(repeating: "e\u{301}", count: accentedCount)
        let item = SampleItems.oneTime("a", ["productIdentifier": .string(text)])
        #expect(app.put(1, [item]).errors == errors)
    }

    @Test func `20: a retraction is a restatement`() throws {
        try check(
            FieldCase(
                SampleItems.oneTime("a", ["erroneouslySubmitted": .bool(true)]),
                "20 erroneouslySubmitted a",
                "12 netAmountTaxExclusive a"
            )
        )
    }
}

@Suite struct `36: the active range of a token` {
    @Test(arguments: [
        (0 as Int64, true), (-1, false), (99, true), (100, false),
    ])
    func `holds its first moment and not its last`(offset: Int64, isInside: Bool) throws {
        let app = try SimulatedApp()
        let start = SimulatedApp.start - 500
        app.issue("t", type: "SERVICES", createdAt: start, expiresAt: start + 100)
        let item = SampleItems.oneTime("a", ["creationDate": .integer(start + offset)])
        #expect(app.put(1, [item]).errors == (isInside ? nil : ["36 creationDate a"]))
    }
}
