import Testing
import TokenDomain

@testable import purchases

@Suite struct `A restated buy that has refunds` {
    /// What a restatement says of the currency, beside a new product, and the code of its dead letter.
    struct Row: Sendable {
        var pricing: String
        var currency: String?
        var rate: String?
        var code: String?
    }

    @Test(arguments: [
        Row(pricing: "EUR", currency: "EUR"),
        Row(pricing: "ISK", currency: "EUR"),
        Row(pricing: "ISK", currency: "EUR", rate: "0.0068"),
        Row(
            pricing: "ISK",
            currency: "EUR",
            rate: "0.0069",
            code: "purchases.exchange_rate_mismatch"
        ),
        Row(pricing: "ISK", currency: "USD", code: "purchases.reporting_currency_mismatch"),
        Row(pricing: "ISK", rate: "0.0068"),
        Row(pricing: "ISK", rate: "0.0069", code: "purchases.exchange_rate_mismatch"),
    ])
    func `may repeat the currency and the rate that Apple has`(row: Row) throws {
        let bench = PurchasesBench()
        bench.launch()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        let rate = "2026-01-10,ISK,EUR,0.0068\n"
        bench.rates.rates = try ExchangeRates(csv: Array(rate.utf8))
        bench.sale(bench.buy("a", anna) { $0.pricingCurrency = AlphaCode(row.pricing) })
        bench.sale(bench.refund("r", of: "a", anna, exclusive: 3_000))
        try bench.settle()
        // What it was reported at stays, whatever the file has since.
        let newer = rate + "2026-01-11,ISK,EUR,0.0070\n2026-01-11,ISK,USD,0.0080\n"
        bench.rates.rates = try ExchangeRates(csv: Array(newer.utf8))
        let rateOfItsOwn = try row.rate.map { try ExchangeRate($0) }
        bench.sale(
            bench.change("a", anna, .restate) {
                $0.productIdentifier = "gems"
                $0.reportingCurrency = row.currency.flatMap { AlphaCode($0) }
                $0.exchangeRate = rateOfItsOwn
            }
        )
        try bench.settle()
        #expect(bench.deadLetters().map(\.code) == [row.code].compactMap { $0 })
        let revisions = try bench.outcomes().filter { $0.lineItemID == "a" }
        let restated = try #require(revisions.last)
        #expect(restated.outcome == (row.code == nil ? .reported : .rejected))
        #expect(bench.refusals.isEmpty)
    }

    /// With a rate for kronur, and a customer of whom no token is known.
    private func bench() throws -> (PurchasesBench, CustomerID) {
        let bench = PurchasesBench()
        bench.launch()
        bench.rates.rates = try ExchangeRates(csv: Array("2026-01-10,ISK,EUR,0.0068\n".utf8))
        return (bench, bench.customer(1))
    }

