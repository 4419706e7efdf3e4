import Simulation
import StageRuntime
import Testing
import TokenDomain
import TokenWire

/// What a sale waits for comes at every step of the worker's loop, with commits that take their time:
/// no sale is left behind.
@Suite struct `What a sale waits for` {
    private static let steps = 0..<40

    /// A bench whose commits are known late, in its own way for each step.
    private func bench(_ step: Int) throws -> PurchasesBench {
        let bench = PurchasesBench(seed: UInt64(step), partitionCount: 1)
        bench.launch()
        try bench.settle()
        bench.cluster.faults.outcomeDelayMax = 3
        return bench
    }

    private func take(_ steps: Int, _ bench: PurchasesBench) throws {
        for _ in 0..<steps {
            _ = try bench.step()
        }
    }

    @Test(arguments: steps)
    func `is found when it is a token that comes with a restatement of what was not owed`(
        step: Int
    ) throws {
        let bench = try bench(step)
        let anna = bench.customer(1)
        bench.sale(bench.buy("a", anna))
        bench.sale(bench.refund("r", of: "a", anna, exclusive: 1_000))
        try bench.pass(.hours(25))
        #expect(Set(try bench.words()) == ["a not_owed", "r not_owed"])
        bench.sale(bench.change("a", anna, .restate) { $0.taxCountry = AlphaCode("FRA") })
        try take(step, bench)
        bench.token("t", customer: anna)
        try bench.pass(.minutes(1))
        #expect(bench.apple.held("a")?.country == "FRA")
        #expect(bench.apple.held("r") != nil)
        #expect(bench.deadLetters().isEmpty)
    }

    @Test(arguments: steps)
    func `is a restatement of its buy that came before, when the buy is answered`(step: Int) throws
    {
        let bench = try bench(step)
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.sale(bench.buy("a", anna))
        try bench.settleAlone()
        bench.sale(bench.change("a", anna, .restate) { $0.taxCountry = AlphaCode("FRA") })
        try bench.settleAlone()
        // The answer and the refund come in one batch.
        _ = try bench.answerReports()
        bench.sale(
            bench.refund("r", of: "a", anna, exclusive: 1_000) { $0.taxCountry = AlphaCode("FRA") }
        )
        try take(step, bench)
        try bench.settle()
        #expect(bench.deadLetters().map(\.code) == [])
        #expect(bench.apple.held("r")?.country == "FRA")
    }

    /// The buy "a" was reported, and a refund of it.
    private func reportedRefund(
        _ step: Int,
        _ refund: String,
        exclusive: Int64
    ) throws -> (PurchasesBench, CustomerID) {
        let bench = try bench(step)
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.sale(bench.buy("a", anna))
        bench.sale(bench.refund(refund, of: "a", anna, exclusive: exclusive))
        try bench.settle()
        return (bench, anna)
    }

    /// What a restatement changes nothing of is restated behind it: that goes before a refund that
    /// was told later, and is too large then.
    @Test(arguments: [1, 2])
    func `is a restatement behind those that change nothing, when it is a refund`(
        count: Int
    ) throws {
        let (bench, anna) = try reportedRefund(0, "r", exclusive: 3_000)
        for amount in Array(repeating: 3_000 as Int64, count: count) + [9_000] {
            bench.sale(
                bench.change("r", anna, .restate) {
                    $0.amountTaxExclusive = Milliunits(amount)
                    $0.taxAmount = Milliunits(amount / 5)
                }
            )
        }
        bench.sale(bench.refund("q", of: "a", anna, exclusive: 5_000))
        try bench.settle()
        #expect(bench.apple.held("r")?.exclusive == 9_000)
        #expect(bench.apple.held("q") == nil)
        #expect(bench.deadLetters().map(\.code) == ["purchases.refund_too_large"])
    }

    /// The refund "z" of the buy "a" was reported, and its retraction has come.
    private func retractingRefund(_ step: Int) throws -> (PurchasesBench, CustomerID) {
        let (bench, anna) = try reportedRefund(step, "z", exclusive: 1_000)
        bench.sale(bench.change("z", anna, .retract))
        try take(step, bench)
        return (bench, anna)
    }

