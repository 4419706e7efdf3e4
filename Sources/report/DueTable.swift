internal import StageRuntime
internal import StateStore
internal import TokenDomain

/// Reads the due table of the committed store: what waits, is ready, is guarded or may be forgotten.
///
/// ``DueKey`` says how its entries are made; nothing here changes one.
struct DueTable {
    let state: StagedState

    /// Whether something was put for an account that is not known to be committed.
    func isStaged(_ place: AccountPlace) -> Bool {
        state.stagedValue(forKey: place.key, partition: place.partition) != nil
    }

    /// What lies under a key of the state; nil where nothing does.
    func debtor(at place: AccountPlace, _ cache: AccountCache) throws(StoreFault) -> Debtor? {
        if let debtor = cache[place] {
            return debtor
        }
        return try state.value(place.key, partition: place.partition).map { value in
            let debtor = Debtor(value, key: place.key)
            cache.put(debtor, valueByteCount: value.count, at: place)
            return debtor
        }
    }

    // MARK: What waits

    /// Accounts of a partition that have waited until `now`, at most so many, since when the first of
    /// them has, and when the next one has; nil where that is not known or none waits.
    func due(
        in partition: Int32,
        now: Timestamp,
        countMax: Int
    ) throws(StoreFault) -> (places: [AccountPlace], first: Timestamp?, next: Timestamp?) {
        var places: [AccountPlace] = []
        var first: Timestamp?
        var next: Timestamp?
        try visit(.waiting, partition) { time, key in
            guard time <= now else {
                next = time
                return false
            }
            first = first ?? time
            places.append(AccountPlace(key: key, partition: partition))
            return places.count < countMax
        }
        return (places, first, next)
    }

    /// Accounts whose retry or put-off duplicate has to be moved by what the clock was set back,
    /// and what is left to be looked through after this slice.
    func retries(
        in partition: Int32,
        _ sweep: RetrySweep,
        now: Timestamp,
        countMax: Int
    ) throws(StoreFault) -> (places: [AccountPlace], rest: RetrySweep?) {
        var places: [AccountPlace] = []
        var entryCount = 0
        var resumeAt: [UInt8]?
        try state.scan(
            .due,
            partition: partition,
            from: sweep.resumeAt ?? DueKey.start(.waiting, at: now),
            within: DueKey.start(DueKey.Region.waiting)
        ) { entry, note in
            guard entry.first == DueKey.Region.waiting.rawValue,
                let (time, key) = DueKey.timed(entry)
            else {
                return false
            }
            guard entryCount < SliceLimit.entryCountMax, places.count < countMax else {
                resumeAt = entry
                return false
            }
            entryCount += 1
            let isMoved = sweep.setBack.count > 0 || time > now + ReportPolicy.retryWaitMax
            if isMoved, DueKey.isMovable(note: note) {
                places.append(AccountPlace(key: key, partition: partition))
            }
            return true
        }
        return (places, resumeAt.map { RetrySweep(setBack: sweep.setBack, resumeAt: $0) })
    }

    // MARK: What is ready

    /// The most urgent debts of a queue in their order, at most so many of all partitions together,
    /// without those that are under way or staged; and whether that is all of them.
    ///
    /// What is left out is never more urgent than what is given: each partition is read as far as
    /// it has something more urgent than what those before it have filled the room with.
    func ready(
        _ queue: SendQueue,
        in partitions: [Int32],
        except busy: Set<AccountPlace>,
        countMax: Int
    ) throws(StoreFault) -> (debts: [ReadyDebt], isWhole: Bool) {
        var debts: [ReadyDebt] = []
        var isWhole = true
        let prefix = DueKey.start(.ready, queue)
        for partition in partitions {
            let last = debts.count < countMax ? nil : debts.last
            var found: [ReadyDebt] = []
            try state.scan(.due, partition: partition, from: prefix, within: prefix) { entry, _ in
                guard let (owner, deadline, key) = DueKey.ready(entry), owner == queue else {
                    return false
                }
                guard found.count < countMax, last.map({ deadline < $0.deadline }) ?? true else {
                    isWhole = false
                    return false
                }
                let place = AccountPlace(key: key, partition: partition)
                if !busy.contains(place), !isStaged(place) {
                    found.append(ReadyDebt(place: place, deadline: deadline))
                }
                return true
            }
            debts = (debts + found).sorted { $0.deadline < $1.deadline }
            if debts.count > countMax {
                debts.removeLast(debts.count - countMax)
                isWhole = false
            }
        }
        return (debts, isWhole)
    }

