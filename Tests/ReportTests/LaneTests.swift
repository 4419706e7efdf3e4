import AppStoreAPI
import Simulation
import Testing
import TokenDomain

@testable import report

@Suite struct `The lanes of the report worker` {
    /// Many tokens, all due at once.
    private func due(_ count: Int, apps: [Int64] = [1], on bench: ReportBench) {
        for number in 0..<count {
            for app in apps {
                bench.distinct(
                    bench.id(number * 10 + Int(app)),
                    .duplicate(of: bench.id(9_999)),
                    app: app
                )
            }
        }
    }

    @Test func `keep the rate of each app`() throws {
        let bench = ReportBench()
        bench.rate = 5
        bench.launch()
        due(200, apps: [1, 2], on: bench)
        try bench.pass(.seconds(20))
        for app: Int64 in [1, 2] {
            let count = bench.instances[0]?.apple.calls.count { $0.lane.appAppleID == app } ?? 0
            #expect((95...102).contains(count))
        }
    }

    @Test func `share the rate among replicas by partitions`() throws {
        let bench = ReportBench()
        bench.rate = 9
        for number in 0..<3 {
            bench.launch(number)
        }
        try bench.settle()
        due(300, on: bench)
        // Two rounds in which each partition has a second.
        try bench.pass(.seconds(24))
        let counts = bench.instances.values.map(\.apple.calls.count)
        #expect(counts.allSatisfy { (68...75).contains($0) }, "\(counts)")
    }

    @Test func `settle the end of a burst without a wait for more`() throws {
        let bench = ReportBench()
        bench.launch()
        due(160, on: bench)
        try bench.pass(Milliseconds(700))
        #expect(try bench.outcomes().count == 160)
    }

    @Test func `hold for 429 as long as Apple says, and no other lane with it`() throws {
        let bench = ReportBench()
        bench.rate = 50
        let until = ReportBench.start + .minutes(30)
        bench.script = { call in
            call.lane.appAppleID == 1 && call.at < until
                ? .status(429, retryAfter: until) : .answered
        }
        bench.launch()
        due(20, apps: [1, 2], on: bench)
        try bench.pass(.minutes(29))
        let calls = try #require(bench.instances[0]?.apple.calls)
        #expect(calls.count { $0.lane.appAppleID == 1 } == 1)
        #expect(bench.appleStore.accepted.count == 20)
        try bench.pass(.minutes(3))
        #expect(bench.appleStore.accepted.count == 40)
        #expect(try bench.outcomes().allSatisfy { $0.outcome == .accepted })
    }

    /// Answers to requests of partitions that were let go are not waited for: so Apple is asked once more.
    @Test func `learn of a hold again after a rebalance before its answers`() throws {
        let bench = ReportBench()
        bench.latency = .seconds(1)
        let until = ReportBench.start + .minutes(5)
        bench.script = { $0.at < until ? .status(429, retryAfter: until) : .answered }
        bench.launch()
        due(30, on: bench)
        try bench.pass(Milliseconds(500))
        #expect(bench.instances[0]?.apple.calls.count == 30)
        // All partitions go, and come back to this instance or the other.
        bench.launch(1)
        try bench.pass(.minutes(4))
        let counts = bench.instances.values.map(\.apple.calls.count)
        #expect(counts.reduce(0, +) <= 60, "\(counts)")
        try bench.pass(.minutes(5))
        #expect(bench.appleStore.accepted.count == 30)
    }

    @Test func `show how long they have been held also after a rebalance`() throws {
        let bench = ReportBench()
        let until = ReportBench.start + .minutes(60)
        bench.script = { $0.at < until ? .status(429, retryAfter: until) : .answered }
        bench.launch()
        due(30, on: bench)
        try bench.pass(.minutes(5))
        // All partitions go, and come back.
        bench.launch(1)
        try bench.pass(.minutes(1))
        bench.crash(1)
        try bench.pass(.minutes(14))
        #expect(bench.metric("report_lane_held_seconds{") ?? 0 >= 1_190)
    }

    /// What stops a lane is told by its own name: one 429 came before, which nobody took back.
    @Test(arguments: [500, 0, 403] as [Int])
    func `are held no more where Apple fails in another way`(status: Int) throws {
        let bench = ReportBench()
        bench.script = { call in
            call.at < ReportBench.start + .seconds(2)
                ? .status(429) : status == 0 ? .answerLost : .status(status)
        }
        bench.launch()
        due(20, on: bench)
        try bench.pass(.minutes(4))
        #expect(bench.metric("report_lane_held_seconds{") ?? 0 > 0)
        try bench.pass(.minutes(16))
        #expect(bench.metric("report_lane_held_seconds{") == 0)
    }

