import Foundation
import Simulation
import Telemetry
import Testing
import TokenDomain

@testable import purchases

/// What a platform says in a row of a few buys and subscriptions, drawn from a seed: retractions and their
/// undoing, refunds and their corrections, periods of subscriptions.
///
/// Each word is right after those before it, and none waits for an answer.
/// `SIMULATION_SEED=<n>` plays one again, `SIMULATION_SEEDS=<n>` plays that many.
@Suite struct `What is said in a row` {
    private static var seeds: [UInt64] {
        let environment = ProcessInfo.processInfo.environment
        if let list = environment["SIMULATION_SEED"] {
            return list.split(separator: ",").compactMap { UInt64($0) }
        }
        return Array(0..<(environment["SIMULATION_SEEDS"].flatMap(UInt64.init) ?? 120))
    }

    @Test(arguments: Self.seeds)
    func `ends as if each word had been answered before the next`(seed: UInt64) throws {
        var storm = Storm(seed: seed)
        do {
            try storm.play()
            try storm.check()
        } catch let error as PurchasesBench.Restless {
            let values = error.records.compactMap {
                $0.split(separator: " {", maxSplits: 1).last.map { "{" + $0 }
            }
            Issue.record("seed \(seed) restless: \(storm.told)\n\(values.joined(separator: "\n"))")
        }
    }
}

/// One customer, and what Apple must hold of each sale in the end.
private struct Storm {
    struct Item {
        var buy: String?
        var start: String?
        var amount: Int64
        var country = "DEU"
        var currency = "EUR"
        var isRetracted = false
        var event: SubscriptionEvent?
        var subscription: String?
        var date: Timestamp
    }

    let seed: UInt64
    let bench: PurchasesBench
    var generator: SeededGenerator
    var items: [String: Item] = [:]
    var order: [String] = []
    var told: [String] = []
    var expectedDead: [String] = []
    var number = 0
    var ends: [String: Timestamp] = [:]
    var starts: [String: String] = [:]
    let hasFaults: Bool
    let tokens: Int
    let anna: CustomerID
    /// What else may happen; every third seed has the same.
    let flags: Set<String>
    let count: Int
    var tokenStep: Int

    init(seed: UInt64) {
        self.seed = seed
        flags =
            [[], ["subs", "resub"], ["bad", "repeats", "foreign", "rates", "currency"]][
                Int(seed % 3)
            ]
        count = 12
        generator = SeededGenerator(seed: seed)
        bench = PurchasesBench(seed: seed, partitionCount: 1)
        hasFaults = seed.isMultiple(of: 2) && !flags.contains("nofaults")
        tokens = flags.contains("onetoken") ? 0 : Int(seed / 2 % 5)
        anna = bench.customer(1)
        tokenStep = tokens == 0 || tokens == 3 ? 0 : Int.random(in: 0..<count, using: &generator)
        bench.launch()
        bench.cluster.faults.outcomeDelayMax = 3
        bench.cluster.faults.abortOneIn = hasFaults ? 15 : 0
        bench.rates.rates = Self.rates("0.0068")
        if seed % 3 == 0, flags.contains("norates") {
            bench.rates.rates = .none
        }
        bench.script = { request, ids in
            if request.externalPurchaseID.text.hasPrefix("forged") { return nil }
            guard let bad = ids.first(where: { $0.hasPrefix("bad") }) else { return nil }
            let isNamed = bad.utf8.last.map { $0 % 2 == 0 } ?? true
            return [AppleError(code: 7, fieldName: "taxCountry", lineItemID: isNamed ? bad : nil)]
        }
    }

    static func rates(_ rate: String) -> ExchangeRates {
        do {
            let days = (1...30).flatMap { day in
                [
                    "2025-06", "2025-07", "2025-08", "2025-09", "2025-10", "2025-11", "2025-12",
                    "2026-01",
                ].map {
                    "\($0)-\(day < 10 ? "0" : "")\(day)"
                }
            }
            return try ExchangeRates(
                csv: Array(days.map { "\($0),ISK,EUR,\(rate)\n" }.joined().utf8)
            )
        } catch {
            preconditionFailure("\(error)")
        }
    }

    mutating func draw(_ range: Range<Int64>) -> Int64 {
        Int64.random(in: range, using: &generator)
    }

    mutating func name(_ prefix: String) -> String {
        number += 1
        return "\(prefix)\(draw(0..<10))-\(number)"
    }