    @Test(arguments: steps)
    func `is a retraction that came before, when it is a refund of what that leaves of the buy`(
        step: Int
    ) throws {
        let (bench, anna) = try retractingRefund(step)
        bench.sale(bench.refund("r", of: "a", anna, exclusive: 10_000))
        try bench.settle()
        #expect(bench.deadLetters().map(\.code) == [])
        #expect(bench.apple.held("z")?.isRetracted == true)
        #expect(bench.apple.held("r")?.exclusive == 10_000)
    }

    @Test(arguments: steps)
    func `is a retraction that came before, when a restatement is right only without the refund`(
        step: Int
    ) throws {
        let (bench, anna) = try retractingRefund(step)
        bench.sale(bench.change("a", anna, .restate) { $0.taxCountry = AlphaCode("FRA") })
        try bench.settle()
        #expect(bench.deadLetters().map(\.code) == [])
        #expect(bench.apple.held("z")?.isRetracted == true)
        #expect(bench.apple.held("a")?.country == "FRA")
    }

    @Test(arguments: steps)
    func `goes again before its buy is retracted, when Apple refuses another item`(
        step: Int
    ) throws {
        let bench = try bench(step)
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.sale(bench.buy("a", anna))
        try bench.settle()
        bench.script = { _, ids in
            ids.contains("bad")
                ? [AppleError(code: 7, fieldName: "taxCountry", lineItemID: "bad")] : nil
        }
        bench.sale(bench.refund("r", of: "a", anna, exclusive: 1_000))
        bench.sale(bench.buy("bad", anna))
        try bench.settleAlone()
        bench.sale(bench.change("a", anna, .retract))
        try take(step, bench)
        try bench.settle()
        #expect(try bench.words().filter { $0.hasSuffix("rejected") } == ["bad rejected"])
        #expect(bench.apple.held("r")?.isRetracted == true)
        #expect(bench.apple.held("a")?.isRetracted == true)
    }

    /// Another report is under way when it joins the queue, and its start is retracted meanwhile.
    @Test func `lets its start be retracted when it leaves a queue for want of a rate`() throws {
        let bench = PurchasesBench()
        bench.launch()
        let anna = bench.customer(1)
        bench.clock.now = PurchasesBench.start + .days(30)
        bench.token("t", from: PurchasesBench.start + .days(-1), customer: anna)
        bench.sale(bench.period("start", .start, day: 0))
        bench.rates.rates = try ExchangeRates(csv: Array("2026-02-09,ISK,EUR,0.0068\n".utf8))
        try bench.settle()
        bench.sale(bench.buy("other", anna))
        try bench.settleAlone()
        var renewal = bench.period("renewal", .renewal, day: 30)
        renewal.pricingCurrency = AlphaCode("ISK")
        bench.sale(renewal)
        try bench.settleAlone()
        bench.sale(bench.change("start", anna, .retract))
        try bench.settleAlone()
        // When the renewal's turn comes there is no rate.
        let known = bench.rates.rates
        bench.rates.rates = .none
        #expect(bench.apple.held("start")?.isRetracted == false)
        try bench.settle()
        #expect(try bench.words() == ["start reported", "other reported", "start reported"])
        #expect(bench.apple.held("start")?.isRetracted == true)
        bench.rates.rates = known
        bench.rates.isChanged = true
        try bench.pass(.minutes(1))
        #expect(bench.apple.held("renewal") == nil)
        #expect(bench.deadLetters().map(\.code) == ["purchases.reference_retracted"])
    }

