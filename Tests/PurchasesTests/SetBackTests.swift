import Simulation
import StageRuntime
import Testing
import TokenDomain

/// The worker's clock was ahead, and is set back while sales wait by it.
@Suite struct `A clock that was ahead` {
    private static let zero = PurchasesBench.start

    /// One that was ahead by less than an hour may be set back before the worker is started again.
    @Test(arguments: [180, 50] as [Int64], 0..<6 as Range<UInt64>)
    func `puts no sale off for longer than its minute`(minutesAhead: Int64, seed: UInt64) throws {
        let bench = PurchasesBench(seed: seed)
        let isStartedAnew = minutesAhead < 60
        bench.launch()
        try bench.settle()
        bench.clock.now = Self.zero + .minutes(minutesAhead)
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.rejection = { _, _ in PurchasesBench.Reply(reason: "report.account_full") }
        bench.sale(bench.buy("a", anna) { $0.creationDate = Self.zero })
        try bench.settle()
        #expect(try bench.words().isEmpty)
        bench.rejection = { _, _ in nil }
        if isStartedAnew {
            bench.crash()
        }
        bench.clock.now = Self.zero + .minutes(1)
        if isStartedAnew {
            bench.launch()
        }
        bench.cluster.faults.abortOneIn = seed == 0 ? 0 : 3
        // What was aborted is tried again after a wait, and may be aborted again.
        for _ in 0..<30 {
            try bench.pass(.seconds(10))
        }
        #expect(try bench.words() == ["a reported"], "seed \(seed)")
    }

    /// Apple does not know its first token, so the next one is to be chosen.
    ///
    /// Commits are known late: the store lacks what was put before the jump.
    @Test(arguments: 0..<40)
    func `holds up nothing that was to be decided, at whatever step it is set back`(
        step: Int
    ) throws {
        let bench = PurchasesBench(seed: UInt64(step), partitionCount: 1)
        bench.launch()
        try bench.settle()
        bench.clock.now = Self.zero + .minutes(180)
        bench.cluster.faults.outcomeDelayMax = 3
        let anna = bench.customer(1)
        bench.token("forged", from: Self.zero + .days(-2), customer: anna, isForged: true)
        bench.token("true", from: Self.zero + .days(-2), customer: anna)
        bench.sale(bench.buy("a", anna) { $0.creationDate = Self.zero })
        for _ in 0..<step {
            _ = try bench.step()
            _ = try bench.answerReports()
        }
        bench.clock.now = Self.zero + .minutes(1)
        try bench.pass(.minutes(2))
        #expect(try bench.words() == ["a reported"])
        #expect(try bench.outcomes().map(\.externalPurchaseID) == [TokenID("true")])
    }
}
