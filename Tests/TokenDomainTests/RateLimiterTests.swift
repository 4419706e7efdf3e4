import Testing
import TokenDomain

@Suite struct `The rate limiter of a lane` {
    static let start = Timestamp(milliseconds: 1_768_003_200_000)

    /// A limiter that owns the first so many partitions of twelve.
    static func limiter(
        rate: Double,
        partitions: Int32 = 12,
        keeping: RateLimiter.Keeping = .second
    ) -> RateLimiter {
        var limiter = RateLimiter(rate: rate, keeping: keeping)
        limiter.share(Array(0..<partitions), of: 12)
        return limiter
    }

    /// Sends as fast as the limiter allows, in a loop that wakes every millisecond.
    static func sent(
        _ limiter: inout RateLimiter,
        milliseconds: Int64,
        step: Int64 = 1,
        from start: Timestamp
    ) -> Int {
        var count = 0
        for millisecond in stride(from: 0, to: milliseconds, by: Int64.Stride(step)) {
            while limiter.take(now: start + Milliseconds(millisecond)) {
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
        var limiter = Self.limiter(rate: rate, partitions: partitions)
        let count = Double(Self.sent(&limiter, milliseconds: 60_000, from: Self.start))
        let expected = rate * Double(partitions) / 12 * 60
        #expect(abs(count - expected) <= expected * 0.02 + 1, "\(count) of \(expected)")
    }

    @Test(arguments: [1, 3, 5, 7, 20, 40] as [Double])
    func `puts as many into each second as the rate says`(rate: Double) {
        var limiters = [Int32(0), 4, 8].map { first in
            var limiter = RateLimiter(rate: rate)
            limiter.share(Array(first..<first + 4), of: 12)
            return limiter
        }
        for second: Int64 in 0..<24 {
            var count = 0
            for index in limiters.indices {
                let from = Self.start + .seconds(second)
                count += Self.sent(&limiters[index], milliseconds: 1_000, from: from)
            }
            // At first each replica uses its next slot early, which may lie in a later second.
            #expect(second < 12 ? count <= Int(rate) + 2 : count == Int(rate))
        }
    }

    @Test(arguments: [0.5, 5, 20, 1_000])
    func `has a burst of one, however long it rested`(rate: Double) {
        var limiter = Self.limiter(rate: rate)
        _ = Self.sent(&limiter, milliseconds: 1_000, from: Self.start)
        let later = Self.start + .hours(1)
        #expect(Self.sent(&limiter, milliseconds: 1, from: later) == 1)
        #expect(limiter.nextSend(now: later).map { $0 > later } == true)
    }

    @Test func `catches up after a stall of the loop, and not after a hold`() {
        var limiter = Self.limiter(rate: 20)
        _ = Self.sent(&limiter, milliseconds: 1_000, from: Self.start)
        let stalled = Self.start + .seconds(1) + Milliseconds(90)
        #expect(Self.sent(&limiter, milliseconds: 1, from: stalled) == 2)
        let held = stalled + .seconds(1)
        Self.refuse(&limiter, until: held, now: stalled + Milliseconds(1))
        #expect(limiter.holdEnd(now: stalled + Milliseconds(1)) == held)
        #expect(limiter.nextSend(now: stalled + Milliseconds(1)) == held)
        #expect(Self.sent(&limiter, milliseconds: 40, from: held) == 1)
    }

    @Test func `is nothing without a share`() {
        var limiter = RateLimiter(rate: 5)
        #expect(Self.sent(&limiter, milliseconds: 5_000, from: Self.start) == 0)
        #expect(limiter.nextSend(now: Self.start) == nil)
        limiter.share([], of: 12)
        #expect(limiter.nextSend(now: Self.start) == nil)
        #expect(limiter.requestsPerSecond(now: Self.start) == 0)
    }

    @Test func `uses a raised rate and a grown share for its next turn`() throws {
        let now = Self.start + .minutes(1)
        for isRaised in [true, false] {
            var limiter = Self.limiter(rate: 0.05, partitions: 1)
            expect(limiter.take(now: Self.start), true)
            let far = try #require(limiter.nextSend(now: now))
            #expect(far > now + .minutes(2))
            // Nothing has grown.
            limiter.rate = 0.05
            limiter.share([0], of: 12)
            #expect(limiter.nextSend(now: now) == far)
            limiter.rate = 0.01
            #expect(limiter.nextSend(now: now) == far)
            limiter.rate = isRaised ? 1 : 0.05
            limiter.share(isRaised ? [0] : Array(0..<12), of: 12)
            #expect(limiter.nextSend(now: now) == now)
            // And no burst.
            #expect(Self.sent(&limiter, milliseconds: 1, from: now) == 1)
            // A hold stays.
            let held = now + .hours(1)
            Self.refuse(&limiter, until: held, now: now)
            limiter.rate = 1_000
            #expect(limiter.nextSend(now: now) == held)
        }
    }

    @Test func `tells its next turn truly`() throws {
        for keeping in [RateLimiter.Keeping.second, .hour] {
            var limiter = Self.limiter(rate: 7, partitions: 5, keeping: keeping)
            var now = Self.start
            var count = 0
            while now < Self.start + .minutes(5) {
                let next = try #require(limiter.nextSend(now: now))
                if next > now {
                    expect(limiter.take(now: now), false)
                }
                now = max(next, now + Milliseconds(1))
                while limiter.take(now: now) {
                    count += 1
                }
            }
            #expect((860...880).contains(count), "\(count)")
        }
    }

    /// A 429 to a request sent at `sentAt`, or just now.
    @discardableResult
    static func refuse(
        _ limiter: inout RateLimiter,
        sentAt: Timestamp? = nil,
        until: Timestamp? = nil,
        now: Timestamp
    ) -> Bool {
        var generator = SeededGenerator(seed: 1)
        return limiter.rateLimited(
            sentAt: sentAt ?? now,
            until: until,
            now: now,
            using: &generator
        )
    }

    @Test func `leaves the slot of its next turn where another replica has it now`() {
        // A slot of 2 ms for each of four partitions.
        var limiter = RateLimiter(rate: 500)
        limiter.share([0, 1, 2, 3], of: 4)
        expect(limiter.take(now: Self.start), true)
        #expect(limiter.nextSend(now: Self.start) == Self.start + Milliseconds(3))
        limiter.share([0], of: 4)
        #expect(limiter.nextSend(now: Self.start) == Self.start + Milliseconds(9))
    }

    @Test func `takes answers to requests sent before a hold for the same refusal`() {
        var limiter = Self.limiter(rate: 1_000)
        let now = Self.start + .seconds(10)
        for number: Int64 in 0..<100 {
            limiter.accepted(
                sentAt: Self.start + .seconds(9),
                now: now + Milliseconds(number - 100)
            )
        }
        expect(Self.refuse(&limiter, sentAt: now + Milliseconds(-5), now: now), true)
        let rate = limiter.rateFound(now: now)
        // What Apple took, for so many were sent in a burst; a quarter at least.
        #expect((230...240).contains(rate), "\(rate)")
        let end = limiter.holdEnd(now: now)
        for number: Int64 in 0..<31 {
            let later = now + Milliseconds(number)
            expect(Self.refuse(&limiter, sentAt: now + Milliseconds(-4), now: later), false)
        }
        #expect(limiter.holdEnd(now: now) == end)
        // Few are refused: a quarter of a second at most.
        #expect(end.map { (Milliseconds(1)...Milliseconds(250)).contains($0 - now) } == true)
        #expect(limiter.rateFound(now: now) == rate)
        // At most to its own time.
        let said = now + .seconds(9)
        expect(Self.refuse(&limiter, sentAt: now, until: said, now: now + Milliseconds(40)), false)
        expect(Self.refuse(&limiter, sentAt: now, until: now, now: now + Milliseconds(41)), false)
        #expect(limiter.holdEnd(now: now + Milliseconds(50)) == said)
        #expect(limiter.holdEnd(now: said) == nil)
    }

    @Test func `holds twice as long for each refusal in a row, up to a minute`() throws {
        var limiter = Self.limiter(rate: 1_000)
        var now = Self.start
        for seconds: Int64 in [1, 2, 4, 8, 16, 32, 60, 60] {
            expect(Self.refuse(&limiter, now: now), true)
            let end = try #require(limiter.holdEnd(now: now))
            let span = (end - now).count
            #expect((seconds * 500...seconds * 1_000).contains(span), "\(span)")
            // Nothing was taken: it is not the rate.
            #expect(limiter.rateFound(now: now) == 1_000)
            now = end
        }
        limiter.accepted(sentAt: now + Milliseconds(-90_000), now: now)
        limiter.accepted(sentAt: now, now: now + Milliseconds(20))
        expect(Self.refuse(&limiter, now: now + Milliseconds(30)), true)
        let span = try #require(limiter.holdEnd(now: now + Milliseconds(30))) - now
        #expect(span <= Milliseconds(1_030))
    }

    /// Apple's clock is behind ours, or its answer took long.
    @Test(arguments: [0, -1_000] as [Int64])
    func `backs off where every end that Apple names is over by our clock`(milliseconds: Int64) {
        var limiter = Self.limiter(rate: 5)
        var generator = SeededGenerator(seed: 3)
        var longest = Milliseconds(0)
        for count in 0..<12 {
            let now = Self.start + .minutes(Int64(count))
            let isHeld = limiter.rateLimited(
                sentAt: now,
                until: now + Milliseconds(milliseconds),
                now: now,
                using: &generator
            )
            #expect(isHeld)
            let end = limiter.holdEnd(now: now)
            #expect((end == nil) == (count < RateLimiter.pastEndCountMax))
            longest = max(longest, (end ?? now) - now)
        }
        #expect(longest > .seconds(2))
    }

    @Test func `counts the time it is held from the first refusal to the next 200`() {
        var limiter = Self.limiter(rate: 20)
        #expect(limiter.heldTime(isWaiting: true, now: Self.start) == Milliseconds(0))
        Self.refuse(&limiter, until: Self.start + .seconds(10), now: Self.start)
        let second = Self.start + .seconds(11)
        // Between two holds a request is on its way.
        #expect(limiter.heldTime(isWaiting: true, now: second) == .seconds(11))
        Self.refuse(&limiter, until: second + .minutes(20), now: second)
        #expect(limiter.heldTime(isWaiting: false, now: second + .minutes(19)) == .seconds(1_151))
        // An answer to what was sent before the hold says nothing.
        limiter.accepted(sentAt: Self.start, now: second + .seconds(1))
        #expect(limiter.heldTime(isWaiting: true, now: second + .seconds(1)) == .seconds(12))
        limiter.clockWasSetBack(by: .seconds(5))
        #expect(limiter.heldTime(isWaiting: true, now: second) == .seconds(16))
        limiter.accepted(sentAt: second + .minutes(21), now: second + .minutes(21))
        #expect(limiter.heldTime(isWaiting: true, now: second + .minutes(21)) == Milliseconds(0))
    }

    @Test func `is held for as long as a late 429 says, whatever failed before that`() {
        var limiter = Self.limiter(rate: 20)
        Self.refuse(&limiter, until: Self.start + .seconds(1), now: Self.start)
        let failedAt = Self.start + .seconds(2)
        limiter.failedOtherwise(sentAt: Self.start + Milliseconds(1_500), now: failedAt)
        var generator = SeededGenerator(seed: 1)
        let isNew = limiter.rateLimited(
            sentAt: Self.start + -.seconds(1),
            until: Self.start + .hours(1),
            now: Self.start + .seconds(3),
            using: &generator
        )
        #expect(!isNew)
        let later = Self.start + .minutes(20)
        #expect(limiter.heldTime(isWaiting: true, now: later) == .minutes(20))
    }

    @Test func `forgets holds and what it found when it is reset`() {
        var limiter = Self.limiter(rate: 20)
        limiter.accepted(sentAt: Self.start, now: Self.start)
        let now = Self.start + .seconds(1)
        Self.refuse(&limiter, until: now + .hours(1), now: now)
        #expect(limiter.rateFound(now: now) < 20)
        let later = now + .seconds(1)
        limiter.reset(now: later)
        #expect(limiter.rateFound(now: later) == 20 && limiter.holdEnd(now: later) == nil)
        #expect(limiter.heldTime(isWaiting: true, now: later) == Milliseconds(0))
        #expect(limiter.nextSend(now: later) == later)
        // What was sent before is no news.
        expect(Self.refuse(&limiter, sentAt: now, now: later + Milliseconds(5)), false)
        expect(Self.refuse(&limiter, sentAt: later + .seconds(1), now: later + .seconds(2)), true)
    }

    @Test func `is open after a hold where nothing waits, and stays so when something does again`()
    {
        var limiter = Self.limiter(rate: 20)
        Self.refuse(&limiter, until: Self.start + .seconds(10), now: Self.start)
        let later = Self.start + .seconds(11)
        #expect(limiter.heldTime(isWaiting: false, now: later) == Milliseconds(0))
        #expect(limiter.heldTime(isWaiting: true, now: later + .hours(3)) == Milliseconds(0))
    }

    @Test func `gives way by a twentieth where it was right for long, and comes back`() {
        var limiter = Self.limiter(rate: 100)
        let now = Self.start + .seconds(10)
        for number: Int64 in 0..<200 {
            let sentAt = now + Milliseconds(10 * number - 2_000)
            limiter.accepted(sentAt: sentAt, now: sentAt + Milliseconds(20))
        }
        Self.refuse(&limiter, until: now + Milliseconds(20), now: now + Milliseconds(20))
        #expect((92...96).contains(limiter.rateFound(now: now + Milliseconds(20))))
        #expect(limiter.rateFound(now: now + .seconds(3)) > 98)
        #expect(limiter.rateFound(now: now + .seconds(8)) == 100)
    }

    /// A loop that a disk or the scheduler stopped took less of the last second: Apple did not.
    @Test func `keeps a rate that it knows when it stood still before a 429`() {
        var limiter = Self.limiter(rate: 100)
        func take(_ range: Range<Int64>) {
            for number in range {
                let at = Self.start + Milliseconds(10 * number)
                limiter.accepted(sentAt: at + Milliseconds(-20), now: at)
            }
        }
        take(0..<300)
        let first = Self.start + .seconds(3)
        Self.refuse(&limiter, until: first, now: first)
        take(301..<1_200)
        // Nothing for nine tenths of the second before.
        let now = Self.start + Milliseconds(12_900)
        #expect(limiter.rateFound(now: now) == 100)
        Self.refuse(&limiter, until: now, now: now)
        #expect((94...96).contains(limiter.rateFound(now: now)))
    }

    @Test func `keeps what is left of a hold when the clock is set back`() {
        var limiter = Self.limiter(rate: 100)
        Self.refuse(&limiter, until: Self.start + .minutes(30), now: Self.start)
        let back = Self.start + .minutes(10) + -Milliseconds.hours(5)
        limiter.clockWasSetBack(by: .hours(5))
        #expect(limiter.nextSend(now: back) == back + .minutes(20))
    }

    @Test func `takes what it is given after its clock went back before its first turn`() {
        var limiter = Self.limiter(rate: 5)
        limiter.share([3], of: 12)
        limiter.clockWasSetBack(by: .seconds(2))
        limiter.share([3, 4], of: 12)
        let isTaken = limiter.take(now: Self.start + .seconds(2))
        #expect(isTaken)
    }

    @Test func `survives a clock that goes back, and one that leaps`() throws {
        for keeping in [RateLimiter.Keeping.second, .hour] {
            var limiter = Self.limiter(rate: 5, keeping: keeping)
            _ = Self.sent(&limiter, milliseconds: 2_000, from: Self.start)
            Self.refuse(&limiter, now: Self.start + .seconds(2))
            for hours: Int64 in [-1, 24 * 365, -24 * 365] {
                let now = Self.start + .hours(hours)
                #expect(limiter.nextSend(now: now).map { $0 <= now + .seconds(1) } == true)
                // Who is told that none is due may not even ask.
                var later = now
                func isDue() -> Bool {
                    limiter.nextSend(now: later).map { $0 <= later } == true
                        && limiter.take(now: later)
                }
                while !isDue() {
                    later = later + Milliseconds(1)
                    try #require(later < now + .seconds(1), "none after \(hours) h")
                }
                let count = Self.sent(&limiter, milliseconds: 10_000, from: now)
                #expect((45...52).contains(count), "\(count) after \(hours) h")
            }
        }
    }
}

@Suite struct `A rate limiter kept by the hour` {
    static let hour = Timestamp(milliseconds: 1_768_003_200_000)

    @Test func `catches up what the hour left, at three times the rate`() {
        var limiter = `The rate limiter of a lane`.limiter(rate: 20, keeping: .hour)
        func sent(_ milliseconds: Int64, from time: Timestamp) -> Int {
            `The rate limiter of a lane`.sent(&limiter, milliseconds: milliseconds, from: time)
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
        var limiter = `The rate limiter of a lane`.limiter(rate: 2, keeping: .hour)
        var generator = SeededGenerator(seed: 5)
        var time = Self.hour + .minutes(13)
        var counts: [Int64: Int] = [:]
        while time < Self.hour + .hours(5) {
            // Busy for minutes, idle for minutes.
            let busy = Int64.random(in: 1...900, using: &generator)
            for second in 0..<busy {
                let now = time + .seconds(second)
                let sent = `The rate limiter of a lane`.sent(
                    &limiter,
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
