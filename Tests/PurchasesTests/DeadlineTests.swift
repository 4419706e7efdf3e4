import Simulation
import StageRuntime
import Testing
import TokenDomain
import TokenWire

@testable import purchases

@Suite struct `A report of sales` {
    @Test func `says until when Apple wants the oldest sale of a report`() throws {
        let bench = PurchasesBench()
        bench.launch()
        let anna = bench.customer(1)
        bench.token("t", from: PurchasesBench.start + .days(-70), customer: anna)
        let old = PurchasesBench.start + .days(-60)
        bench.sale(bench.buy("new", anna))
        bench.sale(bench.buy("old", anna) { $0.creationDate = old })
        try bench.settleAlone()
        let topic = Topic.reportsRequested.name(prefix: PurchasesBench.prefix)
        let record = try #require(bench.cluster.committedRecords(of: topic).first)
        let value = record.value ?? []
        let request = try ReportRequested(reading: value.span)
        #expect(request.deadline == ReportPolicy.deadline(ofSale: old))
        // `report` may not have heard of the token.
        #expect(request.tokenCreationDate == PurchasesBench.start + .days(-70))
        #expect(request.tokenExpirationDate == PurchasesBench.start + .days(295))
    }

    private func requests(_ bench: PurchasesBench) throws -> [ReportRequested] {
        let topic = Topic.reportsRequested.name(prefix: PurchasesBench.prefix)
        return try bench.cluster.committedRecords(of: topic).map { record in
            let value = record.value ?? []
            return try ReportRequested(reading: value.span)
        }
    }

    private func passAlone(_ days: ClosedRange<Int>, _ bench: PurchasesBench) throws {
        for _ in days {
            bench.clock.now = bench.clock.now + .days(1) + .minutes(1)
            try bench.settleAlone()
            // What was aborted is tried again after a wait, and may be aborted again.
            for _ in 0..<6 {
                bench.clock.now = bench.clock.now + .seconds(10)
                try bench.settleAlone()
            }
        }
    }

    /// As they were: `report` knows by it what it has under way.
    @Test(arguments: [0, 3], [false, true])
    func `is asked for again every two days until it is answered, as it was`(
        abortOneIn: Int,
        isRestored: Bool
    ) throws {
        let bench = PurchasesBench(seed: 5)
        bench.launch()
        let anna = bench.customer(1)
        bench.token("t", from: PurchasesBench.start + .days(-70), customer: anna)
        for number in 0..<3 {
            bench.sale(
                bench.buy("\(number)", anna) {
                    $0.creationDate = PurchasesBench.start + .days(-Int64(number))
                }
            )
        }
        try bench.settleAlone()
        bench.sale(bench.buy("later", anna))
        if isRestored {
            try bench.settleAlone()
            bench.crash()
            bench.loseDisk()
            bench.launch()
        }
        bench.cluster.faults.abortOneIn = abortOneIn
        #expect(bench.answerWaitSeconds ?? 0 == 0)
        try passAlone(1...1, bench)
        #expect(try requests(bench).count == 1)
        #expect(try #require(bench.answerWaitSeconds) > 24 * 3_600)
        try passAlone(2...2, bench)
        #expect(try requests(bench).count == 2)
        try passAlone(3...3, bench)
        #expect(try requests(bench).count == 2)
        try passAlone(4...4, bench)
        let asked = try requests(bench)
        #expect(asked.count == 3)
        #expect(asked.allSatisfy { $0 == asked[0] })
        try bench.pass(.days(1))
        try bench.pass(.minutes(11))
        #expect(bench.answerWaitSeconds == 0)
        #expect(bench.apple.held("2") != nil && bench.apple.held("later") != nil)
        #expect(bench.deadLetters().isEmpty)
    }
}
