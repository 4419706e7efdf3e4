import Testing
import TokenDomain

private let euro = ReportingTerms(currency: code("EUR"), rate: nil)

@Suite struct `Compiling a line item` {
    @Test func `computes what a one-time buy leaves out`() throws {
        let item = try LineItemCompiler.compile(
            sampleBuy(),
            LineItemCompiler.Context(revision: .first, terms: euro)
        ).item
        #expect(item.amounts.inclusive == Milliunits(12_000))
        #expect(item.netAmountTaxExclusive == Milliunits(10_000))
        #expect(
            item.product == .oneTimeBuy(LineItem.Goods(productIdentifier: "coins", quantity: 1))
        )
        #expect(item.referenceLineItemID == nil)
    }

    @Test func `gives a refund what its buy has, and the net of both`() throws {
        let compiled = try LineItemCompiler.compile(
            sampleRefund(),
            LineItemCompiler.Context(
                revision: .first,
                terms: euro,
                family: family(bought: 10_000, refunded: 1_000),
                buy: sampleBuy()
            )
        )
        #expect(compiled.item.netAmountTaxExclusive == Milliunits(6_000))
        #expect(compiled.item.taxCountry == code("DEU"))
        #expect(compiled.item.pricingCurrency == code("EUR"))
        #expect(compiled.item.referenceLineItemID == "buy")
    }

    @Test(
        arguments: [
            (LineItem.Revision.first, 10_000, 0, 3_000, 7_000),
            // Refunds 300 of 1000; the buy restated to 800 leaves 500: Apple's own example.
            (.restatement, 800, 300, nil, 500),
            (.retraction, 10_000, 0, nil, 0),
        ] as [(LineItem.Revision, Int64, Int64, Int64?, Int64)]
    )
    func `counts the net of buys and refunds`(
        revision: LineItem.Revision,
        bought: Int64,
        refunded: Int64,
        refund: Int64?,
        net: Int64
    ) throws {
        let buy = sampleBuy { sale in
            sale.amountTaxExclusive = Milliunits(bought)
            sale.taxAmount = .zero
        }
        let sale = refund.map { sampleRefund(exclusive: $0, tax: 0) } ?? buy
        let item = try LineItemCompiler.compile(
            sale,
            LineItemCompiler.Context(
                revision: revision,
                terms: euro,
                family: family(bought: bought, refunded: refunded),
                buy: refund == nil ? nil : buy
            )
        ).item
        #expect(item.netAmountTaxExclusive.count == net)
    }

    @Test func `refuses refunds of more than the buy, to the thousandth`() throws {
        let context = LineItemCompiler.Context(
            revision: .first,
            terms: euro,
            family: family(bought: 10_000, refunded: 7_000),
            buy: sampleBuy()
        )
        #expect(
            try LineItemCompiler.compile(sampleRefund(exclusive: 3_000), context).item
                .netAmountTaxExclusive == .zero
        )
        let fault = #expect(throws: PurchaseFault.self) {
            try LineItemCompiler.compile(sampleRefund(exclusive: 3_001), context)
        }
        #expect(fault?.rule == .refundTooLarge)
    }

    /// Of ISK 499 with 24 percent tax.
    @Test func `gives a refund of all the three amounts of its buy, converted`() throws {
        let terms = ReportingTerms(currency: code("EUR"), rate: rate("0.0068"))
        let buy = sampleBuy { sale in
            sale.pricingCurrency = code("ISK")
            sale.taxAmount = Milliunits(97_000)
            sale.amountTaxExclusive = Milliunits(402_000)
        }
        let bought = try LineItemCompiler.compile(
            buy,
            LineItemCompiler.Context(revision: .first, terms: terms)
        )
        let refunded = try LineItemCompiler.compile(
            sampleRefund(exclusive: 402_000, tax: 97_000),
            LineItemCompiler.Context(
                revision: .first,
                terms: terms,
                family: NetFamily(bought: bought.share),
                buy: buy
            )
        )
        #expect(
            bought.item.amounts
                == AmountTriple(
                    tax: Milliunits(659),
                    exclusive: Milliunits(2_734),
                    inclusive: Milliunits(3_393)
                )
        )
        #expect(refunded.item.amounts == bought.item.amounts)
        #expect(refunded.item.netAmountTaxExclusive == .zero)
    }

    /// Apple wants more than 0 (code 35), whatever it was in the pricing currency.
    @Test(
        arguments: [
            (LineItem.Revision.first, 20, true),
            (.restatement, 20, true),
            // What Apple has can always be taken back.
            (.retraction, 20, false),
            (.first, 100, false),
        ] as [(LineItem.Revision, Int64, Bool)]
    )
    func `refuses a payment that is converted to nothing`(
        revision: LineItem.Revision,
        paid: Int64,
        isRefused: Bool
    ) {
        let payment = sampleSubscription("payment", .payment) { sale in
            sale.pricingCurrency = code("UYU")
            sale.taxAmount = .zero
            sale.amountTaxExclusive = Milliunits(paid)
        }
        let terms = ReportingTerms(currency: code("EUR"), rate: rate("0.0215"))
        let expected: PurchaseRule? = isRefused ? .paymentWithoutAmount : nil
        var rule: PurchaseRule?
        do throws(PurchaseFault) {
            _ = try LineItemCompiler.compile(
                payment,
                LineItemCompiler.Context(revision: revision, terms: terms)
            )
        } catch {
            rule = error.rule
        }
        #expect(rule == expected)
    }

    /// The door knows it by the rate that the sale brings.
    @Test(
        arguments: [
            (20, "0.0215", .paymentWithoutAmount), (100, "0.0215", nil),
            (.max / 2, "12.5", .outOfRange),
        ] as [(Int64, String, PurchaseRule?)]
    )
    func `is refused at the door for what its own rate makes of it`(
        paid: Int64,
        exchangeRate: String,
        expected: PurchaseRule?
    ) {
        let payment = sampleSubscription("payment", .payment) { sale in
            sale.pricingCurrency = code("UYU")
            sale.reportingCurrency = code("EUR")
            sale.exchangeRate = rate(exchangeRate)
            sale.taxAmount = .zero
            sale.amountTaxExclusive = Milliunits(paid)
            sale.amountTaxInclusive = nil
        }
        let faults = PurchaseRules.faults(of: payment, now: saleTime + .days(1))
        #expect(faults.map(\.rule) == [expected].compactMap { $0 })
    }

    @Test func `refuses to restate a buy below its refunds`() {
        let fault = #expect(throws: PurchaseFault.self) {
            try LineItemCompiler.compile(
                sampleBuy { $0.amountTaxExclusive = Milliunits(999) },
                LineItemCompiler.Context(
                    revision: .restatement,
                    terms: euro,
                    family: family(bought: 10_000, refunded: 1_000)
                )
            )
        }
        #expect(fault?.rule == .refundTooLarge)
    }

    @Test(arguments: 0..<50)
    func `converts so that every sum is exact, also of refunds in parts`(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let rates = ["0.0068", "1.07301", "0.000056", "12.5", "0.33333333333333333"]
        let terms = ReportingTerms(
            currency: code("EUR"),
            rate: rate(rates[Int.random(in: 0..<rates.count, using: &generator)])
        )
        let buy = sampleBuy { sale in
            sale.pricingCurrency = code("ISK")
            sale.amountTaxExclusive = Milliunits(.random(in: 1...9_999_999, using: &generator))
            sale.taxAmount = Milliunits(.random(in: 0...999_999, using: &generator))
        }
        var family = NetFamily()
        let bought = try LineItemCompiler.compile(
            buy,
            LineItemCompiler.Context(revision: .first, terms: terms)
        )
        try check(bought.item)
        family = family.accepting(
            bought.share,
            insteadOf: nil,
            isRefund: false,
            isRetracted: false
        )
        var left = buy.amountTaxExclusive?.count ?? 0
        var net = bought.item.netAmountTaxExclusive
        while left > 0 {
            let part = Int64.random(in: 1...left, using: &generator)
            let refund = sampleRefund(exclusive: part, tax: part / 5)
            let compiled = try LineItemCompiler.compile(
                refund,
                LineItemCompiler.Context(
                    revision: .first,
                    terms: terms,
                    family: family,
                    buy: buy
                )
            )
            try check(compiled.item)
            #expect(
                compiled.item.netAmountTaxExclusive.count
                    == net.count - compiled.item.amounts.exclusive.count
            )
            net = compiled.item.netAmountTaxExclusive
            family = family.accepting(
                compiled.share,
                insteadOf: nil,
                isRefund: true,
                isRetracted: false
            )
            left -= part
        }
        #expect(net == .zero, "a full refund in parts leaves nothing (seed \(seed))")
    }

    private func check(_ item: LineItem) throws {
        let amounts = item.amounts
        #expect(amounts.inclusive.count == amounts.exclusive.count + amounts.tax.count)
        #expect(min(amounts.exclusive, amounts.tax, item.netAmountTaxExclusive) >= .zero)
    }

    private func family(bought: Int64, refunded: Int64) -> NetFamily {
        NetFamily(
            bought: NetFamily.Share(priced: Milliunits(bought), reported: Milliunits(bought)),
            refunded: NetFamily.Share(priced: Milliunits(refunded), reported: Milliunits(refunded))
        )
    }
}

