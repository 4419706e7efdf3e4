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

@Suite struct `The pace of a lane` {
    static let start = Timestamp(milliseconds: 1_768_003_200_000)

    /// Sends as fast as the pace allows, in a loop that wakes every millisecond.
    static func sent(_ pace: inout Pace, seconds: Int64, from start: Timestamp) -> Int {
        var count = 0
        for millisecond in 0..<seconds * 1_000 {
            let now = start + Milliseconds(millisecond)
            while pace.take(now: now) {
                count += 1
            }
        }
        return count
    }

    @Test(arguments: [(5.0, 1.0), (5, 0.25), (50, 1), (1_000, 1), (1_500, 0.5), (4_000, 1)])
    func `is the rate times the share`(rate: Double, share: Double) {
        var pace = Pace(rate: rate, share: share)
        let count = Double(Self.sent(&pace, seconds: 20, from: Self.start))
        let expected = rate * share * 20
        #expect(count >= expected * 0.98 && count <= expected * 1.02 + 1)
    }

    @Test func `has a burst of one, however long it rested`() {
        var pace = Pace(rate: 5)
        expect(pace.take(now: Self.start), true)
        let later = Self.start + .hours(1)
        expect(pace.take(now: later), true)
        expect(pace.take(now: later), false)
        #expect(pace.nextTurn(now: later) == later + Milliseconds(200))
        expect(pace.take(now: later + Milliseconds(200)), true)
    }

    @Test func `is nothing without a share`() {
        var pace = Pace(rate: 5, share: 0)
        expect(pace.take(now: Self.start), true)
        expect(pace.take(now: Self.start + .hours(1)), false)
        #expect(pace.nextTurn(now: Self.start + .hours(1)) == nil)
    }

    @Test func `gives way once to many answers of one moment, and comes back slowly`() {
        var pace = Pace(rate: 100)
        _ = pace.take(now: Self.start)
        let now = Self.start + .seconds(1)
        for _ in 0..<10 {
            pace.rateLimited(sentAt: Self.start, now: now)
        }
        #expect(abs(pace.requestsPerSecond - 90) < 0.01)
        #expect(pace.nextTurn(now: now + .seconds(25)) == now + .seconds(25))
        _ = pace.take(now: now + .seconds(25))
        #expect(abs(pace.requestsPerSecond - 95) < 0.1)
        _ = pace.take(now: now + .hours(1))
        #expect(pace.requestsPerSecond == 100)
    }

    @Test func `never stops for good`() {
        var pace = Pace(rate: 5)
        for second in 0..<1_000 {
            let now = Self.start + Milliseconds(Int64(second))
            pace.rateLimited(sentAt: now, now: now)
        }
        #expect(pace.requestsPerSecond >= 5 * Pace.factorMin)
    }

    @Test func `survives a clock that goes back`() {
        var pace = Pace(rate: 5)
        expect(pace.take(now: Self.start), true)
        expect(pace.take(now: Self.start + .hours(-1)), false)
        expect(pace.take(now: Self.start + .hours(-1) + Milliseconds(200)), true)
    }
}

@Suite struct `The gate of a lane` {
    static let now = Timestamp(milliseconds: 1_768_003_200_000)
    static let retryAt = now + .seconds(2)

    @Test func `signs again once, then stops, then probes at doubling intervals`() {
        var gate = LaneGate()
        let bad = LaneGate.Word.trouble(.unauthorized, until: nil)
        gate.started(now: Self.now)
        expect(gate.heard(bad, retryAt: Self.retryAt, now: Self.now), .resigning)
        #expect(gate.opensAt(now: Self.now) == Self.now)
        // What was on its way says nothing new.
        expect(gate.heard(bad, retryAt: Self.retryAt, now: Self.now), nil)
        gate.started(now: Self.now)
        #expect(gate.opensAt(now: Self.now) == nil)
        var time = Self.now
        expect(gate.heard(bad, retryAt: Self.retryAt, now: time), .stopped(.unauthorized))
        for seconds: Int64 in [5, 10, 20, 40, 80, 160, 300, 300] {
            #expect(gate.opensAt(now: time) == time + .seconds(seconds))
            time = time + .seconds(seconds)
            gate.started(now: time)
            expect(gate.heard(bad, retryAt: Self.retryAt, now: time), nil)
        }
        time = time + .minutes(5)
        gate.started(now: time)
        expect(gate.heard(.fine, retryAt: Self.retryAt, now: time), .reopened)
        #expect(gate.state == .open)
    }

    @Test func `opens again after one bad signature`() {
        var gate = LaneGate()
        gate.started(now: Self.now)
        _ = gate.heard(.trouble(.unauthorized, until: nil), retryAt: Self.retryAt, now: Self.now)
        gate.started(now: Self.now)
        expect(gate.heard(.fine, retryAt: Self.retryAt, now: Self.now), nil)
        #expect(gate.state == .open)
    }

    @Test func `holds for 429 until Apple's time, or until ours`() {
        var gate = LaneGate()
        let until = Self.now + .minutes(30)
        expect(
            gate.heard(.trouble(.rateLimited, until: until), retryAt: Self.retryAt, now: Self.now),
            .held(until: until)
        )
        expect(
            gate.heard(.trouble(.rateLimited, until: nil), retryAt: Self.retryAt, now: Self.now),
            nil
        )
        // A 200 that was on its way does not end it.
        expect(gate.heard(.fine, retryAt: Self.retryAt, now: Self.now), nil)
        #expect(gate.opensAt(now: Self.now) == until)
        gate.started(now: until)
        #expect(gate.state == .open)
        _ = gate.heard(.trouble(.rateLimited, until: nil), retryAt: Self.retryAt, now: Self.now)
        #expect(gate.opensAt(now: Self.now) == Self.retryAt)
    }

    @Test func `stops at once for a redirect and probes again after a probe without answer`() {
        var gate = LaneGate()
        let lost = LaneGate.Word.trouble(.misdirected, until: nil)
        expect(gate.heard(lost, retryAt: Self.retryAt, now: Self.now), .stopped(.misdirected))
        let probe = Self.now + .seconds(5)
        #expect(gate.opensAt(now: Self.now) == probe && gate.isProbe)
        gate.started(now: probe)
        expect(gate.heard(.inconclusive, retryAt: Self.retryAt, now: probe), nil)
        #expect(gate.opensAt(now: probe) == probe + .seconds(5))
        gate.started(now: probe + .seconds(5))
        gate.forgotProbe(now: probe + .seconds(6))
        #expect(gate.opensAt(now: probe) == probe + .seconds(6))
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
