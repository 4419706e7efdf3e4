internal import TokenDomain

/// A report that may be sent as soon as its queue's rate limiter allows.
struct ReadyDebt: Equatable {
    var place: AccountPlace
    var deadline: Timestamp
}

/// One queue to Apple as this replica has it: its rate limiter, its circuit breaker, and the next few
/// debts.
///
/// The debts themselves lie in the due table; only a slice of them is here.
struct SendLane {
    var limiter: RateLimiter
    /// For what is the endpoint's alone; the key has a circuit breaker that endpoints share.
    var breaker = CircuitBreaker()
    /// What failed may be tried again early only as often as this allows.
    var retryBudget = RetryBudget()
    /// The latest deadline first: the next one is the last.
    private(set) var ready: [ReadyDebt] = []
    /// The due table may hold something more urgent than what is here, or more of it.
    var needsRefill = true
    /// The due table holds more than was taken.
    private var hasMore = false
    var flightCount = 0
    /// Requests started since the lane was opened.
    var startedCount: Int64 = 0
    /// All that fell due before was sent by some moment of this assignment; nil where there was none.
    var clearedAt: Timestamp?
    /// When nothing could last be sent, for minutes; nil where that never was.
    var troubledAt: Timestamp?
    /// What was answered as a wrong address is, the newest last: it may be those requests alone.
    private var misdirected: [AccountPlace] = []
    private static let misdirectedCountMax = 1_000
    /// Something of it failed, for no more than this is known, and may be tried again until then.
    var failingUntil: Timestamp?

    init(limiter: RateLimiter) {
        self.limiter = limiter
    }

    /// Takes over what is most urgent of the due table, in that order; `isWhole` says whether that
    /// is all of it.
    mutating func refill(_ debts: [ReadyDebt], isWhole: Bool) {
        ready = debts.reversed()
        hasMore = !isWhole
        needsRefill = false
    }

    /// Takes in a debt that has come into the due table.
    ///
    /// Where only a part of the table is here, one that is less urgent than all of that stays there: the
    /// table is read again when all is sent.
    mutating func add(_ debt: ReadyDebt, countMax: Int) {
        guard !needsRefill, !hasMore || ready.first.map({ debt.deadline < $0.deadline }) == true
        else {
            return
        }
        let index = ready.firstIndex { $0.deadline <= debt.deadline } ?? ready.endIndex
        ready.insert(debt, at: index)
        if ready.count > countMax {
            ready.removeFirst()
            hasMore = true
        }
    }

    /// The next debt, taken out.
    ///
    /// A stopped lane is probed with one that was not answered as a wrong address is, where it has one, or
    /// with that for which this is longest ago: two such requests must not take turns for ever.
    mutating func popMostUrgent() -> ReadyDebt? {
        var index = ready.indices.last
        if breaker.isStopped, let place = ready.last?.place, misdirected.contains(place) {
            let age = Dictionary(uniqueKeysWithValues: zip(misdirected, misdirected.indices))
            index =
                ready.lastIndex { age[$0.place] == nil }
                ?? ready.indices.min { age[ready[$0].place] ?? 0 < age[ready[$1].place] ?? 0 }
        }
        let debt = index.map { ready.remove(at: $0) }
        if ready.isEmpty, hasMore {
            needsRefill = true
        }
        return debt
    }

    mutating func noteMisdirected(_ place: AccountPlace) {
        misdirected.removeAll { $0 == place }
        misdirected.append(place)
        misdirected.removeFirst(max(misdirected.count - Self.misdirectedCountMax, 0))
    }

    mutating func putBack(_ debt: ReadyDebt) {
        ready.append(debt)
    }

    mutating func forget(partitions: Set<Int32>) {
        ready.removeAll { partitions.contains($0.place.partition) }
    }

    /// It is tried at once, and at the configured rate.
    mutating func reset(now: Timestamp) {
        limiter.reset(now: now)
        breaker.probeSoon()
        retryBudget = RetryBudget()
    }

    mutating func clockWasSetBack(by setBack: Milliseconds) {
        limiter.clockWasSetBack(by: setBack)
        breaker.clockWasSetBack(by: setBack)
        clearedAt = nil
        // What failed then is tried again as long after as it would have been.
        troubledAt = troubledAt.map { $0 + -setBack }
        failingUntil = failingUntil.map { $0 + -setBack }
    }

    /// Whether it has something to send, as far as is known here.
    var isWaiting: Bool { !ready.isEmpty || needsRefill }

    /// When it may send next; nil where it has nothing to send, or only an answer lets it go on.
    func nextSend(now: Timestamp, flightCountMax: Int, keyBreaker: CircuitBreaker) -> Timestamp? {
        guard isWaiting, flightCount < flightCountMax,
            let opensAt = breaker.opensAt(now: now), let keyOpensAt = keyBreaker.opensAt(now: now),
            let turn = limiter.nextSend(now: now)
        else {
            return nil
        }
        return max(opensAt, keyOpensAt, turn)
    }
}
