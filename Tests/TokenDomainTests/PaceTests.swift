import Testing
import TokenDomain

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
        for second: Int64 in 0..<24 {
            var count = 0
            for index in paces.indices {
                let from = Self.start + .seconds(second)
                count += Self.sent(&paces[index], milliseconds: 1_000, from: from)
            }
            // At first each replica uses its next slot early, which may lie in a later second.
            #expect(second < 12 ? count <= Int(rate) + 2 : count == Int(rate))
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
        let stalled = Self.start + .seconds(1) + Milliseconds(90)
        #expect(Self.sent(&pace, milliseconds: 1, from: stalled) == 2)
        let held = stalled + .seconds(1)
        Self.refuse(&pace, until: held, now: stalled + Milliseconds(1))
        #expect(pace.holdEnd(now: stalled + Milliseconds(1)) == held)
        #expect(pace.nextTurn(now: stalled + Milliseconds(1)) == held)
        #expect(Self.sent(&pace, milliseconds: 40, from: held) == 1)
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

    /// A 429 to a request sent at `sentAt`, or just now.
    @discardableResult
    static func refuse(
        _ pace: inout Pace,
        sentAt: Timestamp? = nil,
        until: Timestamp? = nil,
        now: Timestamp
    ) -> Bool {
        var generator = SeededGenerator(seed: 1)
        return pace.rateLimited(
            sentAt: sentAt ?? now,
            until: until,
            now: now,
            using: &generator
        )
    }

    @Test func `takes answers to requests sent before a hold for the same refusal`() {
        var pace = Self.pace(rate: 1_000)
        let now = Self.start + .seconds(10)
        for number: Int64 in 0..<100 {
            pace.accepted(sentAt: Self.start + .seconds(9), now: now + Milliseconds(number - 100))
        }
        expect(Self.refuse(&pace, sentAt: now + Milliseconds(-5), now: now), true)
        let rate = pace.rateFound(now: now)
        // What Apple took, for so many were sent in a burst; a quarter at least.
        #expect((230...240).contains(rate), "\(rate)")
        let end = pace.holdEnd(now: now)
        for number: Int64 in 0..<31 {
            let later = now + Milliseconds(number)
            expect(Self.refuse(&pace, sentAt: now + Milliseconds(-4), now: later), false)
        }
        #expect(pace.holdEnd(now: now) == end)
        #expect(end.map { (Milliseconds(500)...Milliseconds(1_000)).contains($0 - now) } == true)
        #expect(pace.rateFound(now: now) == rate)
        // At most to its own time.
        let said = now + .seconds(9)
        expect(Self.refuse(&pace, sentAt: now, until: said, now: now + Milliseconds(40)), false)
        expect(Self.refuse(&pace, sentAt: now, until: now, now: now + Milliseconds(41)), false)
        #expect(pace.holdEnd(now: now + Milliseconds(50)) == said)
        #expect(pace.holdEnd(now: said) == nil)
    }

    @Test func `holds twice as long for each refusal in a row, up to a minute`() throws {
        var pace = Self.pace(rate: 1_000)
        var now = Self.start
        for seconds: Int64 in [1, 2, 4, 8, 16, 32, 60, 60] {
            expect(Self.refuse(&pace, now: now), true)
            let end = try #require(pace.holdEnd(now: now))
            let span = (end - now).count
            #expect((seconds * 500...seconds * 1_000).contains(span), "\(span)")
            // Nothing was taken: it is not the rate.
            #expect(pace.rateFound(now: now) == 1_000)
            now = end
        }
        pace.accepted(sentAt: now + Milliseconds(-90_000), now: now)
        pace.accepted(sentAt: now, now: now + Milliseconds(20))
        expect(Self.refuse(&pace, now: now + Milliseconds(30)), true)
        let span = try #require(pace.holdEnd(now: now + Milliseconds(30))) - now
        #expect(span <= Milliseconds(1_030))
    }

    @Test func `counts the time it is held from the first refusal to the next 200`() {
        var pace = Self.pace(rate: 20)
        #expect(pace.heldTime(isWaiting: true, now: Self.start) == Milliseconds(0))
        Self.refuse(&pace, until: Self.start + .seconds(10), now: Self.start)
        let second = Self.start + .seconds(11)
        // Between two holds a request is on its way.
        #expect(pace.heldTime(isWaiting: true, now: second) == .seconds(11))
        Self.refuse(&pace, until: second + .minutes(20), now: second)
        #expect(pace.heldTime(isWaiting: false, now: second + .minutes(19)) == .seconds(1_151))
        // An answer to what was sent before the hold says nothing.
        pace.accepted(sentAt: Self.start, now: second + .seconds(1))
        #expect(pace.heldTime(isWaiting: true, now: second + .seconds(1)) == .seconds(12))
        pace.clockWasSetBack(by: .seconds(5))
        #expect(pace.heldTime(isWaiting: true, now: second) == .seconds(16))
        pace.accepted(sentAt: second + .minutes(21), now: second + .minutes(21))
        #expect(pace.heldTime(isWaiting: true, now: second + .minutes(21)) == Milliseconds(0))
    }

    @Test func `forgets holds and what it found when it is reset`() {
        var pace = Self.pace(rate: 20)
        pace.accepted(sentAt: Self.start, now: Self.start)
        let now = Self.start + .seconds(1)
        Self.refuse(&pace, until: now + .hours(1), now: now)
        #expect(pace.rateFound(now: now) < 20)
        let later = now + .seconds(1)
        pace.reset(now: later)
        #expect(pace.rateFound(now: later) == 20 && pace.holdEnd(now: later) == nil)
        #expect(pace.heldTime(isWaiting: true, now: later) == Milliseconds(0))
        #expect(pace.nextTurn(now: later) == later)
        // What was sent before is no news.
        expect(Self.refuse(&pace, sentAt: now, now: later + Milliseconds(5)), false)
        expect(Self.refuse(&pace, sentAt: later + .seconds(1), now: later + .seconds(2)), true)
    }

    @Test func `is open after a hold where nothing waits, and stays so when something does again`()
    {
        var pace = Self.pace(rate: 20)
        Self.refuse(&pace, until: Self.start + .seconds(10), now: Self.start)
        let later = Self.start + .seconds(11)
        #expect(pace.heldTime(isWaiting: false, now: later) == Milliseconds(0))
        #expect(pace.heldTime(isWaiting: true, now: later + .hours(3)) == Milliseconds(0))
    }

    @Test func `gives way by a twentieth where it was right for long, and comes back`() {
        var pace = Self.pace(rate: 100)
        let now = Self.start + .seconds(10)
        for number: Int64 in 0..<200 {
            let sentAt = now + Milliseconds(10 * number - 2_000)
            pace.accepted(sentAt: sentAt, now: sentAt + Milliseconds(20))
        }
        Self.refuse(&pace, until: now + Milliseconds(20), now: now + Milliseconds(20))
        #expect((92...96).contains(pace.rateFound(now: now + Milliseconds(20))))
        #expect(pace.rateFound(now: now + .seconds(3)) > 98)
        #expect(pace.rateFound(now: now + .seconds(8)) == 100)
    }

    @Test func `keeps what is left of a hold when the clock is set back`() {
        var pace = Self.pace(rate: 100)
        Self.refuse(&pace, until: Self.start + .minutes(30), now: Self.start)
        let back = Self.start + .minutes(10) + -Milliseconds.hours(5)
        pace.clockWasSetBack(by: .hours(5))
        #expect(pace.nextTurn(now: back) == back + .minutes(20))
    }

    @Test func `survives a clock that goes back, and one that leaps`() throws {
        for keeping in [Pace.Keeping.second, .hour] {
            var pace = Self.pace(rate: 5, keeping: keeping)
            _ = Self.sent(&pace, milliseconds: 2_000, from: Self.start)
            Self.refuse(&pace, now: Self.start + .seconds(2))
            for hours: Int64 in [-1, 24 * 365, -24 * 365] {
                let now = Self.start + .hours(hours)
                #expect(pace.nextTurn(now: now).map { $0 <= now + .seconds(1) } == true)
                // Where none is due, a caller may not even ask.
                var later = now
                func isDue() -> Bool {
                    pace.nextTurn(now: later).map { $0 <= later } == true && pace.take(now: later)
                }
                while !isDue() {
                    later = later + Milliseconds(1)
                    try #require(later < now + .seconds(1), "none after \(hours) h")
                }
                let count = Self.sent(&pace, milliseconds: 10_000, from: now)
                #expect((45...52).contains(count), "\(count) after \(hours) h")
            }
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