    /// Neither is owed, and both are once a token comes: the refund's amount was said in the old currency.
    @Test(arguments: [(false, false), (false, true), (true, false), (true, true)])
    func `keeps its currency also while nothing of it is owed`(
        isPatient: Bool,
        isRetracted: Bool
    ) throws {
        let (bench, anna) = try bench()
        let boughtAt = bench.clock.now
        let events =
            [bench.buy("a", anna), bench.refund("r", of: "a", anna, exclusive: 3_000)]
            + (isRetracted ? [bench.change("r", anna, .retract)] : [])
            + [bench.restate("a", anna, in: "ISK")]
        for event in events {
            bench.sale(event)
            try isPatient ? bench.pass(.hours(25)) : bench.settle()
        }
        try bench.pass(.hours(25))
        #expect(
            bench.deadLetters().map(\.code)
                == (isRetracted ? [] : ["purchases.pricing_currency_mismatch"])
        )
        bench.token("t", from: boughtAt + -.days(1), days: 60, customer: anna)
        try bench.settle()
        #expect(bench.refusals.isEmpty)
        let items = try bench.outcomes().compactMap(\.item)
        #expect(items.count == (isRetracted ? 1 : 2))
        let currency = isRetracted ? "ISK" : "EUR"
        #expect(items.allSatisfy { $0.contains("\"pricingCurrency\":\"\(currency)\"") }, "\(items)")
    }

    /// Told in one go, under names in either order: each is said in what its buy is by then.
    @Test(
        arguments: [["buy", "refund"], ["refund", "buy"]],
        [[], ["pass"], ["refund"], ["refund", "pass"]]
    )
    func `has refunds in the currency that it was restated to before them`(
        names: [String],
        before: [String]
    ) throws {
        let (bench, anna) = try bench()
        let boughtAt = bench.clock.now
        let (buy, refund) = (names[0], names[1])
        let refunded = bench.refund(refund, of: buy, anna, exclusive: 3_000)
        bench.sale(bench.buy(buy, anna))
        if before.contains("refund") {
            bench.sale(refunded)
        }
        if before.contains("pass") {
            try bench.pass(.hours(25))
        }
        if before.contains("refund") {
            bench.sale(bench.change(refund, anna, .retract))
        }
        bench.sale(bench.restate(buy, anna, in: "ISK"))
        bench.sale(
            before.contains("refund") ? bench.restateCheaper(refund, anna) : refunded
        )
        bench.sale(bench.change(buy, anna, .restate) { $0.productIdentifier = "gems" })
        try bench.settle()
        try bench.pass(.hours(25))
        bench.token("t", from: boughtAt + -.days(1), days: 60, customer: anna)
        try bench.settle()
        #expect(bench.deadLetters().map(\.code) == [])
        #expect(bench.refusals.isEmpty)
        let items = try bench.outcomes().compactMap(\.item)
        #expect(items.count == 2)
        #expect(items.allSatisfy { $0.contains("\"pricingCurrency\":\"ISK\"") }, "\(items)")
    }

    /// The amounts of a retracted refund are in the currency that its buy had: it is live again in another
    /// one only where it is said anew.
    @Test(arguments: [true, false])
    func `has a retracted refund back where it is said in the new currency`(
        hasAmounts: Bool
    ) throws {
        let (bench, anna) = try bench()
        bench.token("t", customer: anna)
        let again =
            hasAmounts ? bench.restateCheaper("r", anna) : bench.change("r", anna, .restate)
        for event in [
            bench.buy("a", anna), bench.refund("r", of: "a", anna, exclusive: 3_000),
            bench.change("r", anna, .retract), bench.restate("a", anna, in: "ISK"), again,
            // Said in the new one, it may be restated as any other.
            bench.change("r", anna, .retract), bench.change("r", anna, .restate),
        ] {
            bench.sale(event)
            try bench.settle()
        }
        let mismatch = "purchases.pricing_currency_mismatch"
        #expect(bench.deadLetters().map(\.code) == (hasAmounts ? [] : [mismatch, mismatch]))
        #expect(bench.refusals.isEmpty)
        let refunds = try bench.outcomes().filter { $0.lineItemID == "r" && $0.item != nil }
        #expect(refunds.last?.item?.contains("ISK") == hasAmounts)
    }

    /// Apple has the buy, whose restatement waits for a rate, and was never told of the refund.
    @Test func `has a retracted refund back in the currency that it is about to have`() throws {
        let (bench, anna) = try bench()
        let boughtAt = bench.clock.now
        let rates = bench.rates.rates
        bench.rates.rates = .none
        bench.sale(bench.buy("a", anna))
        bench.sale(bench.refund("r", of: "a", anna, exclusive: 3_000))
        try bench.pass(.hours(25))
        bench.sale(bench.change("r", anna, .retract))
        try bench.settle()
        bench.token("t", from: boughtAt + -.days(1), days: 60, customer: anna)
        try bench.settle()
        bench.sale(bench.restate("a", anna, in: "ISK"))
        bench.sale(bench.restateCheaper("r", anna))
        try bench.settle()
        bench.rates.rates = rates
        bench.rates.isChanged = true
        try bench.pass(.seconds(10))
        #expect(bench.deadLetters().map(\.code) == [])
        #expect(bench.refusals.isEmpty)
        let last = try #require(try bench.outcomes().last)
        #expect(last.lineItemID == "r" && last.outcome == .reported)
        #expect(last.item?.contains(#""pricingCurrency":"ISK""#) == true)
    }

    /// It waits for a token that it names, and its buy is restated meanwhile.
    @Test func `that is reported has no refund in another currency than it was said in`() throws {
        let (bench, anna) = try bench()
        let boughtAt = bench.clock.now
        bench.token("t", from: boughtAt + -.days(1), days: 2, customer: anna)
        bench.sale(bench.buy("a", anna))
        try bench.settle()
        try bench.pass(.days(2))
        bench.sale(
            bench.refund("r", of: "a", anna, exclusive: 3_000) {
                $0.externalPurchaseID = TokenID("next")
            }
        )
        try bench.settle()
        bench.sale(bench.restate("a", anna, in: "ISK"))
        try bench.settle()
        bench.token("next", from: boughtAt + .days(1), days: 60, customer: anna)
        try bench.settle()
        let refunds = try bench.outcomes().filter { $0.lineItemID == "r" && $0.item != nil }
        #expect(refunds.allSatisfy { $0.item?.contains("ISK") == false }, "\(refunds)")
        #expect(bench.deadLetters().map(\.code) == ["purchases.pricing_currency_mismatch"])
    }

    /// What no look at the buy shows: the refund rests, and is said again or owed after all.
    enum Rest: CaseIterable {
        /// Retracted, and restated just before the buy is.
        case retracted
        /// Its 30 days are over, and it is sent again once Apple has the buy.
        case sentAgain
    }

    /// To another currency and back; the refund was said between, retracted, and is restated before the last.
    @Test(arguments: [["a", "b"], ["b", "a"]])
    func `has no refund reported in its first currency that was said in another`(
        names: [String]
    ) throws {
        let (bench, anna) = try bench()
        let boughtAt = bench.clock.now
        let (buy, refund) = (names[0], names[1])
        bench.sale(bench.buy(buy, anna))
        try bench.pass(.hours(25))
        bench.sale(bench.restate(buy, anna, in: "ISK"))
        bench.sale(bench.refund(refund, of: buy, anna, exclusive: 3_000))
        try bench.settle()
        bench.sale(bench.change(refund, anna, .retract))
        try bench.settle()
        bench.sale(bench.restateCheaper(refund, anna))
        bench.sale(bench.restate(buy, anna, in: "EUR"))
        try bench.settle()
        bench.token("t", from: boughtAt + -.days(1), days: 60, customer: anna)
        try bench.settle()
        let refunds = try bench.outcomes().filter { $0.lineItemID == refund && $0.item != nil }
        #expect(refunds.allSatisfy { $0.item?.contains("ISK") == true }, "\(refunds)")
        #expect(bench.deadLetters().map(\.code) == ["purchases.pricing_currency_mismatch"])
    }

    @Test(arguments: Rest.allCases)
    func `has no refund reported in another currency than it was said in`(rest: Rest) throws {
        let (bench, anna) = try bench()
        let boughtAt = bench.clock.now
        let refund = bench.refund("r", of: "a", anna, exclusive: 3_000)
        bench.sale(bench.buy("a", anna))
        bench.sale(refund)
        try bench.pass(.hours(25))
        if rest == .retracted {
            bench.sale(bench.change("r", anna, .retract))
            try bench.settle()
            bench.sale(bench.restateCheaper("r", anna))
        } else {
            try bench.pass(.days(32))
        }
        bench.sale(bench.restate("a", anna, in: "ISK"))
        try bench.settle()
        bench.token("t", from: boughtAt + -.days(1), days: 90, customer: anna)
        try bench.settle()
        if rest == .sentAgain {
            bench.sale(refund)
        }
        try bench.pass(.hours(25))
        #expect(bench.refusals.isEmpty)
        let refunds = try bench.outcomes().filter { $0.lineItemID == "r" && $0.item != nil }
        #expect(
            refunds.allSatisfy { $0.item?.contains("\"pricingCurrency\":\"EUR\"") == true },
            "\(refunds.map(\.item))"
        )
        let code = "purchases.pricing_currency_mismatch"
        #expect(bench.deadLetters().map(\.code) == [code])
    }

    @Test func `keeps its country where the refund is of tax alone`() throws {
        let bench = PurchasesBench()
        bench.launch()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.sale(bench.buy("a", anna))
        bench.sale(
            bench.refund("r", of: "a", anna, exclusive: 0) { $0.taxAmount = Milliunits(2_000) }
        )
        try bench.settle()
        bench.sale(bench.change("a", anna, .restate) { $0.taxCountry = AlphaCode("FRA") })
        try bench.settle()
        #expect(bench.deadLetters().map(\.code) == ["purchases.tax_country_mismatch"])
        #expect(bench.refusals.isEmpty)
    }
}

