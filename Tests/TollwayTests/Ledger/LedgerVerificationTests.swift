import Kafka
import LocalKafka
import StageRuntime
import Testing
import TokenDomain

@testable import tollway

@Suite struct `A verification of the ledger` {
    /// A ledger in the embedded broker.
    private struct World {
        let broker: MockBroker
        let apple: SimulatedApple
        let configuration: Configuration

        init(_ outcomes: [ReportOutcome]) throws {
            let topic = Topic.reportsOutcomes.name(prefix: "t.")
            broker = try MockBroker(topics: [topic: 2])
            apple = try SimulatedApple()
            let environment = [
                "TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrapServers,
                "TOLLWAY_TOPIC_PREFIX": "t.", "TOLLWAY_DELIVERY": "at-least-once",
            ]
            configuration = try Configuration(
                environment: environment.merging(apple.environment) { $1 },
                program: .tollway
            )
            try LedgerMaker.write(outcomes, prefix: "t.", configuration.kafka)
        }

        func verification(isStopped: @escaping () -> Bool) throws -> LedgerVerification {
            let keys = try AppleKeys(configuration)
            return LedgerVerification(
                queue: try AppleReports.queue(configuration, keys) { _ in 1_000 },
                isStopped: isStopped,
                isKnownApp: { keys.app($0) != nil }
            )
        }
    }

    private func told(_ count: Int, app: Int64 = SimulatedApple.apps[0].0) -> [ReportOutcome] {
        (1...count).map { LedgerMaker.outcome($0, token: "t-\($0)", app: app) }
    }

    /// Whoever closes a month verifies what `ledger export --month` shows of it.
    @Test(arguments: [LedgerSelection.Basis.sale, .told])
    func `asks for the reports that the export shows of a month`(
        basis: LedgerSelection.Basis
    ) throws {
        let next = LedgerMaker.time + .days(31)
        let earlier = LedgerMaker.item("e", at: LedgerMaker.time + .days(-31))
        let restated = LedgerMaker.item("r", more: #","restatement":true"#)
        let outcomes = [
            LedgerMaker.outcome(1), LedgerMaker.outcome(2, settledAt: next),
            LedgerMaker.outcome(3, items: [earlier]),
            LedgerMaker.outcome(4, items: [earlier, LedgerMaker.item("o")], settledAt: next),
            LedgerMaker.outcome(5, items: [restated], settledAt: next),
        ]
        var selection = LedgerSelection()
        #expect(outcomes.allSatisfy { selection.mayShow($0) })
        selection.month = CalendarMonth(of: LedgerMaker.time)
        selection.basis = basis
        let asked = outcomes.filter { selection.mayShow($0) }.map(\.requestIdentifier)
        let numbers = basis == .sale ? [1, 4, 5] : [1, 3]
        #expect(asked == numbers.map(LedgerMaker.identifier))
        let shown = try outcomes.filter { outcome in
            let items = try outcome.details.lineItems.map { try LedgerLineItem.list($0) } ?? []
            let rows = (items.isEmpty ? [nil] : items.map(Optional.some)).map { item in
                LedgerRow(outcome, item, selection, "t/0/1")
            }
            return rows.contains { selection.matches($0) }
        }
        #expect(shown.map(\.requestIdentifier) == asked)
    }

    @Test func `takes either month of a report, and no other word`() throws {
        for (by, code) in [("sale", "usage.missing_apps_file"), ("month", "usage.bad_value")] {
            let run = try TollwayProcess.run(
                ["ledger", "verify", "--month", "2026-10", "--by", by, "-o", "json"],
                environment: ["TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"]
            )
            #expect(run.exitCode == 2, "\(run.talk)")
            #expect(try run.errorCode() == code)
        }
    }

    /// The signal comes once, while the ledger is read.
    @Test(arguments: [true, false])
    func `that was interrupted asks nothing more and says so`(isAll: Bool) throws {
        let world = try World(told(20))
        var signals = [true]
        let run = try world.verification { signals.popLast() ?? false }
        var reader = LedgerReader(world.configuration, LedgerSelection())
        if isAll {
            try run.askAll(&reader, waitingCountMax: 1_000)
        } else {
            try run.askSample(&reader, count: 10, seed: 5)
        }
        #expect(run.isInterrupted && run.askedCount == 0)
        #expect(run.exit == .interrupted)
        #expect(run.text(.table).contains("interrupted: not all were asked for"))
    }

    @Test func `that Kafka ended shows what it has found, and why it is not all`() throws {
        let world = try World(told(1))
        let run = try world.verification { false }
        #expect(!run.hasAnswers)
        var reader = LedgerReader(world.configuration, LedgerSelection())
        try run.askAll(&reader, waitingCountMax: 1_000)
        #expect(run.hasAnswers && run.wrongCount == 1, "\(run.text(.table))")
        run.breakOff(CommandFailure(.noKafka, code: "kafka.away", "no leader"))
        #expect(run.text(.table).contains(LedgerMaker.identifier(1)))
        #expect(run.text(.table).contains("not all were asked for: no leader"))
        let total = try #require(run.text(.ndjson).split(separator: "\n").last)
        #expect(total.contains(#""code":"kafka.away","message":"no leader""#), "\(total)")
    }

    @Test func `is done in part where an app has no key`() throws {
        let world = try World(told(1) + [LedgerMaker.outcome(2, token: "t-2", app: 77)])
        try world.apple.register(["t-1"])
        try world.apple.report(LedgerMaker.identifier(1), token: "t-1", status: "NO_LINE_ITEM")
        let run = try world.verification { false }
        var reader = LedgerReader(world.configuration, LedgerSelection())
        try run.askAll(&reader, waitingCountMax: 1_000)
        #expect(run.askedCount == 1 && run.wrongCount == 0, "\(run.text(.table))")
        #expect(run.exit == .partlyDone)
        var selection = LedgerSelection()
        selection.apps = [77]
        let other = try world.verification { false }
        reader = LedgerReader(world.configuration, selection)
        try other.askSample(&reader, count: 10, seed: 5)
        #expect(other.askedCount == 0 && other.exit == .partlyDone)
    }

    @Test func `draws the same sample in whatever order the partitions come`() {
        func sample(_ claims: [AppleReports.Claim], seed: UInt64) -> [String] {
            var sample = ClaimSample(countMax: 50, seed: seed)
            claims.forEach { sample.take($0) }
            return sample.finish().map(\.position)
        }
        let claims = (1...2_000).map {
            // Each report twice, as where one was copied back by hand.
            AppleReports.Claim(outcome: LedgerMaker.outcome(($0 + 1) / 2), position: "t/0/\($0)")
        }
        let drawn = sample(claims, seed: 7)
        #expect(drawn.count == 50)
        #expect(sample(claims.reversed(), seed: 7) == drawn)
        #expect(sample(claims, seed: 8) != drawn)
        // By chance: neither half of the ledger has them all.
        let early = drawn.filter { (Int($0.dropFirst(4)) ?? 0) <= 1_000 }.count
        #expect((10...40).contains(early), "\(early) of 50")
        #expect(sample(Array(claims.prefix(20)), seed: 7).count == 20)
    }
}
