import AppleSimulator
import Kafka
import Simulation
import StageRuntime
import Testing
import TokenDomain
import TokenWire

@testable import purchases

/// Bad sales and a world that delays, in the whole pipeline: whom they may hold up, and whom not.
@Suite struct `Sales of the whole pipeline` {
    private static let app: Int64 = 1_234_567_890

    private func customer(_ number: Int) -> CustomerID {
        let digits = String(number)
        return CustomerID(
            "c1." + String(repeating: "A", count: 42 - digits.count) + digits + "A"
        )
    }

    private func pipeline(_ policy: PurchasesStage.Policy? = nil) throws -> SimulatedPipeline {
        let pipeline = try SimulatedPipeline(seed: 3, purchasesPolicy: policy)
        pipeline.apple.answer = { _ in nil }
        try pipeline.startMissing()
        try pipeline.rest(until: pipeline.now + .minutes(1))
        return pipeline
    }

    private func bringToken(of number: Int, to pipeline: SimulatedPipeline) throws {
        try pipeline.bring(
            IssuedToken(
                externalPurchaseID: "00000000-0000-4000-8000-\(100_000_000_000 + number)",
                appAppleID: Self.app,
                bundleID: "com.example",
                tokenType: "SERVICES",
                tokenCreationDate: (pipeline.now + .days(-60)).milliseconds,
                tokenExpirationDate: (pipeline.now + .days(300)).milliseconds
            ),
            of: customer(number)
        )
    }

    private func event(
        _ id: String,
        of number: Int,
        _ kind: PurchaseEvent.Kind = .buy,
        _ change: (inout PurchaseEvent) -> Void = { _ in }
    ) -> PurchaseEvent {
        var event = PurchaseEvent(lineItemID: id)
        event.kind = kind
        event.customer = customer(number)
        event.appAppleID = Self.app
        change(&event)
        return event
    }

    private func buy(
        _ id: String,
        of number: Int,
        in pipeline: SimulatedPipeline,
        _ change: (inout PurchaseEvent) -> Void = { _ in }
    ) -> PurchaseEvent {
        event(id, of: number) { event in
            event.creationDate = pipeline.now + .hours(-1)
            event.productIdentifier = "coins"
            event.taxCountry = AlphaCode("DEU")
            event.pricingCurrency = AlphaCode("EUR")
            event.taxAmount = Milliunits(2_000)
            event.amountTaxExclusive = Milliunits(10_000)
            change(&event)
        }
    }

    // MARK: Bad sales

    /// How long the last sale of twenty customers takes while another one's are refused, each for
    /// itself.
    private func lastSettled(badCount: Int, isNamed: Bool) throws -> Milliseconds {
        let pipeline = try pipeline()
        for number in 0...20 {
            try bringToken(of: number, to: pipeline)
        }
        try pipeline.rest(until: pipeline.now + .minutes(1))
        pipeline.apple.answer = { sent in
            sent.lineItemIDs.first { $0.hasPrefix("bad") }.map {
                .refusal(code: 7, field: "taxCountry", lineItemID: isNamed ? $0 : nil)
            }
        }
        let start = pipeline.now
        for number in 0..<badCount {
            try pipeline.sell(buy("bad-\(number)", of: 0, in: pipeline))
        }
        for number in 0...20 {
            try pipeline.sell(buy("good-\(number)", of: number, in: pipeline))
        }
        try pipeline.rest(until: start + .minutes(20))
        let outcomes = try pipeline.outcomes()
        let good = outcomes.filter { $0.lineItemID.hasPrefix("good") }
        #expect(good.map(\.outcome) == Array(repeating: .reported, count: 21))
        #expect(outcomes.count { $0.outcome == .rejected } == badCount)
        #expect(pipeline.deadLetters(of: .purchases).count == badCount)
        // The one whose sales are bad must wait for their answers; the others must not.
        let others = good.filter { $0.lineItemID != "good-0" }
        return (others.map(\.settledAt).max() ?? start) - start
    }