/// Its buy goes to another currency afterwards, as that of a refund which Apple does not have may.
@Suite struct `A refund that was refused` {
    private static let mismatch = "purchases.pricing_currency_mismatch"

    /// With a rate for kronur, and the buy "a" in euro, which Apple has.
    private func bench() throws -> (PurchasesBench, CustomerID) {
        let bench = PurchasesBench()
        bench.launch()
        bench.rates.rates = try ExchangeRates(csv: Array("2026-01-10,ISK,EUR,0.0068\n".utf8))
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.sale(bench.buy("a", anna))
        try bench.settle()
        return (bench, anna)
    }

    /// What it is refused for at first.
    enum Cause {
        case apple, country
    }

    /// Refuses a refund "r" of "a" that was said in euro.
    ///
    /// - Returns: the refund, which nothing but the currency is wrong with from then on.
    private func refuse(
        _ cause: Cause,
        _ bench: PurchasesBench,
        _ anna: CustomerID
    ) throws -> PurchaseEvent {
        let refund = bench.refund("r", of: "a", anna, exclusive: 3_000)
        var wrong = refund
        if cause == .country {
            wrong.taxCountry = AlphaCode("FRA")
        }
        bench.script = { _, ids in
            ids.contains("r")
                ? [AppleError(code: 7, fieldName: "taxCountry", lineItemID: "r")] : nil
        }
        bench.sale(wrong)
        try bench.settle()
        bench.script = { _, _ in nil }
        #expect(try bench.words() == ["a reported", "r rejected"])
        return refund
    }

