import Kafka
import Testing

@testable import tollway

@Suite struct `The tally of a replay` {
    private static let lost = ReplaySession.Ending.lost(
        .unavailable(code: "_TRANSPORT", message: "gone")
    )

    private func loss(_ tally: inout ReplayTally, unsendableCount: Int = 0) -> ReplayTally.Next {
        tally.ended(Self.lost, unsendableCount: unsendableCount, partCount: 1)
    }

    @Test(arguments: [ReplayRun.Ending.interrupted, .failureRatio(0.5)])
    func `ends where the audit of the end alone is lost`(ending: ReplayRun.Ending) {
        var tally = ReplayTally()
        tally.beginStage()
        tally.committed(10)
        tally.ending = ending
        let next = loss(&tally)
        #expect(next == .nextStage && tally.ending == ending)
    }

    @Test func `gives up after losses in a row, and not after as many in a long run`() {
        var tally = ReplayTally()
        tally.beginStage()
        for _ in 0..<3 * ReplayTally.lossCountMax {
            let next = loss(&tally)
            #expect(next == .again)
            tally.committed(1)
        }
        // An audit alone is no progress.
        for _ in 0..<ReplayTally.lossCountMax {
            let next = loss(&tally)
            #expect(next == .again)
            tally.committed(0)
        }
        let last = loss(&tally)
        #expect(last == .givenUp(.unavailable(code: "_TRANSPORT", message: "gone")))
        tally.beginStage()
        let other = loss(&tally)
        #expect(other == .again)
    }

    @Test func `counts what cannot go once, however often its stage begins anew`() {
        var tally = ReplayTally()
        for stageCount in 1...2 {
            tally.beginStage()
            _ = loss(&tally, unsendableCount: 2)
            _ = loss(&tally, unsendableCount: 3)
            _ = tally.ended(.finished, unsendableCount: 3, partCount: 4)
            #expect(tally.unsendableCount == 3 * stageCount)
        }
        #expect(tally.partCount == 4)
    }

    @Test func `takes in what a commit with an unknown result has sent`() {
        var tally = ReplayTally()
        tally.beginStage()
        tally.committed(10)
        #expect(!tally.followsLoss)
        _ = loss(&tally)
        #expect(tally.followsLoss)
        // Kafka has a transaction of five more.
        tally.counted(15)
        #expect(tally.sentCount == 15 && !tally.followsLoss)
        _ = loss(&tally)
        tally.counted(15)
        #expect(tally.sentCount == 15 && tally.followsLoss, "nothing more was sent")
    }

    /// Of a canary of ten some were sent and read, and of those some failed again.
    @Test(arguments: [
        (10, 0, 0, true, nil), (10, 1, 0, true, nil),
        (10, 2, 0, true, ReplayRun.Ending.failureRatio(0.2)),
        (10, 2, 0, false, .failureRatio(0.2)),
        // Nothing comes after it.
        (0, 0, 0, false, nil), (7, 0, 0, false, nil),
        // Another run has sent them, or the commit's result is unknown.
        (0, 0, 0, true, .canaryUnsent(readCount: 0, plannedCount: 10)),
        (9, 0, 0, true, .canaryUnsent(readCount: 9, plannedCount: 10)),
        (4, 1, 0, true, .failureRatio(0.25)),
        // Some cannot go; they cannot in the next canary either.
        (8, 0, 2, true, nil), (7, 0, 2, true, .canaryUnsent(readCount: 7, plannedCount: 10)),
        (0, 0, 10, true, .canaryUnsent(readCount: 0, plannedCount: 10)),
    ])
    func `takes a canary for good only where this run has sent it and seen it read`(
        readCount: Int,
        failedCount: Int,
        unsendableCount: Int,
        hasRest: Bool,
        ending: ReplayRun.Ending?
    ) {
        var results = ReplayResults()
        if readCount > 0 {
            let partition = TopicPartition(topic: "tollway.tokens.received.v1", partition: 0)
            results.sent([partition: 10], count: readCount)
            results.committed([partition: 10])
            results.failed(count: failedCount)
        }
        var tally = ReplayTally()
        tally.beginStage()
        // An earlier stage's are none of this canary's.
        _ = tally.ended(.finished, unsendableCount: 5, partCount: 1)
        tally.beginStage()
        _ = tally.ended(.finished, unsendableCount: unsendableCount, partCount: 2)
        tally.judgeCanary(results, plannedCount: 10, hasRest: hasRest, ratioMax: 0.1)
        #expect(tally.ending == ending)
    }
}
