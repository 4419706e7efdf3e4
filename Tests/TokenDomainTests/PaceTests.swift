import Foundation
import Testing
import TokenDomain

@Suite struct `Waiting before the next try` {
    @Test func `doubles up to the cap`() {
        let backoff = Backoff(base: .seconds(1), cap: .seconds(10))
        #expect(
            [0, 1, 2, 3, 4, 5, 1_000].map { backoff.ceiling(failureCount: $0).count }
                == [1_000, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000]
        )
    }

    @Test func `takes any wait up to the ceiling, and the same from the same seed`() {
        let backoff = Backoff(base: .seconds(1), cap: .seconds(10))
        var generator = SeededGenerator(seed: 7)
        var again = SeededGenerator(seed: 7)
        var waits: [Int64] = []
        for _ in 0..<2_000 {
            let wait = backoff.delay(failureCount: 3, using: &generator)
            #expect(wait == backoff.delay(failureCount: 3, using: &again))
            waits.append(wait.count)
        }
        #expect(waits.allSatisfy { (1...4_000).contains($0) })
        #expect(waits.contains { $0 < 200 } && waits.contains { $0 > 3_800 })
    }
}

@Suite struct `A budget of early retries` {
    @Test func `is spent by twenty failures, and earned again by what Apple takes`() {
        var budget = RetryBudget()
        for _ in 0..<20 {
            #expect(budget.failureCount(1) == 1)
            budget.failed()
        }
        #expect(budget.failureCount(1) == RetryBudget.failureCountSpent)
        #expect(budget.failureCount(9) == 9)
        // One for every five requests that Apple took; a failure too many is no debt.
        budget.failed()
        for _ in 0..<5 {
            #expect(budget.failureCount(2) == RetryBudget.failureCountSpent)
            budget.accepted()
        }
        #expect(budget.failureCount(2) == 2)
    }

    @Test func `saves up no more than it began with`() {
        var budget = RetryBudget()
        for _ in 0..<1_000 {
            budget.accepted()
        }
        for _ in 0..<20 {
            budget.failed()
        }
        #expect(budget.failureCount(1) == RetryBudget.failureCountSpent)
    }
}

@Suite struct `The pace of a lane` {
    static let start = Timestamp(milliseconds: 1_768_003_200_000)

    /// A pace that owns the first so many partitions of twelve.
    static func pace(
        rate: Double,
        partitions: Int32 = 12,
        keeping: Pace.Keeping = .second
    ) -> Pace {
        var pace = Pace(rate: rate, keeping: keeping)
        pace.share(Array(0..<partitions), of: 12)
        return pace
    }

    /// Sends as fast as the pace allows, in a loop that wakes every millisecond.
    static func sent(
        _ pace: inout Pace,
        milliseconds: Int64,
        step: Int64 = 1,
        from start: Timestamp
    ) -> Int {
        var count = 0
        for millisecond in stride(from: 0, to: milliseconds, by: Int64.Stride(step)) {
            while pace.take(now: start + Milliseconds(millisecond)) {
                count += 1
            }
        }
        return count
    }

    @Test(
        arguments: [(5.0, 12), (5, 3), (50, 12), (1_000, 12), (1_000, 5), (0.5, 12)]
            as [(Double, Int32)]
    )
    func `is the rate times the share`(rate: Double, partitions: Int32) {
        var pace = Self.pace(rate: rate, partitions: partitions)
        let count = Double(Self.sent(&pace, milliseconds: 60_000, from: Self.start))
        let expected = rate * Double(partitions) / 12 * 60
        #expect(abs(count - expected) <= expected * 0.02 + 1, "\(count) of \(expected)")
    }

    @Test(arguments: [1, 3, 5, 7, 20, 40] as [Double])
    func `puts as many into each second as the rate says`(rate: Double) {
        var paces = [Int32(0), 4, 8].map { first in
            var pace = Pace(rate: rate)
            pace.share(Array(first..<first + 4), of: 12)
            return pace
        }
        for second: Int64 in 0..<8 {
            var count = 0
            for index in paces.indices {
                let from = Self.start + .seconds(second)
                count += Self.sent(&paces[index], milliseconds: 1_000, from: from)
            }
            // At its start each replica may take up the slot before.
            #expect(count == Int(rate) || second == 0)
        }
    }