    /// Kafka takes no commit, and the session lives.
    @Test func `send no more than may wait for a commit`() throws {
        let bench = ReportBench()
        bench.rate = 1
        bench.reportLimits.unsettledCountMax = 50
        let instance = bench.launch()
        due(400, on: bench)
        try bench.pass(.seconds(5))
        bench.cluster.faults.outcomeDelayMax = .max
        let before = instance.apple.calls.count
        try bench.pass(.seconds(200))
        #expect((50...60).contains(instance.apple.calls.count - before))
        bench.cluster.faults.outcomeDelayMax = 0
        bench.crash()
        bench.launch()
        try bench.pass(.minutes(10))
        #expect(bench.appleStore.accepted.count == 400)
    }

    @Test func `take refusals that were under way together for one`() throws {
        let bench = ReportBench()
        bench.latency = Milliseconds(100)
        let end = ReportBench.start + .seconds(3)
        bench.script = { $0.at < end ? .status(429) : .answered }
        bench.launch()
        due(300, on: bench)
        try bench.pass(.seconds(12))
        // Three holds or four, of a second, two and four at most.
        #expect(bench.appleStore.accepted.count == 300)
    }

    @Test func `spare an Apple that is down their early retries, and go on soon after`() throws {
        let bench = ReportBench()
        var isDown = true
        bench.script = { _ in isDown ? .status(500) : .answered }
        bench.launch()
        due(300, on: bench)
        try bench.pass(.seconds(10))
        let calls = try #require(bench.instances[0]?.apple.calls)
        // Each once, and about a third of them again; with early retries it were four times each.
        #expect((300...600).contains(calls.count), "\(calls.count)")
        isDown = false
        try bench.pass(.minutes(1))
        #expect(bench.appleStore.accepted.count == 300)
        #expect(bench.deadLetters().isEmpty)
    }

    @Test func `stop at the second 401, probe, and go on by themselves`() throws {
        let bench = ReportBench()
        bench.rate = 50
        var isKeyGood = false
        bench.script = { _ in isKeyGood ? .answered : .status(401) }
        bench.launch()
        due(20, on: bench)
        try bench.pass(.hours(1))
        let calls = try #require(bench.instances[0]?.apple.calls)
        // At once again, then 5, 10, 20 … 300 s apart: about 6 + 12 in an hour.
        #expect((14...22).contains(calls.count), "\(calls.count)")
        #expect(calls[1].at - calls[0].at <= Milliseconds(100))
        #expect(bench.deadLetters().isEmpty)
        #expect(try bench.outcomes().isEmpty)
        isKeyGood = true
        try bench.pass(.minutes(6))
        #expect(bench.appleStore.accepted.count == 20)
        #expect((bench.instances[0]?.apple.reloads.count ?? 0) >= 14)
    }

    @Test(arguments: [301, 403, 404, 405])
    func `stop for a wrong address or role, and write no dead letter`(status: Int) throws {
        let bench = ReportBench()
        var isRight = false
        bench.script = { _ in isRight ? .answered : .status(status) }
        bench.launch()
        due(5, on: bench)
        try bench.pass(.hours(1))
        #expect(bench.deadLetters().isEmpty)
        isRight = true
        try bench.pass(.minutes(6))
        #expect(bench.appleStore.accepted.count == 5)
    }

    /// They are the most urgent ones, so they would be each probe as well.
    @Test(arguments: [(403, 1), (404, 1), (403, 2), (403, 5)])
    func `go on beside requests that are answered as a wrong address is`(
        status: Int,
        count: Int
    ) throws {
        let bench = ReportBench()
        bench.rate = 1
        var isRight = false
        var first: Set<String> = []
        bench.script = { call in
            if first.count < count {
                first.insert(call.externalPurchaseID)
            }
            return first.contains(call.externalPurchaseID) && !isRight ? .status(status) : .answered
        }
        bench.launch()
        due(20, on: bench)
        // A probe for each of them, after 5 s, 10, 20 and so on, and then the others, one a second.
        try bench.pass(.seconds(5 * ((1 << Int64(count)) - 1) + 30))
        #expect(bench.appleStore.accepted.count == 20 - count)
        try bench.pass(.hours(1))
        #expect(bench.appleStore.accepted.count == 20 - count)
        #expect(bench.deadLetters().isEmpty)
        isRight = true
        try bench.pass(.minutes(11))
        #expect(bench.appleStore.accepted.count == 20)
    }

