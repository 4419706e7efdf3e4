import Testing
import TokenDomain
import TokenWire

private let now = Timestamp(milliseconds: 1_760_000_000_000)

/// A buy in which nothing is wrong, as members of an object.
private let buy: [String: String] = [
    "lineItemId": "\"line-1\"", "customer": "\"anna\"", "appAppleId": "1234567890",
    "creationDate": "1759990000000", "productIdentifier": "\"coins.500\"",
    "taxCountry": "\"DEU\"", "pricingCurrency": "\"EUR\"", "amountTaxInclusive": "4990",
    "taxAmount": "796",
]
private let refund: [String: String] = [
    "type": "\"refund\"", "lineItemId": "\"line-2\"", "customer": "\"anna\"",
    "bundleId": "\"com.example\"", "creationDate": "1759990000000",
    "referenceLineItemId": "\"line-1\"", "amountTaxExclusive": "100", "taxAmount": "19",
]
private let start: [String: String] = buy.merging(
    [
        "subscriptionId": "\"s-1\"", "subscriptionEvent": "\"SUBSCRIPTION_START\"",
        "subscriptionStartDate": "1759990000000", "subscriptionEndDate": "1762668000000",
    ]
) { $1 }

/// An object with members added, replaced or, where the value is empty, left out.
private func object(_ base: [String: String], _ changes: [String: String] = [:]) -> [UInt8] {
    let members = base.merging(changes) { $1 }.filter { !$0.value.isEmpty }
    return Array(
        "{\(members.sorted { $0.key < $1.key }.map { "\"\($0)\":\($1)" }.joined(separator: ","))}"
            .utf8
    )
}

private func faults(_ value: [UInt8], _ origin: PurchaseOrigin = .door) -> [PurchaseFault] {
    do throws(PurchaseFaults) {
        _ = try PurchaseEvent.read(value.span, from: origin, now: now)
        return []
    } catch {
        return error.list
    }
}

@Suite struct `Reading a purchase event` {
    @Test(arguments: [buy, refund, start])
    func `takes what is right, and writes it as it was`(event: [String: String]) throws {
        let read = try PurchaseEvent.read(object(event).span, from: .door, now: now)
        var written: [UInt8] = []
        read.write(to: &written)
        #expect(try PurchaseEvent.read(written.span, from: .door, now: now) == read)
    }

    @Test func `keeps every field`() throws {
        let text = """
            {"type":"buy","lineItemId":"l","customer":"c1.\(String(repeating: "A", count: 43))",\
            "externalPurchaseId":"SANDBOX_1","appAppleId":1,"bundleId":"b","environment":"sandbox",\
            "creationDate":1759990000000,"productIdentifier":"p","quantity":2,"taxCountry":"ISL",\
            "pricingCurrency":"ISK","amountTaxInclusive":3,"taxAmount":1,"amountTaxExclusive":2,\
            "reportingCurrency":"EUR","exchangeRate":0.0068,"subscriptionId":"s",\
            "subscriptionEvent":"RENEWAL","subscriptionStartDate":1759990000000,\
            "subscriptionEndDate":1762668000000,"subscriptionDaysOfPaidService":30,\
            "referenceLineItemId":"r","receivedAt":1759990000001,"requestId":"q"}
            """
        let event = try PurchaseEvent.read(Array(text.utf8).span, from: .topic, now: now)
        var written: [UInt8] = []
        event.write(to: &written)
        #expect(String(decoding: written, as: UTF8.self) == text)
    }

