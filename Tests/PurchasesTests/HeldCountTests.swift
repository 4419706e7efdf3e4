import Simulation
import StageRuntime
import StateStore
import Telemetry
import Testing
import TokenDomain
import TokenWire

@testable import purchases

/// What is held is counted once, and then follows from what is committed.
@Suite struct `The count of what is held` {
    private func counted(_ stage: PurchasesStage) throws -> [HeldCount.Group: Int] {
        let state = try #require(stage.state)
        var fresh = HeldCount()
        return try #require(try fresh.count(in: stage.partitions, state))
    }

    private func held(_ stage: PurchasesStage) throws -> [HeldCount.Group: Int]? {
        let state = try #require(stage.state)
        return try stage.heldCount.count(in: stage.partitions, state)
    }

    /// Sales of a few customers, some of whom have a token or get one late, some in a currency without
    /// a rate, and refunds of sales that were never sent; three entries are counted a look.
    @Test(arguments: 1...6)
    func `is what the due table has, whenever it was counted`(seed: Int) throws {
        let bench = PurchasesBench(seed: UInt64(seed))
        let stage = bench.launch().stage
        var generator = SeededGenerator(seed: UInt64(seed))
        var (completeCount, heldMax) = (0, 0)
        for step in 0..<120 {
            if step == 40 {
                // Counted while sales come, and from then on only by what changes.
                stage.heldCount = HeldCount(entryCountMax: 3)
            }
            let customer = bench.customer(Int.random(in: 0..<8, using: &generator))
            switch Int.random(in: 0..<8, using: &generator) {
            case 0: bench.token("t\(step)", customer: customer)
            case 1:
                bench.sale(bench.refund("r\(step)", of: "s\(step - 3)", customer, exclusive: 1_000))
            case 2:
                bench.sale(
                    bench.buy("s\(step)", customer) { $0.pricingCurrency = AlphaCode("ISK") }
                )
            case 3: bench.sale(bench.change("s\(step - 5)", customer, .restate) { $0.quantity = 2 })
            default: bench.sale(bench.buy("s\(step)", customer))
            }
            switch Int.random(in: 0..<4, using: &generator) {
            case 0: try bench.settleAlone()
            case 1: try bench.pass(.hours(5))
            case 2: try bench.pass(.seconds(1))
            default: try bench.settle()
            }
            if let held = try held(stage) {
                completeCount += 1
                heldMax = max(heldMax, held.values.reduce(0, +))
                #expect(try held.filter { $0.value != 0 } == counted(stage))
            }
        }
        #expect(completeCount > 50)
        #expect(heldMax > 10)
    }

    /// Apple has not been asked: `report` has no room for the token, or reads of its primary later.
    @Test func `has what report sends back for a while as what waits for Apple`() throws {
        let bench = PurchasesBench()
        let stage = bench.launch().stage
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.rejection = { _, _ in PurchasesBench.Reply(reason: "report.account_full") }
        bench.sale(bench.buy("a", anna))
        bench.sale(bench.refund("r", of: "unknown", anna, exclusive: 1_000))
        try bench.settle()
        let lane = Lane(appAppleID: 1, environment: .production)
        let expected = [
            HeldCount.Group(lane: lane, cause: .apple): 1,
            HeldCount.Group(lane: lane, cause: .reference): 1,
        ]
        #expect(try counted(stage) == expected)
        #expect(try held(stage)?.filter { $0.value != 0 } == expected)
    }

    /// A tester's sale would else end an alarm of production's.
    @Test func `has a sandbox sale apart`() throws {
        let bench = PurchasesBench()
        let stage = bench.launch().stage
        let anna = bench.customer(1)
        bench.sale(bench.buy("a", anna))
        bench.sale(bench.buy("b", anna) { $0.environment = .sandbox })
        bench.sale(bench.buy("c", anna) { $0.environment = .sandbox })
        try bench.settle()
        let expected: [HeldCount.Group: Int] = [
            .init(lane: Lane(appAppleID: 1, environment: .production), cause: .token): 1,
            .init(lane: Lane(appAppleID: 1, environment: .sandbox), cause: .token): 2,
        ]
        #expect(try counted(stage) == expected)
        #expect(try held(stage)?.filter { $0.value != 0 } == expected)
        let page = String(decoding: bench.metrics.render(), as: UTF8.self)
        let series = #"total{app="1",environment="sandbox",outcome="received",reason="buy"} 2"#
        #expect(page.contains("tollway_purchases_" + series))
    }

