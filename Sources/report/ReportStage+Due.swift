internal import Kafka
internal import StageRuntime
internal import StateStore
internal import TokenDomain

extension ReportStage {
    /// Asks how many partitions there are, until it is told: the replica's share hangs on it.
    func learnPartitionCount() {
        guard partitionCount == nil, !partitions.isEmpty else {
            return
        }
        do throws(LogFault) {
            if let ends = try inquiry.endOffsets(of: .tokensDistinct) {
                partitionCount = ends.count
                share()
            }
        } catch {
            // The loop meets the same trouble and knows what to do; the question is asked again.
        }
    }

    /// Looks through the due tables: what fell due becomes an intent, what is past use is forgotten.
    func sweepDueTables(into plan: inout BatchPlan) throws(StoreFault) {
        let now = plan.now
        let horizon = forgetting.horizon(now: now)
        for partition in partitions {
            guard var sweep = sweeps[partition] else {
                continue
            }
            if let horizon, sweep.isForgettingDue(now: now) {
                let isDone = try forget(partition, by: horizon, into: &plan)
                sweep.nextForgetting = isDone ? now + Self.forgettingInterval : now
            }
            try moveRetries(partition, &sweep, into: &plan)
            guard sweep.isDue || sweep.nextWaiting.map({ $0 <= now }) == true else {
                sweeps[partition] = sweep
                continue
            }
            if sweep.isDue {
                sweep.nextGuarded = try firstTime(in: .guarded, partition: partition, plan.state)
                if !sweep.isDiscovered {
                    try discoverLanes(partition: partition, plan.state)
                    sweep.isDiscovered = true
                }
            }
            sweep.isDue = false
            sweep.nextWaiting = try planDue(partition, into: &plan)
            sweeps[partition] = sweep
        }
    }

    /// Advances what is due in one partition.
    ///
    /// - Returns: when to look again; after the next commit in any case, where something was due.
    private func planDue(
        _ partition: Int32,
        into plan: inout BatchPlan
    ) throws(StoreFault) -> Timestamp? {
        let now = plan.now
        var places: [AccountPlace] = []
        var next: Timestamp?
        try plan.state.scan(
            .due,
            partition: partition,
            from: DueKey.start(DueKey.Region.waiting),
            within: DueKey.start(DueKey.Region.waiting)
        ) { entry, _ in
            guard entry.first == DueKey.Region.waiting.rawValue,
                let (time, key) = DueKey.timed(entry)
            else {
                return false
            }
            guard time <= now else {
                next = time
                return false
            }
            places.append(AccountPlace(key: key, partition: partition))
            return places.count < limits.dueCountMax
        }
        guard !places.isEmpty else {
            return next
        }
        // What is staged already goes on after its commit.
        places.removeAll { isStaged($0) || busy.contains($0) }
        try change(places, into: &plan) { debtor in
            switch debtor {
            case .token(var account):
                let effects = account.advance(now: now, policy: policy)
                debtor = .token(account)
                return effects
            case .transaction(var debt):
                debt.advance(now: now)
                debtor = .transaction(debt)
                return []
            }
        }
        changed.insert(partition)
        // What is under way may end without a commit.
        return now + limits.settleInterval
    }

    /// Changes accounts, stages them, and writes what follows from it.
    func change(
        _ places: [AccountPlace],
        into plan: inout BatchPlan,
        _ body: (inout Debtor) -> [ReportEffect]
    ) throws(StoreFault) {
        guard !places.isEmpty else {
            return
        }
        var desk = AccountDesk(state: plan.state)
        try desk.load(places)
        try desk.loadNext(places)
        for place in places {
            guard var debtor = desk[place] else {
                continue
            }
            let effects = body(&debtor)
            _ = desk.keep(debtor, at: place)
            if case .token(let account) = debtor {
                enact(effects, of: account, into: &plan)
            }
        }
        touch(desk.put())
    }

    private func firstTime(
        in region: DueKey.Region,
        partition: Int32,
        _ state: StagedState
    ) throws(StoreFault) -> Timestamp? {
        var first: Timestamp?
        let start = DueKey.start(region)
        try state.scan(.due, partition: partition, from: start, within: start) { entry, _ in
            if entry.first == region.rawValue {
                first = DueKey.timed(entry)?.time
            }
            return false
        }
        return first
    }

    /// Opens the lane of every queue that has something due.
    private func discoverLanes(partition: Int32, _ state: StagedState) throws(StoreFault) {
        try visitMostUrgent(partition: partition, state) { queue, _ in openLane(queue) }
    }