    @Test(
        arguments: [
            (buy, ["lineItemId": ""], "missing_field", "lineItemId", 4),
            (
                buy, ["lineItemId": "\"\(String(repeating: "x", count: 129))\""], "too_long",
                "lineItemId", 19
            ),
            (buy, ["customer": ""], "missing_field", "customer", 4),
            (buy, ["customer": "\"\""], "bad_customer", "customer", nil),
            (buy, ["appAppleId": ""], "missing_field", "appAppleId", 4),
            (buy, ["appAppleId": "0"], "out_of_range", "appAppleId", nil),
            (buy, ["type": "\"sell\""], "unknown_value", "type", nil),
            (buy, ["environment": "\"test\""], "unknown_value", "environment", nil),
            (
                buy, ["environment": "\"production\"", "externalPurchaseId": "\"SANDBOX_1\""],
                "wrong_environment", "environment", nil
            ),
            (buy, ["creationDate": ""], "missing_field", "creationDate", 4),
            (buy, ["creationDate": "\"2025\""], "wrong_type", "creationDate", nil),
            (buy, ["creationDate": "1.5"], "wrong_type", "creationDate", nil),
            (buy, ["creationDate": "99999999999999999999"], "out_of_range", "creationDate", nil),
            (buy, ["creationDate": "1760000300001"], "future_date", "creationDate", 6),
            (buy, ["creationDate": "1759990000"], "date_too_old", "creationDate", 27),
            (buy, ["productIdentifier": ""], "missing_field", "productIdentifier", 4),
            (
                buy, ["productIdentifier": "\"\(String(repeating: "x", count: 257))\""], "too_long",
                "productIdentifier", 19
            ),
            (buy, ["quantity": "0"], "not_positive", "quantity", 16),
            (buy, ["taxCountry": "\"DE\""], "unknown_country", "taxCountry", 7),
            (buy, ["taxCountry": "\"XXX\""], "unknown_country", "taxCountry", 7),
            (buy, ["pricingCurrency": "\"eur\""], "unknown_currency", "pricingCurrency", 7),
            (buy, ["pricingCurrency": "\"EUX\""], "unknown_currency", "pricingCurrency", 7),
            (buy, ["reportingCurrency": "\"ISK\""], "unknown_currency", "reportingCurrency", 7),
            (
                buy, ["reportingCurrency": "\"USD\""], "conversion_not_allowed",
                "reportingCurrency", 18
            ),
            (
                buy, ["reportingCurrency": "\"GBP\"", "pricingCurrency": "\"ISK\""],
                "conversion_not_allowed", "reportingCurrency", 18
            ),
            (
                buy, ["reportingCurrency": "\"EUR\"", "exchangeRate": "1"], "field_not_allowed",
                "exchangeRate", 5
            ),
            (buy, ["exchangeRate": "1"], "field_not_allowed", "exchangeRate", 5),
            (
                buy, ["pricingCurrency": "\"UYU\"", "exchangeRate": "1"], "missing_field",
                "reportingCurrency", 4
            ),
            (
                buy,
                [
                    "pricingCurrency": "\"ISK\"", "reportingCurrency": "\"EUR\"",
                    "exchangeRate": "0",
                ],
                "not_positive", "exchangeRate", 16
            ),
            (buy, ["taxAmount": ""], "missing_field", "taxAmount", 4),
            (buy, ["taxAmount": "-1"], "negative_value", "taxAmount", 15),
            (buy, ["amountTaxExclusive": "4195"], "amounts_disagree", "amountTaxInclusive", 11),
            (buy, ["taxAmount": "4991"], "amounts_disagree", "amountTaxInclusive", 11),
            (buy, ["referenceLineItemId": "\"x\""], "field_not_allowed", "referenceLineItemId", 5),
            (refund, ["referenceLineItemId": ""], "missing_field", "referenceLineItemId", 4),
            (
                refund, ["referenceLineItemId": "\"line-2\""], "self_reference",
                "referenceLineItemId", 13
            ),
            (refund, ["productIdentifier": "\"x\""], "field_not_allowed", "productIdentifier", 5),
            (refund, ["quantity": "1"], "field_not_allowed", "quantity", 5),
            (
                refund, ["subscriptionEvent": "\"RENEWAL\""], "field_not_allowed",
                "subscriptionEvent", 5
            ),
            (start, ["subscriptionEvent": "\"STOP\""], "unknown_value", "subscriptionEvent", nil),
            (start, ["subscriptionEvent": ""], "missing_field", "subscriptionEvent", 4),
            (start, ["subscriptionId": ""], "missing_field", "subscriptionId", 4),
            (
                start, ["subscriptionEndDate": "1759989999999"], "end_before_start",
                "subscriptionEndDate", 17
            ),
            (
                start, ["subscriptionDaysOfPaidService": "1"], "paid_days_on_start",
                "subscriptionDaysOfPaidService", 34
            ),
            (
                start, ["subscriptionDaysOfPaidService": "-1"], "negative_value",
                "subscriptionDaysOfPaidService", 15
            ),
            (
                start, ["referenceLineItemId": "\"x\""], "field_not_allowed", "referenceLineItemId",
                5
            ),
            (
                start,
                [
                    "subscriptionEvent": "\"SUBSCRIPTION_PAYMENT\"", "amountTaxInclusive": "0",
                    "taxAmount": "0",
                ], "payment_without_amount", "amountTaxInclusive", 35
            ),
        ] as [([String: String], [String: String], String, String, Int?)]
    )
    func `names the one fault, its field and Apple's code`(
        base: [String: String],
        changes: [String: String],
        rule: String,
        field: String,
        appleCode: Int?
    ) {
        let found = faults(object(base, changes))
        #expect(found.map(\.code) == ["purchases.\(rule)"])
        #expect(found.map(\.field) == [field])
        #expect(found.map { $0.appleCode.map { Int($0.rawValue) } } == [appleCode])
        #expect(found.allSatisfy { $0.repair.hasSuffix(".") })
    }

