internal import StageRuntime
internal import StateStore
internal import TokenDomain

/// What the due table of the committed store holds, looked through after every commit.
extension PurchasesStage {
    func sweep(
        _ partition: Int32,
        _ book: inout Book,
        into plan: inout BatchPlan
    ) throws(StoreFault) {
        guard var sweep = sweeps[partition] else {
            return
        }
        let now = plan.now
        let isForgettingDue =
            sweep.nextForgetting.map { $0 <= now || $0 > now + limits.forgettingInterval } ?? true
        let left = sweep.due.forgettable
        if isForgettingDue || left != nil {
            sweep.due.forgettable = nil
            sweep.nextForgetting = now + limits.forgettingInterval
            if let horizon = forgetting.horizon(now: now) {
                let start = isForgettingDue ? nil : left
                try forget(partition, from: start, by: horizon, &book, now: now)
            }
        }
        // Reports first: what is decided now stands in no queue of the store yet.
        if let from = sweep.queuesFrom {
            sweep.queuesFrom = try reportQueues(partition, from: from, &book, into: &plan)
        }
        if sweep.due.hasWaking {
            sweep.due.hasWaking = false
            try wake(partition, &book, into: &plan)
        }
        try moveBack(partition, &sweep.setBack, &book, plan.state, now: now)
        if let time = sweep.due.time, time <= now {
            sweep.due.time = try decideDue(partition, from: time, &book, into: &plan)
        }
        // A new file may free any number of sales: they are taken as fast as reports are made.
        if let from = sweep.ratesFrom, ready.count < limits.readyCountMax {
            sweep.ratesFrom = try wakeRates(partition, from, &book, into: &plan)
        }
        try lookForAnswers(partition, &sweep.answers, &book, into: &plan)
        sweeps[partition] = sweep
    }

    /// Entries that have a prefix, from the first or from a key on.
    ///
    /// - Returns: the entries, and the first one that was left out for `countMax`.
    func entries(
        _ partition: Int32,
        prefix: [UInt8],
        from start: [UInt8]? = nil,
        countMax: Int,
        _ state: StagedState
    ) throws(StoreFault) -> (entries: [DueEntry], next: [UInt8]?) {
        var entries: [DueEntry] = []
        var next: [UInt8]?
        try state.scan(.due, partition: partition, from: start ?? prefix, within: prefix) {
            key,
            note in
            guard entries.count < countMax else {
                next = key
                return false
            }
            entries.append((key, note))
            return true
        }
        return (entries, next)
    }

    /// The records that stand in a region ordered by their keys.
    ///
    /// - Returns: the records, and the first entry that was left out for `countMax`.
    func places(
        _ region: BookDue.Region,
        _ partition: Int32,
        from start: [UInt8]? = nil,
        countMax: Int,
        _ state: StagedState
    ) throws(StoreFault) -> (places: [BookPlace], next: [UInt8]?) {
        let whole = BookDue.start(region)
        let found = try entries(
            partition,
            prefix: whole,
            from: start,
            countMax: countMax,
            state
        )
        let places = found.entries.map { entry, _ in
            BookPlace(partition: partition, key: BookKey(bytes: Array(entry.dropFirst())))
        }
        return (places, found.next)
    }

    /// The records that a region ordered by time has for a time that has come, from `start` on: what
    /// stood there before that was removed, and would be read through.
    ///
    /// - Returns: the records, the time of the last of them, and that of the next one: nil where there
    ///   is none, or where `countMax` left some out.
    private func due(
        _ region: BookDue.Region,
        _ partition: Int32,
        from start: Timestamp = Timestamp(milliseconds: 0),
        by time: Timestamp,
        countMax: Int,
        _ state: StagedState
    ) throws(StoreFault) -> (places: [BookPlace], last: Timestamp?, next: Timestamp?) {
        var places: [BookPlace] = []
        var last: Timestamp?
        var next: Timestamp?
        try state.scan(
            .due,
            partition: partition,
            from: BookDue.start(region, at: start),
            within: BookDue.start(region)
        ) { entry, _ in
            guard let (due, key) = BookDue.timed(entry, region) else {
                return true
            }
            guard due <= time else {
                next = due
                return false
            }
            guard places.count < countMax else {
                return false
            }
            last = due
            places.append(BookPlace(partition: partition, key: key))
            return true
        }
        return (places, last, next)
    }

    // MARK: Time

    /// Decides what a time has come for; no item waits for a time before `start`.
    ///
    /// - Returns: when to look again; after the commits in any case, where something was due.
    private func decideDue(
        _ partition: Int32,
        from start: Timestamp,
        _ book: inout Book,
        into plan: inout BatchPlan
    ) throws(StoreFault) -> Timestamp? {
        let (due, last, next) = try due(
            .waiting,
            partition,
            from: start,
            by: plan.now,
            countMax: limits.decisionCountMax,
            plan.state
        )
        try book.load(due)
        for place in due {
            try decide(place, isWoken: false, &book, into: &plan)
        }
        if let last {
            // Until what was decided is committed the table has the same entries; what was left out
            // comes behind them.
            recent.note(DueNote(time: last), in: partition)
        }
        return next
    }

    // MARK: Waking