    mutating func pick(_ isFit: (String, Item) -> Bool) -> (String, Item)? {
        let fits = order.compactMap { id in items[id].map { (id, $0) } }.filter {
            isFit($0.0, $0.1)
        }
        return fits.isEmpty ? nil : fits[Int(draw(0..<Int64(fits.count)))]
    }

    func refunded(_ buy: String) -> Int64 {
        items.values.filter { $0.buy == buy && !$0.isRetracted }.reduce(0) { $0 + $1.amount }
    }

    func left(_ buy: String) -> Int64 { (items[buy]?.amount ?? 0) - refunded(buy) }

    func isLive(_ id: String?) -> Bool { id.flatMap { items[$0] }.map { !$0.isRetracted } ?? true }

    mutating func put(_ id: String, _ item: Item) {
        if items[id] == nil { order.append(id) }
        items[id] = item
    }

    mutating func amount(_ id: String, _ amount: Int64, _ event: inout PurchaseEvent) {
        event.amountTaxExclusive = Milliunits(amount)
        event.taxAmount = Milliunits(amount / 5)
        items[id]?.amount = amount
    }

    mutating func play() throws {
        let start = PurchasesBench.start
        func real(_ bench: PurchasesBench) {
            bench.token("t", from: start + .days(-300), customer: anna)
        }
        switch tokens {
        case 0, 1: break
        case 2, 4: bench.token("forged", from: start + .days(-300), customer: anna, isForged: true)
        default:
            bench.token("t", from: start + .days(-300), days: 250, customer: anna)
            bench.token("u", from: start + .days(-50), customer: anna)
        }
        for step in 0..<count {
            if step == tokenStep, tokens != 3 {
                told.append("TOKEN")
                real(bench)
            }
            act()
            try go()
        }
        if tokens == 4 {
            bench.token("forged2", from: start + .days(-300), customer: anna, isForged: true)
        }
        bench.cluster.faults.abortOneIn = 0
        bench.rates.rates = Self.rates("0.0068")
        bench.rates.isChanged = true
        chance = 100
        for _ in 0..<12 {
            try bench.pass(.seconds(30))
        }
    }

    var chance = 60

    mutating func go() throws {
        switch draw(0..<8) {
        case 0: try bench.settleAlone()
        case 1: try bench.settle()
        case 2 where hasFaults:
            bench.crash()
            if draw(0..<3) == 0 { bench.loseDisk() }
            bench.launch()
        case 3: try bench.answerReports()
        case 4 where flags.contains("late") && draw(0..<3) == 0:
            told.append("25h")
            try bench.pass(.hours(25))
        case 4, 5: break
        default:
            for _ in 0..<draw(0..<8) { _ = try bench.step() }
        }
        if flags.contains("rates"), draw(0..<6) == 0 {
            bench.rates.rates = draw(0..<2) == 0 ? .none : Self.rates("0.00\(draw(50..<99))")
            bench.rates.isChanged = true
            bench.clock.now = bench.clock.now + .seconds(6)
        }
    }

    mutating func send(_ event: PurchaseEvent, _ note: String) {
        told.append("\(event.kind) \(event.lineItemID) \(note)")
        bench.sale(event)
        if event.kind == .buy || event.kind == .refund, draw(0..<8) == 0, flags.contains("repeats")
        {
            bench.sale(event)
        }
    }

    mutating func act() {
        if flags.contains("subs"), draw(0..<3) == 0 { return subscribe() }
        switch draw(0..<20) {
        case 0..<2: buy()
        case 2..<5: subscribe()
        case 5..<8: refund()
        case 8..<10: restateRefund()
        case 10..<12: retractRefund()
        case 12: restateAmount()
        case 13: restateCountry()
        case 14..<16: retractBuy()
        case 16..<18: undoBuy()
        case 18: undoRefund()
        default:
            if flags.contains("bad") { poison() } else { refund() }
        }
    }

    mutating func poison() {
        let id = name("bad")
        expectedDead.append("purchases.rejected \(id)")
        send(bench.buy(id, anna, exclusive: 1_000), "")
    }