@Suite struct `What a sale is reported in` {
    private static let csv = """
        date,from,to,rate
        # two days
        2025-10-08,ISK,USD,0.0075
        2025-10-07,ISK,EUR,0.0068

        2025-10-08, ISK, EUR, 0.0069

        """

    @Test(
        arguments: [
            ("EUR", nil, nil, "EUR", nil), ("USD", nil, nil, "USD", nil),
            ("ISK", nil, nil, "EUR", "0.0069"), ("ISK", "USD", nil, "USD", "0.0075"),
            ("ISK", "USD", "0.1", "USD", "0.1"), ("GEL", nil, nil, nil, nil),
        ] as [(String, String?, String?, String?, String?)]
    )
    func `is its own currency, or what a rate leads to`(
        pricing: String,
        reporting: String?,
        given: String?,
        currency: String?,
        expected: String?
    ) throws {
        let sale = sampleBuy { sale in
            sale.pricingCurrency = code(pricing)
            sale.reportingCurrency = reporting.map(code)
            sale.exchangeRate = given.map(rate)
        }
        let terms = ReportingTerms.of(sale, rates: try ExchangeRates(csv: Array(Self.csv.utf8)))
        #expect(terms?.currency.text == currency)
        #expect(terms?.rate?.text == expected)
    }

