import StateStore
import Testing
import TokenDomain

@testable import StageRuntime
@testable import dedupe

@Suite struct `Keys that expire` {
    private static let lifetime = SeenBefore.keyLifetime

    @Test func `are known until 400 days after the token's expiry, and then forgotten`() throws {
        let bench = DedupeBench(partitionCount: 1)
        let expiry = Timestamp(milliseconds: 1_780_000_000_000)
        #expect(try bench.judge([Dedupe.token("a"), Dedupe.token("b")]).count == 2)
        try bench.submitAndCommit()
        #expect(try bench.entryCount() == 4)

        bench.now = expiry + Self.lifetime + Milliseconds(-1)
        try sweep(bench)
        #expect(try bench.entryCount() == 4)
        #expect(try bench.judge([Dedupe.token("a")]) == [.again])

        bench.now = expiry + Self.lifetime
        try sweep(bench)
        #expect(try bench.entryCount() == 0)
        #expect(
            try bench.judge([Dedupe.token("c"), Dedupe.token("a")]) == [
                .primary, .duplicate(of: "c"),
            ]
        )
    }

    @Test func `leave a changelog that folds to nothing`() throws {
        let bench = DedupeBench(partitionCount: 1)
        _ = try bench.judge([
            Dedupe.token("a"), Dedupe.token("b"), Dedupe.token("d", customer: nil),
        ])
        #expect(try bench.refuse(["b"]) == [.refused])
        try bench.submitAndCommit()
        bench.now = Timestamp(milliseconds: 1_780_000_000_000) + Self.lifetime
        try sweep(bench)
        #expect(try bench.restored().entryCount() == 0)
        // Each removal has the key of what it removes, so that compaction forgets both.
        let changelog = bench.changelog[0] ?? []
        let put = Set(changelog.filter { $0.value != nil }.map(\.key))
        let removed = Set(changelog.filter { $0.value == nil }.map(\.key))
        #expect(put == removed)
    }

    @Test func `are kept as long for a token that came late`() throws {
        let bench = DedupeBench(partitionCount: 1)
        let old = Dedupe.token("a", creation: 1, expiration: 2)
        #expect(try bench.judge([old]) == [.primary])
        try bench.submitAndCommit()
        try sweep(bench)
        #expect(try bench.judge([old]) == [.again])
    }

    @Test func `cost the same however many there are`() throws {
        let bench = DedupeBench(partitionCount: 1)
        let count = 3 * KeySweep.entryCountMax
        _ = try bench.judge((0..<count).map { Dedupe.token("\($0)", customer: nil) })
        try bench.submitAndCommit()
        bench.now = Timestamp(milliseconds: 1_780_000_000_000) + Self.lifetime
        var rounds = 0
        try bench.passADay()
        try bench.submitAndCommit()
        bench.now = bench.now + KeySweep.interval
        while try bench.entryCount() > 0, rounds < 10 {
            let before = try bench.entryCount()
            try bench.hearTime()
            try bench.submitAndCommit()
            #expect(try before - bench.entryCount() <= KeySweep.entryCountMax)
            bench.now = bench.now + KeySweep.interval
            rounds += 1
        }
        #expect(try bench.entryCount() == 0)
        #expect(rounds <= 5)
    }

    @Test func `are looked at once a second`() throws {
        let bench = DedupeBench(partitionCount: 1)
        _ = try bench.judge([Dedupe.token("a")])
        try bench.submitAndCommit()
        bench.now = Timestamp(milliseconds: 1_780_000_000_000) + Self.lifetime + .seconds(-1)
        try bench.passADay()
        try bench.submitAndCommit()
        bench.now = bench.now + .seconds(1)
        try bench.hearTime()
        try bench.hearTime()
        #expect(bench.submit().map(\.changes.count).reduce(0, +) <= 1)
    }

    /// Of a token that Apple refused before it was read, which is stored; what follows is not yet.
    @Test(arguments: [false, true])
    func `stay where they expire in the store alone`(isUnderWay: Bool) throws {
        let bench = DedupeBench(partitionCount: 1)
        let token = Dedupe.token("a")
        try expire(with: token, isUnderWay: isUnderWay, bench)
        #expect(try bench.entryCount() == 2)
        #expect(try bench.judge([token]) == [.again])
    }

    @Test(arguments: [false, true])
    func `go with the place that they have outside the store`(isUnderWay: Bool) throws {
        let bench = DedupeBench(partitionCount: 1)
        let token = Dedupe.token("a", creation: 1, expiration: 2, receivedAt: 3)
        try expire(with: token, isUnderWay: isUnderWay, bench)
        #expect(try bench.entryCount() == 0)
        #expect(try bench.restored().entryCount() == 0)
    }

    /// Has a stored refusal expire after `token`, the one that was refused, was read, and before
    /// the store learns of that.
    private func expire(
        with token: TokenDecoded,
        isUnderWay: Bool,
        _ bench: DedupeBench
    ) throws {
        let expiry = bench.now + Self.lifetime
        #expect(try bench.refuse(["a"]) == [.refused])
        try bench.submitAndCommit()
        bench.now = expiry + -.seconds(2)
        try bench.passADay()
        try bench.submitAndCommit()
        #expect(try bench.entryCount() == 1)
        bench.now = expiry + -.seconds(1)
        #expect(try bench.judge([token]) == [.primary])
        if isUnderWay {
            _ = bench.submit()
        }
        bench.now = expiry
        try bench.hearTime()
        if isUnderWay {
            try bench.commit()
        }
        try bench.submitAndCommit()
    }

    @Test(arguments: [365, 500, 36_500] as [Int64])
    func `stay, where the clock of this machine goes ahead for longer than any pause, and back`(
        days: Int64
    ) throws {
        let bench = DedupeBench(partitionCount: 1)
        let start = bench.now
        #expect(try bench.judge([Dedupe.token("a"), Dedupe.token("b")]).count == 2)
        try bench.submitAndCommit()
        for hours in 0..<96 as Range<Int64> {
            bench.recordTime = start + .hours(hours)
            bench.now = start + .days(days) + .hours(hours)
            try bench.hearTime()
            try bench.submitAndCommit()
        }
        #expect(try bench.judge([Dedupe.token("c")]) == [.duplicate(of: "a")])
        bench.recordTime = nil
        bench.now = start + .hours(97)
        #expect(try bench.judge([Dedupe.token("a"), Dedupe.token("b")]) == [.again, .again])
    }

    @Test func `stay for a day, where all clocks go ahead together`() throws {
        let bench = DedupeBench(partitionCount: 1)
        let start = bench.now
        #expect(try bench.judge([Dedupe.token("a")]) == [.primary])
        try bench.submitAndCommit()
        for hours in 0..<24 as Range<Int64> {
            bench.now = start + .days(3_000) + .hours(hours)
            try bench.hearTime()
            try bench.submitAndCommit()
        }
        bench.now = start + .hours(25)
        #expect(try bench.judge([Dedupe.token("a")]) == [.again])
    }

    @Test func `stay with a worker whose clock is ahead from its start`() throws {
        let first = DedupeBench(partitionCount: 1)
        #expect(try first.judge([Dedupe.token("a")]) == [.primary])
        try first.submitAndCommit()
        let bench = try first.restored()
        for hours in 0..<96 as Range<Int64> {
            bench.recordTime = first.now + .hours(hours)
            bench.now = first.now + .days(3_000) + .hours(hours)
            try bench.hearTime()
            try bench.submitAndCommit()
        }
        #expect(try bench.judge([Dedupe.token("a")]) == [.again])
    }

    /// A whole round of the partition, wherever it begins; the last stretch at the time that is set.
    private func sweep(_ bench: DedupeBench) throws {
        let now = bench.now
        bench.now = now + -.seconds(2)
        try bench.passADay()
        for stretchesLeft in [2, 1, 0] as [Int64] {
            bench.now = now + -.seconds(stretchesLeft)
            try bench.hearTime()
            try bench.submitAndCommit()
        }
    }
}