    @Test(arguments: [0.5, 5, 20, 1_000])
    func `has a burst of one, however long it rested`(rate: Double) {
        var pace = Self.pace(rate: rate)
        _ = Self.sent(&pace, milliseconds: 1_000, from: Self.start)
        let later = Self.start + .hours(1)
        #expect(Self.sent(&pace, milliseconds: 1, from: later) == 1)
        #expect(pace.nextTurn(now: later).map { $0 > later } == true)
    }

    @Test func `catches up after a stall of the loop, and not after a hold`() {
        var pace = Self.pace(rate: 20)
        _ = Self.sent(&pace, milliseconds: 1_000, from: Self.start)
        let stalled = Self.start + .seconds(1) + Milliseconds(150)
        #expect(Self.sent(&pace, milliseconds: 1, from: stalled) == 3)
        let held = stalled + .seconds(1)
        pace.rested(until: held)
        #expect(Self.sent(&pace, milliseconds: 1, from: held) == 0)
    }

    @Test func `is nothing without a share`() {
        var pace = Pace(rate: 5)
        #expect(Self.sent(&pace, milliseconds: 5_000, from: Self.start) == 0)
        #expect(pace.nextTurn(now: Self.start) == nil)
        pace.share([], of: 12)
        #expect(pace.nextTurn(now: Self.start) == nil)
        #expect(pace.requestsPerSecond(now: Self.start) == 0)
    }

    @Test func `tells its next turn truly`() throws {
        for keeping in [Pace.Keeping.second, .hour] {
            var pace = Self.pace(rate: 7, partitions: 5, keeping: keeping)
            var now = Self.start
            var count = 0
            while now < Self.start + .minutes(5) {
                let next = try #require(pace.nextTurn(now: now))
                if next > now {
                    expect(pace.take(now: now), false)
                }
                now = max(next, now + Milliseconds(1))
                while pace.take(now: now) {
                    count += 1
                }
            }
            #expect((860...880).contains(count), "\(count)")
        }
    }

    @Test func `gives way once to many answers of one moment, and finds its way back`() {
        var pace = Self.pace(rate: 100)
        let now = Self.start + .seconds(1)
        for _ in 0..<10 {
            pace.rateLimited(sentAt: Self.start, now: now)
        }
        #expect(abs(pace.factor(now: now) - 0.95) < 0.001)
        for _ in 0..<200 {
            pace.accepted()
        }
        #expect((0.98...0.999).contains(pace.factor(now: now)))
        #expect(abs(pace.factor(now: now + .seconds(200)) - 1) < 0.001)
        #expect(pace.factor(now: now + .hours(1)) == 1)
    }

    @Test func `gives way further to a 429 that follows at once, and never stops for good`() {
        var pace = Self.pace(rate: 5)
        var factors: [Double] = []
        for second: Int64 in 0..<100 {
            let now = Self.start + .seconds(second)
            pace.rateLimited(sentAt: now, now: now)
            factors.append(pace.factor(now: now))
        }
        #expect(factors[0] > 0.94 && factors[1] < 0.82 && factors[4] < 0.52)
        #expect(factors.allSatisfy { $0 >= Pace.factorMin })
        // A rate that was nearly given up is back within an hour or so.
        #expect(pace.factor(now: Self.start + .minutes(70)) == 1)
    }

    @Test func `survives a clock that goes back, and one that leaps`() {
        for keeping in [Pace.Keeping.second, .hour] {
            var pace = Self.pace(rate: 5, keeping: keeping)
            _ = Self.sent(&pace, milliseconds: 2_000, from: Self.start)
            pace.rateLimited(sentAt: Self.start, now: Self.start + .seconds(2))
            for hours: Int64 in [-1, 24 * 365, -24 * 365] {
                let now = Self.start + .hours(hours)
                let count = Self.sent(&pace, milliseconds: 10_000, from: now)
                #expect((45...52).contains(count), "\(count) after \(hours) h")
            }
        }
    }
}

/// Goal: an app's replicas use at least 95 % of what Apple allows, and Apple refuses fewer than 1 %.
///
/// Method: a loop that wakes late, answers that take their time, and Apple's limit by fixed windows.
@Suite struct `The pace of all replicas` {
    struct World {
        var rate = 5.0
        /// What Apple allows a second, counted over windows.
        var limit = 5.0
        var window = Milliseconds.seconds(1)
        var replicaCount = 1
        var keeping = Pace.Keeping.second
        var minutes: Int64 = 10
    }

