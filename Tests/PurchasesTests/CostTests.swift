import Simulation
import StageRuntime
import Testing
import TokenDomain

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
