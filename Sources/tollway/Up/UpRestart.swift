internal import Foundation

/// When a process that ended although nobody asked is started again: after a pause that doubles with
/// each end in a row.
struct UpRestart {
    private static let pauseSeconds = 1.0
    private static let pauseSecondsMax = 30.0
    /// Who ran for so long begins with the shortest pause again.
    private static let steadySeconds = 60.0

    private var startedAt: Date
    private var failureCount = 0
    /// Nil while it runs.
    private(set) var dueAt: Date?

    init(startedAt: Date = Date()) {
        self.startedAt = startedAt
    }

    /// Takes in that it ended.
    ///
    /// - Returns: the pause, in seconds.
    mutating func ended(at now: Date) -> Double {
        if now.timeIntervalSince(startedAt) >= Self.steadySeconds {
            failureCount = 0
        }
        let pause = min(
            Self.pauseSeconds * Double(1 << min(failureCount, 10)),
            Self.pauseSecondsMax
        )
        failureCount += 1
        dueAt = now.addingTimeInterval(pause)
        return pause
    }

    /// Whether the pause is over; it counts as started then.
    mutating func takeDue(at now: Date) -> Bool {
        guard let dueAt, dueAt <= now else {
            return false
        }
        self.dueAt = nil
        startedAt = now
        return true
    }
}
