import Simulation
import StageRuntime
import Testing
import TokenDomain

@testable import report

/// Nothing may follow DUPLICATE_TOKEN: it goes out once Apple was asked about the token's primary, which
/// may be forged, also where nothing could be sent for longer than two holds.
@Suite struct `A duplicate behind a forged primary` {
    enum Trouble: CaseIterable {
        case keyIsRefused, appleFails, laneIsPaused, workerIsAway, laneIsBehind
    }

    private final class Switch {
        var isOn = true
    }

    private static let lane = Lane(appAppleID: 1, environment: .production)
    private static let unknown = ScriptedApple.Fate.refused([
        AppleError(code: 3, fieldName: "externalPurchaseId", lineItemID: nil)
    ])

    /// A token that Apple may not know, and another one of its period that has time.
    private func bringPair(_ bench: ReportBench) {
        bench.distinct(bench.id(1))
        bench.distinct(
            bench.id(2),
            .duplicate(of: bench.id(1)),
            expiration: ReportBench.start + .days(300)
        )
    }

    /// dedupe names the duplicate as the primary as soon as Apple has refused the first.
    private func promote(_ bench: ReportBench, receivedAt: Timestamp) throws {
        if try bench.refusedTokens().contains(where: { $0.key == bench.id(1).text }) {
            bench.distinct(bench.id(2), promotedFrom: bench.id(1), receivedAt: receivedAt)
        }
    }

    @Test(arguments: Trouble.allCases)
    func `is not told of as one after two holds in which nothing was sent`(
        _ trouble: Trouble
    ) throws {
        let bench = ReportBench()
        bench.policy.hold = .minutes(30)
        let isInTrouble = Switch()
        let forged = bench.id(1).text
        bench.script = { call in
            switch trouble {
            case .keyIsRefused where isInTrouble.isOn: .status(403)
            case .appleFails where isInTrouble.isOn: .status(500)
            default:
                call.externalPurchaseID == forged ? Self.unknown : .answered
            }
        }
        bench.followsOrders = trouble == .laneIsPaused
        if trouble == .laneIsBehind {
            // One report a minute: these take longer than twice the hold.
            bench.rate = 1.0 / 60
            for number in 100..<190 {
                bench.distinct(bench.id(number), expiration: ReportBench.start + .hours(-23))
            }
        }
        bench.launch()
        if trouble == .laneIsPaused {
            bench.order(.paused, lane: Self.lane)
        }
        try bench.pass(.seconds(1))
        let receivedAt = bench.clock.now
        bringPair(bench)
        try bench.pass(.seconds(1))
        if trouble == .workerIsAway {
            bench.crash()
        }
        try bench.pass(.minutes(75))
        #expect(try bench.refusedTokens().isEmpty)
        isInTrouble.isOn = false
        switch trouble {
        case .workerIsAway: bench.launch()
        case .laneIsPaused: bench.order(.open, lane: Self.lane)
        default: break
        }
        var isPromoted = false
        for _ in 0..<60 where bench.appleStore.statuses[bench.id(2).text] == nil {
            try bench.pass(.minutes(3))
            if !isPromoted, try !bench.refusedTokens().isEmpty {
                try bench.pass(.seconds(3))
                try promote(bench, receivedAt: receivedAt)
                isPromoted = true
            }
        }
        #expect(isPromoted)
        #expect(bench.appleStore.statuses[bench.id(2).text] == ["NO_LINE_ITEM"])
        #expect(bench.metric(#"report_promotions_total{outcome="late"}"#) ?? 0 == 0)
    }

    /// The machine was suspended, or its clock set: much falls due at once, and the lane was empty before.
    ///
    /// Commits take a while, as Kafka's do.
    @Test(arguments: [1, 2, 3] as [UInt64])
    func `is not told of as one while its primary stands in a long line`(seed: UInt64) throws {
        let bench = ReportBench(seed: seed)
        bench.cluster.faults.outcomeDelayMax = 5
        bench.policy.hold = .hours(2)
        bench.rate = 1.0 / 60
        let forged = bench.id(1).text
        bench.script = { $0.externalPurchaseID == forged ? Self.unknown : .answered }
        bench.launch()
        let receivedAt = bench.clock.now
        bringPair(bench)
        for number in 100..<190 {
            bench.distinct(bench.id(number), expiration: ReportBench.start + .days(100))
        }
        try bench.settle()
        bench.clock.now = bench.clock.now + .hours(5)
        for _ in 0..<80 where try bench.refusedTokens().isEmpty {
            try bench.pass(.minutes(3))
            #expect(bench.appleStore.statuses[bench.id(2).text] == nil)
        }
        try promote(bench, receivedAt: receivedAt)
        try bench.pass(.hours(3))
        #expect(bench.appleStore.statuses[bench.id(2).text] == ["NO_LINE_ITEM"])
    }

