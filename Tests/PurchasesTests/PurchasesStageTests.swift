import Kafka
import Simulation
import StageRuntime
import StateStore
import Testing
import TokenDomain
import TokenWire

@testable import purchases

@Suite struct `The worker of sales` {
    private func bench() -> PurchasesBench {
        let bench = PurchasesBench()
        bench.launch()
        return bench
    }

    @Test func `reports a sale under the customer's token`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.sale(bench.buy("a", anna))
        try bench.settle()
        #expect(try bench.words() == ["a reported"])
        let outcome = try #require(try bench.outcomes().first)
        #expect(outcome.externalPurchaseID == TokenID("t"))
        #expect(outcome.requestIdentifier == "report-1")
        #expect(outcome.revision == 1)
        #expect(bench.apple.held("a")?.net == 10_000)
        #expect(bench.deadLetters().isEmpty)
    }

    @Test func `settles a repeat, and refuses another sale under the same name`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        for _ in 0..<2 {
            bench.sale(bench.buy("a", anna))
            try bench.settle()
        }
        bench.sale(bench.buy("a", anna) { $0.taxCountry = AlphaCode("FRA") })
        try bench.settle()
        #expect(try bench.words() == ["a reported", "a rejected"])
        #expect(bench.deadLetters().map(\.code) == ["purchases.conflict"])
        #expect(bench.reports == [["a"]])
    }

    /// Also of a sale that is too old to be restated.
    @Test(arguments: [0, 367] as [Int64])
    func `settles what changes nothing`(days: Int64) throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        let boughtAt = bench.clock.now
        bench.sale(bench.period("s", .start, day: 0))
        bench.sale(bench.buy("a", anna))
        bench.sale(bench.buy("b", anna))
        bench.sale(bench.change("b", anna, .retract))
        try bench.pass(.days(1))
        bench.sale(bench.period("r", .renewal, day: 1))
        try bench.settle()
        try bench.pass(.days(days))
        bench.sale(bench.buy("a", anna) { $0.creationDate = boughtAt })
        bench.sale(bench.change("a", anna, .restate) { $0.taxCountry = AlphaCode("DEU") })
        bench.sale(bench.change("b", anna, .retract))
        bench.sale(bench.change("r", anna, .restate) { $0.referenceLineItemID = "s" })
        try bench.settle()
        #expect(bench.deadLetters().map(\.code) == [])
        #expect(bench.count(.reported) == 5)
    }

    /// The START that the worker found itself, named by who restates all of a renewal: of one that Apple
    /// has, that waits for a rate, and that nothing is owed of.
    @Test(arguments: ["live", "rate", "not_owed"])
    func `takes a restatement that repeats the start`(standing: String) throws {
        let bench = bench()
        let anna = bench.customer(1)
        if standing != "not_owed" {
            bench.token("t", customer: anna)
        }
        bench.sale(bench.period("s", .start, day: 0))
        try bench.pass(.days(1))
        var renewal = bench.period("r", .renewal, day: 1)
        renewal.pricingCurrency = AlphaCode(standing == "rate" ? "ISK" : "EUR")
        bench.sale(renewal)
        try bench.pass(.days(2))
        bench.sale(
            bench.change("r", anna, .restate) {
                $0.referenceLineItemID = "s"
                $0.productIdentifier = "gems"
            }
        )
        try bench.settle()
        bench.rates.rates = try ExchangeRates(csv: Array("2026-01-11,ISK,EUR,0.0068\n".utf8))
        bench.rates.isChanged = true
        try bench.pass(.minutes(1))
        if standing == "not_owed" {
            bench.token("t", from: PurchasesBench.start + .days(-1), customer: anna)
            try bench.settle()
        }
        #expect(bench.deadLetters().map(\.code) == [])
        let renewals = try bench.outcomes().filter { $0.lineItemID == "r" }
        #expect(renewals.last?.item?.contains("gems") == true, "\(renewals)")
    }

    @Test func `refuses another sale under the name of one under way, without its line item`()
        throws
    {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.sale(bench.buy("a", anna))
        try bench.settleAlone()
        bench.sale(bench.buy("a", anna) { $0.taxCountry = AlphaCode("FRA") })
        try bench.settle()
        let outcomes = try bench.outcomes()
        #expect(outcomes.map(\.outcome) == [.rejected, .reported])
        #expect(outcomes.map { $0.item == nil } == [true, false])
    }

    @Test func `waits a day for a token, then owes nothing, and is reopened for 30 days`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.sale(bench.buy("a", anna))
        bench.sale(bench.buy("b", anna))
        try bench.pass(.hours(23))
        #expect(try bench.words() == [])
        try bench.pass(.hours(2))
        #expect(Set(try bench.words()) == ["a not_owed", "b not_owed"])
        #expect(try bench.outcomes().allSatisfy { $0.reason == "no_active_token" })
        try bench.pass(.days(20))
        bench.token("t", customer: anna)
        try bench.settle()
        #expect(Set(try bench.words().suffix(2)) == ["a reported", "b reported"])
        #expect(bench.deadLetters().isEmpty)
    }

    @Test func `is not reopened after 30 days`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.sale(bench.buy("a", anna))
        try bench.pass(.days(2))
        try bench.pass(.days(31))
        bench.token("t", customer: anna)
        try bench.settle()
        #expect(try bench.words() == ["a not_owed"])
    }

    @Test func `sends a refund after its buy, with the net of both, in whatever order they come`()
        throws
    {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.sale(bench.refund("r1", of: "a", anna, exclusive: 3_000))
        bench.sale(bench.refund("r2", of: "a", anna, exclusive: 7_000))
        try bench.settle()
        #expect(bench.reports.isEmpty)
        bench.sale(bench.buy("a", anna))
        try bench.settle()
        #expect(Set(try bench.words()) == ["a reported", "r1 reported", "r2 reported"])
        bench.sale(bench.refund("r3", of: "a", anna, exclusive: 1))
        try bench.settle()
        #expect(bench.deadLetters().map(\.code) == ["purchases.refund_too_large"])
        #expect(try bench.words().last == "r3 rejected")
    }

    /// Each has a change that came before the other: the one whose own event came first goes first.
    @Test func `never has two refunds wait for each other`() throws {
        let bench = PurchasesBench()
        bench.launch()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.sale(bench.change("r", anna, .retract))
        bench.sale(bench.change("q", anna, .retract))
        bench.sale(bench.refund("q", of: "b", anna, exclusive: 3_000))
        bench.sale(bench.refund("r", of: "b", anna, exclusive: 4_000))
        try bench.settle()
        bench.sale(bench.buy("b", anna, exclusive: 1_000))
        try bench.pass(.days(31))
        #expect(try bench.words().filter { $0 == "q rejected" || $0 == "r rejected" }.count == 4)
        #expect(
            bench.deadLetters().map(\.code).sorted()
                == [
                    "reference_unknown", "reference_unknown", "refund_too_large",
                    "refund_too_large",
                ]
                .map { "purchases.\($0)" }
        )
    }

    @Test func `counts the paid days of a subscription whose months come at once`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", from: PurchasesBench.start + .days(-200), customer: anna)
        let first = PurchasesBench.start + .days(-180)
        func event(_ number: Int64, _ kind: SubscriptionEvent, exclusive: Int64) -> PurchaseEvent {
            bench.buy("m\(number)", anna, exclusive: exclusive) { sale in
                let start = first + .days(30 * number)
                sale.creationDate = start
                sale.subscriptionID = "s"
                sale.subscriptionEvent = kind
                sale.subscriptionStartDate = start
                sale.subscriptionEndDate = start + .days(30)
            }
        }
        for number in [3, 1, 2] as [Int64] {
            bench.sale(event(number, .renewal, exclusive: 5_000))
        }
        bench.sale(event(0, .start, exclusive: 0))
        try bench.settle()
        let days = (0...3).map { bench.apple.held("m\($0)")?.days }
        // The first month was free.
        #expect(days == [0, 0, 30, 60])
        #expect(bench.apple.held("m2")?.reference == "m0")
        #expect(bench.deadLetters().isEmpty)
    }

    /// A month of a subscription that began at a time; 0 is its start.
    private func month(
        _ number: Int64,
        from first: Timestamp,
        _ bench: PurchasesBench,
        _ customer: CustomerID
    ) -> PurchaseEvent {
        bench.buy("m\(number)", customer) { sale in
            let start = first + .days(30 * number)
            sale.creationDate = start
            sale.subscriptionID = "s"
            sale.subscriptionEvent = number == 0 ? .start : .renewal
            sale.subscriptionStartDate = start
            sale.subscriptionEndDate = start + .days(30)
        }
    }

    @Test func `counts the paid days of ten years of months that waited for their start`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        let first = PurchasesBench.start + .days(-300)
        bench.token("t", from: first, customer: anna)
        let count: Int64 = 120
        // One a day: all of them within the time that a token allows.
        func event(_ number: Int64) -> PurchaseEvent {
            var event = month(number, from: first, bench, anna)
            event.creationDate = first + .days(number)
            event.subscriptionStartDate = event.creationDate
            event.subscriptionEndDate = first + .days(number + 1)
            return event
        }
        for number in 1..<count {
            bench.sale(event(number))
            try bench.settle()
        }
        bench.sale(event(0))
        try bench.settle()
        let days = (0..<count).map { bench.apple.held("m\($0)")?.days }
        #expect(days == (0..<count).map(Optional.some), "\(days)")
        #expect(bench.deadLetters().isEmpty)
    }

    /// After a correction they are counted from the book, in which the months wait.
    @Test(arguments: [false, true])
    func `counts the paid days of months that go under two tokens at once`(
        isCorrected: Bool
    ) throws {
        let bench = bench()
        let anna = bench.customer(1)
        let first = PurchasesBench.start + .days(-180)
        // The report of the second year is made first.
        bench.token("z", from: first, days: 90, customer: anna)
        bench.token("a", from: first + .days(90), customer: anna)
        for number in 0...5 as ClosedRange<Int64> {
            bench.sale(month(number, from: first, bench, anna))
            if number == 0, isCorrected {
                try bench.settle()
                bench.sale(bench.change("m0", anna, .restate) { $0.quantity = 2 })
                try bench.settle()
            }
        }
        try bench.settle()
        #expect((0...5).map { bench.apple.held("m\($0)")?.days } == [0, 30, 60, 90, 120, 150])
    }

    @Test func `counts a month that comes late from the book`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", from: PurchasesBench.start + .days(-200), customer: anna)
        for number in [0, 1, 3, 2] as [Int64] {
            let first = PurchasesBench.start + .days(-180)
            bench.sale(month(number, from: first, bench, anna))
            try bench.settle()
        }
        #expect((0...3).map { bench.apple.held("m\($0)")?.days } == [0, 30, 60, 60])
    }

    /// A month is forgotten 410 days after the last word about it.
    @Test(arguments: [false, true])
    func `counts paid days anew of two years, also after a restore`(isRestored: Bool) throws {
        let bench = bench()
        let anna = bench.customer(1)
        let first = PurchasesBench.start
        bench.token("t", from: first, days: 1_000, customer: anna)
        for number in 0..<24 as Range<Int64> {
            var event = month(number, from: first, bench, anna)
            if number == 0 || number == 9 {
                // The next one cuts it short, for a change of plan.
                event.subscriptionEndDate = event.creationDate.map { $0 + .days(45) }
            }
            bench.sale(event)
            try bench.settle()
            for days in [28, 1, 1] as [Int64] {
                try bench.pass(.days(days))
                bench.sale(bench.buy("other", anna) { $0.quantity = 0 })
                try bench.pass(.minutes(1))
                bench.clock.now = bench.clock.now + -.minutes(1)
            }
        }
        let book = try bench.records()
        let known = [0, 5, 23].map { month in book.contains { $0.contains("m\(month) {") } }
        #expect(known == [true, false, true])
        if isRestored {
            bench.crash()
            bench.loseDisk()
            bench.launch()
        }
        bench.sale(bench.change("m23", anna, .restate) { $0.quantity = 2 })
        try bench.settle()
        bench.sale(month(24, from: first, bench, anna))
        try bench.settle()
        #expect(["m23", "m24"].map { bench.apple.held($0)?.days } == [690, 720])
    }

    @Test func `restates, retracts with what refers to it, and undoes it`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.sale(bench.buy("a", anna))
        bench.sale(bench.refund("r", of: "a", anna, exclusive: 3_000))
        bench.sale(
            bench.change("a", anna, .restate) {
                $0.amountTaxExclusive = Milliunits(8_000)
                $0.taxAmount = Milliunits(1_600)
            }
        )
        try bench.settle()
        #expect(bench.apple.held("a")?.exclusive == 8_000)
        #expect(bench.apple.held("a")?.isRetracted == false)
        bench.sale(bench.change("a", anna, .retract))
        bench.sale(bench.change("a", anna, .retract))
        try bench.settle()
        #expect(bench.apple.held("r")?.isRetracted == true)
        #expect(bench.apple.held("a")?.isRetracted == true)
        bench.sale(bench.change("a", anna, .restate) { $0.taxCountry = AlphaCode("FRA") })
        try bench.settle()
        #expect(bench.apple.held("a")?.isRetracted == false)
        #expect(bench.apple.held("a")?.country == "FRA")
        #expect(bench.apple.held("a")?.net == 8_000)
        #expect(bench.deadLetters().isEmpty)
        let revisions = try bench.outcomes().filter { $0.lineItemID == "a" }.map(\.revision)
        #expect(revisions == [1, 2, 3, 4])
        // A repeat of the first sale is one, whatever it was restated to.
        bench.sale(bench.buy("a", anna))
        try bench.settle()
        #expect(bench.deadLetters().isEmpty)
    }

    private static let firstFailedAt = "2026-01-01T00:00:00.000Z"

    /// Sends a change as a replay of a dead letter of it does.
    private func replay(
        _ change: PurchaseEvent,
        of customer: CustomerID,
        _ bench: PurchasesBench
    ) {
        var (value, headers): ([UInt8], [UInt8]) = ([], [])
        change.write(to: &value)
        HeaderList.append(
            name: "tollway.dlq.first_failed_at".utf8,
            value: Self.firstFailedAt.utf8,
            to: &headers
        )
        bench.append(.purchasesReceived, key: customer.text, value: value, headers: headers)
    }

    /// A replay may state no time of its own, and look newer than what was settled before it.
    @Test func `tells in the ledger when what came by a replay had failed first`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.sale(bench.buy("a", anna))
        try bench.settle()
        for app in [1, 9] as [Int64] {
            let change = bench.change("a", anna, .restate) {
                $0.taxCountry = AlphaCode("FRA")
                $0.appAppleID = app
            }
            replay(change, of: anna, bench)
        }
        try bench.settle()
        let outcomes = try bench.outcomes()
        #expect(outcomes.count == 3)
        for outcome in outcomes {
            #expect(outcome.firstFailedAt == (outcome.type == .restate ? Self.firstFailedAt : nil))
        }
    }

    /// Whatever follows from a change is as old as the change.
    @Test func `tells in the ledger that a retraction follows from a replay`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.sale(bench.buy("a", anna))
        bench.sale(bench.refund("r", of: "a", anna, exclusive: 3_000))
        try bench.settle()
        replay(bench.change("a", anna, .retract), of: anna, bench)
        try bench.settle()
        let retractions = try bench.outcomes().filter { $0.type == .retract }
        #expect(Set(retractions.map(\.lineItemID)) == ["a", "r"])
        for retraction in retractions {
            #expect(retraction.firstFailedAt == Self.firstFailedAt)
        }
    }

    @Test func `holds a restatement until its sale comes`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.sale(bench.change("a", anna, .restate) { $0.taxCountry = AlphaCode("FRA") })
        try bench.settle()
        bench.sale(bench.buy("a", anna))
        try bench.settle()
        #expect(bench.apple.held("a")?.country == "FRA")
        #expect(bench.reports == [["a"], ["a"]])
    }

    @Test func `gives up a restatement of what nobody sent after 30 days`() throws {
        let bench = bench()
        bench.sale(bench.change("a", bench.customer(1), .restate) { $0.quantity = 2 })
        try bench.pass(.days(31))
        #expect(bench.deadLetters().map(\.code) == ["purchases.reference_unknown"])
    }

    @Test func `waits for a rate, and goes on when the file has it`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.sale(bench.buy("a", anna) { $0.pricingCurrency = AlphaCode("ISK") })
        try bench.pass(.days(3))
        #expect(try bench.words() == [])
        bench.rates.rates = try ExchangeRates(csv: Array("2026-01-10,ISK,EUR,0.0068\n".utf8))
        bench.rates.isChanged = true
        try bench.pass(.seconds(10))
        #expect(try bench.words() == ["a reported"])
        #expect(bench.apple.held("a")?.exclusive == 68)
        bench.sale(bench.refund("r", of: "a", anna, exclusive: 10_000))
        try bench.settle()
        #expect(try bench.words().last == "r reported")
    }

    @Test func `takes another reporting currency at a rate of its own`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.sale(
            bench.buy("a", anna) {
                $0.pricingCurrency = AlphaCode("ISK")
                $0.reportingCurrency = AlphaCode("EUR")
                $0.exchangeRate = try? ExchangeRate("0.0068")
            }
        )
        try bench.settle()
        #expect(bench.apple.held("a")?.exclusive == 68)
        bench.sale(bench.change("a", anna, .restate) { $0.reportingCurrency = AlphaCode("USD") })
        try bench.pass(.days(3))
        #expect(bench.apple.held("a")?.exclusive == 68)
        bench.rates.rates = try ExchangeRates(csv: Array("2026-01-10,ISK,USD,0.0081\n".utf8))
        bench.rates.isChanged = true
        try bench.pass(.seconds(10))
        #expect(bench.apple.held("a")?.exclusive == 81)
        #expect(try bench.words() == ["a reported", "a reported"])
    }

    @Test func `takes a correction of what waits for a rate`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        let rate = try ExchangeRate("0.007")
        for name in ["other", "own", "none", "late", "wrong", "wrong, own", "wrong, none"] {
            bench.sale(bench.buy(name, anna) { $0.pricingCurrency = AlphaCode("ISK") })
        }
        try bench.pass(.days(1))
        #expect(try bench.words() == [])
        bench.sale(
            bench.change("other", anna, .restate) { $0.pricingCurrency = AlphaCode("EUR") }
        )
        bench.sale(
            bench.change("own", anna, .restate) {
                $0.reportingCurrency = AlphaCode("EUR")
                $0.exchangeRate = rate
            }
        )
        bench.sale(bench.change("none", anna, .retract))
        bench.sale(bench.change("late", anna, .restate) { $0.taxCountry = AlphaCode("FRA") })
        // What cannot be taken changes nothing.
        bench.sale(
            bench.change("wrong", anna, .restate) {
                $0.creationDate = PurchasesBench.start + .hours(-1)
            }
        )
        // It holds back nothing that comes after it.
        bench.sale(bench.change("wrong, own", anna, .restate) { $0.exchangeRate = rate })
        bench.sale(
            bench.change("wrong, own", anna, .restate) {
                $0.reportingCurrency = AlphaCode("EUR")
                $0.exchangeRate = rate
            }
        )
        bench.sale(bench.change("wrong, none", anna, .restate) { $0.exchangeRate = rate })
        bench.sale(bench.change("wrong, none", anna, .retract))
        try bench.pass(.minutes(1))
        #expect(Set(bench.reports.flatMap { $0 }) == ["other", "own", "wrong, own"])
        #expect(bench.apple.held("own")?.exclusive == 70)
        #expect(bench.apple.held("wrong, own")?.exclusive == 70)
        #expect(bench.apple.held("other")?.exclusive == 10_000)
        let codes = [
            "purchases.creation_date_changed", "purchases.missing_field", "purchases.missing_field",
        ]
        #expect(bench.deadLetters().map(\.code).sorted() == codes)
        let refused = try bench.outcomes().filter { $0.outcome == .rejected }
        #expect(refused.map(\.type) == [.restate, .restate, .restate])
        bench.rates.rates = try ExchangeRates(csv: Array("2026-01-10,ISK,EUR,0.0068\n".utf8))
        bench.rates.isChanged = true
        try bench.pass(.minutes(1))
        #expect(
            Set(bench.reports.flatMap { $0 }) == ["other", "own", "wrong, own", "late", "wrong"]
        )
        #expect(bench.apple.held("late")?.country == "FRA")
        #expect(bench.apple.held("late")?.exclusive == 68)
        #expect(bench.apple.held("wrong")?.exclusive == 68)
        #expect(bench.apple.held("none") == nil)
        #expect(bench.deadLetters().map(\.code).sorted() == codes)
        let words = try bench.words().sorted()
        #expect(
            words == [
                "late reported", "none not_owed", "none not_owed", "other reported", "own reported",
                "wrong rejected", "wrong reported", "wrong, none not_owed", "wrong, none not_owed",
                "wrong, none rejected", "wrong, own rejected", "wrong, own reported",
            ]
        )
    }

    @Test func `keeps the corrections of a sale that is refused for its replay`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        let buy = bench.buy("a", anna) { $0.pricingCurrency = AlphaCode("ISK") }
        bench.sale(buy)
        let rate = try ExchangeRate("0.007")
        bench.sale(
            bench.change("a", anna, .restate) {
                $0.taxCountry = AlphaCode("FRA")
                $0.reportingCurrency = AlphaCode("EUR")
                $0.exchangeRate = rate
            }
        )
        bench.script = { _, _ in
            [AppleError(code: 7, fieldName: "taxCountry", lineItemID: "a")]
        }
        try bench.pass(.minutes(1))
        #expect(try bench.words() == ["a rejected"])
        bench.script = { _, _ in nil }
        bench.sale(buy)
        try bench.pass(.minutes(1))
        #expect(bench.apple.held("a")?.country == "FRA")
        #expect(bench.apple.held("a")?.exclusive == 70)
        #expect(try bench.words() == ["a rejected", "a reported"])
    }

    /// Otherwise the refund would be measured against another buy than it was said of.
    @Test func `takes no other amount where a refund waits as well, and a rate it does`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        let rate = try ExchangeRate("0.007")
        for name in ["a", "b"] {
            bench.sale(bench.buy(name, anna) { $0.pricingCurrency = AlphaCode("ISK") })
            bench.sale(bench.refund("r\(name)", of: name, anna, exclusive: 10_000))
        }
        bench.sale(
            bench.change("a", anna, .restate) { $0.pricingCurrency = AlphaCode("EUR") }
        )
        bench.sale(
            bench.change("b", anna, .restate) {
                $0.reportingCurrency = AlphaCode("EUR")
                $0.exchangeRate = rate
            }
        )
        try bench.pass(.minutes(1))
        #expect(Set(try bench.words()) == ["b reported", "rb reported"])
    }

    @Test func `counts paid days by what a sale became while it waited`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        let start = PurchasesBench.start
        func month(_ name: String, _ event: SubscriptionEvent, _ from: Int64, _ to: Int64) {
            bench.sale(
                bench.buy(name, anna) {
                    $0.pricingCurrency = AlphaCode("ISK")
                    $0.subscriptionID = "s"
                    $0.subscriptionEvent = event
                    $0.subscriptionStartDate = start + .days(from)
                    $0.subscriptionEndDate = start + .days(to)
                }
            )
        }
        month("first", .start, 0, 30)
        try bench.pass(.minutes(1))
        bench.sale(
            bench.change("first", anna, .restate) { $0.subscriptionEndDate = start + .days(10) }
        )
        try bench.pass(.minutes(1))
        month("second", .renewal, 30, 60)
        bench.rates.rates = try ExchangeRates(csv: Array("2026-01-10,ISK,EUR,0.0068\n".utf8))
        bench.rates.isChanged = true
        try bench.pass(.minutes(1))
        #expect(bench.apple.held("second")?.days == 10)
    }

    @Test func `takes the next token where Apple does not know one`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("forged", customer: anna, isForged: true)
        bench.token("real", customer: anna)
        bench.sale(bench.buy("a", anna))
        bench.sale(bench.buy("b", anna) { $0.externalPurchaseID = TokenID("forged") })
        try bench.settle()
        #expect(Set(try bench.outcomes().map(\.externalPurchaseID)) == [TokenID("real")])
        #expect(bench.deadLetters().isEmpty)
    }

    /// A sale that waits for a token, one that was given up for want of it, and those that come then.
    @Test func `takes a token that Apple knows after all`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna, isForged: true)
        bench.sale(bench.buy("old", anna))
        try bench.pass(.hours(25))
        #expect(try bench.words() == ["old not_owed"])
        bench.sale(bench.buy("waits", anna))
        try bench.settle()
        #expect(try bench.words() == ["old not_owed"])
        bench.apple.issue(
            "t",
            app: 1,
            type: KnownTokenType.services.rawValue,
            from: (PurchasesBench.start + .days(-1)).milliseconds,
            until: nil
        )
        let withdrawn = TokenRefused(
            externalPurchaseID: TokenID("t"),
            customer: anna,
            refusedAt: bench.clock.now,
            withdrawnAt: bench.clock.now
        )
        bench.clock.now = bench.clock.now + .seconds(1)
        bench.append(.tokensRefused, key: anna.text) { withdrawn.write(to: &$0) }
        bench.append(.tokensRefused, key: anna.text) { withdrawn.write(to: &$0) }
        try bench.settle()
        bench.sale(bench.buy("new", anna))
        try bench.pass(.minutes(2))
        #expect(
            Set(try bench.words()) == [
                "old not_owed", "old reported", "waits reported", "new reported",
            ]
        )
        // The answer that refused it is read again.
        bench.repeatAnswers()
        bench.sale(bench.buy("newest", anna))
        try bench.settle()
        #expect(try bench.words().contains("newest reported"))
    }

    /// Answers and refusals are in two topics.
    @Test func `believes no older word that Apple does not know a token`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        var answerCount = 0
        bench.script = { _, _ in
            answerCount += 1
            return answerCount > 1
                ? nil : [AppleError(code: 3, fieldName: "externalPurchaseId", lineItemID: nil)]
        }
        bench.sale(bench.buy("a", anna))
        try bench.settleAlone()
        let withdrawn = TokenRefused(
            externalPurchaseID: TokenID("t"),
            customer: anna,
            refusedAt: bench.clock.now,
            withdrawnAt: bench.clock.now + .seconds(1)
        )
        bench.append(.tokensRefused, key: anna.text) { withdrawn.write(to: &$0) }
        try bench.settleAlone()
        try bench.settle()
        try bench.pass(.minutes(2))
        #expect(answerCount == 2)
        #expect(try bench.words() == ["a reported"])
    }

    /// The clock of `report` was set back since it said that Apple knows the token.
    @Test func `asks once a minute where Apple refuses what it knew by a later clock`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.script = { _, _ in
            [AppleError(code: 3, fieldName: "externalPurchaseId", lineItemID: nil)]
        }
        let withdrawn = TokenRefused(
            externalPurchaseID: TokenID("t"),
            customer: anna,
            refusedAt: bench.clock.now,
            withdrawnAt: bench.clock.now + .hours(1)
        )
        bench.append(.tokensRefused, key: anna.text) { withdrawn.write(to: &$0) }
        bench.sale(bench.buy("a", anna))
        try bench.settle()
        #expect(bench.reports.count == 1)
        for _ in 0..<5 {
            try bench.pass(.minutes(1))
        }
        #expect((2...6).contains(bench.reports.count))
    }

    @Test func `takes the next token where Apple finds the date out of range`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("s", customer: anna)
        bench.token("q", .acquisition, customer: anna)
        bench.script = { request, ids in
            request.externalPurchaseID == TokenID("s")
                ? [AppleError(code: 36, fieldName: "creationDate", lineItemID: ids[0])] : nil
        }
        bench.sale(bench.buy("a", anna))
        try bench.settle()
        #expect(try bench.outcomes().map(\.externalPurchaseID) == [TokenID("q")])
        bench.script = { _, ids in
            [AppleError(code: 36, fieldName: "creationDate", lineItemID: ids[0])]
        }
        bench.sale(bench.buy("b", anna))
        try bench.pass(.days(2))
        #expect(bench.deadLetters().map(\.code) == ["purchases.token_out_of_range"])
    }

    /// Apple's clock is behind: the report would have waited, but for the other sale.
    @Test func `sends a sale of a moment ahead again where another one ended its report`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.script = { _, ids in
            let errors = [("a", 6), ("b", 4)].filter { ids.contains($0.0) }.map { id, code in
                AppleError(code: code, fieldName: "creationDate", lineItemID: id)
            }
            return ids.count > 1 ? errors : nil
        }
        let date = bench.clock.now + .minutes(2)
        bench.sale(bench.buy("a", anna) { $0.creationDate = date })
        bench.sale(bench.buy("b", anna))
        try bench.settle()
        #expect(try bench.words() == ["b rejected"])
        try bench.pass(.minutes(6))
        #expect(try bench.words() == ["b rejected", "a reported"])
    }

    /// The ledger puts a sale without an item into the month of that time, for ever.
    @Test(arguments: [.min, 0, 1_760_000_000] as [Int64])
    func `does not believe when a refused sale came in, where that is far off`(
        receivedAt: Int64
    ) throws {
        let bench = bench()
        let anna = bench.customer(1)
        var event = bench.buy("a", anna)
        event.receivedAt = Timestamp(milliseconds: receivedAt)
        event.appAppleID = 99
        event.bundleID = nil
        bench.sale(event)
        try bench.settle()
        let outcomes = try bench.outcomes()
        #expect(outcomes.map(\.outcome) == [.rejected])
        #expect(outcomes.map(\.receivedAt) == [bench.clock.now])
    }

    @Test(arguments: [true, false])
    func `refuses a poison sale alone, named by Apple or not`(isNamed: Bool) throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.script = { _, ids in
            guard ids.contains("poison") else { return nil }
            return isNamed
                ? [AppleError(code: 4, fieldName: "taxCountry", lineItemID: "poison")]
                : []
                    + [AppleError(code: 4, fieldName: "taxCountry", lineItemID: nil)]
        }
        var poison: [UInt8] = []
        for id in ["a", "poison", "b", "c"] {
            var event = bench.buy(id, anna)
            event.receivedAt = bench.clock.now
            bench.sale(event)
            if id == "poison" { event.write(to: &poison) }
        }
        try bench.settle()
        #expect(
            Set(try bench.words()) == [
                "a reported", "b reported", "c reported", "poison rejected",
            ]
        )
        // The event byte for byte, so its replay is the event again.
        #expect(bench.deadLetters().map(\.value) == [poison])
        #expect(bench.deadLetters().map(\.code) == ["purchases.rejected"])
        bench.script = { _, _ in nil }
        bench.append(.purchasesReceived, key: anna.text, value: poison)
        try bench.settle()
        #expect(try bench.words().last == "poison reported")
    }

    /// As texts of Swift the two names are equal.
    @Test func `refuses the sale that Apple names, and none whose name looks like that`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        let bad = "cafe\u{301}"
        bench.script = { _, ids in
            ids.filter { Array($0.utf8) == Array(bad.utf8) }.map {
                AppleError(code: 7, fieldName: "taxCountry", lineItemID: $0)
            }
        }
        bench.sale(bench.buy("caf\u{e9}", anna))
        bench.sale(bench.buy(bad, anna))
        try bench.settle()
        let ends = try bench.outcomes().map { "\($0.lineItemID.utf8.count) \($0.outcome.rawValue)" }
        #expect(ends.sorted() == ["5 reported", "6 rejected"])
    }

    /// As texts of Swift the two names are equal.
    @Test func `takes a refund's reference byte for byte, as the names of sales`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.script = { _, _ in [] }
        bench.sale(bench.buy("caf\u{e9}", anna))
        try bench.settle()
        bench.sale(bench.refund("cafe\u{301}", of: "caf\u{e9}", anna, exclusive: 1_000))
        bench.sale(bench.refund("r", of: "caf\u{e9}", anna, exclusive: 1_000))
        try bench.settle()
        #expect(bench.count(.reported) == 3)
        bench.sale(bench.refund("r", of: "cafe\u{301}", anna, exclusive: 1_000))
        try bench.settle()
        #expect(bench.deadLetters().map(\.code) == ["purchases.conflict"])
    }

    @Test func `gives up after 30 days what refers to a sale that Apple refused`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.script = { _, ids in
            ids.contains("a")
                ? [AppleError(code: 4, fieldName: "taxCountry", lineItemID: "a")] : nil
        }
        bench.sale(bench.buy("a", anna))
        bench.sale(bench.refund("r", of: "a", anna, exclusive: 3_000))
        try bench.settle()
        #expect(try bench.words() == ["a rejected"])
        try bench.pass(.days(31))
        #expect(
            bench.deadLetters().map(\.code) == [
                "purchases.rejected", "purchases.reference_unknown",
            ]
        )
    }

    @Test func `puts at most 100 items into a report, one report at a time for a token`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        for number in 0..<250 {
            bench.sale(bench.buy("a\(number)", anna))
        }
        try bench.settleAlone()
        let topic = Topic.reportsRequested.name(prefix: PurchasesBench.prefix)
        #expect(bench.cluster.committedRecords(of: topic).count == 1)
        try bench.settle()
        #expect(bench.reports.allSatisfy { $0.count <= 100 })
        #expect(bench.reports.joined().count == 250)
        #expect(bench.deadLetters().isEmpty)
    }

    @Test func `refuses events that no platform should have written`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.append(.purchasesReceived, key: anna.text, value: Array("{".utf8))
        bench.append(
            .purchasesReceived,
            key: "other",
            value: {
                var value: [UInt8] = []
                bench.buy("a", anna).write(to: &value)
                return value
            }()
        )
        bench.sale(bench.buy("b", anna) { $0.appAppleID = 3 })
        bench.sale(bench.buy("c", anna) { $0.quantity = 0 })
        try bench.settle()
        #expect(
            Set(bench.deadLetters().map(\.code)) == [
                "purchases.not_json", "purchases.bad_key", "purchases.unknown_app",
                "purchases.not_positive",
            ]
        )
        #expect(try bench.words().sorted() == ["a rejected", "b rejected", "c rejected"])
    }

    /// There it would wait for a token in vain, and then not be owed.
    @Test func `refuses a sale in another partition than its key's`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        let key = Array(anna.text.utf8)
        let home = Partitioner.partition(
            ofKey: key.span,
            partitionCount: Int32(bench.partitionCount)
        )
        var value: [UInt8] = []
        bench.buy("a", anna).write(to: &value)
        for partition in 0..<Int32(bench.partitionCount) where partition != home {
            bench.cluster.append(
                topic: Topic.purchasesReceived.name(prefix: PurchasesBench.prefix),
                partition: partition,
                key: key,
                value: value,
                timestampMilliseconds: bench.clock.now.milliseconds
            )
        }
        try bench.pass(.days(2))
        #expect(
            bench.deadLetters().map(\.code)
                == ["purchases.wrong_partition", "purchases.wrong_partition"]
        )
        #expect(bench.deadLetters().allSatisfy { $0.value == value })
        #expect(try bench.words() == ["a rejected", "a rejected"])
        // Written again where it belongs, it is a sale as any other.
        bench.append(.purchasesReceived, key: anna.text, value: value)
        try bench.settle()
        #expect(try bench.words().last == "a reported")
    }

    /// Clocks of those that write a topic differ: the order of the topic counts, as for dedupe.
    @Test func `takes the token that lies first, whatever the clock of its writer said`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        let now = bench.clock.now
        bench.clock.now = now + .minutes(30)
        bench.token("first", customer: anna)
        bench.clock.now = now
        bench.token("second", customer: anna)
        bench.sale(bench.buy("a", anna) { $0.externalPurchaseID = TokenID("second") })
        try bench.settle()
        #expect(try bench.words() == ["a reported"])
        #expect(try bench.outcomes().last?.externalPurchaseID == TokenID("first"))
    }

    @Test func `reports a sale of a token without customer`() throws {
        let bench = bench()
        bench.token("t", nil, days: nil, customer: nil)
        bench.sale(bench.buy("a", nil) { $0.externalPurchaseID = TokenID("t") })
        try bench.settle()
        #expect(try bench.words() == ["a reported"])
    }

    @Test func `has nothing for what refers to a sale that is not owed, and reopens both`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.sale(bench.buy("a", anna))
        bench.sale(bench.refund("r", of: "a", anna, exclusive: 1_000))
        try bench.pass(.hours(25))
        #expect(Set(try bench.words()) == ["a not_owed", "r not_owed"])
        bench.token("t", customer: anna)
        try bench.settle()
        #expect(Set(try bench.words().suffix(2)) == ["a reported", "r reported"])
    }

    /// The account counts what was not owed, was reopened, and is a dead letter then.
    private func expectAccountCloses(_ bench: PurchasesBench) {
        let settled =
            bench.count(.repeated) + bench.count(.reported) + bench.count(.notOwed)
            - bench.count(.reopened) + bench.count(.deadLetter)
        #expect(bench.count(.received) == settled)
    }

    @Test func `refuses what was not owed and breaks a rule once its buy is reported`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.sale(bench.buy("a", anna))
        bench.sale(
            bench.refund("r", of: "a", anna, exclusive: 1_000) { $0.taxCountry = AlphaCode("FRA") }
        )
        try bench.pass(.hours(25))
        #expect(Set(try bench.words()) == ["a not_owed", "r not_owed"])
        bench.token("t", customer: anna)
        try bench.settle()
        #expect(Set(try bench.words().suffix(2)) == ["a reported", "r rejected"])
        #expect(bench.deadLetters().map(\.code) == ["purchases.tax_country_mismatch"])
        expectAccountCloses(bench)
        // Its replay, corrected, is a sale like any other.
        bench.sale(bench.refund("r", of: "a", anna, exclusive: 1_000))
        try bench.settle()
        #expect(try bench.words().last == "r reported")
        expectAccountCloses(bench)
    }

    /// A buy "a" and its refund "r", of which no token came in time.
    private func notOwed(_ bench: PurchasesBench) throws -> (CustomerID, refund: PurchaseEvent) {
        let anna = bench.customer(1)
        let refund = bench.refund("r", of: "a", anna, exclusive: 4_000)
        bench.sale(bench.buy("a", anna))
        bench.sale(refund)
        try bench.pass(.hours(25))
        return (anna, refund)
    }

    /// Its month is over when its buy finds a token after all: only who sends it again tells it.
    @Test func `takes a refund again whose buy was reported after its own time was over`() throws {
        let bench = bench()
        let (anna, refund) = try notOwed(bench)
        #expect(Set(try bench.words()) == ["a not_owed", "r not_owed"])
        try bench.pass(.days(32))
        bench.sale(refund)
        try bench.settle()
        #expect(bench.count(.repeated) == 1)
        bench.sale(bench.change("a", anna, .restate) { $0.productIdentifier = "gems" })
        bench.token("t", customer: anna)
        try bench.settle()
        #expect(try bench.words().last == "a reported")
        bench.sale(refund)
        bench.sale(refund)
        try bench.settle()
        #expect(try bench.words().last == "r reported" && bench.count(.repeated) == 2)
        #expect(bench.apple.held("a") != nil && bench.apple.held("r") != nil)
        expectAccountCloses(bench)
    }

    /// A copy of it tells what was said before that, as one of a refund that Apple has.
    @Test func `takes no refund again that was retracted before its buy was reported`() throws {
        let bench = bench()
        let (anna, refund) = try notOwed(bench)
        bench.sale(bench.change("r", anna, .retract))
        try bench.settle()
        bench.token("t", customer: anna)
        try bench.settle()
        bench.sale(refund)
        try bench.settle()
        #expect(bench.count(.repeated) == 1)
        #expect(bench.apple.held("a") != nil && bench.apple.held("r") == nil)
        expectAccountCloses(bench)
    }

    /// Nobody could judge it when it came; the sale itself is good.
    @Test func `tells what a sale says itself once its restatement before a token breaks a rule`()
        throws
    {
        let bench = bench()
        let (anna, refund) = try notOwed(bench)
        bench.sale(
            bench.change("r", anna, .restate) {
                $0.taxAmount = Milliunits(4_000)
                $0.amountTaxExclusive = Milliunits(20_000)
            }
        )
        try bench.settle()
        #expect(try bench.words().last == "r not_owed")
        #expect(try bench.outcomes().last?.reason == "reference_not_owed")
        bench.token("t", customer: anna)
        try bench.settle()
        #expect(Set(try bench.words().suffix(2)) == ["a reported", "r rejected"])
        let deadLetter = try #require(bench.deadLetters().first)
        #expect(deadLetter.code == "purchases.refund_too_large")
        #expect(deadLetter.message.hasSuffix("a replay sends what the event itself says."))
        bench.sale(refund)
        try bench.settle()
        #expect(try bench.words().last == "r reported")
        let items = try bench.outcomes().compactMap(\.item)
        #expect(items.last?.contains(#""amountTaxExclusive":4000,"#) == true)
        expectAccountCloses(bench)
    }

    /// What the restatement says is no worse than the sale itself: it stands for the replay.
    @Test func `keeps a restatement before a token where the sale itself breaks the rule, too`()
        throws
    {
        let bench = bench()
        let anna = bench.customer(1)
        let refund = bench.refund("r", of: "a", anna, exclusive: 4_000)
        bench.sale(bench.buy("a", anna))
        bench.sale(bench.refund("q", of: "a", anna, exclusive: 7_500))
        bench.sale(refund)
        try bench.pass(.hours(25))
        func amount(_ exclusive: Int64) -> PurchaseEvent {
            bench.change("r", anna, .restate) {
                $0.taxAmount = Milliunits(exclusive / 5)
                $0.amountTaxExclusive = Milliunits(exclusive)
            }
        }
        bench.sale(amount(3_000))
        try bench.settle()
        bench.token("t", customer: anna)
        try bench.settle()
        #expect(try bench.words().last == "r rejected")
        bench.sale(bench.change("q", anna, .retract))
        try bench.settle()
        bench.sale(refund)
        try bench.settle()
        #expect(try bench.words().last == "r reported")
        #expect(try bench.outcomes().last?.item?.contains(#""amountTaxExclusive":3000,"#) == true)
        expectAccountCloses(bench)
    }

    /// The platform sends its tokens late, one after the other: the renewal is old by then, or new.
    @Test(arguments: [(0, true), (30, true), (0, false), (30, false)])
    func `has a renewal wait for its token once its subscription is reported`(
        hours: Int64,
        hasToken: Bool
    ) throws {
        let bench = bench()
        let anna = bench.customer(1)
        let start = PurchasesBench.start
        func month(_ name: String, _ event: SubscriptionEvent, _ from: Int64) {
            bench.sale(
                bench.buy(name, anna) {
                    $0.subscriptionID = "s"
                    $0.subscriptionEvent = event
                    $0.subscriptionStartDate = start + .days(from)
                    $0.subscriptionEndDate = start + .days(from + 2)
                }
            )
        }
        month("first", .start, 0)
        try bench.pass(.hours(50))
        month("second", .renewal, 2)
        try bench.pass(.hours(hours + 1))
        #expect(try bench.words() == ["first not_owed", "second not_owed"])
        bench.token("a", days: 2, customer: anna)
        try bench.pass(.hours(2))
        #expect(try bench.words().last == "first reported")
        guard hasToken else {
            try bench.pass(.hours(25))
            #expect(try bench.words().last == "second rejected")
            #expect(bench.deadLetters().map(\.code) == ["purchases.token_out_of_range"])
            return expectAccountCloses(bench)
        }
        // One that does not fit changes nothing.
        bench.token("c", from: bench.clock.now, customer: anna)
        try bench.pass(.hours(1))
        bench.token("b", from: start + .days(1), days: 30, customer: anna)
        try bench.settle()
        #expect(try bench.words().last == "second reported")
        #expect(bench.deadLetters().isEmpty)
        expectAccountCloses(bench)
    }

    /// The token of its buy came late, and ended before it.
    @Test func `has a refund wait for the token that it names once its buy is reported`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.sale(bench.buy("a", anna))
        try bench.pass(.hours(25))
        bench.sale(
            bench.refund("r", of: "a", anna, exclusive: 1_000) {
                $0.externalPurchaseID = TokenID("next")
            }
        )
        try bench.settle()
        #expect(try bench.words() == ["a not_owed", "r not_owed"])
        bench.token("first", days: 2, customer: anna)
        try bench.settle()
        #expect(try bench.words().last == "a reported")
        bench.token("next", from: bench.clock.now + .hours(-1), days: 30, customer: anna)
        try bench.settle()
        #expect(try bench.words().last == "r reported")
        #expect(try bench.outcomes().last?.externalPurchaseID == TokenID("next"))
        #expect(bench.deadLetters().isEmpty)
        expectAccountCloses(bench)
    }

    @Test func `refuses what was not owed where the token that it asked for does not fit`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.sale(bench.buy("a", anna) { $0.externalPurchaseID = TokenID("t") })
        try bench.pass(.hours(25))
        #expect(try bench.words() == ["a not_owed"])
        bench.token("t", from: bench.clock.now, customer: anna)
        try bench.settle()
        #expect(try bench.words() == ["a not_owed", "a rejected"])
        #expect(bench.deadLetters().map(\.code) == ["purchases.token_out_of_range"])
        expectAccountCloses(bench)
    }

    @Test func `settles what Apple holds already as it was sent, and refuses the rest`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.rejection = { _, ids in
            guard ids.contains("a") || ids.contains("b") else { return nil }
            let errors = ids.map { AppleError(code: 1, fieldName: "lineItemId", lineItemID: $0) }
            return PurchasesBench.Reply(
                errors: errors.filter { $0.lineItemID != "c" },
                verified: ["a"]
            )
        }
        for id in ["a", "b", "c"] {
            bench.sale(bench.buy(id, anna))
        }
        try bench.settle()
        #expect(Set(try bench.words()) == ["a reported", "b rejected", "c reported"])
        let a = try bench.outcomes().first { $0.lineItemID == "a" }
        #expect(a?.reason == "verified" && a?.requestIdentifier == "holds a")
        #expect(bench.deadLetters().map(\.code) == ["purchases.conflict"])
    }

    @Test func `says of a sale whose report's identifier is taken that nothing is wrong with it`()
        throws
    {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.rejection = { _, _ in
            PurchasesBench.Reply(reason: "report.identifier_conflict")
        }
        bench.sale(bench.buy("a", anna))
        try bench.settle()
        let deadLetter = try #require(bench.deadLetters().first)
        #expect(deadLetter.code == "purchases.rejected")
        #expect(deadLetter.message.hasPrefix("Apple holds another report under the identifier"))
        // Where Apple has said what is wrong with it, that is what counts.
        bench.rejection = { _, _ in
            PurchasesBench.Reply(
                errors: [AppleError(code: 7, fieldName: "productType", lineItemID: "b")],
                reason: "report.identifier_conflict"
            )
        }
        bench.sale(bench.buy("b", anna))
        try bench.settle()
        #expect(bench.deadLetters().last?.message.hasPrefix("Apple refuses the line item") == true)
    }

    @Test func `asks again where report has not heard yet that a token is the primary now`() throws
    {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        var refusals = 0
        bench.rejection = { _, _ in
            refusals += 1
            return refusals > 2
                ? nil
                : PurchasesBench.Reply(reason: "report.is_duplicate", primary: TokenID("forged"))
        }
        bench.sale(bench.buy("a", anna))
        try bench.settle()
        #expect(try bench.words() == [])
        for _ in 0..<3 {
            try bench.pass(.minutes(1))
        }
        #expect(try bench.words() == ["a reported"])
    }

    @Test func `waits for days where Apple has refused the primary, and nobody says the next one`()
        throws
    {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("forged", customer: anna, isForged: true)
        bench.token("t", customer: anna)
        var isHeard = false
        bench.rejection = { request, _ in
            isHeard || request.externalPurchaseID == TokenID("forged")
                ? nil
                : PurchasesBench.Reply(reason: "report.is_duplicate", primary: TokenID("forged"))
        }
        bench.sale(bench.buy("a", anna))
        for _ in 0..<100 {
            try bench.pass(.hours(1))
        }
        #expect(try bench.words() == [])
        isHeard = true
        try bench.pass(.minutes(2))
        #expect(try bench.outcomes().map(\.externalPurchaseID) == [TokenID("t")])
        #expect(bench.deadLetters().isEmpty)
    }

    /// A token that two customers share is a duplicate of a token that only one of them has.
    private func benchOfShared(primary: TokenID) -> PurchasesBench {
        let bench = bench()
        bench.token("shared", customer: bench.customer(1))
        bench.rejection = { request, _ in
            request.externalPurchaseID == TokenID("shared")
                ? PurchasesBench.Reply(reason: "report.is_duplicate", primary: primary) : nil
        }
        bench.sale(bench.buy("a", bench.customer(1)))
        return bench
    }

    @Test func `takes the primary that report names where report stays with it`() throws {
        let bench = benchOfShared(primary: TokenID("primary"))
        bench.token("primary", customer: bench.customer(2))
        for _ in 0..<61 {
            try bench.pass(.minutes(1))
        }
        #expect(try bench.outcomes().map(\.externalPurchaseID) == [TokenID("primary")])
        bench.sale(bench.change("a", bench.customer(1), .restate) { $0.quantity = 2 })
        try bench.settle()
        #expect(try bench.words() == ["a reported", "a reported"])
        #expect(bench.deadLetters().isEmpty)
    }

    @Test func `takes another token where the primary that report names is none for it`() throws {
        let bench = benchOfShared(primary: TokenID("primary"))
        bench.token("q", .acquisition, customer: bench.customer(1))
        bench.script = { request, ids in
            request.externalPurchaseID == TokenID("primary")
                ? [AppleError(code: 36, fieldName: "creationDate", lineItemID: ids.first)] : nil
        }
        for _ in 0..<61 {
            try bench.pass(.minutes(1))
        }
        #expect(try bench.outcomes().map(\.externalPurchaseID) == [TokenID("q")])
        #expect(bench.deadLetters().isEmpty)
    }

    @Test(arguments: [["p", "q"], ["p", "shared"], ["shared"]])
    func `goes in no circle of tokens that report names`(primaries: [String]) throws {
        let bench = benchOfShared(primary: TokenID("p"))
        bench.token("p", customer: bench.customer(2))
        bench.token("q", customer: bench.customer(3))
        let names = ["shared"] + primaries
        bench.rejection = { request, _ in
            let token = request.externalPurchaseID.text
            let next = names.firstIndex(of: token).flatMap { names[($0 + 1)...].first }
            return next.map {
                PurchasesBench.Reply(reason: "report.is_duplicate", primary: TokenID($0))
            }
        }
        for _ in 0..<62 {
            try bench.pass(.minutes(1))
        }
        for _ in 0..<50 {
            try bench.pass(.hours(1))
        }
        if primaries.last == "shared" {
            #expect(bench.deadLetters().count == 1)
        } else {
            #expect(try bench.outcomes().map(\.externalPurchaseID) == [TokenID("q")])
        }
    }

    @Test func `waits for report where Apple does not know the primary that it names`() throws {
        let bench = benchOfShared(primary: TokenID("forged"))
        for _ in 0..<100 {
            try bench.pass(.hours(1))
        }
        #expect(try bench.words() == [])
        bench.rejection = { _, _ in nil }
        try bench.pass(.minutes(2))
        #expect(try bench.outcomes().map(\.externalPurchaseID) == [TokenID("shared")])
        #expect(bench.deadLetters().isEmpty)
    }

    @Test func `takes another token at once where no sale may follow what Apple has of the first`()
        throws
    {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.token("q", .acquisition, customer: anna)
        bench.rejection = { request, _ in
            request.externalPurchaseID == TokenID("t")
                ? PurchasesBench.Reply(reason: "report.status_order") : nil
        }
        bench.sale(bench.buy("a", anna))
        bench.sale(bench.buy("b", anna))
        try bench.settle()
        #expect(try bench.words().sorted() == ["a reported", "b reported"])
        #expect(try bench.outcomes().map(\.externalPurchaseID) == [TokenID("q"), TokenID("q")])
        #expect(bench.deadLetters().isEmpty)
    }

    /// The worker was started anew while the report was under way.
    @Test func `takes another token at once where the one asked for has never come`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.token("q", .acquisition, customer: anna)
        bench.rejection = { request, _ in
            request.externalPurchaseID == TokenID("t")
                ? PurchasesBench.Reply(reason: "report.status_order") : nil
        }
        bench.sale(bench.buy("a", anna) { $0.externalPurchaseID = TokenID("never") })
        try bench.settle()
        #expect(bench.reports.isEmpty)
        bench.clock.now = bench.clock.now + .hours(25)
        try bench.settleAlone()
        bench.crash()
        bench.launch()
        try bench.settle()
        #expect(try bench.outcomes().map(\.externalPurchaseID) == [TokenID("q")])
        #expect(bench.deadLetters().isEmpty)
    }

    @Test(arguments: [["t"], ["t", "q"]])
    func `dead-letters a sale at once where no token is left that a sale may follow`(
        tokens: [String]
    ) throws {
        let bench = bench()
        let anna = bench.customer(1)
        for (token, type) in zip(tokens, [KnownTokenType.services, .acquisition]) {
            bench.token(token, type, customer: anna)
        }
        bench.rejection = { _, _ in PurchasesBench.Reply(reason: "report.status_order") }
        bench.sale(bench.buy("a", anna))
        try bench.settle()
        #expect(bench.reports.count == tokens.count)
        #expect(bench.deadLetters().map(\.code) == ["purchases.rejected"])
    }

    @Test func `sends line items alone that report has no room for together`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.rejection = { _, ids in
            ids.count > 1 ? PurchasesBench.Reply(reason: "report.account_full") : nil
        }
        bench.sale(bench.buy("a", anna))
        bench.sale(bench.buy("b", anna))
        try bench.pass(.minutes(2))
        #expect(bench.reports.first == ["a", "b"])
        #expect(try bench.words().sorted() == ["a reported", "b reported"])
    }

    @Test func `dead-letters an answer whose key is too long for the book`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        let answer = PurchaseAnswered(
            requestIdentifier: "report-0",
            externalPurchaseID: TokenID("t"),
            lineItemIDs: ["a"],
            outcome: .accepted,
            errors: [],
            settledAt: bench.clock.now
        )
        for count in [TextLimit.tokenField.byteCountMax, 70_000] {
            bench.append(.purchasesAnswered, key: String(repeating: "k", count: count)) {
                answer.write(to: &$0)
            }
        }
        bench.token("t", customer: anna)
        bench.sale(bench.buy("a", anna))
        try bench.settle()
        #expect(bench.deadLetters().map(\.code) == ["purchases.bad_record"])
        #expect(try bench.words() == ["a reported"])
    }

    @Test func `loses nothing with its disk, between a report and its answer`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.sale(bench.buy("a", anna))
        bench.sale(bench.change("a", anna, .restate) { $0.taxCountry = AlphaCode("FRA") })
        try bench.settleAlone()
        bench.crash()
        bench.loseDisk()
        bench.launch()
        try bench.settle()
        #expect(try bench.words() == ["a reported", "a reported"])
        #expect(bench.apple.held("a")?.country == "FRA")
    }

    @Test func `takes no answer twice`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.sale(bench.buy("a", anna))
        try bench.settle()
        let answers = Topic.purchasesAnswered.name(prefix: PurchasesBench.prefix)
        let answer = try #require(bench.cluster.committedRecords(of: answers).first)
        bench.append(.purchasesAnswered, key: anna.text, value: answer.value ?? [])
        try bench.settle()
        #expect(try bench.words() == ["a reported"])
    }

    /// As after its group was set back: the answer says that Apple has the buy, not its restatement.
    @Test(arguments: [ReportOutcome.Outcome.accepted, .rejected])
    func `takes no earlier answer for that to a change`(outcome: ReportOutcome.Outcome) throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.sale(bench.buy("a", anna))
        try bench.settle()
        bench.sale(bench.change("a", anna, .restate) { $0.taxCountry = AlphaCode("FRA") })
        try bench.settleAlone()
        let isAccepted = outcome == .accepted
        let answer = PurchaseAnswered(
            requestIdentifier: isAccepted ? "report-1" : "report-0",
            externalPurchaseID: TokenID("t"),
            lineItemIDs: ["a"],
            outcome: outcome,
            errors: [],
            verifiedLineItemIDs: isAccepted ? [] : ["a"],
            verifiedRequestIdentifiers: isAccepted ? [] : ["report-1"],
            settledAt: bench.clock.now
        )
        bench.append(.purchasesAnswered, key: anna.text) { answer.write(to: &$0) }
        try bench.settleAlone()
        #expect(try bench.words() == ["a reported"])
        try bench.settle()
        #expect(try bench.outcomes().map(\.requestIdentifier) == ["report-1", "report-2"])
    }

    /// As after its group was set back: every answer before it, to the same line item.
    @Test(arguments: [false, true])
    func `takes no answer for that to a change that was asked for later`(
        isRefused: Bool
    ) throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.sale(bench.buy("a", anna))
        try bench.settle()
        bench.script = { _, _ in
            isRefused ? [AppleError(code: 7, fieldName: "taxCountry", lineItemID: "a")] : nil
        }
        bench.sale(bench.change("a", anna, .restate) { $0.taxCountry = AlphaCode("FRA") })
        try bench.pass(.minutes(1))
        bench.script = { _, _ in nil }
        bench.sale(bench.change("a", anna, .restate) { $0.taxCountry = AlphaCode("ITA") })
        try bench.settleAlone()
        let words = try bench.words()
        let topic = Topic.purchasesAnswered.name(prefix: PurchasesBench.prefix)
        let answers = bench.cluster.committedRecords(of: topic)
        #expect(answers.count == 2)
        for answer in answers {
            bench.append(.purchasesAnswered, key: anna.text) { $0 += answer.value ?? [] }
        }
        try bench.settleAlone()
        #expect(try bench.words() == words)
        try bench.settle()
        #expect(bench.apple.held("a")?.country == "ITA")
        #expect(try bench.words() == words + ["a reported"])
        #expect(bench.deadLetters().count == (isRefused ? 1 : 0))
    }

    /// Kafka takes it, and the book has no room: it must not end the worker.
    @Test(arguments: [nil, .restate] as [PurchaseEvent.Kind?])
    func `refuses an event that is larger than a record of the book may be`(
        change: PurchaseEvent.Kind?
    ) throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        if change != nil {
            bench.sale(bench.buy("large", anna))
        }
        let event = change.map { bench.change("large", anna, $0) } ?? bench.buy("large", anna)
        bench.append(.purchasesReceived, key: anna.text) { value in
            var text: [UInt8] = []
            event.write(to: &text)
            let order = #","order":{"lines":["# + String(repeating: #"{"sku":"a"},"#, count: 68_000)
            value += text.dropLast() + Array((order + "0]}}").utf8)
        }
        bench.sale(bench.buy("good", anna))
        try bench.settle()
        #expect(bench.deadLetters().map(\.code) == ["purchases.too_long"])
        #expect(bench.apple.held("good") != nil)
        #expect((bench.apple.held("large") != nil) == (change != nil))
    }

    @Test func `tells no change again that it reads again`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.sale(bench.buy("a", anna))
        for country in ["FRA", "ITA"] {
            bench.sale(bench.change("a", anna, .restate) { $0.taxCountry = AlphaCode(country) })
        }
        bench.sale(bench.change("a", anna, .retract))
        try bench.settle()
        #expect(bench.reports.count == 4)
        bench.crash()
        bench.cluster.setBack(
            group: "\(PurchasesBench.prefix)purchases",
            topic: Topic.purchasesReceived.name(prefix: PurchasesBench.prefix)
        )
        bench.launch()
        try bench.settle()
        #expect(bench.reports.count == 4)
        #expect(bench.count(.received) == 8 && bench.count(.repeated) == 4)
        bench.sale(bench.change("a", anna, .restate) { $0.taxCountry = AlphaCode("FRA") })
        try bench.settle()
        #expect(bench.reports.count == 5)
        #expect(bench.apple.held("a")?.country == "FRA")
    }

    @Test func `forgets what was not spoken of for 400 days`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.sale(bench.buy("a", anna))
        try bench.settle()
        for _ in 0..<9 {
            try bench.pass(.days(90))
            bench.sale(bench.buy("other", bench.customer(2)) { $0.quantity = 0 })
            try bench.settle()
            for _ in 0..<3 {
                try bench.pass(.hours(20))
                bench.sale(bench.buy("other", bench.customer(2)) { $0.quantity = 0 })
                try bench.settle()
            }
        }
        #expect(try bench.entryCount() == 0)
    }

    @Test func `forgets all that is past use, a part of it in each transaction`() throws {
        let bench = PurchasesBench()
        bench.limits.forgottenCountMax = 3
        bench.launch()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        for number in 0..<20 {
            bench.sale(bench.buy("a\(number)", anna))
        }
        try bench.settle()
        // Nothing is forgotten for a day after such a leap.
        for span in [.days(900), .hours(13), .hours(13)] as [Milliseconds] {
            try bench.pass(span)
            bench.sale(bench.buy("other", anna) { $0.quantity = 0 })
            try bench.settle()
        }
        #expect(try bench.records().count > 20)
        bench.clock.now = bench.clock.now + .minutes(1)
        var counts = [try bench.records().count]
        for _ in 0..<100 {
            _ = try bench.step()
            counts.append(try bench.records().count)
        }
        #expect(counts.last == 0, "\(counts)")
        #expect(zip(counts, counts.dropFirst()).allSatisfy { $0 - $1 <= 3 }, "\(counts)")
    }
}