    /// Apple does not know the token that it is queued under.
    @Test func `lets its start be retracted when it leaves a queue for want of a token`() throws {
        let bench = PurchasesBench()
        bench.launch()
        let anna = bench.customer(1)
        let first = PurchasesBench.start
        bench.token("t", days: 10, customer: anna)
        bench.sale(bench.period("start", .start, day: 0))
        try bench.settle()
        bench.clock.now = first + .days(13)
        bench.token("forged", from: first + .days(11), days: 30, customer: anna, isForged: true)
        bench.sale(bench.buy("other", anna))
        try bench.settleAlone()
        bench.sale(bench.period("renewal", .renewal, day: 12))
        try bench.settleAlone()
        bench.sale(bench.change("start", anna, .retract))
        try bench.settleAlone()
        #expect(bench.apple.held("start")?.isRetracted == false)
        try bench.settle()
        #expect(try bench.words() == ["start reported", "start reported"])
        #expect(bench.apple.held("start")?.isRetracted == true)
        try bench.pass(.hours(25))
        #expect(bench.apple.held("renewal") == nil)
        #expect(bench.deadLetters().map(\.code) == ["purchases.reference_retracted"])
    }

    /// Refunds, their restatements and retractions, and restatements of the buy, told in a row: each is right
    /// after those before it, and none waits for an answer.
    @Test(arguments: 0..<200)
    func `is what was told before about the same buy`(seed: UInt64) throws {
        let bench = try bench(Int(seed))
        var generator = SeededGenerator(seed: seed)
        let hasFaults = seed.isMultiple(of: 2)
        bench.cluster.faults.abortOneIn = hasFaults ? 15 : 0
        let anna = bench.customer(1)
        if seed % 4 < 2 {
            bench.token("t", customer: anna)
            bench.sale(bench.buy("a", anna))
        } else {
            // The buy's token expired: its refunds go under another one.
            let start = PurchasesBench.start
            bench.token("t", from: start + .days(-200), days: 100, customer: anna)
            bench.token("u", from: start + .days(-60), customer: anna)
            bench.sale(bench.buy("a", anna) { $0.creationDate = start + .days(-150) })
        }
        var bought: Int64 = 10_000
        var refunds: [String: Int64] = [:]
        var retracted: Set<String> = []
        var told: [String] = []
        for number in 0..<12 {
            let left = refunds.values.reduce(bought, -)
            let refund = refunds.keys.sorted().randomElement(using: &generator)
            switch (Int.random(in: 0..<6, using: &generator), refund) {
            case (0...1, _) where left > 0:
                let id = "r\(Int.random(in: 0..<10, using: &generator))-\(number)"
                refunds[id] =
                    Bool.random(using: &generator)
                    ? left : Int64.random(in: 1...left, using: &generator)
                told.append("refund \(id) \(refunds[id] ?? 0)")
                bench.sale(bench.refund(id, of: "a", anna, exclusive: refunds[id] ?? 0))
            case (2...3, let id?):
                refunds[id] = nil
                retracted.insert(id)
                told.append("retract \(id)")
                bench.sale(bench.change(id, anna, .retract))
            case (4, let id?):
                let amount = Int64.random(in: 1...left + (refunds[id] ?? 0), using: &generator)
                refunds[id] = amount
                told.append("restate \(id) \(amount)")
                bench.sale(
                    bench.change(id, anna, .restate) {
                        $0.amountTaxExclusive = Milliunits(amount)
                        $0.taxAmount = Milliunits(amount / 5)
                    }
                )
            default:
                let amount = bought - left + Int64.random(in: 0..<5_000, using: &generator)
                bought = max(amount, 1)
                told.append("restate a \(bought)")
                bench.sale(
                    bench.change("a", anna, .restate) {
                        $0.amountTaxExclusive = Milliunits(bought)
                        $0.taxAmount = Milliunits(bought / 5)
                    }
                )
            }
            switch Int.random(in: 0..<5, using: &generator) {
            case 0: try bench.settleAlone()
            case 1: try bench.settle()
            case 2 where hasFaults:
                bench.crash()
                bench.launch()
            default: try take(Int.random(in: 0..<8, using: &generator), bench)
            }
        }
        bench.cluster.faults.abortOneIn = 0
        for _ in 0..<10 {
            try bench.pass(.seconds(30))
        }
        let note: Comment = "seed \(seed): \(told)"
        #expect(bench.deadLetters().map(\.code) == [], note)
        #expect(bench.apple.held("a")?.exclusive == bought, note)
        for (id, amount) in refunds {
            #expect(bench.apple.held(id)?.exclusive == amount, "\(id), seed \(seed): \(told)")
        }
        for id in retracted {
            #expect(bench.apple.held(id)?.isRetracted == true, "\(id), seed \(seed): \(told)")
        }
    }

