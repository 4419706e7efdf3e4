import Simulation
import Testing
import TokenDomain

@testable import StageRuntime
@testable import purchases

/// What a sale costs is counted in changelog records: each is written to Kafka, to the store and
/// once more on restore, and a sale that is looked at in vain writes one.
@Suite struct `The cost of a sale` {
    private func bench() -> PurchasesBench {
        let bench = PurchasesBench()
        bench.launch()
        return bench
    }

    private func recordCount(_ bench: PurchasesBench) -> Int {
        let topic = Topic.purchasesState.name(prefix: PurchasesBench.prefix)
        return bench.cluster.committedRecords(of: topic).count
    }

    /// Changelog records for each of so many refunds of one buy.
    private func costOfRefunds(_ count: Int) throws -> Double {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.sale(bench.buy("a", anna, exclusive: 1_000_000))
        try bench.settle()
        let before = recordCount(bench)
        for number in 0..<count {
            bench.sale(bench.refund("r\(number)", of: "a", anna, exclusive: 100))
        }
        try bench.settle()
        #expect(bench.count(.reported) == count + 1)
        return Double(recordCount(bench) - before) / Double(count)
    }

    @Test func `is the same however many refunds of one buy come at once`() throws {
        let few = try costOfRefunds(5)
        let many = try costOfRefunds(60)
        #expect(many < few + 1, "\(many) records a refund of 60, \(few) of 5")
    }

