internal import Kafka

/// What is known of a run of ``ReplayRun`` over all the sessions that it took.
struct ReplayTally {
    /// What comes after a session.
    enum Next: Equatable {
        case nextStage
        /// Kafka lost the session: the same stage once more, with what is left of it.
        case again
        case givenUp(LogFault)
    }

    /// Kafka may lose so many transactions in a row.
    static let lossCountMax = 5

    private(set) var sentCount = 0
    private(set) var tooLargeCount = 0
    /// Transactions so far.
    private(set) var partCount = 0
    /// Why the run ends before all is sent.
    var ending: ReplayRun.Ending?
    private var lossCount = 0
    /// Of the stages before this one.
    private var earlierTooLargeCount = 0

    mutating func beginStage() {
        lossCount = 0
        earlierTooLargeCount = tooLargeCount
    }

    mutating func committed(_ count: Int) {
        sentCount += count
        if count > 0 {
            lossCount = 0
        }
    }

    /// Takes in how a session ended; one that begins anew counts the same too large ones again.
    mutating func ended(
        _ end: ReplaySession.Ending,
        tooLargeCount: Int,
        partCount: Int
    ) -> Next {
        self.tooLargeCount = max(self.tooLargeCount, earlierTooLargeCount + tooLargeCount)
        self.partCount = partCount
        // Where the run has its end, the audit of that was lost alone: to write it in a new session
        // would send more.
        guard case .lost(let fault) = end, ending == nil else {
            return .nextStage
        }
        lossCount += 1
        return lossCount > Self.lossCountMax ? .givenUp(fault) : .again
    }
}
