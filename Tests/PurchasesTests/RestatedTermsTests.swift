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
}
