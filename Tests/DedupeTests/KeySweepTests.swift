import StateStore
import Testing
import TokenDomain

@testable import StageRuntime
@testable import dedupe

@Suite struct `Keys that expire` {
    private static let lifetime = SeenBefore.keyLifetime

    @Test func `are known until 400 days after the token's expiry, and then forgotten`() throws {
        let desk = StageDesk(partitionCount: 1)
        let expiry = Timestamp(milliseconds: 1_780_000_000_000)
        #expect(try desk.judge([Dedupe.token("a"), Dedupe.token("b")]).count == 2)
        try desk.submitAndCommit()
        #expect(try desk.entryCount() == 4)

        desk.now = expiry + Self.lifetime + Milliseconds(-1)
        try sweep(desk)
        #expect(try desk.entryCount() == 4)
        #expect(try desk.judge([Dedupe.token("a")]) == [.again])

        desk.now = expiry + Self.lifetime
        try sweep(desk)
        #expect(try desk.entryCount() == 0)
        #expect(
            try desk.judge([Dedupe.token("c"), Dedupe.token("a")]) == [
                .primary, .duplicate(of: "c"),
            ]
        )
    }

    @Test func `leave a changelog that folds to nothing`() throws {
        let desk = StageDesk(partitionCount: 1)
        _ = try desk.judge([Dedupe.token("a"), Dedupe.token("b"), Dedupe.token("d", customer: nil)])
        try desk.submitAndCommit()
        desk.now = Timestamp(milliseconds: 1_780_000_000_000) + Self.lifetime
        try sweep(desk)
        #expect(try desk.restored().entryCount() == 0)
        // Each removal has the key of what it removes, so that compaction forgets both.
        let changelog = desk.changelog[0] ?? []
        let put = Set(changelog.filter { $0.value != nil }.map(\.key))
        let removed = Set(changelog.filter { $0.value == nil }.map(\.key))
        #expect(put == removed)
    }

    @Test func `are kept as long for a token that came late`() throws {
        let desk = StageDesk(partitionCount: 1)
        let old = Dedupe.token("a", creation: 1, expiration: 2)
        #expect(try desk.judge([old]) == [.primary])
        try desk.submitAndCommit()
        try sweep(desk)
        #expect(try desk.judge([old]) == [.again])
    }

    @Test func `cost the same however many there are`() throws {
        let desk = StageDesk(partitionCount: 1)
        let count = 3 * KeySweep.entryCountMax
        _ = try desk.judge((0..<count).map { Dedupe.token("\($0)", customer: nil) })
        try desk.submitAndCommit()
        desk.now = Timestamp(milliseconds: 1_780_000_000_000) + Self.lifetime
        var rounds = 0
        try desk.passADay()
        try desk.submitAndCommit()
        desk.now = desk.now + KeySweep.interval
        while try desk.entryCount() > 0, rounds < 10 {
            let before = try desk.entryCount()
            try desk.hearTime()
            try desk.submitAndCommit()
            #expect(try before - desk.entryCount() <= KeySweep.entryCountMax)
            desk.now = desk.now + KeySweep.interval
            rounds += 1
        }
        #expect(try desk.entryCount() == 0)
        #expect(rounds <= 5)
    }

    @Test func `are looked at once a second`() throws {
        let desk = StageDesk(partitionCount: 1)
        _ = try desk.judge([Dedupe.token("a")])
        try desk.submitAndCommit()
        desk.now = Timestamp(milliseconds: 1_780_000_000_000) + Self.lifetime + .seconds(-1)
        try desk.passADay()
        try desk.submitAndCommit()
        desk.now = desk.now + .seconds(1)
        try desk.hearTime()
        try desk.hearTime()
        #expect(desk.submit().map(\.changes.count).reduce(0, +) <= 1)
    }

    @Test(arguments: [365, 500, 36_500] as [Int64])
    func `stay, where the clock of this machine goes ahead for longer than any pause, and back`(
        days: Int64
    ) throws {
        let desk = StageDesk(partitionCount: 1)
        let start = desk.now
        #expect(try desk.judge([Dedupe.token("a"), Dedupe.token("b")]).count == 2)
        try desk.submitAndCommit()
        for hours in 0..<96 as Range<Int64> {
            desk.recordTime = start + .hours(hours)
            desk.now = start + .days(days) + .hours(hours)
            try desk.hearTime()
            try desk.submitAndCommit()
        }
        #expect(try desk.judge([Dedupe.token("c")]) == [.duplicate(of: "a")])
        desk.recordTime = nil
        desk.now = start + .hours(97)
        #expect(try desk.judge([Dedupe.token("a"), Dedupe.token("b")]) == [.again, .again])
    }

    @Test func `stay for a day, where all clocks go ahead together`() throws {
        let desk = StageDesk(partitionCount: 1)
        let start = desk.now
        #expect(try desk.judge([Dedupe.token("a")]) == [.primary])
        try desk.submitAndCommit()
        for hours in 0..<24 as Range<Int64> {
            desk.now = start + .days(3_000) + .hours(hours)
            try desk.hearTime()
            try desk.submitAndCommit()
        }
        desk.now = start + .hours(25)
        #expect(try desk.judge([Dedupe.token("a")]) == [.again])
    }

    @Test func `stay with a worker whose clock is ahead from its start`() throws {
        let first = StageDesk(partitionCount: 1)
        #expect(try first.judge([Dedupe.token("a")]) == [.primary])
        try first.submitAndCommit()
        let desk = try first.restored()
        for hours in 0..<96 as Range<Int64> {
            desk.recordTime = first.now + .hours(hours)
            desk.now = first.now + .days(3_000) + .hours(hours)
            try desk.hearTime()
            try desk.submitAndCommit()
        }
        #expect(try desk.judge([Dedupe.token("a")]) == [.again])
    }

    /// A whole round of the partition, wherever it begins; the last stretch at the time that is set.
    private func sweep(_ desk: StageDesk) throws {
        let now = desk.now
        desk.now = now + -.seconds(2)
        try desk.passADay()
        for stretchesLeft in [2, 1, 0] as [Int64] {
            desk.now = now + -.seconds(stretchesLeft)
            try desk.hearTime()
            try desk.submitAndCommit()
        }
    }
}
