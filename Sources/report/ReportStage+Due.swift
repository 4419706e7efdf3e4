internal import StageRuntime
internal import StateStore
internal import Telemetry
internal import TokenDomain

/// What falls due, is answered, is proven or is past use: each changes accounts in this tick's
/// transaction.
extension ReportStage {
    /// Changes accounts, stages them, and writes what follows from it.
    private func change(
        _ places: [AccountPlace],
        into plan: inout BatchPlan,
        _ body: (inout Debtor) -> [ReportEffect]
    ) throws(StoreFault) {
        guard !places.isEmpty else {
            return
        }
        var accounts = AccountBatch(state: plan.state, cache: cache)
        try accounts.load(places)
        try accounts.loadNext(places)
        for place in places {
            guard var debtor = accounts[place] else {
                continue
            }
            let effects = body(&debtor)
            _ = accounts.keep(debtor, at: place)
            if case .token(let account) = debtor {
                output.enact(effects, of: account, into: &plan)
            }
        }
        touch(accounts.put())
    }

    // MARK: Answers

    /// Takes answers into their accounts.
    func settleAnswers(_ table: DueTable, into plan: inout BatchPlan) throws(StoreFault) {
        let answers = inbox.take(now: plan.now, isMoreComing: sender.isExpectingAnswers)
        guard !answers.isEmpty else {
            return
        }
        var accounts = AccountBatch(state: plan.state, cache: cache)
        try accounts.load(answers.map(\.place))
        try accounts.loadNext(answers.map(\.place))
        for placed in answers {
            let isChanged = settle(placed, &accounts, into: &plan)
            if isChanged || table.isStaged(placed.place) {
                inbox.staged(placed)
            } else {
                // The account moved on without it: it was taken in before an abort.
                sender.release(placed.place)
            }
        }
        touch(accounts.put())
    }

    /// - Returns: whether it changes its account.
    private func settle(
        _ placed: PlacedAnswer,
        _ accounts: inout AccountBatch,
        into plan: inout BatchPlan
    ) -> Bool {
        switch placed.answer {
        case .report(let answer):
            guard var account = accounts.token(at: placed.place) else {
                return false
            }
            let before = account
            output.enact(account.absorb(answer, policy: policy), of: account, into: &plan)
            plan.tally.moved(from: before, to: account)
            return accounts.keep(.token(account), at: placed.place)
        case .accountToken(let answer):
            guard var debt = accounts.transaction(at: placed.place) else {
                return false
            }
            let trace = debt.current?.trace
            output.enact(debt.absorb(answer), trace: trace, into: &plan)
            return accounts.keep(.transaction(debt), at: placed.place)
        }
    }

    // MARK: The due table

    /// Looks through the due tables: what fell due becomes an intent, what is past use is forgotten.
    func sweepDueTables(_ table: DueTable, into plan: inout BatchPlan) throws(StoreFault) {
        let now = plan.now
        let horizon = forgetting.horizon(now: now)
        try discoverLanes(table, now: now)
        for partition in partitions {
            guard var sweep = sweeps[partition] else {
                continue
            }
            if let horizon, sweep.isForgettingDue(now: now) {
                let isDone = try forget(partition, by: horizon, table)
                sweep.nextForgetting = isDone ? now + Self.forgettingInterval : now
            }
            try moveRetries(partition, &sweep, table, into: &plan)
            if sweep.isDue {
                sweep.nextGuarded = try table.firstGuarded(in: partition)
            }
            if sweep.isDue || sweep.nextWaiting.map({ $0 <= now }) == true {
                sweep.isDue = false
                (sweep.firstDue, sweep.nextWaiting) = try planDue(partition, table, into: &plan)
            }
            sweeps[partition] = sweep
        }
    }

    /// Opens the lanes of what lay in partitions that came, in all of them before anything is planned:
    /// the primary of a duplicate may lie in another one.
    private func discoverLanes(_ table: DueTable, now: Timestamp) throws(StoreFault) {
        for partition in partitions where sweeps[partition]?.isDiscovered == false {
            try table.visitMostUrgent(in: partition) { queue, _, isRetried in
                sender.open(queue)
                if isRetried {
                    sender.foundRetry(queue, now: now)
                }
            }
            sweeps[partition]?.isDiscovered = true
        }
    }

    /// Advances what is due in one partition.
    ///
    /// - Returns: when the first fell due, nil where none did; and when to look again: after the next
    ///   commit in any case, where something was due.
    private func planDue(
        _ partition: Int32,
        _ table: DueTable,
        into plan: inout BatchPlan
    ) throws(StoreFault) -> (firstDue: Timestamp?, next: Timestamp?) {
        let now = plan.now
        let due = try table.due(in: partition, now: now, countMax: limits.dueCountMax)
        guard let first = due.first else {
            return (nil, due.next)
        }
        try change(free(due.places, table), into: &plan) { debtor in
            switch debtor {
            case .token(var account):
                let mayTellDuplicate = mayTellDuplicate(account, now: now)
                let effects = account.advance(
                    now: now,
                    mayTellDuplicate: mayTellDuplicate,
                    policy: policy
                )
                debtor = .token(account)
                return effects
            case .transaction(var debt):
                debt.advance(now: now)
                debtor = .transaction(debt)
                return []
            }
        }
        changed.insert(partition)
        // What is in flight may end without a commit.
        return (first, now + limits.dueInterval)
    }