    private func restate(
        in currency: String,
        _ bench: PurchasesBench,
        _ anna: CustomerID
    ) throws {
        bench.sale(bench.restate("a", anna, in: currency))
        try bench.settle()
        #expect(try bench.words().last == "a reported")
    }

    /// The line item of the refund that Apple took; nil where it took none.
    private func taken(_ bench: PurchasesBench) throws -> String? {
        try bench.outcomes().last { $0.lineItemID == "r" && $0.outcome == .reported }?.item
    }

    /// The platform sends it once more, or its dead letter is replayed and the worker has its state
    /// from the changelog: each time the same is said.
    @Test(arguments: [(Cause.apple, false), (.apple, true), (.country, false)])
    func `is refused as often as it comes until its amounts are said anew`(
        cause: Cause,
        isReplay: Bool
    ) throws {
        let (bench, anna) = try bench()
        let refund = try refuse(cause, bench, anna)
        try restate(in: "ISK", bench, anna)
        for count in 1...3 {
            if isReplay {
                bench.crash()
                bench.loseDisk()
                bench.launch()
                let dead = try #require(bench.deadLetters().last)
                bench.append(.purchasesReceived, key: anna.text, value: dead.value)
            } else {
                bench.sale(refund)
            }
            try bench.pass(.minutes(1))
            let codes = bench.deadLetters().map(\.code)
            #expect(codes.count == 1 + count)
            #expect(codes.dropFirst().allSatisfy { $0 == Self.mismatch }, "\(codes)")
        }
        #expect(try taken(bench) == nil)
        bench.sale(bench.refund("r", of: "a", anna, exclusive: 2_000))
        try bench.settle()
        #expect(try taken(bench)?.contains(#""pricingCurrency":"ISK""#) == true)
        #expect(bench.deadLetters().count == 4)
    }

    /// Only the name of the currency was wrong: the amounts are what they were.
    @Test func `is taken with the same amounts where it names the currency`() throws {
        let (bench, anna) = try bench()
        var refund = try refuse(.apple, bench, anna)
        try restate(in: "ISK", bench, anna)
        refund.pricingCurrency = AlphaCode("ISK")
        bench.sale(refund)
        try bench.settle()
        #expect(try taken(bench)?.contains(#""pricingCurrency":"ISK""#) == true)
        #expect(bench.deadLetters().count == 1)
    }

