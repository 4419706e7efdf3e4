import Simulation
import StageRuntime
import Telemetry
import Testing
import TokenDomain

@testable import report

@Suite struct `A clock that is set` {
    /// A token that Apple answered with 500 and that waits for its retry.
    private func benchWithRetry() throws -> ReportBench {
        let bench = ReportBench()
        var isDown = true
        bench.script = { _ in
            defer { isDown = false }
            return isDown ? .status(503, retryAfter: ReportBench.start + .minutes(20)) : .answered
        }
        bench.launch()
        bench.distinct(bench.id(1), .duplicate(of: bench.id(9_999)))
        try bench.pass(.minutes(5))
        #expect(bench.instances[0]?.apple.calls.count == 1)
        #expect(bench.appleStore.accepted.isEmpty)
        return bench
    }

    @Test(arguments: [90, 3_600, 86_400, 86_400 * 365] as [Int64])
    func `back does not prolong the wait before a retry`(seconds: Int64) throws {
        let bench = try benchWithRetry()
        bench.clock.now = bench.clock.now + .seconds(-seconds)
        try bench.pass(.minutes(14))
        #expect(bench.appleStore.accepted.isEmpty)
        try bench.pass(.minutes(2))
        #expect(bench.appleStore.accepted.count == 1)
    }