    /// Somebody has given the key its role, and says so.
    @Test func `are probed at once where they are read again, with their only report too`() throws {
        let bench = ReportBench()
        var isRight = false
        bench.script = { _ in isRight ? .answered : .status(403) }
        let instance = bench.launch()
        due(1, on: bench)
        try bench.pass(.hours(1))
        isRight = true
        instance.stage.sender.reload()
        try bench.pass(.seconds(2))
        #expect(bench.appleStore.accepted.count == 1)
    }

    @Test func `ride out an outage of hours without a loss`() throws {
        let bench = ReportBench()
        bench.rate = 5
        let end = ReportBench.start + .hours(3)
        bench.script = { call in call.at < end ? .status(500) : .answered }
        bench.launch()
        due(30, on: bench)
        try bench.pass(.hours(3))
        try bench.pass(.minutes(30))
        #expect(bench.appleStore.accepted.count == 30)
        #expect(bench.deadLetters().isEmpty)
    }

    @Test func `keep their room where others are left without answers`() throws {
        let bench = ReportBench()
        bench.rate = 50
        bench.script = { $0.lane.environment == .sandbox ? .silence : .answered }
        bench.launch()
        for number in 0..<600 {
            bench.distinct(
                bench.id(number, sandbox: true),
                .duplicate(of: bench.id(9_999)),
                app: Int64(1 + number % 20)
            )
        }
        try bench.pass(.seconds(30))
        let stage = try #require(bench.instances[0]?.stage)
        // Less than all, so that the other host has room; more than one queue's.
        #expect(stage.sender.flights.count == stage.limits.hostFlightCountMax)
        due(100, on: bench)
        try bench.pass(.seconds(4))
        #expect(bench.appleStore.accepted.count == 100)
    }

    @Test func `have their turn, each of them, where one host has room for a few`() throws {
        let bench = ReportBench()
        bench.latency = .seconds(1)
        bench.launch()
        let apps: ClosedRange<Int64> = 1...12
        for number in 0..<400 {
            for app in apps {
                let id = bench.id(number * 100 + Int(app))
                bench.distinct(id, .duplicate(of: bench.id(99_999)), app: app)
            }
        }
        try bench.pass(.seconds(5))
        let calls = try #require(bench.instances[0]?.apple.calls)
        for app in apps {
            #expect(calls.count { $0.lane.appAppleID == app } > 40, "\(app)")
        }
    }

    @Test func `have a limit each, whatever they have to send`() throws {
        let bench = ReportBench()
        bench.rate = 50
        bench.script = { $0.lane.appAppleID == 1 ? .silence : .answered }
        bench.launch()
        due(100, apps: [1, 2], on: bench)
        try bench.pass(.seconds(5))
        let stage = try #require(bench.instances[0]?.stage)
        #expect(stage.sender.flights.count == stage.limits.flightCountMax)
        #expect(bench.appleStore.accepted.count == 100)
    }

    @Test func `send what Apple waits for before what has time`() throws {
        let bench = ReportBench(partitionCount: 1)
        bench.rate = 1
        bench.launch()
        for number in 0..<30 {
            bench.distinct(bench.id(number), .duplicate(of: bench.id(99)))
        }
        try bench.pass(.seconds(5))
        bench.notice(bench.id(29))
        try bench.pass(.seconds(3))
        let calls = try #require(bench.instances[0]?.apple.calls)
        let place = try #require(calls.firstIndex { $0.externalPurchaseID == bench.id(29).text })
        #expect((5...7).contains(place), "\(place)")
    }

    @Test func `send nothing for partitions that are gone`() throws {
        let bench = ReportBench()
        bench.rate = 10
        bench.launch(0)
        due(100, on: bench)
        try bench.pass(.seconds(2))
        let first = try #require(bench.instances[0])
        let before = first.apple.calls.count
        first.stage.revoked([0, 1, 2])
        bench.clock.now = bench.clock.now + .minutes(1)
        #expect(first.stage.nextTick == nil)
        #expect(first.stage.sender.flights.isEmpty && first.stage.sender.busy.isEmpty)
        #expect(first.apple.calls.count == before)
    }
}
