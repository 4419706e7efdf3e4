import Testing
import TokenDomain

@Suite struct `What may be forgotten, by which clock` {
    private static let start = Timestamp(milliseconds: 1_768_003_200_000)
    private static let year = Milliseconds.days(365)

    /// A clock that has run for two hours, with records that are right.
    private func running() -> ForgettingClock {
        var clock = ForgettingClock()
        for minutes in stride(from: 0, through: 120, by: 10) as StrideThrough<Int64> {
            clock.heard(recordTime: Self.start + .minutes(minutes))
            _ = clock.horizon(now: Self.start + .minutes(minutes))
        }
        return clock
    }

    private let now = start + .hours(3)

    @Test func `nothing, before a record was read and for an hour after a start`() {
        var clock = ForgettingClock()
        expect(clock.horizon(now: now), nil)
        expect(clock.horizon(now: now + .days(9)), nil)
        clock.heard(recordTime: now)
        expect(clock.horizon(now: now), nil)
        clock.heard(recordTime: now + .minutes(59))
        expect(clock.horizon(now: now + .minutes(59)), nil)
        clock.heard(recordTime: now + .minutes(60))
        expect(clock.horizon(now: now + .minutes(60)), now + .minutes(60))
    }

    @Test func `what expired by both clocks, where both are right`() {
        var clock = running()
        clock.heard(recordTime: now)
        expect(clock.horizon(now: now + .seconds(5)), now)
        expect(clock.horizon(now: now + .hours(20)), now)
    }

    @Test func `not more for this machine's clock a year ahead, however long, and back`() {
        var clock = running()
        for day in 0..<60 as Range<Int64> {
            let time = now + .hours(12 * day)
            clock.heard(recordTime: time)
            expect(clock.horizon(now: time + Self.year), time)
        }
        let back = now + .days(31)
        clock.heard(recordTime: back)
        expect(clock.horizon(now: back), nil)
        clock.heard(recordTime: back + .hours(24))
        expect(clock.horizon(now: back + .hours(24)), back + .hours(24))
    }

    @Test func `not more for this machine's clock wrong from its start`() {
        var clock = ForgettingClock()
        for day in 0..<60 as Range<Int64> {
            let time = now + .hours(12 * day)
            clock.heard(recordTime: time)
            expect(clock.horizon(now: time + Self.year) ?? time, time)
        }
        var early = ForgettingClock()
        early.heard(recordTime: now)
        expect(early.horizon(now: Timestamp(milliseconds: 0)), nil)
        expect(early.horizon(now: Timestamp(milliseconds: 0) + .hours(2)) == now, false)
        // It is set right: time leaps.
        expect(early.horizon(now: now), nil)
        early.heard(recordTime: now + .hours(23))
        expect(early.horizon(now: now + .hours(23)), nil)
        early.heard(recordTime: now + .hours(24))
        expect(early.horizon(now: now + .hours(24)), now + .hours(24))
    }

    @Test func `not more for a writer's clock a year ahead`() {
        var clock = running()
        clock.heard(recordTime: now + Self.year)
        expect(clock.horizon(now: now), now)
        clock.heard(recordTime: now + .minutes(1))
        expect(clock.horizon(now: now + .minutes(2)), now + .minutes(1))
    }

    @Test
    func `nothing for a day, where all clocks go a year ahead; and again when they come back`() {
        var clock = running()
        let wrong = now + Self.year
        for hours in 0..<24 as Range<Int64> {
            clock.heard(recordTime: wrong + .hours(hours))
            expect(clock.horizon(now: wrong + .hours(hours)), nil)
        }
        for hours in 24..<48 as Range<Int64> {
            clock.heard(recordTime: now + .hours(hours))
            expect(clock.horizon(now: now + .hours(hours)), nil)
        }
        clock.heard(recordTime: now + .hours(48))
        expect(clock.horizon(now: now + .hours(48)), now + .hours(48))
    }

    @Test func `what old records allow, while a backlog is read beside new ones`() {
        var clock = running()
        for hours in 0..<48 as Range<Int64> {
            let time = now + .hours(hours)
            clock.heard(recordTime: time + .days(-5))
            expect(clock.horizon(now: time), nil)
            clock.heard(recordTime: time)
            expect(clock.horizon(now: time), time)
        }
    }

    @Test func `what a quiet night leaves`() {
        var clock = running()
        clock.heard(recordTime: now + .hours(12))
        expect(clock.horizon(now: now + .hours(12)), now + .hours(12))
    }
}