    /// Has items looked at again that wait for records which changed.
    private func wake(
        _ partition: Int32,
        _ book: inout Book,
        into plan: inout BatchPlan
    ) throws(StoreFault) {
        let (changed, _) = try places(
            .waking,
            partition,
            countMax: limits.decisionCountMax,
            plan.state
        )
        if !changed.isEmpty {
            // Some may be left; until what is decided is committed the table has the same entries.
            recent.note(DueNote(hasWaking: true), in: partition)
        }
        var left = limits.decisionCountMax
        for place in changed where left > 0 {
            left -= try wake(place, countMax: left, &book, into: &plan)
        }
    }

    private func wake(
        _ place: BookPlace,
        countMax: Int,
        _ book: inout Book,
        into plan: inout BatchPlan
    ) throws(StoreFault) -> Int {
        guard let (group, prefix, from) = try waiters(of: place, &book) else {
            return 0
        }
        let (woken, next) = try entries(
            place.partition,
            prefix: prefix,
            from: from.isEmpty ? nil : from,
            countMax: countMax,
            plan.state
        )
        try setWaking(place, next, &book)
        let items = woken.compactMap { entry, _ in
            BookDue.key(of: entry, after: group).map(place.at)
        }
        try book.load(items)
        for item in items {
            try decide(item, isWoken: true, &book, into: &plan)
        }
        return woken.count + 1 + (try giveTurn(place, countMax: countMax, &book, into: &plan))
    }

    /// Where the entries of those begin that wait for a record, and where waking goes on.
    private func waiters(
        of place: BookPlace,
        _ book: inout Book
    ) throws(StoreFault) -> (group: [UInt8], prefix: [UInt8], from: [UInt8])? {
        let own = BookDue.start(.reference, of: place.key.bytes)
        let prefix = BookDue.references(to: place.key)
        switch place.key.kind {
        case .item:
            return try book.item(place)?.wakesFrom.map { (own, prefix, $0) }
        case .subscription:
            return try book.subscription(place)?.wakesFrom.map { (own, prefix, $0) }
        case .token:
            guard let token = try book.token(place), let from = token.wakesFrom else {
                return nil
            }
            let group = BookDue.start(.token, of: BookDue.tokenGroup(of: token, place.key))
            return (group, group, from)
        case .event, .customer, nil:
            return nil
        }
    }

    func setWaking(
        _ place: BookPlace,
        _ from: [UInt8]?,
        _ book: inout Book
    ) throws(StoreFault) {
        switch place.key.kind {
        case .item:
            if var item = try book.item(place) {
                item.wakesFrom = from
                book.put(item, at: place)
            }
        case .subscription:
            if var record = try book.subscription(place) {
                record.wakesFrom = from
                book.put(record, at: place)
            }
        case .token:
            if var token = try book.token(place) {
                token.wakesFrom = from
                book.put(token, at: place)
            }
        case .event, .customer, nil: break
        }
    }

    /// - Returns: where to go on; nil at the end.
    private func wakeRates(
        _ partition: Int32,
        _ from: [UInt8],
        _ book: inout Book,
        into plan: inout BatchPlan
    ) throws(StoreFault) -> [UInt8]? {
        let (items, next) = try places(
            .rate,
            partition,
            from: from,
            countMax: limits.decisionCountMax,
            plan.state
        )
        try book.load(items)
        for item in items {
            try decide(item, isWoken: true, &book, into: &plan)
        }
        return next
    }

    // MARK: Forgetting

    /// Whether a token has reports that are not settled, or a subscription has periods: only a new event of
    /// a subscription touches it, while its items stay as long as they are spoken of.
    private func isUsed(
        _ place: BookPlace,
        _ book: inout Book,
        _ state: StagedState
    ) throws(StoreFault) -> Bool {
        switch place.key.kind {
        case .token:
            let traffic = try book.traffic(of: place)
            return traffic.hasQueue || !traffic.inFlight.isEmpty
        case .subscription:
            let group = BookDue.start(.period, of: place.key.bytes)
            var isUsed = !recent.waiting(in: group).isEmpty
            let known = book
            try state.scan(.due, partition: place.partition, from: group, within: group) {
                entry,
                _ in
                if let key = BookDue.key(of: entry, after: group, numberByteCount: 8) {
                    isUsed = isUsed || !known.isRemoved(place.at(key))
                }
                return !isUsed
            }
            return isUsed
        case .customer, .event, .item, nil:
            return false
        }
    }

    private func forget(
        _ partition: Int32,
        from start: Timestamp?,
        by horizon: Timestamp,
        _ book: inout Book,
        now: Timestamp
    ) throws(StoreFault) {
        guard let state else {
            return
        }
        let (places, last, _) = try due(
            .forgotten,
            partition,
            from: start ?? Timestamp(milliseconds: 0),
            by: horizon,
            countMax: limits.forgottenCountMax,
            state
        )
        if places.count == limits.forgottenCountMax {
            // Until what is forgotten now is committed the table has the same entries; the rest comes
            // behind them.
            recent.note(DueNote(forgettable: last), in: partition)
        }
        for place in places {
            // What was put since the last commit is alive.
            guard state.stagedValue(forKey: place.key.bytes, partition: partition) == nil else {
                continue
            }
            if try isUsed(place, &book, state) {
                try touch(place, &book, now: now)
            } else {
                try keepPaid(of: place, &book)
                try forgetStart(place, &book)
                try book.forget(place)
            }
        }
    }
}
