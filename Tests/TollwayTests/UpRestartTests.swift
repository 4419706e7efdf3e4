import Foundation
import Testing

@testable import tollway

@Suite struct `A restart of tollway up` {
    private let start = Date(timeIntervalSince1970: 1_700_000_000)

    @Test func `waits twice as long after each end in a row, and begins anew after a steady run`() {
        var now = start
        var restart = UpRestart(startedAt: now)
        var pauses: [Double] = []
        for ranSeconds in [0, 0, 0, 0, 0, 0, 59.5, 60] {
            now = now.addingTimeInterval(ranSeconds)
            let pause = restart.ended(at: now)
            now = now.addingTimeInterval(pause)
            let isDue = restart.takeDue(at: now)
            #expect(isDue)
            pauses.append(pause)
        }
        #expect(pauses == [1, 2, 4, 8, 16, 30, 30, 1])
    }

    @Test func `is due once, when its pause is over`() {
        var restart = UpRestart(startedAt: start)
        var due = [restart.takeDue(at: start)]
        _ = restart.ended(at: start)
        #expect(restart.dueAt == start.addingTimeInterval(1))
        for seconds in [0.5, 1, 2] {
            due.append(restart.takeDue(at: start.addingTimeInterval(seconds)))
        }
        #expect(due == [false, false, true, false] && restart.dueAt == nil)
    }
}
