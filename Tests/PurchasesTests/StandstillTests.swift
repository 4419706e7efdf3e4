import Testing
import TokenDomain

@testable import purchases

/// What a worker decides that was away, or of whose memory a part has ended.
@Suite struct `After a long time` {
    private static let zero = PurchasesBench.start

    /// A record that somebody writes each day: time goes on by them.
    private func passDays(_ days: ClosedRange<Int64>, _ bench: PurchasesBench) throws {
        for day in days {
            bench.clock.now = Self.zero + .days(day)
            bench.sale(bench.buy("buy", bench.customer(2)) { $0.quantity = 0 })
            try bench.settle()
        }
    }

    /// Its token came in while the worker was away; the sale was read before that, or is read first.
    @Test(arguments: [false, true])
    func `a sale that names its token waits until that is read`(isRead: Bool) throws {
        let bench = PurchasesBench()
        bench.launch()
        let anna = bench.customer(1)
        bench.token("old", nil, days: nil, customer: anna)
        try bench.settle()
        if !isRead {
            bench.crash()
        }
        bench.sale(
            bench.buy("a", anna) {
                $0.externalPurchaseID = TokenID("new")
                $0.creationDate = bench.clock.now
            }
        )
        if isRead {
            try bench.settle()
            bench.crash()
        }
        bench.clock.now = bench.clock.now + .hours(25)
        bench.launch()
        try bench.settle()
        #expect(try bench.words().isEmpty)
        bench.token("new", nil, from: Self.zero, days: nil, customer: anna)
        try bench.settle()
        #expect(try bench.words() == ["a reported"])
        #expect(try bench.outcomes().map(\.externalPurchaseID) == [TokenID("new")])
    }

    /// It has had its wait for the token that it names: nobody looks when the partition is read up.
    @Test func `a sale that was not owed is reopened soon after a start as at any time`() throws {
        let bench = PurchasesBench()
        bench.launch()
        let anna = bench.customer(1)
        bench.sale(bench.buy("a", anna) { $0.externalPurchaseID = TokenID("never") })
        try bench.pass(.hours(25))
        #expect(try bench.words() == ["a not_owed"])
        bench.crash()
        bench.launch()
        try bench.settle()
        bench.token("t", customer: anna)
        try bench.settle()
        try bench.pass(.minutes(11))
        #expect(try bench.words() == ["a not_owed", "a reported"])
        #expect(bench.deadLetters().isEmpty)
    }

    /// The restatement stands for the sale, and came less than a day ago.
    @Test func `a sale that is right after all waits no more for the token it names`() throws {
        let bench = PurchasesBench()
        bench.launch()
        let anna = bench.customer(1)
        bench.sale(bench.buy("a", anna) { $0.externalPurchaseID = TokenID("never") })
        try bench.pass(.hours(25))
        bench.sale(bench.change("a", anna, .retract))
        try bench.settle()
        bench.token("t", customer: anna)
        try bench.settle()
        #expect(bench.reports.isEmpty)
        bench.sale(bench.change("a", anna, .restate) { $0.taxCountry = AlphaCode("FRA") })
        try bench.pass(.minutes(1))
        #expect(try bench.words().last == "a reported")
        #expect(bench.apple.held("a")?.country == "FRA")
    }

    /// Of a clock that is ahead no more than seven days are believed: no sale waits for as long as it was.
    @Test(arguments: [(0, nil), (60, nil), (61, 61), (129_600, 10_080)] as [(Int64, Int64?)])
    func `a sale waits since it was read`(minutes: Int64, since: Int64?) {
        let read = BookedEvent.readAt(Self.zero + .minutes(minutes), receivedAt: Self.zero)
        #expect(read == since.map { Self.zero + .minutes($0) })
    }

    @Test func `a renewal waits for its token as long as one that is read at once`() throws {
        let bench = PurchasesBench()
        bench.launch()
        let anna = bench.customer(1)
        bench.token("short", from: Self.zero + .days(-1), days: 2, customer: anna)
        bench.sale(bench.period("start", .start, day: 0))
        try bench.settle()
        #expect(try bench.words() == ["start reported"])
        bench.clock.now = Self.zero + .days(3)
        bench.crash()
        bench.sale(bench.period("renewal", .renewal, day: 3))
        bench.clock.now = bench.clock.now + .hours(25)
        bench.launch()
        try bench.settle()
        #expect(bench.deadLetters().isEmpty)
        bench.token("next", from: Self.zero + .days(2), days: 300, customer: anna)
        try bench.settle()
        #expect(try bench.words().last == "renewal reported")
    }

    /// Its token comes late, and the buy waits for a rate until the refund's own time is over.
    @Test func `a refund outlives the wait of its buy that is owed after all`() throws {
        let bench = PurchasesBench()
        bench.launch()
        let anna = bench.customer(1)
        bench.sale(bench.buy("a", anna) { $0.pricingCurrency = AlphaCode("ISK") })
        bench.sale(bench.refund("r", of: "a", anna, exclusive: 1_000))
        try bench.pass(.hours(25))
        #expect(Set(try bench.words()) == ["a not_owed", "r not_owed"])
        try bench.pass(.days(29))
        bench.token("t", customer: anna)
        try bench.pass(.days(2))
        bench.rates.rates = try ExchangeRates(csv: Array("2026-01-10,ISK,EUR,0.0068\n".utf8))
        bench.rates.isChanged = true
        try bench.pass(.minutes(1))
        #expect(Set(try bench.words().suffix(2)) == ["a reported", "r reported"])
    }

    @Test func `a refund of what Apple refused is a dead letter`() throws {
        let bench = PurchasesBench()
        bench.launch()
        let anna = bench.customer(1)
        bench.script = { _, ids in
            ids.contains("a")
                ? [AppleError(code: 19, fieldName: "quantity", lineItemID: "a")] : nil
        }
        bench.sale(bench.buy("a", anna))
        bench.sale(bench.refund("r", of: "a", anna, exclusive: 1_000))
        try bench.pass(.hours(25))
        try bench.pass(.days(25))
        bench.token("t", customer: anna)
        try bench.pass(.days(8))
        #expect(
            try bench.words() == ["a not_owed", "r not_owed", "a rejected", "r rejected"]
        )
        #expect(
            bench.deadLetters().map(\.code) == [
                "purchases.rejected", "purchases.reference_unknown",
            ]
        )
    }

    /// Its renewals go under tokens of another kind, until the last of those has ended.
    @Test func `the token that a subscription started under is known as long as it`() throws {
        let bench = PurchasesBench()
        bench.launch()
        let anna = bench.customer(1)
        bench.token("link", nil, days: nil, customer: anna)
        bench.sale(bench.period("start", .start, day: 0))
        try bench.settle()
        bench.token("app", from: Self.zero + .days(20), days: 420, customer: anna)
        for day in stride(from: 30 as Int64, through: 420, by: 30) {
            try passDays(day - 29...day, bench)
            bench.sale(bench.period("renewal-\(day)", .renewal, day: day))
            try bench.settle()
        }
        try passDays(421...450, bench)
        bench.sale(bench.period("last", .renewal, day: 450))
        try bench.pass(.hours(25))
        #expect(bench.deadLetters().filter { $0.code == "purchases.token_out_of_range" }.isEmpty)
        let last = try #require(try bench.outcomes().last { $0.lineItemID == "last" })
        #expect(last.outcome == .reported && last.externalPurchaseID == TokenID("link"))
    }
}