    /// A buy that is retracted takes its refund with it; both are told to be right after all, the refund with
    /// more than the buy was before.
    @Test(arguments: steps)
    func `is an undone retraction of its buy that came before, when it is a restatement`(
        step: Int
    ) throws {
        let (bench, anna) = try reportedRefund(step, "r", exclusive: 10_000)
        func restate(_ id: String) {
            bench.sale(
                bench.change(id, anna, .restate) {
                    $0.amountTaxExclusive = Milliunits(20_000)
                    $0.taxAmount = .zero
                }
            )
        }
        bench.sale(bench.change("a", anna, .retract))
        restate("a")
        try take(step, bench)
        restate("r")
        try bench.settle()
        #expect(bench.deadLetters().map(\.code) == [])
        for id in ["a", "r"] {
            #expect(bench.apple.held(id)?.exclusive == 20_000)
            #expect(bench.apple.held(id)?.isRetracted == false)
        }
    }

    private func period(
        _ id: String,
        _ number: Int64,
        _ event: SubscriptionEvent,
        _ bench: PurchasesBench
    ) -> PurchaseEvent {
        bench.buy(id, bench.customer(1)) {
            let begin = PurchasesBench.start + .days(10 * number - 100)
            $0.creationDate = begin
            $0.subscriptionID = "s"
            $0.subscriptionEvent = event
            $0.subscriptionStartDate = begin
            $0.subscriptionEndDate = begin + .days(10)
        }
    }

    /// They are all refunded before the subscription is retracted, and one refund waits for the other's answer.
    @Test(arguments: steps)
    func `is a turn before the retraction of what its buy refers to`(step: Int) throws {
        let bench = try bench(step)
        let anna = bench.customer(1)
        bench.token("t", from: PurchasesBench.start + .days(-200), customer: anna)
        bench.sale(period("start", 0, .start, bench))
        bench.sale(period("month", 1, .renewal, bench))
        try bench.settle()
        bench.sale(bench.refund("r", of: "month", anna, exclusive: 1_000))
        bench.sale(bench.refund("q", of: "month", anna, exclusive: 1_000))
        try take(step, bench)
        bench.sale(bench.change("start", anna, .retract))
        try bench.settle()
        #expect(bench.deadLetters().map(\.code) == [])
        for id in ["start", "month", "r", "q"] {
            #expect(bench.apple.held(id)?.isRetracted == true, "\(id)")
        }
    }

    /// A renewal waits for a rate, and the retraction of its start, which comes later, does not wait for it:
    /// both become ready for one report, at any step, whether the token has another report under way or none.
    @Test(arguments: steps, [false, true])
    func `is a rate, where its start is retracted before that comes`(
        step: Int,
        isTokenBusy: Bool
    ) throws {
        let bench = try bench(step)
        let anna = bench.customer(1)
        bench.token("t", from: PurchasesBench.start + .days(-200), customer: anna)
        bench.sale(period("start", 0, .start, bench))
        try bench.settle()
        var month = period("month", 9, .renewal, bench)
        month.pricingCurrency = AlphaCode("ISK")
        bench.sale(month)
        try bench.settleAlone()
        if isTokenBusy {
            bench.sale(bench.buy("other", anna))
            try bench.settleAlone()
        }
        bench.sale(bench.change("start", anna, .retract))
        try take(step, bench)
        bench.rates.rates = try ExchangeRates(csv: Array("2025-12-31,ISK,EUR,0.0068\n".utf8))
        bench.rates.isChanged = true
        bench.clock.now = bench.clock.now + .seconds(5)
        try bench.settleAlone()
        try bench.pass(.minutes(1))
        #expect(bench.refusals == [])
        #expect(bench.apple.held("start")?.isRetracted == true)
        let isLive = bench.apple.held("month").map { !$0.isRetracted } ?? false
        #expect(!isLive)
        #expect(bench.deadLetters().allSatisfy { $0.code == "purchases.reference_retracted" })
    }

