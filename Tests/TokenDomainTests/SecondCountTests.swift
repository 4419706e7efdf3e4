import Testing
import TokenDomain

@Suite struct `The count of a second` {
    static let start = Timestamp(milliseconds: 1_768_003_200_000)

    /// Sends at these parts of a second; those from `limit` on are refused, answered 10 ms later.
    private static func send(
        _ count: Int,
        limit: Int,
        second: Int64,
        _ counter: inout SecondCount,
        isQuestion: Bool = false
    ) -> Bool {
        let begin = start + .seconds(second)
        for place in 0..<count {
            let sentAt = begin + Milliseconds(Int64(place * 900 / count + 50))
            counter.started(now: sentAt, isQuestion: isQuestion && place == 0)
            guard place < limit else {
                return counter.refused(
                    sentAt: sentAt,
                    until: begin + .seconds(1),
                    isOwn: true,
                    now: sentAt + Milliseconds(10)
                )
            }
            counter.accepted(sentAt: sentAt, ownRate: 5, now: sentAt)
        }
        return true
    }

    @Test func `is the place of the first request that was refused, twice`() {
        var counter = SecondCount()
        expect(Self.send(5, limit: 3, second: 0, &counter), true)
        #expect(counter.count == nil)
        expect(Self.send(5, limit: 3, second: 1, &counter), true)
        #expect(counter.count == 3)
    }

    @Test func `is not what a neighbour's late request makes of it`() {
        var counter = SecondCount()
        for (second, limit) in [(0, 2), (1, 3), (2, 3)] {
            _ = Self.send(5, limit: limit, second: Int64(second), &counter)
        }
        #expect(counter.count == 3)
    }

    @Test func `forgives what was granted before, until it is refused three times in a row`() {
        var counter = SecondCount()
        for second: Int64 in 0..<20 {
            // Every other second.
            _ = Self.send(5, limit: second % 2 == 0 ? 5 : 4, second: second, &counter)
            #expect(counter.count == nil)
        }
        for second: Int64 in 20..<22 {
            #expect(counter.count == nil)
            _ = Self.send(5, limit: 4, second: second, &counter)
        }
        #expect(counter.count == 4)
    }

    @Test func `asks for one more, ever more seldom, and takes it where it is granted`() {
        var counter = SecondCount()
        _ = Self.send(5, limit: 3, second: -1, &counter)
        _ = Self.send(5, limit: 3, second: 0, &counter)
        var asked: [Int64] = []
        for second: Int64 in 1...900 {
            let asks = counter.asks
            if asks {
                asked.append(second)
            }
            _ = Self.send(asks ? 4 : 3, limit: 3, second: second, &counter, isQuestion: asks)
            #expect(counter.count == 3)
        }
        #expect(asked == [51, 251])
        var second: Int64 = 901
        while counter.count != nil, second < 3_000 {
            let count = (counter.count ?? 5) + (counter.asks ? 1 : 0)
            _ = Self.send(count, limit: 9, second: second, &counter, isQuestion: counter.asks)
            second += 1
        }
        // 5 is our own rate: there is nothing more to find.
        #expect(counter.count == nil && (1_050...1_060).contains(second), "\(second)")
    }

    @Test(arguments: [nil, 0, 1_001, 60_000] as [Int64?])
    func `is none of a limit that ends at once, later, or who knows when`(end: Int64?) {
        var counter = SecondCount()
        counter.started(now: Self.start, isQuestion: false)
        let isExplained = counter.refused(
            sentAt: Self.start,
            until: end.map { Self.start + Milliseconds($0) },
            isOwn: true,
            now: Self.start
        )
        #expect(!isExplained && counter.count == nil)
    }

    @Test func `begins Apple's seconds where two refusals say so`() {
        var counter = SecondCount()
        let told: [(second: Int64, isExplained: Bool)] = [
            (0, false), (1, false), (2, true), (3, true),
        ]
        for (second, isExplained) in told {
            let begin = Self.start + .seconds(second) + Milliseconds(300)
            for place: Int64 in 0..<4 {
                let sentAt = begin + Milliseconds(place * 200)
                counter.started(now: sentAt, isQuestion: false)
                guard place == 3 else {
                    counter.accepted(sentAt: sentAt, ownRate: 5, now: sentAt)
                    continue
                }
                let said = counter.refused(
                    sentAt: sentAt,
                    until: begin + .seconds(1),
                    isOwn: true,
                    now: sentAt
                )
                #expect(said == isExplained, "second \(second)")
            }
        }
        #expect(counter.phase == 300 && counter.count == 3)
    }

    @Test func `does not hide that others use the same limit`() {
        var counter = SecondCount()
        var explainedCount = 0
        for second: Int64 in 0..<40 {
            // Each second another place is refused: somebody else is there too.
            let limit = [5, 1, 4, 2, 3][Int(second % 5)]
            explainedCount += Self.send(5, limit: limit, second: second, &counter) ? 1 : 0
        }
        #expect(explainedCount < 30, "\(explainedCount)")
    }

    @Test func `remembers little, and survives a clock that goes back`() {
        var counter = SecondCount()
        for millisecond: Int64 in 0..<100_000 {
            counter.started(now: Self.start + Milliseconds(millisecond), isQuestion: false)
        }
        _ = Self.send(5, limit: 3, second: -86_400, &counter)
        _ = Self.send(5, limit: 3, second: -86_399, &counter)
        #expect(counter.count == 3)
    }
}