    mutating func buy() {
        let all = items
        guard order.count(where: { all[$0]?.buy == nil && all[$0]?.event == nil }) < 2 else {
            return refund()
        }
        let id = name("buy")
        let date = bench.clock.now + Milliseconds(-draw(0..<3_600_000))
        let isForeign = flags.contains("foreign") && draw(0..<2) == 0
        let amount = draw(1..<10_000)
        put(id, Item(amount: amount, currency: isForeign ? "ISK" : "EUR", date: date))
        send(
            bench.buy(id, anna, exclusive: amount) {
                $0.creationDate = date
                if isForeign { $0.pricingCurrency = AlphaCode("ISK") }
            },
            "\(amount) \(isForeign)"
        )
    }

    mutating func subscribe() {
        let subscription = flags.contains("twosubs") ? "s\(draw(0..<2))" : "s"
        let last = ends[subscription] ?? PurchasesBench.start + .days(-200)
        guard last < bench.clock.now else { return refund() }
        let isStart = starts[subscription] == nil || flags.contains("resub") && draw(0..<5) == 0
        if !isStart, !isLive(starts[subscription]) { return undoBuy() }
        let id = name(isStart ? "start" : "month")
        let event: SubscriptionEvent =
            isStart ? .start : [.renewal, .change, .payment][Int(draw(0..<3))]
        let amount = isStart && draw(0..<3) == 0 ? 0 : draw(1..<10_000)
        let isForeign = flags.contains("foreign") && draw(0..<4) == 0
        let end = last + .days(10)
        let ownRates = flags.contains("fileRates")
        put(
            id,
            Item(
                start: isStart ? nil : starts[subscription],
                amount: amount,
                currency: isForeign ? "ISK" : "EUR",
                event: event,
                subscription: subscription,
                date: last
            )
        )
        if isStart { starts[subscription] = id }
        ends[subscription] = end
        send(
            bench.buy(id, anna, exclusive: amount) {
                $0.creationDate = last
                $0.subscriptionID = subscription
                $0.subscriptionEvent = event
                $0.subscriptionStartDate = last
                $0.subscriptionEndDate = end
                if isForeign {
                    $0.pricingCurrency = AlphaCode("ISK")
                    guard !ownRates else { return }
                    $0.reportingCurrency = AlphaCode("EUR")
                    do { $0.exchangeRate = try ExchangeRate("0.0068") } catch {
                        preconditionFailure()
                    }
                }
            },
            "\(event.rawValue) \(amount) \(isForeign)"
        )
    }

    mutating func refund() {
        let all = self
        guard
            let (buy, _) = pick({ id, item in
                item.buy == nil && !item.isRetracted && all.left(id) > 0
            })
        else { return }
        let amount = draw(0..<2) == 0 ? left(buy) : draw(1..<left(buy) + 1)
        let id = name("refund")
        put(id, Item(buy: buy, amount: amount, date: bench.clock.now))
        send(bench.refund(id, of: buy, anna, exclusive: amount), "of \(buy) \(amount)")
    }

    mutating func restateRefund() {
        guard let (id, item) = pick({ $1.buy != nil && !$1.isRetracted }), let buy = item.buy else {
            return refund()
        }
        let amount = draw(1..<left(buy) + item.amount + 1)
        guard amount != item.amount else { return }
        var event = bench.change(id, anna, .restate)
        self.amount(id, amount, &event)
        send(event, "\(amount)")
    }

    mutating func retractRefund() {
        guard let (id, _) = pick({ $1.buy != nil && !$1.isRetracted }) else { return }
        items[id]?.isRetracted = true
        send(bench.change(id, anna, .retract), "")
    }

    mutating func undoRefund() {
        let all = self
        guard
            let (id, item) = pick({ id, item in
                item.buy != nil && item.isRetracted && all.isLive(item.buy)
                    && all.left(item.buy ?? "") > 0
            }),
            let buy = item.buy
        else { return }
        var event = bench.change(id, anna, .restate)
        if draw(0..<2) == 0, item.amount <= left(buy) {
            items[id]?.isRetracted = false
            event.amountTaxExclusive = Milliunits(item.amount)
            event.taxAmount = Milliunits(item.amount / 5)
        } else {
            let amount = draw(1..<left(buy) + 1)
            self.amount(id, amount, &event)
            items[id]?.isRetracted = false
        }
        send(event, "undo \(event.amountTaxExclusive?.count ?? -1)")
    }