    @Test func `is the same for a customer with one sale and with many`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        try bench.settle()
        var costs: [Int] = []
        for number in 0..<300 {
            let before = recordCount(bench)
            bench.sale(bench.buy("a\(number)", anna))
            try bench.settle()
            costs.append(recordCount(bench) - before)
        }
        #expect(Set(costs.dropFirst()).count == 1, "\(Set(costs))")
        // Taken and queued, sent, answered. The first sale also lists the customer's tokens.
        #expect(costs[1] <= 3)
        #expect(costs[0] == costs[1] + 1)
    }

    @Test func `is the same for what waits for another sale and for what does not`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.sale(bench.buy("first", anna))
        try bench.settle()
        let before = recordCount(bench)
        for number in 0..<10 {
            bench.sale(bench.buy("a\(number)", anna))
            bench.sale(bench.refund("r\(number)", of: "a\(number)", anna, exclusive: 100))
        }
        try bench.settle()
        #expect(bench.count(.reported) == 21)
        // A buy: taken, sent, answered. A refund: taken, woken by the answer, sent, answered; and its buy
        // when it is sent and when it is answered.
        #expect(recordCount(bench) - before <= 10 * (3 + 4 + 2))
    }

    @Test func `is one record for a token that nobody waits for`() throws {
        let bench = bench()
        for number in 0..<10 {
            bench.token("t\(number)", customer: bench.customer(number))
        }
        try bench.settle()
        #expect(recordCount(bench) == 10)
    }

    @Test func `is no record for one that waits for a rate where another one comes`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.sale(bench.buy("a", anna) { $0.pricingCurrency = AlphaCode("ISK") })
        try bench.pass(.minutes(1))
        let before = recordCount(bench)
        bench.rates.rates = try ExchangeRates(csv: Array("2026-01-10,UYU,EUR,0.022\n".utf8))
        bench.rates.isChanged = true
        try bench.pass(.minutes(1))
        #expect(recordCount(bench) == before)
        bench.rates.rates = try ExchangeRates(csv: Array("2026-01-10,ISK,EUR,0.0068\n".utf8))
        bench.rates.isChanged = true
        try bench.pass(.minutes(1))
        #expect(bench.count(.reported) == 1)
    }

    /// A tick adds to the next transaction while one is under way, however long that takes.
    @Test func `is no more memory than a transaction has room for where a rate comes for many`()
        throws
    {
        let bench = PurchasesBench(partitionCount: 2)
        bench.limits.decisionCountMax = 10
        bench.limits.tickByteCountMax = 64 << 10
        let instance = bench.launch()
        for number in 0..<10 {
            bench.token("t\(number)", customer: bench.customer(number))
        }
        for number in 0..<300 {
            bench.sale(
                bench.buy("a\(number)", bench.customer(number % 10)) {
                    $0.pricingCurrency = AlphaCode("ISK")
                }
            )
        }
        try bench.settle()
        #expect(bench.reports.isEmpty)
        bench.rates.rates = try ExchangeRates(csv: Array("2026-01-10,ISK,EUR,0.0068\n".utf8))
        bench.rates.isChanged = true
        bench.clock.now = bench.clock.now + .seconds(5)
        // One slice more: ten sales, and a report of as many.
        try expectRest(bench, instance) {
            instance.loop.heldByteCount >= bench.limits.tickByteCountMax / 2
                && instance.stage.ready.isEmpty
        }
        try bench.settle()
        #expect(bench.count(.reported) == 300)
    }

    /// What the next transaction holds stays within twice a tick's room, and a tick that has no more
    /// room rests.
    private func expectRest(
        _ bench: PurchasesBench,
        _ instance: PurchasesBench.Instance,
        where isFull: () -> Bool
    ) throws {
        var byteCountMax = 0
        var restedCount = 0
        try whileCommitsTakeLong(bench, stepCount: 400) {
            byteCountMax = max(byteCountMax, instance.loop.heldByteCount)
            if isFull() {
                restedCount += 1
                let nextTick = try #require(instance.stage.nextTick)
                #expect(nextTick > bench.clock.now)
            }
        }
        #expect(byteCountMax < 2 * bench.limits.tickByteCountMax)
        #expect(restedCount > 0)
    }

    /// Looks after each step, and lets go on at once what is held at the end.
    private func whileCommitsTakeLong(
        _ bench: PurchasesBench,
        stepCount: Int,
        _ look: () throws -> Void
    ) throws {
        bench.cluster.faults.outcomeDelayMax = 60
        for _ in 0..<stepCount {
            _ = try bench.step()
            try look()
        }
        bench.cluster.faults.outcomeDelayMax = 0
        for _ in 0..<100 {
            _ = try bench.step()
        }
    }

    private func requestCount(_ bench: PurchasesBench) -> Int {
        let topic = Topic.reportsRequested.name(prefix: PurchasesBench.prefix)
        return bench.cluster.committedRecords(of: topic).count
    }

    /// A sale of a token without a customer.
    private func sale(_ id: String, _ token: String, _ bench: PurchasesBench) {
        bench.sale(bench.buy(id, nil) { $0.externalPurchaseID = TokenID(token) })
    }

    @Test func `is no more memory than a tick has room for where many reports are asked for again`()
        throws
    {
        let bench = PurchasesBench(partitionCount: 2)
        bench.limits.tickByteCountMax = 16 << 10
        let instance = bench.launch()
        for number in 0..<200 {
            bench.token("t\(number)", customer: nil)
            sale("a\(number)", "t\(number)", bench)
        }
        try bench.settleAlone()
        #expect(requestCount(bench) == 200)
        bench.clock.now = bench.clock.now + instance.stage.policy.answerWait + .minutes(1)
        try expectRest(bench, instance) {
            instance.loop.heldByteCount >= bench.limits.tickByteCountMax
        }
        try bench.settleAlone()
        // Each once, though the look broke off.
        #expect(requestCount(bench) == 400)
    }

    /// An answer to each of many reports, behind which a queue stands.
    @Test func `is no report more in a batch than there is room for`() throws {
        let bench = PurchasesBench(partitionCount: 2)
        bench.limits.tickByteCountMax = 16 << 10
        let instance = bench.launch()
        for number in 0..<100 {
            bench.token("t\(number)", customer: nil)
            sale("a\(number)", "t\(number)", bench)
        }
        try bench.settleAlone()
        for number in 0..<300 {
            sale("b\(number)", "t\(number % 100)", bench)
        }
        try bench.settleAlone()
        #expect(requestCount(bench) == 100)
        #expect(instance.stage.ready.isEmpty)
        try bench.answerReports()
        var readyCountMax = 0
        var hasTurn = false
        try whileCommitsTakeLong(bench, stepCount: 200) {
            readyCountMax = max(readyCountMax, instance.stage.ready.count)
            hasTurn = instance.stage.readyFrom != nil
        }
        #expect(readyCountMax > 20)
        #expect(hasTurn)
        try bench.settle()
        #expect(bench.count(.reported) == 400)
    }

    @Test func `goes on with the next one that is ready where a batch has its number of reports`()
        throws
    {
        let bench = PurchasesBench(partitionCount: 2)
        bench.limits.reportCountMax = 1
        let instance = bench.launch()
        for number in 0..<50 {
            bench.token("t\(number)", customer: nil)
            sale("a\(number)", "t\(number)", bench)
        }
        try bench.settleAlone()
        #expect(instance.stage.readyFrom != nil)
        #expect(requestCount(bench) == 50)
    }

    @Test func `has its turn among those that are ready where there was no room`() {
        let stage = PurchasesBench().launch().stage
        let places = (0..<3).map { BookPlace(partition: $0, key: BookKey(bytes: [])) }
        stage.ready = Set(places)
        #expect(stage.readyInTurn() == places)
        stage.readyFrom = places[1]
        #expect(stage.readyInTurn() == [places[1], places[2], places[0]])
        stage.ready.remove(places[1])
        #expect(stage.readyInTurn() == [places[2], places[0]])
        stage.ready = [places[0]]
        #expect(stage.readyInTurn() == [places[0]])
    }

    @Test func `is counted once where Kafka aborts what was done`() throws {
        let bench = bench()
        bench.cluster.faults.abortOneIn = 3
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        for number in 0..<20 {
            bench.sale(bench.buy("a\(number)", anna))
            // What was aborted is done again after a while.
            try bench.pass(.minutes(1))
        }
        bench.cluster.faults.abortOneIn = 0
        try bench.pass(.minutes(1))
        #expect(bench.count(.received) == 20)
        #expect(bench.count(.reported) == 20)
    }
}