    enum Interruption: CaseIterable {
        case restart, restartInLongRetry, clockIsSetBack
    }

    /// The lane has two reports only: an outage's retries are few, and minutes apart.
    ///
    /// Which of the two goes first once Apple is well is drawn by the instance's number.
    @Test(arguments: Interruption.allCases, 1...6)
    func `is not told of as one where its worker forgets that Apple failed`(
        _ interruption: Interruption,
        number: Int
    ) throws {
        let bench = ReportBench()
        bench.policy.hold = .minutes(30)
        let isInTrouble = Switch()
        let forged = bench.id(1).text
        bench.script = { call in
            if isInTrouble.isOn {
                let isLong = interruption == .restartInLongRetry
                return .status(503, retryAfter: isLong ? call.at + .hours(1) : nil)
            }
            return call.externalPurchaseID == forged ? Self.unknown : .answered
        }
        bench.launch(number)
        try bench.pass(.seconds(1))
        let receivedAt = bench.clock.now
        bringPair(bench)
        // The duplicate is due after an hour.
        try bench.pass(.minutes(interruption == .restartInLongRetry ? 45 : 59))
        switch interruption {
        case .restart, .restartInLongRetry:
            bench.crash(number)
            bench.launch(number)
            try bench.pass(.minutes(3))
            isInTrouble.isOn = false
        case .clockIsSetBack:
            // Another report shows that Apple is well, while the pair waits for its retries.
            isInTrouble.isOn = false
            bench.distinct(bench.id(3), expiration: ReportBench.start + .hours(-23))
            try bench.pass(.seconds(50))
            bench.clock.now = bench.clock.now + .seconds(-2)
        }
        for _ in 0..<2_000 where try bench.refusedTokens().isEmpty {
            try bench.pass(.seconds(3))
            #expect(bench.appleStore.statuses[bench.id(2).text] == nil)
        }
        try promote(bench, receivedAt: receivedAt)
        try bench.pass(.hours(2))
        #expect(bench.appleStore.statuses[bench.id(2).text] == ["NO_LINE_ITEM"])
    }

    /// Partitions are restored one by one: those to come may have its primary.
    @Test func `waits until the state of all partitions is here`() throws {
        let bench = ReportBench(partitionCount: 3)
        let instance = bench.launch()
        var isWhole: [Bool] = []
        for _ in 0..<50 where isWhole.last != true {
            _ = try instance.loop.step(waitMilliseconds: 0)
            if instance.stage.state != nil {
                isWhole.append(instance.stage.sender.isWhole)
            }
        }
        #expect(isWhole.first == false && isWhole.last == true)
    }

    /// It fails for good, and other reports are few.
    @Test func `does not miss its deadline for one report that always fails`() throws {
        let bench = ReportBench()
        bench.policy.hold = .minutes(30)
        let poison = bench.id(9).text
        bench.script = { $0.externalPurchaseID == poison ? .status(500) : .answered }
        bench.launch()
        bench.distinct(bench.id(9), expiration: ReportBench.start + .hours(-23))
        bench.distinct(bench.id(1))
        bench.distinct(
            bench.id(2),
            .duplicate(of: bench.id(1)),
            expiration: ReportBench.start + .hours(6)
        )
        var isDone = false
        for number in 100..<100 + 36 * 12 where !isDone {
            bench.distinct(bench.id(number), expiration: ReportBench.start + .hours(-23))
            try bench.pass(.minutes(5))
            isDone = bench.appleStore.statuses[bench.id(2).text] == ["DUPLICATE_TOKEN"]
        }
        let deadline = ReportBench.start + .hours(6) + ReportPolicy.deadlineAfterExpiry
        #expect(isDone && bench.clock.now <= deadline)
    }

    /// What is put off goes out within its deadline where the primary is genuine.
    @Test func `is told of within its deadline once the lane is open`() throws {
        let bench = ReportBench()
        bench.policy.hold = .minutes(30)
        let isInTrouble = Switch()
        bench.script = { _ in isInTrouble.isOn ? .status(403) : .answered }
        bench.launch()
        bringPair(bench)
        try bench.pass(.minutes(75))
        isInTrouble.isOn = false
        try bench.pass(.minutes(5))
        #expect(bench.appleStore.statuses == [bench.id(1).text: ["NO_LINE_ITEM"]])
        try bench.pass(.hours(2))
        #expect(bench.appleStore.statuses[bench.id(2).text] == ["DUPLICATE_TOKEN"])
    }
}