    mutating func restateAmount() {
        guard let (id, item) = pick({ $1.buy == nil && !$1.isRetracted }) else { return }
        let amount = max(refunded(id), 1) + draw(0..<5_000)
        guard amount != item.amount else { return }
        var event = bench.change(id, anna, .restate)
        self.amount(id, amount, &event)
        send(event, "\(amount)")
    }

    mutating func restateCountry() {
        let all = self
        guard
            let (id, item) = pick({ id, item in
                item.buy == nil && !item.isRetracted && all.refunded(id) == 0
            })
        else { return }
        var event = bench.change(id, anna, .restate)
        if flags.contains("currency"), draw(0..<2) == 0, item.event == nil {
            let currency = item.currency == "EUR" ? "ISK" : "EUR"
            items[id]?.currency = currency
            event.pricingCurrency = AlphaCode(currency)
            return send(event, currency)
        }
        let country = item.country == "DEU" ? "FRA" : "DEU"
        items[id]?.country = country
        event.taxCountry = AlphaCode(country)
        send(event, country)
    }

    mutating func retractBuy() {
        guard let (id, _) = pick({ $1.buy == nil && !$1.isRetracted }) else { return }
        items[id]?.isRetracted = true
        for (child, item) in items where item.start == id || item.buy == id {
            items[child]?.isRetracted = true
            for (refund, item) in items where item.buy == child {
                items[refund]?.isRetracted = true
            }
            _ = item
        }
        send(bench.change(id, anna, .retract), "")
    }

    mutating func undoBuy() {
        let all = self
        guard let (id, item) = pick({ $1.buy == nil && $1.isRetracted && all.isLive($1.start) })
        else { return }
        var event = bench.change(id, anna, .restate)
        items[id]?.isRetracted = false
        if draw(0..<2) == 0 {
            let amount = draw(1..<10_000)
            self.amount(id, amount, &event)
        } else {
            event.taxCountry = AlphaCode(item.country)
        }
        send(event, "undo \(event.amountTaxExclusive?.count ?? -1)")
    }

    func check() throws {
        let note: Comment =
            "seed \(seed) tokens \(tokens) faults \(hasFaults): \(told.joined(separator: ", "))"
        var faults: [String] = []
        let dead = bench.deadLetters().map { letter in
            let text = String(decoding: letter.value, as: UTF8.self)
            let id = text.split(separator: "\"lineItemId\":\"").last?.prefix { $0 != "\"" } ?? ""
            return "\(letter.code) \(id)"
        }
        if dead.sorted() != expectedDead.sorted() { faults.append("dead \(dead)") }
        for id in order {
            guard let item = items[id] else { continue }
            let held = bench.apple.held(id)
            if item.isRetracted {
                if let held, !held.isRetracted { faults.append("\(id) is not retracted") }
                continue
            }
            guard let held else {
                faults.append("\(id) is not at Apple")
                continue
            }
            if held.isRetracted { faults.append("\(id) is retracted") }
            let root = item.buy.flatMap { items[$0] } ?? item
            if root.currency == "EUR", held.exclusive != item.amount {
                faults.append("\(id) \(held.exclusive) not \(item.amount)")
            }
            if root.country != held.country { faults.append("\(id) \(held.country ?? "")") }
            if item.event != nil, held.reference != item.start {
                faults.append("\(id) refers to \(held.reference ?? "")")
            }
        }
        for refusal in bench.refusals
        where !refusal.contains("forged") && !refusal.contains(": 7 taxCountry ") {
            faults.append("refusal \(refusal)")
        }
        for record in try bench.records()
        where record.contains("\"standing\":\"pending\"") || record.contains("\"changeNext\"") {
            let text = record.split(separator: "{", maxSplits: 1).last ?? ""
            let first =
                record.split(separator: "\"changeFirst\":").dropFirst().first?.prefix {
                    $0.isNumber
                } ?? "1"
            let next =
                record.split(separator: "\"changeNext\":").dropFirst().first?.prefix { $0.isNumber }
                ?? "1"
            if first != next || record.contains("\"standing\":\"pending\"") {
                faults.append("held \(text.prefix(700))")
            }
        }
        let reported = try bench.outcomes().filter { $0.outcome == .reported }
        for id in order {
            let revisions = reported.filter { $0.lineItemID == id }.map(\.revision).sorted()
            if revisions != Array(1..<revisions.count + 1) {
                faults.append("\(id) revisions \(revisions)")
            }
        }
        #expect(faults == [], note)
    }
}