    @Test func `is taken as it was once its buy is back in its currency`() throws {
        let (bench, anna) = try bench()
        let refund = try refuse(.apple, bench, anna)
        for currency in ["ISK", "EUR"] {
            try restate(in: currency, bench, anna)
            bench.sale(refund)
            try bench.settle()
        }
        #expect(try taken(bench)?.contains(#""pricingCurrency":"EUR""#) == true)
        #expect(bench.deadLetters().map(\.code) == ["purchases.rejected", Self.mismatch])
    }

    /// Its buy is restated to what it names, or it names nothing any more.
    @Test(arguments: ["ISK", nil])
    func `is in the currency that it names, whatever its buy had`(currency: String?) throws {
        let (bench, anna) = try bench()
        var refund = bench.refund("r", of: "a", anna, exclusive: 3_000)
        refund.pricingCurrency = AlphaCode("ISK")
        bench.sale(refund)
        try bench.settle()
        #expect(bench.deadLetters().map(\.code) == [Self.mismatch])
        if let currency {
            try restate(in: currency, bench, anna)
        } else {
            refund.pricingCurrency = nil
        }
        bench.sale(refund)
        try bench.settle()
        let told = #""pricingCurrency":"\#(currency ?? "EUR")""#
        #expect(try taken(bench)?.contains(told) == true)
        #expect(bench.deadLetters().count == 1)
    }

    @Test func `is another one where it names another buy`() throws {
        let (bench, anna) = try bench()
        var refund = try refuse(.apple, bench, anna)
        bench.sale(bench.buy("b", anna) { $0.pricingCurrency = AlphaCode("ISK") })
        try bench.settle()
        refund.referenceLineItemID = "b"
        bench.sale(refund)
        try bench.settle()
        #expect(try taken(bench)?.contains(#""pricingCurrency":"ISK""#) == true)
        #expect(bench.deadLetters().count == 1)
    }

    /// A replay of its own event tells it as it was restated, which was said in euro as well.
    @Test func `is as it was restated before a token reopened it`() throws {
        let bench = PurchasesBench()
        bench.launch()
        bench.rates.rates = try ExchangeRates(csv: Array("2026-01-10,ISK,EUR,0.0068\n".utf8))
        let anna = bench.customer(1)
        let refund = bench.refund("r", of: "a", anna, exclusive: 3_000)
        bench.sale(bench.buy("a", anna))
        bench.sale(refund)
        try bench.pass(.hours(25))
        bench.sale(bench.restateCheaper("r", anna))
        try bench.settle()
        bench.script = { _, ids in
            ids.contains("r")
                ? [AppleError(code: 7, fieldName: "taxCountry", lineItemID: "r")] : nil
        }
        bench.token("t", customer: anna)
        try bench.settle()
        bench.script = { _, _ in nil }
        #expect(bench.deadLetters().map(\.code) == ["purchases.rejected"])
        try restate(in: "ISK", bench, anna)
        bench.sale(refund)
        try bench.settle()
        #expect(bench.deadLetters().map(\.code) == ["purchases.rejected", Self.mismatch])
        try restate(in: "EUR", bench, anna)
        bench.sale(refund)
        try bench.settle()
        #expect(try taken(bench)?.contains(#""amountTaxExclusive":2000,"#) == true)
    }

    /// A bench on which a refund "r" of 3.000 EUR, with a wrong country, was restated while nothing was
    /// owed, and refused once a token had come.
    private func refusedAsRestated(
        _ change: (inout PurchaseEvent) -> Void
    ) throws -> (PurchasesBench, CustomerID, refund: PurchaseEvent) {
        let bench = PurchasesBench()
        bench.launch()
        bench.rates.rates = try ExchangeRates(csv: Array("2026-01-10,ISK,EUR,0.0068\n".utf8))
        let anna = bench.customer(1)
        var refund = bench.refund("r", of: "a", anna, exclusive: 3_000)
        refund.taxCountry = AlphaCode("FRA")
        bench.sale(bench.buy("a", anna))
        bench.sale(refund)
        try bench.pass(.hours(25))
        bench.sale(bench.change("r", anna, .restate, change))
        try bench.settle()
        bench.token("t", customer: anna)
        try bench.settle()
        #expect(try bench.words().last == "r rejected")
        return (bench, anna, refund)
    }