    @Test(arguments: [false, true])
    func `is the start of its own time, where the customer came back`(isRetracted: Bool) throws {
        let bench = try bench(0)
        bench.sale(period("start-1", 0, .start, bench))
        bench.sale(period("month-1", 1, .renewal, bench))
        bench.sale(period("start-2", 5, .start, bench))
        bench.sale(period("month-2", 6, .renewal, bench))
        if isRetracted {
            // One with another date is sent in its place.
            bench.sale(bench.change("start-2", bench.customer(1), .retract))
            bench.sale(period("start-3", 4, .start, bench))
            bench.sale(period("month-3", 7, .renewal, bench))
        }
        try bench.settle()
        bench.token("t", from: PurchasesBench.start + .days(-200), customer: bench.customer(1))
        try bench.pass(.minutes(1))
        #expect(bench.deadLetters().map(\.code) == [])
        #expect(bench.apple.held("month-1")?.reference == "start-1")
        #expect(bench.apple.held("month-2")?.reference == "start-2")
        if isRetracted {
            #expect(bench.apple.held("month-3")?.reference == "start-3")
        }
    }

    @Test func `is a token, where a sale that was not owed was retracted and is right after all`()
        throws
    {
        let bench = try bench(1)
        let anna = bench.customer(1)
        bench.sale(bench.buy("a", anna))
        try bench.pass(.hours(25))
        bench.sale(bench.change("a", anna, .retract))
        try bench.settle()
        bench.sale(bench.change("a", anna, .restate) { $0.taxCountry = AlphaCode("FRA") })
        try bench.settle()
        bench.token("t", customer: anna)
        try bench.pass(.minutes(1))
        #expect(try bench.words().last == "a reported")
        #expect(bench.apple.held("a")?.country == "FRA")
        #expect(bench.deadLetters().isEmpty)
    }

    /// What came before a token reopened the sale "a", which is not owed.
    enum Restated: CaseIterable {
        case whileNotOwed, afterItsRetraction, twiceAfterItsRetraction, whileItWaitedForARate
    }

    private func restated(_ way: Restated, _ anna: CustomerID, _ bench: PurchasesBench) throws {
        let isForeign = way == .whileItWaitedForARate
        let restatement = bench.change("a", anna, .restate) {
            $0.amountTaxExclusive = Milliunits(8_000)
            $0.taxAmount = Milliunits(1_600)
        }
        if isForeign {
            bench.token("forged", customer: anna, isForged: true)
        }
        bench.sale(foreign(isForeign, bench.buy("a", anna)))
        if isForeign {
            try bench.settle()
            bench.sale(restatement)
            try bench.settle()
            let refused = TokenRefused(
                externalPurchaseID: TokenID("forged"),
                customer: anna,
                refusedAt: bench.clock.now
            )
            bench.append(.tokensRefused, key: anna.text) { refused.write(to: &$0) }
            try rates(bench)
            bench.rates.isChanged = true
            try bench.pass(.seconds(5))
        }
        try bench.pass(.hours(25))
        if way == .afterItsRetraction || way == .twiceAfterItsRetraction {
            bench.sale(bench.change("a", anna, .retract))
            try bench.settle()
        }
        if !isForeign {
            bench.sale(restatement)
            try bench.settle()
        }
        if way == .twiceAfterItsRetraction {
            let last = bench.change("a", anna, .restate) {
                $0.amountTaxExclusive = Milliunits(7_000)
                $0.taxAmount = Milliunits(1_400)
            }
            bench.sale(last)
            try bench.settle()
        }
        #expect(try bench.words().last == "a not_owed")
    }

    /// Sends a dead letter back to a worker that has its state from the changelog; Apple refuses nothing more.
    private func replay(_ value: [UInt8], of customer: CustomerID, _ bench: PurchasesBench) throws {
        bench.script = { _, _ in nil }
        bench.crash()
        bench.loseDisk()
        bench.launch()
        bench.append(.purchasesReceived, key: customer.text, value: value)
        try bench.pass(.minutes(1))
    }

