import Kafka
import Testing

@testable import tollway

@Suite struct `The tally of a replay` {
    private static let lost = ReplaySession.Ending.lost(
        .unavailable(code: "_TRANSPORT", message: "gone")
    )

    private func loss(_ tally: inout ReplayTally, tooLargeCount: Int = 0) -> ReplayTally.Next {
        tally.ended(Self.lost, tooLargeCount: tooLargeCount, partCount: 1)
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

    @Test func `counts what is too large once, however often its stage begins anew`() {
        var tally = ReplayTally()
        for stageCount in 1...2 {
            tally.beginStage()
            _ = loss(&tally, tooLargeCount: 2)
            _ = loss(&tally, tooLargeCount: 3)
            _ = tally.ended(.finished, tooLargeCount: 3, partCount: 4)
            #expect(tally.tooLargeCount == 3 * stageCount)
        }
        #expect(tally.partCount == 4)
    }
}