    /// The most urgent that is due in every queue, ready to be sent or waiting to be tried again:
    /// one look-up for each queue and kind that has something.
    func visitMostUrgent(
        partition: Int32,
        _ state: StagedState,
        _ visit: (SendQueue, Timestamp) -> Void
    ) throws(StoreFault) {
        for region in [DueKey.Region.ready, .retried] {
            let whole = DueKey.start(region)
            var start: [UInt8]? = whole
            while let from = start {
                start = nil
                try state.scan(.due, partition: partition, from: from, within: whole) { entry, _ in
                    if entry.first == region.rawValue,
                        let (queue, deadline, _) = DueKey.queued(entry)
                    {
                        visit(queue, deadline)
                        start = DueKey.after(DueKey.start(region, queue))
                    }
                    return false
                }
            }
        }
    }

    // MARK: Forgetting

    /// - Returns: whether nothing is left to be forgotten now.
    private func forget(
        _ partition: Int32,
        by horizon: Timestamp,
        into plan: inout BatchPlan
    ) throws(StoreFault) -> Bool {
        var keys: [[UInt8]] = []
        try plan.state.scan(
            .due,
            partition: partition,
            from: DueKey.start(DueKey.Region.forgotten),
            within: DueKey.start(DueKey.Region.forgotten)
        ) { entry, _ in
            guard entry.first == DueKey.Region.forgotten.rawValue,
                let (time, key) = DueKey.timed(entry), time <= horizon
            else {
                return false
            }
            keys.append(key)
            return keys.count < limits.forgottenCountMax
        }
        for key in keys where !isStaged(AccountPlace(key: key, partition: partition)) {
            plan.state.put(nil, forKey: key, partition: partition)
        }
        return keys.count < limits.forgottenCountMax
    }

    // MARK: The guard

    /// Moves the guard on, and lets it serve who waits.
    func runGuard(into plan: inout BatchPlan) throws(StoreFault) {
        let now = plan.now
        guard let earliest = sweeps.values.compactMap(\.nextGuarded).min(), earliest <= now else {
            proof.end()
            return
        }
        if !proof.isRunning {
            proof.begin(now: now)
            inquiry.beginAnew(.tokensReceived)
            nextInquiry = now
        }
        if nextInquiry <= now {
            nextInquiry = now + limits.inquiryInterval
            inquire()
        }
        guard let startedAt = proof.startedAt else {
            return
        }
        var isDone = true
        for partition in partitions {
            guard let nextGuarded = sweeps[partition]?.nextGuarded, nextGuarded <= startedAt else {
                continue
            }
            isDone = false
            if proof.isProven(partition: partition), sweeps[partition]?.isServed == false {
                try serveGuarded(partition, startedAt: startedAt, into: &plan)
                sweeps[partition]?.isServed = true
            }
        }
        if isDone {
            proof.end()
        }
    }

    /// Asks the next question; the answer may be there at once, or at a later tick.
    private func inquire() {
        do throws(LogFault) {
            while let question = proof.question {
                let step = proof.step
                switch question {
                case .endOffsets(let topic):
                    guard let ends = try inquiry.endOffsets(of: topic) else {
                        return
                    }
                    proof.learn(endOffsets: ends)
                case .committedOffsets(let worker, let topic):
                    guard let offsets = try inquiry.committedOffsets(of: worker, on: topic) else {
                        return
                    }
                    proof.learn(committedOffsets: offsets)
                    guard let next = proof.step, next != step else {
                        // The worker is behind, or nobody runs it: that may last for hours.
                        nextInquiry = nextInquiry + limits.behindInterval
                        return
                    }
                    inquiry.beginAnew(next.topic)
                }
            }
        } catch {
            // Without the log there is no proof; the loop meets the same trouble.
        }
    }

    private func serveGuarded(
        _ partition: Int32,
        startedAt: Timestamp,
        into plan: inout BatchPlan
    ) throws(StoreFault) {
        var places: [AccountPlace] = []
        try plan.state.scan(
            .due,
            partition: partition,
            from: DueKey.start(DueKey.Region.guarded),
            within: DueKey.start(DueKey.Region.guarded)
        ) { entry, _ in
            guard entry.first == DueKey.Region.guarded.rawValue,
                let (time, key) = DueKey.timed(entry), time <= startedAt
            else {
                return false
            }
            places.append(AccountPlace(key: key, partition: partition))
            return places.count < limits.guardedCountMax
        }
        places.removeAll { isStaged($0) }
        let now = plan.now
        try change(places, into: &plan) { debtor in
            guard case .token(var account) = debtor else {
                return []
            }
            let effects = account.proveUnknown(now: now, policy: policy)
            debtor = .token(account)
            return effects
        }
    }
}