    private struct Replica {
        var pace: Pace
        var heldUntil = Timestamp(milliseconds: 0)
        var wakesAt: Timestamp
        /// When each answer comes, and Apple's word.
        var answers: [(at: Timestamp, sentAt: Timestamp, retryAt: Timestamp?)] = []
    }

    static func run(_ world: World, seed: UInt64) -> (used: Double, refused: Double) {
        var generator = SeededGenerator(seed: seed)
        let start =
            Timestamp(milliseconds: 1_768_003_200_000)
            + Milliseconds(Int64.random(in: 0..<3_600_000, using: &generator))
        let part = Int32(12 / world.replicaCount)
        var replicas = (0..<Int32(world.replicaCount)).map { number in
            var pace = Pace(rate: world.rate, keeping: world.keeping)
            pace.share(Array(number * part..<(number + 1) * part), of: 12)
            return Replica(pace: pace, wakesAt: start + Milliseconds(Int64(number) * 37))
        }
        var windows: [Int64: Int] = [:]
        let allowance = Int(world.limit * Double(world.window.count) / 1_000)
        var acceptedCount = 0
        var refusedCount = 0
        var now = start
        while now < start + .minutes(world.minutes) {
            for index in replicas.indices {
                for answer in replicas[index].answers where answer.at <= now {
                    if let retryAt = answer.retryAt {
                        replicas[index].pace.rateLimited(sentAt: answer.sentAt, now: now)
                        replicas[index].heldUntil = max(replicas[index].heldUntil, retryAt)
                    } else {
                        replicas[index].pace.accepted()
                    }
                }
                replicas[index].answers.removeAll { $0.at <= now }
                guard replicas[index].wakesAt <= now else {
                    continue
                }
                if replicas[index].heldUntil <= now {
                    replicas[index].pace.rested(until: replicas[index].heldUntil)
                    while replicas[index].pace.take(now: now) {
                        let window = now.milliseconds / world.window.count
                        let isAllowed = windows[window, default: 0] < allowance
                        windows[window, default: 0] += isAllowed ? 1 : 0
                        acceptedCount += isAllowed ? 1 : 0
                        refusedCount += isAllowed ? 0 : 1
                        let end = Timestamp(milliseconds: (window + 1) * world.window.count)
                        let wait = Milliseconds(Int64.random(in: 3...40, using: &generator))
                        replicas[index].answers.append((now + wait, now, isAllowed ? nil : end))
                    }
                }
                let next = replicas[index].pace.nextTurn(now: now + Milliseconds(1)) ?? now
                var late = Int64.random(in: 0...8, using: &generator)
                if Int.random(in: 0..<100, using: &generator) == 0 {
                    late += Int64.random(in: 20...250, using: &generator)
                }
                replicas[index].wakesAt =
                    max(next, replicas[index].heldUntil, now + Milliseconds(1)) + Milliseconds(late)
            }
            now = replicas.flatMap { [$0.wakesAt] + $0.answers.map(\.at) }.min() ?? now
        }
        return (
            Double(acceptedCount) / (world.limit * Double(world.minutes) * 60),
            Double(refusedCount) / Double(max(acceptedCount + refusedCount, 1))
        )
    }

    static let worlds: [World] =
        [1, 3].flatMap { count in
            [2.0, 5, 20].flatMap { limit in
                [Milliseconds.seconds(1), .minutes(1)].map { window in
                    World(rate: limit, limit: limit, window: window, replicaCount: count)
                }
            } + [
                // Apple allows less than we think, by the hour and by the second.
                World(
                    rate: 8,
                    limit: 5,
                    window: .hours(1),
                    replicaCount: count,
                    minutes: 120
                ),
                // Account tokens, backlogged: at the limit of the hour and never above.
                World(
                    rate: 20,
                    limit: 20,
                    window: .hours(1),
                    replicaCount: count,
                    keeping: .hour,
                    minutes: 75
                ),
            ]
        } + [World(rate: 5, limit: 3)]

