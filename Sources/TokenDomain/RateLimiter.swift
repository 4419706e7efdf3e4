/// How fast one lane sends: a token bucket with a burst of one, filled at the configured rate or at
/// the ``FoundRate``, times this replica's share; and the hold that a 429 begins.
///
/// At the configured rate the clock is cut into slots, which belong to the partitions in turn: so all
/// replicas together put exactly the rate into each second. Below it each keeps its own distances.
package struct RateLimiter: Sendable {
    /// A loop that wakes late catches up so much, in milliseconds; who asks later than that rested.
    private static let lateMax = 100.0
    /// The longest hold without `Retry-After`, after so many refusals in a row; the second where few
    /// of the answers were, and the rate is nearly right.
    package static let hold = Backoff(base: .seconds(1), cap: .seconds(60))
    private static let holdOfFew = Backoff(base: Milliseconds(250), cap: hold.cap)

    /// So many refusals in a row may say that all is over already, as those of a count that is in
    /// milliseconds do; after them Apple's clock is not ours.
    package static let pastEndCountMax = 5

    /// After other failures for so long, and no 429 among them, it is not the rate that stops the lane.
    private static let otherwiseMax = Milliseconds.minutes(5)

    /// Requests per second for the app and environment, over all replicas.
    package var rate: Double {
        didSet { bringForward() }
    }
    private var quota: HourQuota?
    private var found = FoundRate()
    /// Which partitions are this replica's, by number; none between revoke and restore.
    private var isOwned: [Bool] = []
    private var share = 0.0
    /// When the next token is there, and when the last was taken, in milliseconds.
    private var (next, takenAt) = (0.0, 0.0)
    private var (heldSince, heldUntil) = (Timestamp(milliseconds: 0), Timestamp(milliseconds: 0))
    /// When Apple began to refuse everything; nil where it took a request since, or none waits.
    private var refusedSince: Timestamp?
    /// Since the last 429: when Apple began to answer something else that is no 200; nil where it did not.
    private var otherwiseSince: Timestamp?
    /// Since the last 200; nil before the first.
    private var refusedCount: Int?

    /// Nothing is sent until ``share(_:of:)`` gives it partitions.
    package init(rate: Double, keeping: Keeping = .second) {
        precondition(rate > 0, "a lane has a rate")
        self.rate = rate
        quota = keeping == .hour ? HourQuota() : nil
    }

    package mutating func share(_ partitions: [Int32], of partitionCount: Int) {
        isOwned = (0..<Int32(partitionCount)).map { partitions.contains($0) }
        share = Double(isOwned.count(where: \.self)) / Double(max(partitionCount, 1))
        bringForward()
        let taken = Timestamp(milliseconds: Int64(takenAt))
        // Its slot may be another replica's now. Before the first turn there is none.
        if share > 0, takenAt > 0, hasSlots(now: taken),
            !isOurs(slot: Int64(next * bucketRateMax / 1_000))
        {
            next = following(next, now: taken)
        }
    }

    /// A turn that was put far off at a lower rate, or with fewer partitions, comes as early as if
    /// the last one had been taken after a rest at those of now.
    private mutating func bringForward() {
        guard share > 0, takenAt > 0 else {
            return
        }
        let taken = Timestamp(milliseconds: Int64(takenAt))
        next = min(next, following(following(takenAt, now: taken), now: taken))
    }

    /// What this replica allows itself now, per second.
    package func requestsPerSecond(now: Timestamp) -> Double { rateFound(now: now) * share }

    /// The same for all replicas, as far as this one knows.
    package func rateFound(now: Timestamp) -> Double { min(rate, bucketRate(now: now)) }
    private var bucketRateMax: Double { quota == nil ? rate : rate * HourQuota.catchUp }
    private func bucketRate(now: Timestamp) -> Double { found.value(of: bucketRateMax, now: now) }

    // MARK: The bucket

    /// Takes one slot, if there is one.
    package mutating func take(now: Timestamp) -> Bool {
        quota?.allow(rate * share, now: now)
        guard let turn = nextSend(now: now), turn <= now else {
            return false
        }
        let time = Double(now.milliseconds)
        // After a rest it uses the token to come: no second gets more than its slots.
        let isRested = time - next > Self.lateMax
        let begun = isRested ? following(time, now: now) : max(next, Double(heldUntil.milliseconds))
        next = following(isRested ? begun : min(begun, time), now: now)
        takenAt = time
        quota?.take()
        return true
    }

    /// When the next turn may come; nil while this replica has no share.
    package func nextSend(now: Timestamp) -> Timestamp? {
        guard share > 0 else {
            return nil
        }
        let isSetBack = Double(now.milliseconds) < takenAt
        let filled = isSetBack ? now : Timestamp(milliseconds: Int64(next.rounded(.up)))
        let allowed = quota?.nextSend(rate * share, now: now) ?? now
        return max(now, filled, allowed, holdEnd(now: now) ?? now)
    }

    /// When the token is there that follows one of that time.
    private func following(_ time: Double, now: Timestamp) -> Double {
        let rate = bucketRate(now: now) / 1_000
        guard hasSlots(now: now) else {
            return time + 1 / (rate * share)
        }
        // In the middle of its slot: a clock that is a little off stays in the second.
        var slot = Int64(time * rate + 0.501)
        while !isOurs(slot: slot) {
            slot += 1
        }
        return (Double(slot) + 0.5) / rate
    }

    /// At the full rate the replicas share its slots; below it each has its share of the rate.
    private func hasSlots(now: Timestamp) -> Bool { bucketRate(now: now) >= bucketRateMax }
    private func isOurs(slot: Int64) -> Bool { isOwned[Int(slot % Int64(isOwned.count))] }

    /// Until when nothing is sent; nil where nothing holds it, or a clock was set back since.
    package func holdEnd(now: Timestamp) -> Timestamp? {
        heldSince <= now && now < heldUntil ? heldUntil : nil
    }

    /// For how long the lane has been held: from the first 429 after a 200, over all holds that
    /// follow it without a 200 between them; zero while it is open, or fails in another way.
    ///
    /// After a hold only an answer shows that the lane is open again, and `isWaiting` says that there
    /// will be one: a request is under way, or one is due. Where there is none, it counts as open.
    package mutating func heldTime(isWaiting: Bool, now: Timestamp) -> Milliseconds {
        if !isWaiting, holdEnd(now: now) == nil {
            refusedSince = nil
        }
        if let otherwiseSince, now - otherwiseSince > Self.otherwiseMax {
            refusedSince = nil
        }
        return refusedSince.map { max(now - $0, Milliseconds(0)) } ?? Milliseconds(0)
    }

    /// Apple took a request.
    package mutating func accepted(sentAt: Timestamp, now: Timestamp) {
        found.answered(isRefused: false, now: now)
        if sentAt > heldSince {
            refusedCount = 0
            refusedSince = nil
        }
    }

    /// Apple answered neither with 200 nor with 429, or not at all.
    package mutating func failedOtherwise(sentAt: Timestamp, now: Timestamp) {
        if sentAt > heldSince {
            otherwiseSince = min(otherwiseSince ?? now, now)
        }
    }

    /// Apple said 429, and until when, if it did.
    ///
    /// An end that is over by our clock is no back-off: it counts for the first refusals in a row
    /// alone, see ``pastEndCountMax``.
    /// What was sent before a hold began belongs to its refusal, and may only lengthen it.
    ///
    /// - Returns: whether a hold begins.
    package mutating func rateLimited(
        sentAt: Timestamp,
        until: Timestamp?,
        now: Timestamp,
        using generator: inout some RandomNumberGenerator
    ) -> Bool {
        found.answered(isRefused: true, now: now)
        let isPastEndTaken = (refusedCount ?? 0) < Self.pastEndCountMax
        let until = until.flatMap { $0 > now || isPastEndTaken ? $0 : nil }
        guard sentAt > heldSince || heldSince > now else {
            if let until, until > heldUntil {
                (heldUntil, otherwiseSince) = (until, nil)
            }
            return false
        }
        let hold = found.areFew ? Self.holdOfFew : Self.hold
        let wait = hold.delay(failureCount: (refusedCount ?? 0) + 1, using: &generator)
        (heldSince, heldUntil) = (now, until ?? now + wait)
        refusedSince = refusedSince ?? now
        otherwiseSince = nil
        // While Apple takes nothing at all, it is not the rate.
        if refusedCount == 0, share > 0 {
            found.refused(of: bucketRateMax, share: share, heldUntil: heldUntil, now: now)
        }
        refusedCount = (refusedCount ?? 0) + 1
        return true
    }

    /// Forgets the rate that was found and every hold, as of now; what the hour has left stays.
    ///
    /// What is under way belongs to the time before.
    package mutating func reset(now: Timestamp) {
        found = FoundRate()
        (refusedCount, refusedSince) = (nil, nil)
        (heldSince, heldUntil) = (now, now)
        next = min(next, Double(now.milliseconds))
    }

    /// Every wait keeps what was left of it.
    package mutating func clockWasSetBack(by setBack: Milliseconds) {
        next -= Double(setBack.count)
        takenAt -= Double(setBack.count)
        (heldSince, heldUntil) = (heldSince + -setBack, heldUntil + -setBack)
        refusedSince = refusedSince.map { $0 + -setBack }
        otherwiseSince = otherwiseSince.map { $0 + -setBack }
        found.clockWasSetBack(by: setBack)
    }
}