    private func foreign(_ isForeign: Bool, _ sale: PurchaseEvent) -> PurchaseEvent {
        var sale = sale
        sale.creationDate = PurchasesBench.start
        if isForeign {
            sale.pricingCurrency = AlphaCode("ISK")
        }
        return sale
    }

    /// Apple refuses the sale that a token reopened; its dead letter, a record that came, tells it as it was
    /// restated.
    @Test(arguments: Restated.allCases)
    func `is a replay, where a sale was restated before a token reopened it`(
        way: Restated
    ) throws {
        let bench = try bench(1)
        let anna = bench.customer(1)
        try restated(way, anna, bench)
        bench.script = { _, _ in
            [AppleError(code: 7, fieldName: "taxCountry", lineItemID: "a")]
        }
        bench.token("t", customer: anna)
        try bench.pass(.minutes(1))
        #expect(bench.apple.held("a") == nil)
        #expect(bench.deadLetters().map(\.code) == ["purchases.rejected"])
        let dead = try #require(bench.deadLetters().first)
        let topic = Topic.purchasesReceived.name(prefix: PurchasesBench.prefix)
        #expect(bench.cluster.committedRecords(of: topic).contains { $0.value == dead.value })
        try replay(dead.value, of: anna, bench)
        let isForeign = way == .whileItWaitedForARate
        // 8.000 ISK are 0.054 EUR.
        let told: Int64 =
            isForeign ? 54 : way == .twiceAfterItsRetraction ? 7_000 : 8_000
        #expect(bench.apple.held("a")?.exclusive == told)
        // The platform sends it once more, as it was.
        bench.sale(foreign(isForeign, bench.buy("a", anna)))
        try bench.pass(.minutes(1))
        #expect(bench.deadLetters().count == 1)
        #expect(bench.apple.held("a")?.exclusive == told)
    }

    /// The newest restatement stands for a sale whose own event is forgotten, also while that waits for
    /// a rate.
    @Test func `is a replay, where the sale was restated again while it waited for a rate`() throws
    {
        let bench = try bench(1)
        let anna = bench.customer(1)
        bench.sale(foreign(true, bench.buy("a", anna)))
        try bench.pass(.hours(25))
        bench.sale(bench.change("a", anna, .retract))
        try bench.settle()
        func restate(_ amount: Int64) throws {
            bench.sale(
                bench.change("a", anna, .restate) {
                    $0.amountTaxExclusive = Milliunits(amount)
                    $0.taxAmount = Milliunits(amount / 5)
                }
            )
            try bench.settle()
        }
        try restate(8_000_000)
        bench.token("t", customer: anna)
        try bench.pass(.minutes(1))
        try restate(7_000_000)
        bench.script = { _, _ in
            [AppleError(code: 7, fieldName: "taxCountry", lineItemID: "a")]
        }
        try rates(bench)
        bench.rates.isChanged = true
        try bench.pass(.minutes(1))
        let dead = try #require(bench.deadLetters().first)
        #expect(bench.deadLetters().count == 1)
        #expect(String(decoding: dead.value, as: UTF8.self).contains("7000000"))
        try replay(dead.value, of: anna, bench)
        // 7,000.000 ISK.
        #expect(bench.apple.held("a")?.exclusive == 47_600)
        #expect(bench.deadLetters().count == 1)
    }

    /// The operator puts right what Apple refused.
    @Test func `is a replay with other content, which is taken as it stands`() throws {
        let bench = try bench(1)
        let anna = bench.customer(1)
        try restated(.whileNotOwed, anna, bench)
        bench.script = { _, _ in
            [AppleError(code: 7, fieldName: "taxCountry", lineItemID: "a")]
        }
        bench.token("t", customer: anna)
        try bench.pass(.minutes(1))
        #expect(try bench.words().last == "a rejected")
        bench.script = { _, _ in nil }
        bench.sale(foreign(false, bench.buy("a", anna, exclusive: 9_000)))
        try bench.pass(.minutes(1))
        #expect(bench.apple.held("a")?.exclusive == 9_000)
    }

