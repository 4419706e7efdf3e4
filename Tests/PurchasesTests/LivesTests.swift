import Simulation
import StageRuntime
import Testing
import TokenDomain

@testable import purchases

/// Lives of customers drawn from a seed: buys, renewals, refunds in parts, restatements,
/// retractions, late tokens, forged tokens, repeats, lost processes and disks.
///
/// The model below knows nothing of tokens, queues and reports: it says what Apple must hold in the
/// end. Apple's own rules are the simulator's, which shares none with the worker.
@Suite struct `Lives of customers` {
    @Test(arguments: 0..<90)
    func `end as a simple model says, and Apple refuses nothing`(seed: UInt64) throws {
        var life = Life(seed: seed)
        try life.play()
        try life.check()
    }
}

private struct Life {
    /// What Apple must hold of a sale in the end.
    private struct Expected {
        var exclusive: Int64
        var isRefundOf: String?
        var isRetracted = false
        var country = "DEU"
        var isSubscription = false
        /// Sold in a currency that is converted: Apple's rules alone judge the amounts.
        var isForeign = false
    }

    private let seed: UInt64
    private let bench: PurchasesBench
    private var generator: SeededGenerator
    private var expected: [String: Expected] = [:]
    private var customers: [String: Int] = [:]
    private var hasToken: Set<Int> = []
    private var sent = 0
    private var repeats = 0
    private var number = 0
    private var subscriptions: [Int: (id: String, end: Timestamp, count: Int)] = [:]

    init(seed: UInt64) {
        self.seed = seed
        generator = SeededGenerator(seed: seed)
        bench = PurchasesBench(seed: seed, partitionCount: 2)
        // Of some lives the broker aborts transactions.
        bench.cluster.faults.abortOneIn = seed % 3 == 0 ? 15 : 0
        bench.launch()
    }

    private mutating func draw(_ range: Range<Int>) -> Int {
        Int.random(in: range, using: &generator)
    }

    mutating func play() throws {
        for _ in 0..<draw(20..<60) {
            try act()
            switch draw(0..<12) {
            case 0:
                // Anything may be lost at any instruction.
                for _ in 0..<draw(0..<6) { _ = try bench.step() }
                bench.crash()
                if draw(0..<3) == 0 { bench.loseDisk() }
                bench.launch()
            case 1:
                // A second instance comes and goes; partitions move.
                if bench.instances[1] == nil {
                    bench.launch(1)
                } else {
                    bench.crash(1)
                }
            case 2...4: try bench.settle()
            case 5: try bench.pass(.minutes(Int64(draw(1..<300))))
            case 6: try bench.settleAlone()
            default: break
            }
        }
        // Every customer has a token in the end, and none too late.
        for customer in 0..<4 where !hasToken.contains(customer) {
            addToken(of: customer)
        }
        bench.cluster.faults.abortOneIn = 0
        try calm()
        try bench.pass(.hours(1))
        try calm()
    }

    /// Until nothing is under way: what was aborted is tried again after a while.
    private func calm() throws {
        for _ in 0..<10 {
            try bench.pass(.seconds(30))
        }
    }

    private mutating func act() throws {
        let customer = draw(0..<4)
        switch draw(0..<12) {
        case 0: addToken(of: customer)
        case 1:
            bench.token("forged-\(number)", customer: bench.customer(customer), isForged: true)
            number += 1
        case 2, 3, 4: buy(customer)
        case 5, 6: refund()
        case 7: restate()
        case 8: try retract()
        default: subscribe(customer)
        }
    }

    private mutating func addToken(of customer: Int) {
        guard hasToken.insert(customer).inserted else {
            return
        }
        bench.token("token-\(customer)", customer: bench.customer(customer))
    }

    private mutating func send(_ event: PurchaseEvent) {
        bench.sale(event)
        sent += 1
        if event.kind == .buy || event.kind == .refund, draw(0..<6) == 0 {
            bench.sale(event)
            sent += 1
            repeats += 1
        }
    }

    private mutating func name(_ prefix: String, _ customer: Int) -> String {
        number += 1
        customers["\(prefix)-\(number)"] = customer
        return "\(prefix)-\(number)"
    }

    private static func rate(_ isForeign: Bool) -> ExchangeRate? {
        do throws(ExchangeRate.Fault) {
            return isForeign ? try ExchangeRate("0.0068333") : nil
        } catch {
            preconditionFailure("a test names real rates")
        }
    }

    private mutating func buy(_ customer: Int) {
        let id = name("buy", customer)
        let exclusive = Int64(draw(1_000..<50_000))
        let isForeign = draw(0..<4) == 0
        expected[id] = Expected(exclusive: exclusive, isForeign: isForeign)
        let rate = Self.rate(isForeign)
        send(
            bench.buy(id, bench.customer(customer), exclusive: exclusive) { sale in
                guard isForeign else { return }
                sale.pricingCurrency = AlphaCode("ISK")
                sale.reportingCurrency = AlphaCode("EUR")
                sale.exchangeRate = rate
            }
        )
    }