    /// Its dead letter has what it was before the restatement, and is replayed with a patch.
    @Test func `is said in the old currency with the amounts that it had at first as well`() throws
    {
        let (bench, anna, refund) = try refusedAsRestated { change in
            change.amountTaxExclusive = Milliunits(2_000)
            change.taxAmount = .zero
        }
        try restate(in: "ISK", bench, anna)
        var patched = refund
        patched.taxCountry = nil
        bench.sale(patched)
        try bench.settle()
        #expect(bench.deadLetters().last?.code == Self.mismatch)
        #expect(try taken(bench) == nil)
    }

    @Test func `is taken as it was restated where that names what its buy has by now`() throws {
        let (bench, anna, refund) = try refusedAsRestated { change in
            change.pricingCurrency = AlphaCode("ISK")
            change.amountTaxExclusive = Milliunits(2_000)
            change.taxAmount = .zero
        }
        let count = bench.deadLetters().count
        bench.sale(
            bench.change("a", anna, .restate) { change in
                change.pricingCurrency = AlphaCode("ISK")
                change.taxCountry = AlphaCode("FRA")
            }
        )
        try bench.settle()
        #expect(try bench.words().last == "a reported")
        bench.sale(refund)
        try bench.settle()
        #expect(bench.deadLetters().count == count)
        let told = try #require(try taken(bench))
        #expect(told.contains(#""pricingCurrency":"ISK""#))
    }

    /// It is in the book until its buy can be refunded no more; of one whose buy never came nothing
    /// is known.
    @Test func `is forgotten as everything is`() throws {
        let (bench, anna) = try bench()
        bench.sale(bench.refund("nobody's", of: "unknown", anna, exclusive: 1_000))
        _ = try refuse(.apple, bench, anna)
        try bench.pass(.days(31))
        func isKnown(_ name: String) throws -> Bool {
            try bench.records().contains { $0.contains("\(name) {") }
        }
        #expect(try isKnown("r"))
        #expect(try !isKnown("nobody's"))
        #expect(bench.deadLetters().last?.code == "purchases.reference_unknown")
        for _ in 0..<9 {
            try bench.pass(.days(90))
            for _ in 0..<4 {
                bench.sale(bench.buy("other", bench.customer(2)) { $0.quantity = 0 })
                try bench.pass(.hours(20))
            }
        }
        #expect(try bench.entryCount() == 0)
    }
}

@Suite struct `A restated rate` {
    @Test func `alone leads to the currency that Apple has the buy in`() throws {
        let bench = PurchasesBench()
        bench.launch()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.rates.rates = try ExchangeRates(csv: Array("2026-01-10,ISK,EUR,0.0068\n".utf8))
        bench.sale(bench.buy("a", anna) { $0.pricingCurrency = AlphaCode("ISK") })
        try bench.settle()
        let rate = try ExchangeRate("0.0071")
        bench.sale(bench.change("a", anna, .restate) { $0.exchangeRate = rate })
        try bench.settle()
        #expect(bench.deadLetters().isEmpty && bench.refusals.isEmpty)
        let restated = try #require(try bench.outcomes().last)
        #expect(restated.outcome == .reported && restated.revision == 2)
        #expect(restated.item?.contains(#""exchangeRate":0.0071"#) == true)
        #expect(restated.item?.contains(#""reportingCurrency":"EUR""#) == true)
    }
}

extension PurchasesBench {
    fileprivate func restate(
        _ id: String,
        _ customer: CustomerID,
        in currency: String
    ) -> PurchaseEvent {
        change(id, customer, .restate) { $0.pricingCurrency = AlphaCode(currency) }
    }

    fileprivate func restateCheaper(_ id: String, _ customer: CustomerID) -> PurchaseEvent {
        change(id, customer, .restate) {
            $0.amountTaxExclusive = Milliunits(2_000)
            $0.taxAmount = Milliunits(400)
        }
    }
}
