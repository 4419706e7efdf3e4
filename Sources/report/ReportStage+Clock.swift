internal import StageRuntime
internal import StateStore
internal import Telemetry
internal import TokenDomain

/// What the stage does where the wall clock was set.
///
/// Due times are times of day, for they outlive the process. A wait that runs when the clock is set
/// back keeps what was left of it, and is not prolonged by the jump. Forwards, what has become due
/// is due; only forgetting trusts no clock alone: ``ForgettingClock``.
///
/// A jump forwards may also be a machine that was suspended. The group may have given its partitions
/// to another member, who has reported since, and the first tick comes before the first poll tells.
/// So nothing is sent for as long as the group takes to say so; a commit would be no proof, for one
/// that was under way may have succeeded before.
extension ReportStage {
    /// Notices a jump since the last tick.
    func noticeClock(into plan: inout BatchPlan) throws(StoreFault) {
        let now = plan.now
        noticeStandstill(now: now)
        if let setBack = clock.setBack(now: now) {
            clockWasSetBack(by: setBack, now: now)
            // The sweep of the committed store does not see these.
            try moveRetries(of: inbox.unconfirmedPlaces, by: setBack, into: &plan)
        }
    }

    private func noticeStandstill(now: Timestamp) {
        defer { workedAt = now }
        guard let workedAt, now - workedAt > limits.standstillMax else {
            return
        }
        log.limited(
            .warning,
            "the worker stood still, or its clock was set: nothing is sent for a while",
            ("seconds", .number(Double((now - workedAt).count) / 1_000))
        )
        sender.stoodStill(until: now + limits.standstillHold)
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