    @Test(arguments: [
        // Two days before 8 October at 00:00 is the first moment that its rate serves.
        ("2025-10-08", -48, true), ("2025-10-08", 48, true),
    ])
    func `takes a rate within 48 hours and not a millisecond more`(
        day: String,
        hours: Int64,
        isInside: Bool
    ) throws {
        let rates = try ExchangeRates(csv: Array("\(day),ISK,EUR,1\n".utf8))
        let start = try #require(CalendarDay(iso: day)).start
        let edge = start + .hours(hours)
        let outside = edge + Milliseconds(hours > 0 ? 1 : -1)
        #expect((rates.rate(from: code("ISK"), to: code("EUR"), at: edge) != nil) == isInside)
        #expect(rates.rate(from: code("ISK"), to: code("EUR"), at: outside) == nil)
    }

    @Test func `takes what a spreadsheet writes`() throws {
        let names = "\u{feff}\"Date\",\"From\",\"To\",\"Rate\"\r\n"
        let text = names + "\"2025-10-08\",\"ISK\",EUR,\"0.5\"\r\n"
        let rates = try ExchangeRates(csv: Array(text.utf8))
        let date = try #require(CalendarDay(iso: "2025-10-08")).start
        #expect(rates.count == 1 && rates.endsInLineEnd)
        #expect(rates.rate(from: code("ISK"), to: code("EUR"), at: date)?.text == "0.5")
    }

    @Test func `takes a rate of more digits than Apple does, rounded`() throws {
        let csv = "2025-10-08,ISK,EUR,0.006788866259334691106585200272\n"
        let terms = ReportingTerms.of(
            sampleBuy { $0.pricingCurrency = code("ISK") },
            rates: try ExchangeRates(csv: Array(csv.utf8))
        )
        #expect(terms?.rate?.text == "0.00678886625933469111")
        let fault = #expect(throws: ExchangeRates.Fault.self) {
            try ExchangeRates(csv: Array("2025-10-08,ISK,EUR,1e18\n".utf8))
        }
        #expect(fault?.message == "the rate is too large, or needs more than 30 decimals")
    }

    @Test(arguments: [
        ("2025-10-08,ISK,EUR\n", 1), ("2025-13-08,ISK,EUR,1\n", 1),
        ("2025-02-29,ISK,EUR,1\n", 1), ("# x\n2025-10-08,isk,EUR,1\n", 2),
        ("2025-10-08,ISK,EUR,0\n", 1), ("2025-10-08,ISK,EUR,\"1\n", 1),
        ("2025-10-08,ISK,EUR,1.5\n2025-10-09,ISK,EUR", 2),
    ])
    func `refuses a file at its first bad line`(text: String, line: Int) {
        let fault = #expect(throws: ExchangeRates.Fault.self) {
            try ExchangeRates(csv: Array(text.utf8))
        }
        #expect(fault?.line == line)
    }
}

@Suite struct `Paid service` {
    @Test func `counts the days of paid periods, as far as they went`() {
        var service = PaidService()
        let start = saleTime
        #expect(service.days(before: start) == 0)
        // A free week, a paid month that is changed after ten days, a paid month.
        service.add(period(start, days: 7, isPaid: false))
        #expect(service.days(before: start + .days(7)) == 0)
        service.add(period(start + .days(7), days: 30, isPaid: true))
        #expect(service.days(before: start + .days(17)) == 10)
        service.add(period(start + .days(17), days: 30, isPaid: true))
        #expect(service.days(before: start + .days(47)) == 40)
        // A gap pays nothing.
        #expect(service.days(before: start + .days(90)) == 40)
        #expect(!service.isInOrder(start))
    }

    @Test func `rounds the hour of a changed clock away`() {
        var service = PaidService()
        service.add(
            PaidService.Period(start: saleTime, end: saleTime + .hours(31 * 24 - 1), isPaid: true)
        )
        #expect(service.days(before: saleTime + .days(40)) == 31)
    }

    private func period(_ start: Timestamp, days: Int64, isPaid: Bool) -> PaidService.Period {
        PaidService.Period(start: start, end: start + .days(days), isPaid: isPaid)
    }
}