    /// The most urgent that is due in every queue, of what is ready to be sent and of what waits to be
    /// tried again.
    ///
    /// - Returns: how many look-ups it took: one for each queue and kind that has something.
    @discardableResult
    func visitMostUrgent(
        in partition: Int32,
        _ visit: (SendQueue, Timestamp, _ isRetried: Bool) -> Void
    ) throws(StoreFault) -> Int {
        var lookUpCount = 0
        for region in [DueKey.Region.ready, .retried] {
            let whole = DueKey.start(region)
            var start: [UInt8]? = whole
            while let from = start {
                start = nil
                lookUpCount += 1
                try state.scan(.due, partition: partition, from: from, within: whole) { entry, _ in
                    if entry.first == region.rawValue,
                        let (queue, deadline) = DueKey.queued(entry)
                    {
                        visit(queue, deadline, region == .retried)
                        start = DueKey.after(DueKey.start(region, queue))
                    }
                    return false
                }
            }
        }
        return lookUpCount
    }

    // MARK: What is guarded

    /// Since when the oldest notice of a partition waits for the guard; nil where none does.
    func firstGuarded(in partition: Int32) throws(StoreFault) -> Timestamp? {
        var first: Timestamp?
        try visit(.guarded, partition) { time, _ in
            first = time
            return false
        }
        return first
    }

    /// Accounts that wait for the guard since `startedAt` or longer, at most so many.
    func guarded(
        in partition: Int32,
        since startedAt: Timestamp,
        countMax: Int
    ) throws(StoreFault) -> [AccountPlace] {
        var places: [AccountPlace] = []
        try visit(.guarded, partition) { time, key in
            guard time <= startedAt else {
                return false
            }
            places.append(AccountPlace(key: key, partition: partition))
            return places.count < countMax
        }
        return places
    }

    /// How many wait for the guard; counted up to so many.
    func guardedCount(in partitions: [Int32], countMax: Int) throws(StoreFault) -> Int {
        var count = 0
        for partition in partitions where count < countMax {
            try visit(.guarded, partition) { _, _ in
                count += 1
                return count < countMax
            }
        }
        return count
    }

    // MARK: What is past use

    /// Accounts that may be forgotten, at most so many, each with its entry: nothing waits of them,
    /// so that they have no other.
    func forgotten(
        in partition: Int32,
        by horizon: Timestamp,
        countMax: Int
    ) throws(StoreFault) -> [(place: AccountPlace, entry: DueEntry)] {
        var found: [(place: AccountPlace, entry: DueEntry)] = []
        let start = DueKey.start(.forgotten)
        try state.scan(.due, partition: partition, from: start, within: start) { entry, note in
            guard let (time, key) = DueKey.timed(entry), time <= horizon else {
                return false
            }
            found.append((AccountPlace(key: key, partition: partition), (entry, note)))
            return found.count < countMax
        }
        return found
    }

    /// Entries of a region that begin with a time, until `body` has seen enough.
    private func visit(
        _ region: DueKey.Region,
        _ partition: Int32,
        _ body: (Timestamp, [UInt8]) -> Bool
    ) throws(StoreFault) {
        let start = DueKey.start(region)
        try state.scan(.due, partition: partition, from: start, within: start) { entry, _ in
            guard entry.first == region.rawValue, let (time, key) = DueKey.timed(entry) else {
                return false
            }
            return body(time, key)
        }
    }
}

/// Retries of a partition that have to be looked through after the clock was set.
struct RetrySweep {
    /// How far the clock was set back; zero where only waits that are too long are looked for.
    var setBack = Milliseconds(0)
    /// Where the next slice begins; nil at first.
    var resumeAt: [UInt8]?
}