    @Test(arguments: steps)
    func `is found when it is a token`(step: Int) throws {
        let bench = try bench(step)
        let anna = bench.customer(1)
        bench.sale(bench.buy("a", anna))
        try take(step, bench)
        bench.token("t", customer: anna)
        try bench.pass(.minutes(1))
        #expect(try bench.words() == ["a reported"])
    }

    @Test(arguments: steps)
    func `is found when it is a rate`(step: Int) throws {
        let bench = try bench(step)
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.sale(bench.buy("a", anna) { $0.pricingCurrency = AlphaCode("ISK") })
        try take(step, bench)
        try rates(bench)
        bench.rates.isChanged = true
        bench.clock.now = bench.clock.now + .seconds(5)
        _ = try bench.step()
        try bench.pass(.minutes(1))
        #expect(try bench.words() == ["a reported"])
    }

    /// Another process reads the newest file when it starts, and takes that for no change.
    @Test func `is found when it is a rate that came while the worker was down`() throws {
        let bench = try bench(1)
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.sale(bench.buy("a", anna) { $0.pricingCurrency = AlphaCode("ISK") })
        try bench.pass(.minutes(1))
        bench.crash()
        try rates(bench)
        bench.launch()
        try bench.pass(.minutes(1))
        #expect(try bench.words() == ["a reported"])
    }

    /// The sales that a look at the rates found are staged only: it begins anew where that is lost.
    @Test(arguments: [false, true])
    func `is found when it is a rate, and the transaction that takes it is aborted`(
        isDown: Bool
    ) throws {
        let bench = try bench(1)
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.sale(bench.buy("a", anna) { $0.pricingCurrency = AlphaCode("ISK") })
        for _ in 0..<5 {
            try bench.pass(.minutes(1))
            // Another customer's, of another partition perhaps.
            bench.sale(bench.buy("b", bench.customer(2)) { $0.quantity = 0 })
        }
        try bench.settle()
        if isDown {
            bench.crash()
        }
        try rates(bench)
        bench.rates.isChanged = !isDown
        bench.clock.now = bench.clock.now + .seconds(5)
        if isDown {
            bench.launch()
        }
        bench.cluster.faults.abortOneIn = 1
        for _ in 0..<20 {
            _ = try bench.step()
        }
        bench.cluster.faults.abortOneIn = 0
        try bench.pass(.minutes(1))
        #expect(try bench.words().filter { $0.hasPrefix("a") } == ["a reported"])
    }

    /// Each waits for the other to be reported.
    @Test func `is a sale that names the one that names it`() throws {
        let bench = try bench(1)
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        func refund(_ id: String, of other: String) {
            bench.sale(bench.refund(id, of: other, anna, exclusive: 3_000))
        }
        func later(_ id: String, after other: String, _ event: SubscriptionEvent) {
            var sale = period(id, 9, event, bench)
            sale.referenceLineItemID = other
            bench.sale(sale)
        }
        refund("r1", of: "r2")
        refund("r2", of: "r1")
        later("m1", after: "m2", .renewal)
        later("m2", after: "m1", .payment)
        refund("r3", of: "m3")
        later("m3", after: "r3", .renewal)
        try bench.pass(.days(29))
        #expect(bench.deadLetters().isEmpty)
        try bench.pass(.days(2))
        try bench.pass(.days(2))
        #expect(bench.deadLetters().count == 6, "\(bench.deadLetters().map(\.code))")
        let codes = Set(bench.deadLetters().map(\.code))
        #expect(codes.contains("purchases.refund_of_refund"))
        #expect(codes.contains("purchases.reference_not_start"))
        #expect(codes.contains("purchases.reference_not_buy"))
        // The name is free for what it belongs to.
        bench.sale(bench.buy("r1", anna))
        try bench.settle()
        #expect(bench.apple.held("r1") != nil)
    }

    private func rates(_ bench: PurchasesBench) throws {
        bench.rates.rates = try ExchangeRates(csv: Array("2026-01-10,ISK,EUR,0.0068\n".utf8))
    }
}