    private mutating func pick(_ isFit: (Expected) -> Bool) -> (String, Expected)? {
        let fits = expected.filter { isFit($0.value) }.sorted { $0.key < $1.key }
        return fits.isEmpty ? nil : fits[draw(0..<fits.count)]
    }

    private func refunded(_ id: String) -> Int64 {
        expected.values.filter { $0.isRefundOf == id && !$0.isRetracted }.reduce(0) {
            $0 + $1.exclusive
        }
    }

    private mutating func refund() {
        guard
            let (buy, sale) = pick({ $0.isRefundOf == nil && !$0.isRetracted && $0.exclusive > 0 }),
            let customer = customers[buy]
        else {
            return
        }
        let left = sale.exclusive - refunded(buy)
        guard left > 0 else {
            return
        }
        let part = draw(0..<3) == 0 ? left : Int64(draw(1..<Int(left) + 1))
        let id = name("refund", customer)
        expected[id] = Expected(exclusive: part, isRefundOf: buy, isForeign: sale.isForeign)
        send(bench.refund(id, of: buy, bench.customer(customer), exclusive: part))
    }

    private mutating func restate() {
        guard let (id, sale) = pick({ !$0.isRetracted && $0.isRefundOf == nil }),
            let customer = customers[id]
        else {
            return
        }
        let event = bench.change(id, bench.customer(customer), .restate) { event in
            if refunded(id) == 0, !hasRefund(id) {
                event.taxCountry = AlphaCode("FRA")
            } else {
                event.amountTaxExclusive = Milliunits(sale.exclusive + 500)
                event.taxAmount = .zero
            }
        }
        if event.taxCountry != nil {
            expected[id]?.country = "FRA"
        } else {
            expected[id]?.exclusive += 500
        }
        send(event)
    }

    private func hasRefund(_ id: String) -> Bool {
        expected.values.contains { $0.isRefundOf == id }
    }

    private mutating func retract() throws {
        guard let (id, _) = pick({ !$0.isRetracted && !$0.isSubscription }),
            let customer = customers[id]
        else {
            return
        }
        // What refers to it must be there before it goes; a day is enough for any report.
        guard hasToken.contains(customer) else {
            return
        }
        try calm()
        send(bench.change(id, bench.customer(customer), .retract))
        expected[id]?.isRetracted = true
        for (child, sale) in expected where sale.isRefundOf == id {
            expected[child]?.isRetracted = true
        }
    }

    private mutating func subscribe(_ customer: Int) {
        let last = subscriptions[customer]
        let id = name("month", customer)
        let start = last.map { $0.end } ?? bench.clock.now + .hours(-10)
        let end = start + .hours(24)
        guard start <= bench.clock.now else {
            customers[id] = nil
            return
        }
        expected[id] = Expected(exclusive: 3_000, isSubscription: true)
        subscriptions[customer] = (last?.id ?? id, end, (last?.count ?? 0) + 1)
        send(
            bench.buy(id, bench.customer(customer), exclusive: 3_000) { sale in
                sale.creationDate = start
                sale.subscriptionID = "s-\(customer)"
                sale.subscriptionEvent = last == nil ? .start : .renewal
                sale.subscriptionStartDate = start
                sale.subscriptionEndDate = end
            }
        )
    }

    /// What Apple has left of a buy: its amount without its live refunds.
    private func net(of id: String, _ held: AppleBook.Held) -> Int64 {
        expected.filter { $0.value.isRefundOf == id && !$0.value.isRetracted }.reduce(
            held.exclusive
        ) { $0 - (bench.apple.held($1.key)?.exclusive ?? 0) }
    }

    func check() throws {
        let note: Comment = "seed \(seed)"
        #expect(bench.deadLetters().map(\.code) == [], note)
        for (id, sale) in expected {
            let held = try #require(bench.apple.held(id), "seed \(seed): \(id) is not at Apple")
            #expect(held.exclusive == sale.exclusive || sale.isForeign, "seed \(seed): \(id)")
            if sale.isRefundOf == nil, !sale.isRetracted, refunded(id) == sale.exclusive {
                #expect(net(of: id, held) == 0, "seed \(seed): \(id) is refunded whole")
            }
            #expect(held.isRetracted == sale.isRetracted, "seed \(seed): \(id)")
            #expect(
                held.country == (sale.isRefundOf.flatMap { expected[$0]?.country } ?? sale.country)
                    || sale.isRefundOf != nil,
                "seed \(seed): \(id)"
            )
        }
        // Nothing goes under a forged token, and every event has one end.
        #expect(bench.apple.accepted.allSatisfy { $0.token.hasPrefix("token-") }, note)
        let reported = try bench.outcomes().filter { $0.outcome == .reported }
        for (id, _) in expected {
            let revisions = reported.filter { $0.lineItemID == id }.map(\.revision).sorted()
            #expect(revisions == Array(1...revisions.count), "seed \(seed): \(id)")
        }
        let keys = reported.map { "\($0.lineItemID)/\($0.revision)" }
        #expect(Set(keys).count == keys.count, "seed \(seed): an outcome is told twice")
    }
}
