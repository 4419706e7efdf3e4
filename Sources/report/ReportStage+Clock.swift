internal import StageRuntime
internal import StateStore
internal import Telemetry
internal import TokenDomain

/// What the stage does where the wall clock was set.
///
/// Due times are times of day, for they outlive the process. A wait that runs when the clock is set
/// back keeps what was left of it, and is not prolonged by the jump. Forwards, what has become due
/// is due; only forgetting trusts no clock alone: ``ForgettingClock``.
extension ReportStage {
    /// The clock may be slewed or stand still; less than this is no jump.
    static let backMin = Milliseconds.seconds(1)

    /// Notices a jump since the last tick.
    func noticeClock(into plan: inout BatchPlan) throws(StoreFault) {
        let now = plan.now
        defer { tickedAt = now }
        guard let tickedAt else {
            return
        }
        let jump = now - tickedAt
        if jump < -Self.backMin {
            clockWasSetBack(by: -jump, now: now)
            // The sweep of the committed store does not see these.
            try moveRetries(of: inbox.unconfirmedPlaces, by: -jump, into: &plan)
        }
    }

    private func clockWasSetBack(by setBack: Milliseconds, now: Timestamp) {
        log.limited(
            .warning,
            "the clock was set back: waits go on by what was left of them",
            ("seconds", .number(Double(setBack.count) / 1_000))
        )
        sender.clockWasSetBack(by: setBack, now: now)
        inbox.clockWasSetBack(by: setBack, now: now)
        for partition in sweeps.keys {
            let earlier = sweeps[partition]?.retries?.setBack ?? Milliseconds(0)
            let sum = Milliseconds(earlier.count + setBack.count)
            sweeps[partition]?.retries = RetrySweep(setBack: sum)
            sweeps[partition]?.isDue = true
        }
        guardRunner.clockWasSetBack(now: now)
        nextMeasure = now
    }
}
