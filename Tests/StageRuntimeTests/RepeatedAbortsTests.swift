import Kafka
import Simulation
import TokenDomain
import Testing

@testable import StageRuntime

@Suite struct `Aborts of one transaction after another` {
    private typealias Attempt = RepeatedAborts.Attempt

    private static let partition = TopicPartition(topic: "in", partition: 0)

    private func attempt(_ recordCount: Int, from offset: Int64 = 0) -> Attempt {
        Attempt(
            recordCount: recordCount,
            onlyRecord: recordCount == 1
                ? RepeatedAborts.Place(partition: Self.partition, offset: offset) : nil,
            positions: [Self.partition: offset + Int64(recordCount)],
            tally: TokenTally()
        )
    }

    @Test func `are waited out longer each time, and not for ever`() {
        var aborts = RepeatedAborts()
        var now = Timestamp(milliseconds: 1_000)
        var waits: [Int64] = []
        while !aborts.isHopeless, waits.count < 100 {
            aborts.aborted(code: "NOT_ENOUGH_REPLICAS", attempt(10), now: now)
            guard let next = aborts.nextAttempt(now: now) else {
                Issue.record("no wait after \(waits)")
                return
            }
            waits.append(next.milliseconds - now.milliseconds)
            now = next
            #expect(aborts.nextAttempt(now: now) == nil)
        }
        #expect(waits.count == 20)
        #expect(waits.prefix(8) == [50, 100, 200, 400, 800, 1_600, 3_200, 5_000])
        #expect(waits.dropFirst(7).allSatisfy { $0 == 5_000 })
        #expect(aborts.culprits.isEmpty && !aborts.isSearching)
    }

    @Test func `are forgotten with the next commit`() {
        var aborts = RepeatedAborts()
        let now = Timestamp(milliseconds: 0)
        for _ in 0..<19 {
            aborts.aborted(code: "_TIMED_OUT", attempt(10), now: now)
        }
        aborts.committed(attempt(10))
        aborts.aborted(code: "_TIMED_OUT", attempt(10), now: now)
        #expect(!aborts.isHopeless)
        #expect(aborts.nextAttempt(now: now)?.milliseconds == 50)
    }

    @Test func `do not hold the worker up when its clock is set back`() {
        var aborts = RepeatedAborts()
        aborts.aborted(code: "_TIMED_OUT", attempt(1), now: Timestamp(milliseconds: 1_000_000))
        #expect(aborts.nextAttempt(now: Timestamp(milliseconds: 0)) == nil)
    }

    @Test(arguments: [
        "ILLEGAL_GENERATION", "_TIMED_OUT", "REBALANCE_IN_PROGRESS", "_UNKNOWN_TOPIC",
    ])
    func `never make a record of any other code's the culprit`(code: String) {
        var aborts = RepeatedAborts()
        for _ in 0..<20 {
            aborts.aborted(code: code, attempt(1), now: Timestamp(milliseconds: 0))
        }
        #expect(aborts.culprits.isEmpty && !aborts.isSearching && aborts.isHopeless)
    }

    /// Method: transactions of what is allowed, one after the other, aborted where the culprit lies
    /// within; counts transactions, for each costs a round trip.
    @Test(arguments: [(10_000, 0), (10_000, 9_999), (10_000, 6_180), (2, 1), (1, 0), (7, 3)])
    func `find the record that Kafka refuses, and then go on at full size`(
        recordCount: Int,
        culprit: Int
    ) {
        var aborts = RepeatedAborts()
        var position = 0
        var transactionCount = 0
        var now = Timestamp(milliseconds: 0)
        while position < recordCount || aborts.isSearching {
            transactionCount += 1
            let size = min(aborts.recordCountMax ?? .max, max(recordCount - position, 1))
            let attempt = attempt(size, from: Int64(position))
            let isCulprit = attempt.onlyRecord.map { aborts.culprits[$0] != nil } ?? false
            if (position..<position + size).contains(culprit), !isCulprit {
                aborts.aborted(code: "INVALID_RECORD", attempt, now: now)
                now = aborts.nextAttempt(now: now) ?? now
            } else {
                aborts.committed(attempt)
                position += size
            }
            guard transactionCount < 100, !aborts.isHopeless else {
                Issue.record("not found after \(transactionCount) transactions")
                return
            }
        }
        #expect(aborts.culprits.isEmpty)
        #expect(aborts.recordCountMax == nil)
        #expect(transactionCount <= 60)
    }

    @Test func `end the worker where the culprit's dead letter is refused as well`() {
        var aborts = RepeatedAborts()
        var count = 0
        while !aborts.isHopeless, count < 1_000 {
            count += 1
            aborts.aborted(
                code: "MSG_SIZE_TOO_LARGE",
                attempt(1, from: 5),
                now: Timestamp(milliseconds: 0)
            )
        }
        #expect(aborts.culprits.count == 1)
        #expect((20...25).contains(count))
    }

    @Test func `end the worker where no record was taken in`() {
        var aborts = RepeatedAborts()
        for _ in 0..<20 {
            aborts.aborted(
                code: "MSG_SIZE_TOO_LARGE",
                attempt(0),
                now: Timestamp(milliseconds: 0)
            )
        }
        #expect(aborts.isHopeless && !aborts.isSearching)
    }
}