    /// Also where the member before it has the wrong type.
    @Test(arguments: [
        ("quantity", "1e3", "Send an integer: no point and no exponent."),
        ("quantity", "1.0", "Send an integer: no point and no exponent."),
        ("quantity", "true", "Send a JSON number."),
        ("productIdentifier", "true", "Send a JSON string."),
    ])
    func `says what to send in place of a wrong type`(
        field: String,
        value: String,
        repair: String
    ) {
        let found = faults(object(buy, [field: value]))
        #expect(found.map(\.repair) == [repair])
        let both = faults(object(buy, [field: value, "taxAmount": #""1""#]))
        #expect(both.map(\.repair).contains(repair))
    }

    @Test func `names all faults at once`() {
        let found = faults(
            object(
                buy,
                ["customer": "7", "taxCountry": "\"XXX\"", "taxAmount": "", "quantity": "0"]
            )
        )
        #expect(
            Set(found.map { "\($0.rule.rawValue) \($0.field)" }) == [
                "wrong_type customer", "unknown_country taxCountry", "missing_field taxAmount",
                "not_positive quantity",
            ]
        )
    }

    @Test(arguments: ["", "[]", "{\"lineItemId\":\"a\"", "{\"a\":1,}", "\"x\""])
    func `has one fault for what is no object`(text: String) {
        #expect(faults(Array(text.utf8)).map(\.code) == ["purchases.not_json"])
    }

    @Test func `refuses a field that stands twice, and takes null as absent`() {
        let twice = Array("{\"quantity\":1,\"quantity\":1,".utf8) + object(buy).dropFirst()
        #expect(faults(twice).map(\.code) == ["purchases.repeated_field"])
        #expect(faults(object(buy, ["quantity": "null"])).isEmpty)
    }

    @Test func `takes a customer in the topic only as a pseudonym`() {
        #expect(faults(object(buy), .topic).map(\.code) == ["purchases.bad_customer"])
    }

    @Test func `asks of a retraction only what it names`() {
        let retraction = ["type": "\"retract\"", "amountTaxInclusive": "-4"]
        #expect(faults(object(buy, retraction)).isEmpty)
    }
}
