internal import StageRuntime
internal import StateStore
internal import Telemetry
internal import TokenDomain

/// What the stage does where the wall clock was set.
///
/// Due times are times of day, for they outlive the process. A wait that runs when the clock is set
/// back keeps what was left of it, and is not prolonged by the jump. Forwards, what has become due
/// is due; only forgetting believes no clock alone: ``ForgettingClock``.
extension ReportStage {
    /// The clock may be slewed or stand still; less than this is no jump.
    static let backMin = Milliseconds.seconds(1)
    static let forgettingInterval = Milliseconds.hours(1)

    /// Retries of a partition that have to be looked through.
    struct RetrySweep {
        /// How far the clock was set back; zero where only waits that are too long are looked for.
        var setBack = Milliseconds(0)
        /// Where the next slice begins; nil at first.
        var resumeAt: [UInt8]?
    }

    /// Notices a jump since the last tick.
    func noticeClock(now: Timestamp) {
        defer { tickedAt = now }
        guard let tickedAt else {
            return
        }
        let jump = now - tickedAt
        if jump < -Self.backMin {
            hearSetBack(by: -jump, now: now)
        }
    }

    private func hearSetBack(by setBack: Milliseconds, now: Timestamp) {
        log.limited(
            .warning,
            "the clock was set back: waits go on by what was left of them",
            ("seconds", .number(Double(setBack.count) / 1_000))
        )
        for queue in queues {
            lanes[queue]?.pace.clockWasSetBack(by: setBack)
            lanes[queue]?.gate.clockWasSetBack(by: setBack)
        }
        for lane in keyGates.keys {
            keyGates[lane]?.clockWasSetBack(by: setBack)
        }
        for queue in spells.keys {
            spells[queue]?.clockWasSetBack(by: setBack)
        }
        for partition in sweeps.keys {
            let earlier = sweeps[partition]?.retries?.setBack ?? Milliseconds(0)
            let sum = Milliseconds(earlier.count + setBack.count)
            sweeps[partition]?.retries = RetrySweep(setBack: sum)
            sweeps[partition]?.isDue = true
        }
        // A round that began at a time to come would serve whom it must not.
        proof.end()
        nextInquiry = now
        nextMeasure = now
        nextOrderLook = now
    }

    /// Moves the retries of a partition by what the clock was set back, a slice at a time; none may
    /// wait longer than any wait ever is.
    func moveRetries(
        _ partition: Int32,
        _ sweep: inout Sweep,
        into plan: inout BatchPlan
    ) throws(StoreFault) {
        guard let retries = sweep.retries else {
            return
        }
        let now = plan.now
        var places: [AccountPlace] = []
        var entryCount = 0
        var resumeAt: [UInt8]?
        try plan.state.scan(
            .due,
            partition: partition,
            from: retries.resumeAt ?? DueKey.start(.waiting, at: now),
            within: DueKey.start(DueKey.Region.waiting)
        ) { entry, note in
            guard entry.first == DueKey.Region.waiting.rawValue,
                let (time, key) = DueKey.timed(entry)
            else {
                return false
            }
            guard entryCount < SliceLimit.entryCountMax, places.count < limits.dueCountMax else {
                resumeAt = entry
                return false
            }
            entryCount += 1
            let isMoved = retries.setBack.count > 0 || time > now + ReportPolicy.retryWaitMax
            if isMoved, DueKey.isRetry(note: note) {
                places.append(AccountPlace(key: key, partition: partition))
            }
            return true
        }
        sweep.retries = resumeAt.map { RetrySweep(setBack: retries.setBack, resumeAt: $0) }
        places.removeAll { isStaged($0) || busy.contains($0) }
        try change(places, into: &plan) { debtor in
            switch debtor {
            case .token(var account):
                account.moveRetry(by: retries.setBack, now: now)
                debtor = .token(account)
            case .transaction(var debt):
                debt.moveRetry(by: retries.setBack, now: now)
                debtor = .transaction(debt)
            }
            return []
        }
    }
}