    /// It is an hour ahead when requests start, and right when Apple fails them.
    @Test func `back does not hide that Apple fails what was under way`() throws {
        let bench = ReportBench()
        bench.latency = .seconds(3)
        bench.script = { _ in .status(503) }
        for number in 1...20 {
            bench.distinct(bench.id(number), .duplicate(of: bench.id(9_999)))
        }
        bench.launch()
        try bench.pass(.seconds(2))
        #expect(bench.instances[0]?.apple.calls.isEmpty == false)
        bench.clock.now = bench.clock.now + .hours(-1)
        bench.instances[0]?.apple.clockWasSetBack(by: .hours(1))
        try bench.pass(.minutes(5))
        let line = String(decoding: bench.metrics.render(), as: UTF8.self)
            .split(separator: "\n")
            .first { $0.hasPrefix(#"tollway_report_apple_failing_seconds{app="1""#) }
        #expect(line.flatMap { Double($0.split(separator: " ").last ?? "") } ?? 0 > 250)
    }

    @Test func `back twice is heard twice`() throws {
        let bench = try benchWithRetry()
        bench.clock.now = bench.clock.now + .hours(-1)
        try bench.pass(.minutes(5))
        bench.clock.now = bench.clock.now + .hours(-5)
        try bench.pass(.minutes(9))
        #expect(bench.appleStore.accepted.isEmpty)
        try bench.pass(.minutes(2))
        #expect(bench.appleStore.accepted.count == 1)
    }

    /// Wherever the transaction is that has the change.
    @Test(arguments: 0..<8)
    func `back moves a retry whose account changes just then`(stepCount: Int) throws {
        let bench = try benchWithRetry()
        bench.cluster.faults.outcomeDelayMax = 6
        bench.notice(bench.id(1))
        for _ in 0..<stepCount {
            _ = try bench.instances[0]?.loop.step(waitMilliseconds: 0)
        }
        bench.clock.now = bench.clock.now + .days(-1)
        try bench.pass(.minutes(14))
        #expect(bench.appleStore.accepted.isEmpty)
        try bench.pass(.minutes(2))
        #expect(bench.appleStore.accepted.count == 1)
    }

    @Test func `back moves a retry again where the transaction that moved it is aborted`() throws {
        let bench = try benchWithRetry()
        bench.clock.now = bench.clock.now + .days(-1)
        bench.cluster.faults.abortOneIn = 1
        for _ in 0..<40 {
            _ = try bench.instances[0]?.loop.step(waitMilliseconds: 0)
        }
        bench.cluster.faults.abortOneIn = 0
        try bench.pass(.minutes(16))
        #expect(bench.appleStore.accepted.count == 1)
    }

    /// It fell due while the clock was ahead, and nobody could have heard its primary by then.
    @Test func `back does not leave a duplicate put off beyond its deadline`() throws {
        let bench = ReportBench()
        bench.policy.hold = .minutes(30)
        bench.launch()
        bench.distinct(bench.id(1))
        bench.distinct(
            bench.id(2),
            .duplicate(of: bench.id(1)),
            expiration: ReportBench.start + .days(30)
        )
        try bench.settle()
        bench.clock.now = bench.clock.now + .days(100)
        try bench.pass(.seconds(10))
        #expect(bench.appleStore.statuses[bench.id(2).text] == nil)
        bench.clock.now = bench.clock.now + .days(-100)
        // Twice its hold is over, as far as anybody knows; its primary may lie elsewhere, unheard.
        try bench.pass(.hours(2))
        #expect(bench.appleStore.statuses[bench.id(2).text] == nil)
        bench.clock.now = ReportBench.start + .days(30) + .hours(23)
        try bench.pass(.minutes(30))
        #expect(bench.appleStore.statuses[bench.id(2).text] == ["DUPLICATE_TOKEN"])
    }

    /// Wherever the transaction is that has the retry.
    @Test(arguments: 1..<9)
    func `back moves a retry that is decided just then`(stepCount: Int) throws {
        let bench = ReportBench()
        bench.cluster.faults.outcomeDelayMax = 6
        var isDown = true
        bench.script = { _ in
            defer { isDown = false }
            return isDown ? .status(503, retryAfter: ReportBench.start + .minutes(20)) : .answered
        }
        let instance = bench.launch()
        bench.distinct(bench.id(1), .duplicate(of: bench.id(9_999)))
        while instance.apple.calls.isEmpty {
            _ = try instance.loop.step(waitMilliseconds: 0)
        }
        for _ in 0..<stepCount {
            _ = try instance.loop.step(waitMilliseconds: 0)
        }
        bench.clock.now = bench.clock.now + .days(-1)
        try bench.pass(.minutes(19))
        #expect(bench.appleStore.accepted.isEmpty)
        try bench.pass(.minutes(2))
        #expect(bench.appleStore.accepted.count == 1)
    }

    @Test func `back while nobody ran delays a retry by what a retry waits at most`() throws {
        let bench = try benchWithRetry()
        bench.crash()
        bench.clock.now = bench.clock.now + .days(-30)
        bench.launch()
        try bench.pass(.minutes(71))
        #expect(bench.appleStore.accepted.count == 1)
    }

    @Test func `back does not prolong a hold, nor a stopped lane's wait for its probe`() throws {
        for status in [429, 403] {
            let bench = ReportBench()
            let from = ReportBench.start
            bench.script = { [status] call in
                call.at == from ? .status(status, retryAfter: from + .minutes(30)) : .answered
            }
            bench.launch()
            bench.distinct(bench.id(1), .duplicate(of: bench.id(9_999)))
            try bench.pass(status == 429 ? .minutes(10) : .seconds(3))
            bench.clock.now = bench.clock.now + .minutes(-5)
            try bench.pass(status == 429 ? .minutes(19) : .seconds(1))
            #expect(bench.appleStore.accepted.isEmpty, "\(status)")
            try bench.pass(status == 429 ? .minutes(2) : .seconds(3))
            #expect(bench.appleStore.accepted.count == 1, "\(status)")
        }
    }

    @Test func `back keeps the guard and the gauges going`() throws {
        let bench = ReportBench()
        bench.launch()
        bench.notice(bench.id(1))
        try bench.pass(.minutes(16))
        #expect(bench.appleStore.accepted.isEmpty)
        bench.clock.now = bench.clock.now + .hours(-10)
        try bench.pass(.seconds(1))
        bench.distinct(bench.id(2))
        try bench.pass(.seconds(5))
        let page = String(decoding: bench.metrics.render(), as: UTF8.self)
        #expect(page.contains(#"tollway_report_held{app="1",environment="production"} 1"#))
        bench.clock.now = bench.clock.now + .hours(10)
        try bench.commitToEnd(.decode, .tokensReceived)
        try bench.commitToEnd(.dedupe, .tokensDecoded)
        try bench.pass(.seconds(5))
        #expect(bench.appleStore.statuses[bench.id(1).text] == ["UNRECOGNIZED_TOKEN"])
    }

    @Test func `forwards reports what is due by it, and forgets nothing at once`() throws {
        let bench = ReportBench()
        bench.launch()
        bench.distinct(bench.id(1))
        try bench.pass(.hours(1))
        #expect(bench.appleStore.accepted.isEmpty)
        bench.clock.now = bench.clock.now + .days(2_000)
        try bench.pass(.minutes(2))
        #expect(bench.appleStore.statuses[bench.id(1).text] == ["NO_LINE_ITEM"])
        bench.clock.now = bench.clock.now + .days(-2_000)
        bench.distinct(bench.id(1))
        try bench.pass(.days(2))
        #expect(bench.appleStore.accepted.count == 1)
    }

    @Test func `ahead for weeks, with records that are right, forgets nothing`() throws {
        let bench = ReportBench()
        bench.launch()
        bench.distinct(bench.id(1), .duplicate(of: bench.id(9_999)))
        try bench.pass(.minutes(1))
        #expect(bench.appleStore.accepted.count == 1)
        for day in 0..<20 as Range<Int64> {
            bench.recordTime = ReportBench.start + .days(day)
            bench.clock.now = ReportBench.start + .days(3_000 + day)
            bench.distinct(bench.id(2))
            try bench.pass(.hours(2))
        }
        bench.distinct(bench.id(1), .duplicate(of: bench.id(9_999)))
        try bench.pass(.hours(1))
        #expect(bench.appleStore.statuses[bench.id(1).text] == ["DUPLICATE_TOKEN"])
    }

    @Test func `right, forgets what has expired by every clock`() throws {
        let bench = ReportBench()
        bench.launch()
        bench.distinct(bench.id(1), .duplicate(of: bench.id(9_999)))
        try bench.pass(.minutes(1))
        for day in stride(from: 0, through: 830, by: 1) as StrideThrough<Int64> {
            bench.clock.now = ReportBench.start + .days(day) + .minutes(1)
            bench.notice(bench.id(2), "CREATED")
            try bench.settle()
        }
        let place = AccountPlace(bench.id(1), partition: 0)
        let state = try #require(bench.instances[0]?.loop.state)
        let known = try (0..<3 as Range<Int32>).flatMap {
            try state.values([place.key], partition: $0)
        }
        #expect(known.compactMap { $0 }.isEmpty)
    }

    /// In the middle of a hundred reports, one a second; a standstill is noticed as in a worker.
    private func sending() throws -> ReportBench {
        let bench = ReportBench()
        bench.reportLimits.standstillMax = ReportLimits().standstillMax
        // So it looks around as a worker does.
        bench.followsOrders = true
        bench.rate = 1
        bench.launch()
        for number in 1...100 {
            bench.distinct(bench.id(number), .duplicate(of: bench.id(9_999)))
        }
        try bench.pass(.seconds(20))
        return bench
    }

    /// The process stood still, and its partitions may be another's: nothing says so yet.
    @Test(arguments: [15, 16, 60, 86_400] as [Int64])
    func `forwards while it sends holds what is sent until the group would have said so`(
        seconds: Int64
    ) throws {
        let bench = try sending()
        let before = bench.appleStore.accepted.count
        #expect(before > 10)
        bench.clock.now = bench.clock.now + .seconds(seconds)
        try bench.pass(.seconds(17))
        #expect((bench.appleStore.accepted.count == before) == (seconds > 15))
        // Set back meanwhile, it prolongs nothing.
        bench.clock.now = bench.clock.now + .hours(-1)
        try bench.pass(.seconds(20))
        #expect(bench.appleStore.accepted.count > before + 10)
        try bench.pass(.minutes(2))
        #expect(bench.appleStore.accepted.count == 100)
    }

    @Test func `forwards holds nothing of partitions that were assigned since`() throws {
        let bench = try sending()
        let before = bench.appleStore.accepted.count
        bench.clock.now = bench.clock.now + .minutes(1)
        try bench.settle()
        bench.instances[0]?.log.expireSession()
        try bench.pass(.seconds(5))
        #expect(bench.appleStore.accepted.count > before)
        // Nor does it where the worker had none for a while.
        let sent = bench.appleStore.accepted.count
        bench.instances[0]?.log.expireSession()
        while bench.instances[0]?.loop.assigned.isEmpty == false {
            _ = try bench.instances[0]?.loop.step(waitMilliseconds: 0)
        }
        bench.clock.now = bench.clock.now + .hours(1)
        try bench.pass(.seconds(5))
        #expect(bench.appleStore.accepted.count > sent)
    }

    @Test func `forwards far, and a token reported before, make no second report`() throws {
        let bench = ReportBench()
        bench.launch()
        bench.distinct(bench.id(1), .duplicate(of: bench.id(9_999)))
        try bench.pass(.minutes(1))
        #expect(bench.appleStore.accepted.count == 1)
        bench.clock.now = bench.clock.now + .days(3_000)
        try bench.pass(.hours(2))
        bench.distinct(bench.id(1), .duplicate(of: bench.id(9_999)))
        try bench.pass(.hours(1))
        #expect(bench.appleStore.accepted.count == 1)
    }
}