    @Test(arguments: worlds)
    func `uses what is allowed and is seldom refused`(world: World) {
        for seed: UInt64 in 0..<2 {
            let (used, refused) = Self.run(world, seed: seed)
            #expect(used >= 0.95, "seed \(seed)")
            #expect(refused < 0.01, "seed \(seed)")
        }
    }
}

@Suite struct `A pace kept by the hour` {
    static let hour = Timestamp(milliseconds: 1_768_003_200_000)

    @Test func `catches up what the hour left, at three times the rate`() {
        var pace = `The pace of a lane`.pace(rate: 20, keeping: .hour)
        func sent(_ milliseconds: Int64, from time: Timestamp) -> Int {
            `The pace of a lane`.sent(&pace, milliseconds: milliseconds, from: time)
        }
        #expect((19...21).contains(sent(1_000, from: Self.hour)))
        // Nothing for ten minutes: 12 000 of this hour are left.
        let later = Self.hour + .minutes(10)
        #expect((590...612).contains(sent(10_000, from: later)))
        // The next hour begins anew.
        let next = Self.hour + .hours(1)
        #expect((195...202).contains(sent(10_000, from: next)))
    }

    @Test func `never sends more in an hour of the clock than the hour has`() {
        var pace = `The pace of a lane`.pace(rate: 2, keeping: .hour)
        var generator = SeededGenerator(seed: 5)
        var time = Self.hour + .minutes(13)
        var counts: [Int64: Int] = [:]
        while time < Self.hour + .hours(5) {
            // Busy for minutes, idle for minutes.
            let busy = Int64.random(in: 1...900, using: &generator)
            for second in 0..<busy {
                let now = time + .seconds(second)
                let sent = `The pace of a lane`.sent(
                    &pace,
                    milliseconds: 1_000,
                    step: 20,
                    from: now
                )
                counts[now.milliseconds / 3_600_000, default: 0] += sent
            }
            time = time + .seconds(busy + Int64.random(in: 0...900, using: &generator))
        }
        #expect(counts.values.allSatisfy { $0 <= 7_200 }, "\(counts)")
        #expect(counts.values.contains { $0 > 5_000 })
    }
}

@Suite struct `The gate of a lane` {
    static let now = Timestamp(milliseconds: 1_768_003_200_000)
    static let retryAt = now + .seconds(2)

    /// Hears the answer to the probe, if one is under way.
    static func hear(
        _ word: LaneGate.Word,
        _ gate: inout LaneGate,
        isProbe: Bool = true,
        at time: Timestamp = now
    ) -> LaneGate.Change? {
        gate.heard(word, isProbe: isProbe, retryAt: retryAt, now: time)
    }

    @Test func `signs again once, then stops, then probes at doubling intervals`() {
        var gate = LaneGate()
        let bad = LaneGate.Word.trouble(.unauthorized, until: nil)
        gate.started(now: Self.now)
        expect(Self.hear(bad, &gate), .resigning)
        #expect(gate.opensAt(now: Self.now) == Self.now)
        // What was on its way says nothing new.
        expect(Self.hear(bad, &gate), nil)
        gate.started(now: Self.now)
        #expect(gate.opensAt(now: Self.now) == nil)
        var time = Self.now
        expect(Self.hear(bad, &gate, at: time), .stopped(.unauthorized))
        for seconds: Int64 in [5, 10, 20, 40, 80, 160, 300, 300] {
            #expect(gate.opensAt(now: time) == time + .seconds(seconds))
            time = time + .seconds(seconds)
            gate.started(now: time)
            expect(Self.hear(bad, &gate, at: time), nil)
        }
        time = time + .minutes(5)
        gate.started(now: time)
        expect(Self.hear(.fine, &gate, at: time), .reopened)
        #expect(gate.state == .open)
    }

    @Test func `opens again after one bad signature`() {
        var gate = LaneGate()
        gate.started(now: Self.now)
        _ = Self.hear(.trouble(.unauthorized, until: nil), &gate)
        gate.started(now: Self.now)
        expect(Self.hear(.fine, &gate), nil)
        #expect(gate.state == .open)
    }

