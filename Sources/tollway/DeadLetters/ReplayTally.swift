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
    private(set) var unsendableCount = 0
    /// Transactions so far.
    private(set) var partCount = 0
    /// Why the run ends before all is sent.
    var ending: ReplayRun.Ending?
    private var lossCount = 0
    /// Of the stages before this one.
    private var earlierUnsendableCount = 0

    mutating func beginStage() {
        lossCount = 0
        earlierUnsendableCount = unsendableCount
    }

    /// Whether the result of the last transaction is unknown.
    var followsLoss: Bool { lossCount > 0 }

    /// Takes in how many records Kafka has of the run, a transaction with an unknown result included.
    mutating func counted(_ count: Int) {
        committed(max(0, count - sentCount))
    }

    mutating func committed(_ count: Int) {
        sentCount += count
        if count > 0 {
            lossCount = 0
        }
    }

    /// Takes in how a session ended; one that begins anew counts those that cannot go again.
    mutating func ended(
        _ end: ReplaySession.Ending,
        unsendableCount: Int,
        partCount: Int
    ) -> Next {
        self.unsendableCount = max(self.unsendableCount, earlierUnsendableCount + unsendableCount)
        self.partCount = partCount
        // Where the run has its end, the audit of that was lost alone: to write it in a new session
        // would send more.
        guard case .lost(let fault) = end, ending == nil else {
            return .nextStage
        }
        lossCount += 1
        return lossCount > Self.lossCountMax ? .givenUp(fault) : .again
    }

    /// Ends the run where the canary of the stage did badly, or says too little.
    ///
    /// What another run sent, and what a commit with an unknown result sent, was not watched. To go on
    /// would take a canary that nobody looked after for a good one. Where nothing comes after it,
    /// `hasRest` is false, and there is nothing to be kept back.
    mutating func judgeCanary(
        _ results: ReplayResults,
        plannedCount: Int,
        hasRest: Bool,
        ratioMax: Double
    ) {
        if results.failureRatio > ratioMax {
            ending = .failureRatio(results.failureRatio)
            return
        }
        // The next plan begins with the same that cannot go: they cannot be waited for.
        let sendableCount = plannedCount - (unsendableCount - earlierUnsendableCount)
        let isJudged = results.readCount > 0 && results.readCount >= sendableCount
        guard isJudged || !hasRest else {
            ending = .canaryUnsent(readCount: results.readCount, plannedCount: plannedCount)
            return
        }
    }
}