    /// The retraction of a start, which two renewals follow, and a restatement of one of these.
    private func retractedStart(_ bench: PurchasesBench) throws {
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        for (number, name) in ["start", "month-1", "month-2"].enumerated() {
            bench.sale(
                bench.buy(name, anna) {
                    $0.subscriptionID = "s"
                    $0.subscriptionEvent = number == 0 ? .start : .renewal
                    $0.subscriptionStartDate = bench.clock.now + .days(30 * Int64(number))
                    $0.subscriptionEndDate = bench.clock.now + .days(30 * Int64(number + 1))
                }
            )
        }
        try bench.settle()
        bench.sale(bench.change("start", anna, .retract))
        bench.sale(bench.change("month-2", anna, .restate) { $0.quantity = 2 })
        try bench.settleAlone()
    }

    /// Nobody sent the retractions that follow from it, so what was received has none of them.
    @Test(arguments: [false, true])
    func `has one retraction, where others follow from it`(isRefused: Bool) throws {
        let bench = PurchasesBench()
        let stage = bench.launch().stage
        try retractedStart(bench)
        #expect(try counted(stage).values.reduce(0, +) == 2)
        #expect(try held(stage)?.values.reduce(0, +) == 2)
        // From the changelog.
        bench.crash()
        bench.loseDisk()
        let other = bench.launch().stage
        try bench.settleAlone()
        #expect(try counted(other).values.reduce(0, +) == 2)
        if isRefused {
            bench.script = { _, ids in
                ids.contains("month-1")
                    ? [AppleError(code: 19, fieldName: "quantity", lineItemID: "month-1")] : nil
            }
        }
        try bench.settle()
        #expect(bench.apple.held("start")?.isRetracted == !isRefused)
        #expect(try counted(other).values.reduce(0, +) == 0)
        #expect(try bench.records().allSatisfy { !$0.contains("oursCount") })
    }

    /// The changelog of an earlier version, which did not tell its own retractions from others.
    @Test func `ends at zero with retractions that an earlier version made`() throws {
        let bench = PurchasesBench()
        bench.launch()
        try retractedStart(bench)
        bench.crash()
        bench.loseDisk()
        try bench.rewriteItems { _, item in
            item.oursCount = 0
            return []
        }
        let stage = bench.launch().stage
        try bench.settleAlone()
        #expect(try counted(stage).values.reduce(0, +) == 4)
        try bench.settle()
        #expect(bench.apple.held("start")?.isRetracted == true)
        #expect(try counted(stage).values.reduce(0, +) == 0)
        #expect(try held(stage)?.values.allSatisfy { $0 == 0 } == true)
    }

    @Test func `says how often report sends sales back, and why`() throws {
        let bench = PurchasesBench()
        bench.launch()
        let (anna, bert, carl) = (bench.customer(1), bench.customer(2), bench.customer(3))
        bench.token("full", customer: anna)
        bench.token("late", customer: bert)
        bench.token("forged", customer: carl, isForged: true)
        bench.token("next", customer: carl)
        bench.rejection = { request, _ in
            switch request.externalPurchaseID.text {
            case "full": PurchasesBench.Reply(reason: "report.account_full")
            case "late":
                PurchasesBench.Reply(reason: "report.is_duplicate", primary: TokenID("other"))
            case "next":
                PurchasesBench.Reply(reason: "report.is_duplicate", primary: TokenID("forged"))
            default: nil
            }
        }
        for customer in [anna, bert, carl] {
            bench.sale(bench.buy("a", customer))
        }
        for _ in 0..<3 {
            try bench.pass(.minutes(1))
        }
        #expect(
            bench.sentBack() == ["account_full": 4, "is_duplicate": 4, "primary_refused": 4]
        )
        #expect(try bench.words() == [])
    }
}