    /// Whether the account does not owe DUPLICATE_TOKEN now, or its primary was heard.
    private func mayTellDuplicate(_ account: TokenAccount, now: Timestamp) -> Bool {
        guard let dueAt = account.duplicateDue(by: now), let lane = account.lane else {
            return true
        }
        let isLate = account.isDuplicateLate(now: now, policy: policy)
        if sender.hasHeardPrimary(of: lane, ofDuplicateDueAt: dueAt, isLate: isLate, now: now) {
            return true
        }
        log.limited(
            .warning,
            "duplicates are put off: their primaries may not have been sent yet",
            per: "\(lane.appAppleID) \(lane.environment.rawValue)",
            ("appAppleId", .integer(lane.appAppleID)),
            ("environment", .text(lane.environment.rawValue))
        )
        return false
    }

    /// Those that nothing is staged or in flight for; the others go on after their commit.
    private func free(_ places: [AccountPlace], _ table: DueTable) -> [AccountPlace] {
        places.filter { !table.isStaged($0) && !sender.busy.contains($0) }
    }

    /// Moves the retries of a partition by what the clock was set back, a slice at a time; none may
    /// wait longer than any wait ever is.
    private func moveRetries(
        _ partition: Int32,
        _ sweep: inout Sweep,
        _ table: DueTable,
        into plan: inout BatchPlan
    ) throws(StoreFault) {
        guard let retries = sweep.retries else {
            return
        }
        let now = plan.now
        let slice = try table.retries(
            in: partition,
            retries,
            now: now,
            countMax: limits.dueCountMax
        )
        sweep.retries = slice.rest
        // Where something else is staged for an account, its retry stands in that as well.
        let places = slice.places.filter { !sender.busy.contains($0) }
        if !places.isEmpty {
            movedBack[partition] = retries.setBack
        }
        try moveRetries(of: places, by: retries.setBack, into: &plan)
    }

    /// Moves those that wait for a retry, as they are now, staged or not.
    func moveRetries(
        of places: [AccountPlace],
        by setBack: Milliseconds,
        into plan: inout BatchPlan
    ) throws(StoreFault) {
        let now = plan.now
        try change(places, into: &plan) { debtor in
            switch debtor {
            case .token(var account):
                account.moveRetry(by: setBack, now: now)
                debtor = .token(account)
            case .transaction(var debt):
                debt.moveRetry(by: setBack, now: now)
                debtor = .transaction(debt)
            }
            return []
        }
    }

    /// - Returns: whether nothing is left to be forgotten now.
    private func forget(
        _ partition: Int32,
        by horizon: Timestamp,
        _ table: DueTable
    ) throws(StoreFault) -> Bool {
        let found = try table.forgotten(
            in: partition,
            by: horizon,
            countMax: limits.forgottenCountMax
        )
        for (place, entry) in found where !table.isStaged(place) {
            let change = DueChange(before: [entry], after: [])
            table.state.put(nil, forKey: place.key, partition: partition, due: change)
            cache.remove(place)
        }
        return found.count < limits.forgottenCountMax
    }

    // MARK: The guard

    /// Moves the guard on, and lets it serve who waits.
    func runGuard(_ table: DueTable, into plan: inout BatchPlan) throws(StoreFault) {
        let earliest = sweeps.values.compactMap(\.nextGuarded).min()
        guard let startedAt = guardRunner.advance(earliest: earliest, now: plan.now) else {
            return
        }
        var isDone = true
        for partition in partitions {
            guard let nextGuarded = sweeps[partition]?.nextGuarded, nextGuarded <= startedAt else {
                continue
            }
            isDone = false
            if guardRunner.isProven(partition: partition), sweeps[partition]?.isServed == false {
                try serveGuarded(partition, startedAt: startedAt, table, into: &plan)
                sweeps[partition]?.isServed = true
            }
        }
        if isDone {
            guardRunner.end()
        }
    }

    private func serveGuarded(
        _ partition: Int32,
        startedAt: Timestamp,
        _ table: DueTable,
        into plan: inout BatchPlan
    ) throws(StoreFault) {
        let places = try table.guarded(
            in: partition,
            since: startedAt,
            countMax: limits.guardedCountMax
        )
        try change(places.filter { !table.isStaged($0) }, into: &plan) { debtor in
            guard case .token(var account) = debtor else {
                return []
            }
            account.proveUnknown(policy: policy)
            debtor = .token(account)
            return []
        }
    }
}
