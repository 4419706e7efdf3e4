import Testing
import TokenDomain

@testable import report

@Suite struct `Rounds of requests` {
    private static func at(_ milliseconds: Int64) -> Timestamp {
        Timestamp(milliseconds: 1_790_000_000_000 + milliseconds)
    }

    /// When the requests whose turns are given start, asked at each millisecond.
    private func starts(of turns: [Int64], until end: Int64, span: Int64 = 50) -> [Int64] {
        var rounds = SendRounds(span: Milliseconds(span))
        var starts: [Int64] = []
        for now in 0..<end where rounds.turn(now: Self.at(now)) <= Self.at(now) {
            let ready = turns.filter { $0 <= now }.count - starts.count
            if ready > 0 {
                starts += repeatElement(now, count: ready)
                rounds.started(now: Self.at(now))
            }
        }
        return starts
    }

    @Test func `start a single request in its own turn`() {
        #expect(starts(of: [7, 207, 407], until: 1_000) == [7, 207, 407])
    }

    @Test func `are one in each span, the next at its beginning`() {
        #expect(starts(of: [5, 15, 25, 35, 45, 55], until: 200) == [5, 25, 25, 75, 75, 75])
    }

    @Test(arguments: [20, 60, 100, 400], [20, 50])
    func `leave each second its requests`(rate: Int64, span: Int64) {
        let turns = (0..<4 * rate).map { ($0 * 2 + 1) * 1_000 / (rate * 2) }
        let starts = starts(of: turns, until: 4_000, span: span)
        // The first second is short by what its last round leaves to the second one.
        for second in 1..<3 {
            let range = Int64(second) * 1_000..<Int64(second + 1) * 1_000
            #expect(starts.count(where: range.contains) == Int(rate))
        }
        #expect(starts.allSatisfy { $0 % 1_000 <= 980 })
    }

    @Test func `follow soon where a request that ends makes room`() {
        var rounds = SendRounds(span: Milliseconds(50))
        rounds.started(now: Self.at(30))
        #expect(rounds.turn(now: Self.at(31)) == Self.at(75))
        rounds.isCrowded(now: Self.at(31))
        #expect(rounds.turn(now: Self.at(31)) == Self.at(31) + SendRounds.crowdedRest)
    }

    @Test func `are not put off by a clock that was set back`() {
        var rounds = SendRounds(span: Milliseconds(50))
        rounds.started(now: Self.at(60_000))
        #expect(rounds.turn(now: Self.at(0)) == Self.at(0))
    }
}