    @Test func `holds for 429 until Apple's time, or until ours`() {
        var gate = LaneGate()
        let until = Self.now + .minutes(30)
        expect(
            Self.hear(.trouble(.rateLimited, until: until), &gate),
            .held(until: until)
        )
        expect(
            Self.hear(.trouble(.rateLimited, until: nil), &gate),
            nil
        )
        // A 200 that was on its way does not end it.
        expect(Self.hear(.fine, &gate), nil)
        #expect(gate.opensAt(now: Self.now) == until)
        gate.started(now: until)
        #expect(gate.state == .open)
        _ = Self.hear(.trouble(.rateLimited, until: nil), &gate)
        #expect(gate.opensAt(now: Self.now) == Self.retryAt)
    }

    @Test func `stops at once for a redirect and probes again after a probe without answer`() {
        var gate = LaneGate()
        let lost = LaneGate.Word.trouble(.misdirected, until: nil)
        expect(Self.hear(lost, &gate), .stopped(.misdirected))
        let probe = Self.now + .seconds(5)
        #expect(gate.opensAt(now: Self.now) == probe && gate.isProbe)
        gate.started(now: probe)
        expect(Self.hear(.inconclusive, &gate, at: probe), nil)
        #expect(gate.opensAt(now: probe) == probe + .seconds(5))
        gate.started(now: probe + .seconds(5))
        gate.forgotProbe(now: probe + .seconds(6))
        let later = probe + .seconds(6)
        #expect(gate.opensAt(now: later) == later)
    }

    @Test func `listens to its probe alone while it is stopped`() {
        var gate = LaneGate()
        let bad = LaneGate.Word.trouble(.unauthorized, until: nil)
        gate.started(now: Self.now)
        gate.started(now: Self.now)
        expect(Self.hear(bad, &gate, isProbe: false), .resigning)
        // Sent before the key went bad, answered after.
        expect(Self.hear(.fine, &gate, isProbe: false), nil)
        #expect(gate.isProbe)
        gate.started(now: Self.now)
        expect(Self.hear(.fine, &gate, isProbe: false), nil)
        expect(Self.hear(bad, &gate, isProbe: false), nil)
        #expect(gate.opensAt(now: Self.now) == nil)
        expect(Self.hear(bad, &gate), .stopped(.unauthorized))
    }

    @Test func `waits no longer for a clock that was set back`() {
        let before = Self.now + .days(-1)
        var held = LaneGate()
        _ = Self.hear(.trouble(.rateLimited, until: Self.now + .minutes(60)), &held)
        #expect(held.opensAt(now: before) == before)
        held.started(now: before)
        _ = Self.hear(.trouble(.rateLimited, until: before + .seconds(9)), &held, at: before)
        #expect(held.opensAt(now: before) == before + .seconds(9))
        var stopped = LaneGate()
        _ = Self.hear(.trouble(.misdirected, until: nil), &stopped)
        #expect(stopped.opensAt(now: before) == before)
        stopped.started(now: before)
        _ = Self.hear(.trouble(.misdirected, until: nil), &stopped, at: before)
        #expect(stopped.opensAt(now: before) == before + .seconds(10))
    }

    @Test func `is probed at its next turn once something changed on our side`() {
        var gate = LaneGate()
        gate.probeSoon()
        #expect(gate.state == .open)
        _ = Self.hear(.trouble(.noKey, until: nil), &gate)
        gate.probeSoon()
        #expect(gate.opensAt(now: Self.now) == Self.now && gate.isProbe)
        gate.started(now: Self.now)
        expect(Self.hear(.fine, &gate), .reopened)
    }
}

@Suite struct `Calendar months` {
    @Test func `agree with Foundation's calendar`() throws {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = try #require(TimeZone(secondsFromGMT: 0))
        var generator = SeededGenerator(seed: 1)
        for _ in 0..<2_000 {
            let milliseconds = Int64.random(in: 0...4_102_444_800_000, using: &generator)
            let date = Date(timeIntervalSince1970: Double(milliseconds) / 1_000)
            let parts = calendar.dateComponents([.year, .month], from: date)
            let month = CalendarMonth(of: Timestamp(milliseconds: milliseconds))
            let year = try #require(parts.year)
            let monthOfYear = try #require(parts.month)
            #expect(month.number == Int64(year * 12 + monthOfYear - 1))
            let start = try #require(calendar.date(from: parts))
            #expect(month.start.milliseconds == Int64(start.timeIntervalSince1970 * 1_000))
        }
    }
}
