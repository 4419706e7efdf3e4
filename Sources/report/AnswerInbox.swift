internal import TokenDomain

/// Apple's answers on their way into the accounts.
///
/// An aborted transaction does not lose them: they are handed back.
struct AnswerInbox {
    private let countMax: Int
    private let wholeCountMin: Int
    private let interval: Milliseconds
    /// Not yet taken in.
    private var waiting: [PlacedAnswer] = []
    /// Taken in, not yet known to be committed.
    private var unconfirmed: [PlacedAnswer] = []
    /// When some were taken in last.
    private var takenAt = Timestamp(milliseconds: 0)

    /// Whose accounts have changed by an answer that is not known to be committed.
    var unconfirmedPlaces: [AccountPlace] { unconfirmed.map(\.place) }

    init(limits: ReportLimits) {
        countMax = limits.answerCountMax
        wholeCountMin = limits.wholeAnswerCountMin
        interval = limits.settleInterval
    }

    mutating func add(_ answers: [PlacedAnswer]) {
        waiting += answers
    }

    /// When the next are to be taken in; nil where there are none.
    ///
    /// At once after a rest, where they are many, or where a burst of them is whole; a clock that was
    /// set back ends the wait.
    ///
    /// - Parameters:
    ///   - now: the time of the tick.
    ///   - isMoreComing: whether waiting would gather more: requests are under way, or wait to be.
    /// - Returns: `now` where that is at once.
    func nextTaking(now: Timestamp, isMoreComing: Bool) -> Timestamp? {
        guard !waiting.isEmpty else {
            return nil
        }
        let isWaitOver = takenAt > now || waiting.count >= (isMoreComing ? countMax : wholeCountMin)
        return isWaitOver ? now : max(takenAt + interval, now)
    }

    /// Those that are to be taken in now: none before their time.
    mutating func take(now: Timestamp, isMoreComing: Bool) -> [PlacedAnswer] {
        guard nextTaking(now: now, isMoreComing: isMoreComing) == now else {
            return []
        }
        takenAt = now
        let taken = Array(waiting.prefix(countMax))
        waiting.removeFirst(taken.count)
        return taken
    }

    /// It is staged; whether it holds, the commit says.
    mutating func staged(_ answer: PlacedAnswer) {
        unconfirmed.append(answer)
    }

    /// - Parameter isStaged: whether something is put for an account that is not known to be
    ///   committed.
    /// - Returns: accounts whose answers are committed.
    mutating func committed(except isStaged: (AccountPlace) -> Bool) -> [AccountPlace] {
        let settled = unconfirmed.map(\.place).filter { !isStaged($0) }
        unconfirmed.removeAll { !isStaged($0.place) }
        return settled
    }

    mutating func aborted() {
        waiting = unconfirmed + waiting
        unconfirmed = []
    }

    /// An answer chose its retry when it came: one that is not in an account yet is not found there.
    mutating func clockWasSetBack(by setBack: Milliseconds, now: Timestamp) {
        for index in waiting.indices {
            waiting[index].moveRetry(by: setBack, now: now)
        }
        // Where they are aborted, they come anew.
        for index in unconfirmed.indices {
            unconfirmed[index].moveRetry(by: setBack, now: now)
        }
    }

    mutating func forget(partitions gone: Set<Int32>) {
        waiting.removeAll { gone.contains($0.place.partition) }
        unconfirmed.removeAll { gone.contains($0.place.partition) }
    }
}