    @Test(arguments: [true, false])
    func `wait for no bad sale of another customer`(isNamed: Bool) throws {
        let alone = try lastSettled(badCount: 0, isNamed: isNamed)
        let beside = try lastSettled(badCount: 60, isNamed: isNamed)
        // An answer takes up to 0.8 s here; sixty in turn take 24 s.
        #expect(
            beside.count < alone.count + 2_000,
            "\(alone.count) ms alone, \(beside.count) ms beside bad sales"
        )
    }

    @Test func `go on behind a record that nothing can be made of, in every topic`() throws {
        let pipeline = try pipeline()
        let values = [
            [], Array("{".utf8), Array("null".utf8), Array("[1]".utf8), Array("{}".utf8),
            Array(#"{"externalPurchaseId":7,"lineItemIds":"x","type":"gift"}"#.utf8),
            [0xff, 0x00, 0xfe], Array(repeating: UInt8(ascii: "["), count: 100_000),
        ]
        var count = 0
        for topic in Worker.purchases.sources {
            for partition in Int32(0)..<3 {
                for value in values {
                    count += 1
                    pipeline.cluster.append(
                        topic: topic.name(prefix: SimulatedPipeline.prefix),
                        partition: partition,
                        key: Array("c1.x".utf8),
                        value: value,
                        timestampMilliseconds: pipeline.now.milliseconds
                    )
                }
                // Neither key nor value.
                count += 1
                pipeline.cluster.append(
                    topic: topic.name(prefix: SimulatedPipeline.prefix),
                    partition: partition,
                    key: nil,
                    value: nil,
                    timestampMilliseconds: pipeline.now.milliseconds
                )
            }
        }
        for number in 0..<9 {
            try bringToken(of: number, to: pipeline)
            try pipeline.sell(buy("good-\(number)", of: number, in: pipeline))
        }
        try pipeline.rest(until: pipeline.now + .minutes(5))
        let outcomes = try pipeline.outcomes().filter { $0.lineItemID.hasPrefix("good") }
        #expect(outcomes.map(\.outcome) == Array(repeating: .reported, count: 9))
        let deadLetters = pipeline.deadLetters(of: .purchases)
        #expect(deadLetters.count == count)
        #expect(deadLetters.allSatisfy { values.contains($0.value) }, "byte for byte")
    }

    // MARK: What the world delays

    /// What Apple says to everything for two hours.
    enum Trouble: String, CaseIterable {
        case serverError, unavailable, rateLimit, badKey, forbidden, silence, simultaneous

        var answer: AppleAnswer {
            switch self {
            case .serverError, .silence: AppleAnswer(status: 500)
            case .unavailable: AppleAnswer(status: 503)
            case .rateLimit: AppleAnswer(status: 429)
            case .badKey: AppleAnswer(status: 401)
            case .forbidden: AppleAnswer(status: 403)
            case .simultaneous: .refusal(code: 26, field: nil, lineItemID: nil)
            }
        }
    }

    /// Every wait of the policy is over long before Apple answers, or before the file has the rate.
    @Test(arguments: Trouble.allCases)
    func `are no dead letters for what Apple or the file of rates delays`(trouble: Trouble) throws {
        var policy = PurchasesStage.Policy()
        policy.tokenWait = .hours(1)
        policy.reopening = .hours(1)
        policy.referenceWait = .hours(1)
        policy.again = .minutes(1)
        let pipeline = try pipeline(policy)
        for number in 0..<2 {
            try bringToken(of: number, to: pipeline)
        }
        pipeline.apple.answer = { _ in trouble.answer }
        pipeline.apple.losesAnswer = { _ in trouble == .silence }
        try sellEverything(to: pipeline)
        try pipeline.rest(until: pipeline.now + .hours(2))
        #expect(try pipeline.outcomes().isEmpty)
        for worker in SimulatedPipeline.workers {
            #expect(pipeline.deadLetters(of: worker).map(\.code) == [])
        }
        pipeline.apple.answer = { _ in nil }
        pipeline.apple.losesAnswer = { _ in false }
        try pipeline.rest(until: pipeline.now + .hours(1))
        // What waits for no rate has gone on, and the rest not.
        let reported = try Set(pipeline.outcomes().map(\.lineItemID))
        #expect(reported == ["buy", "refund", "start", "renewal", "gone"])
        try pipeline.rest(until: pipeline.now + .hours(2))
        #expect(try Set(pipeline.outcomes().map(\.lineItemID)) == reported)
        try pipeline.calm()
        for worker in SimulatedPipeline.workers {
            #expect(pipeline.deadLetters(of: worker).map(\.code) == [])
        }
        #expect(try pipeline.outcomes().allSatisfy { $0.outcome == .reported })
        try expectEverythingSold(in: pipeline)
    }

    /// The requests of all that is sold in an hour are lost, or their answers are.
    @Test(arguments: [Topic.reportsRequested, .purchasesAnswered])
    func `are asked for again where no answer comes`(lost: Topic) throws {
        let pipeline = try pipeline()
        for number in 0..<2 {
            try bringToken(of: number, to: pipeline)
        }
        // A report that holds several: of these one changes while others are new.
        pipeline.apple.losesAnswer = { _ in true }
        try pipeline.sell(buy("first", of: 0, in: pipeline))
        try pipeline.rest(until: pipeline.now + .seconds(1))
        try sellEverything(to: pipeline)
        pipeline.apple.losesAnswer = { _ in false }
        pipeline.cluster.faults.lostTopics = [lost.name(prefix: SimulatedPipeline.prefix)]
        try pipeline.rest(until: pipeline.now + .hours(1))
        pipeline.cluster.faults.lostTopics = []
        try pipeline.rest(until: pipeline.now + .days(1))
        #expect(try pipeline.outcomes().count < 3)
        pipeline.ratesFile.write(try SimulatedInputs.rates(around: pipeline.now))
        // Each report of a token that is lost costs the wait.
        try pipeline.rest(until: pipeline.now + .days(4))
        for worker in SimulatedPipeline.workers {
            #expect(pipeline.deadLetters(of: worker).map(\.code) == [])
        }
        #expect(try pipeline.outcomes().allSatisfy { $0.outcome == .reported })
        try expectEverythingSold(in: pipeline)
    }

    private func expectEverythingSold(in pipeline: SimulatedPipeline) throws {
        let world = pipeline.apple.world
        #expect(world.heldSale("buy")?.country == "FRA")
        #expect(world.heldSale("gone")?.isRetracted == true)
        #expect(world.heldSale("foreign")?.country == "FRA")
        for id in ["refund", "start", "renewal", "foreign-refund"] {
            #expect(world.heldSale(id)?.isRetracted == false, "\(id)")
        }
    }

    /// One of each kind, and all that can follow it.
    private func sellEverything(to pipeline: SimulatedPipeline) throws {
        func refund(_ id: String, of buy: String) -> PurchaseEvent {
            event(id, of: 0, .refund) { event in
                event.creationDate = pipeline.now
                event.referenceLineItemID = buy
                event.taxAmount = Milliunits(200)
                event.amountTaxExclusive = Milliunits(1_000)
            }
        }
        func period(_ id: String, _ number: Int64) -> PurchaseEvent {
            buy(id, of: 1, in: pipeline) { event in
                let begin = pipeline.now + .days(30 * number - 50)
                event.creationDate = begin
                event.subscriptionID = "s"
                event.subscriptionEvent = number == 0 ? .start : .renewal
                event.subscriptionStartDate = begin
                event.subscriptionEndDate = begin + .days(30)
            }
        }
        let events = [
            buy("buy", of: 0, in: pipeline),
            event("buy", of: 0, .restate) { $0.taxCountry = AlphaCode("FRA") },
            refund("refund", of: "buy"),
            buy("gone", of: 0, in: pipeline),
            event("gone", of: 0, .retract),
            period("start", 0),
            period("renewal", 1),
            buy("foreign", of: 0, in: pipeline) { $0.pricingCurrency = AlphaCode("ISK") },
            event("foreign", of: 0, .restate) { $0.taxCountry = AlphaCode("FRA") },
            refund("foreign-refund", of: "foreign"),
        ]
        for event in events {
            try pipeline.sell(event)
        }
    }
}
