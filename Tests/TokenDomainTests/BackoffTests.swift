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

    @Test func `grows in a search by the failures since its last step`() {
        var intent = ReportIntent(
            number: 2,
            identifier: "a",
            status: .lineItem,
            lineItems: "[]",
            reason: .request,
            origin: RecordOrigin(topic: 0, partition: 0, offset: 0),
            deadline: Timestamp(milliseconds: 0),
            attempts: 2,
            inquiries: 3
        )
        #expect(intent.failureCount == 5)
        intent.search = LineItemSearch(number: 1, open: ["i"], requestCountBefore: 4)
        #expect(intent.failureCount == 1)
    }
}
