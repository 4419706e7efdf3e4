internal import TokenDomain

/// Whether Apple has answered for the primaries of duplicates that are due.
///
/// Nothing may follow DUPLICATE_TOKEN, and Apple may refuse a forged primary: then a duplicate takes its
/// place. It is due one hold after its primary, which is long enough unless the lane stood still meanwhile,
/// or this worker did. A primary may be another instance's; the lanes of an app stand still together.
extension Sender {
    /// What failed is tried again within this after an outage.
    static let troubleEcho = Milliseconds.minutes(10)
    /// Likewise, of a duplicate whose deadline is near.
    static let lateTroubleEcho = Milliseconds.minutes(1)
    /// A duplicate that is found due later than this was so while no worker had its partition.
    static let overdueMax = Milliseconds.minutes(10)
    /// A shorter hold is a trial's: a rebalance takes longer, and no duplicate is put off.
    static let putOffHoldMin = Milliseconds.minutes(15)

    /// Notes which lanes stand still now; once a second.
    func noteTrouble(now: Timestamp) {
        for queue in queues where queue.endpoint == .reports {
            let isOutage = spells[queue]?.isOutage == true
            // A breaker with nothing to stop may stay stopped: then the duplicate is its probe.
            let isHalted = isStopped(queue) && hasSomething(queue)
            if isOutage || isHalted || pause(of: queue.lane) != nil {
                lanes[queue]?.troubledAt = now
            }
            // Where a lane has little to send, it takes hours until enough has failed for an outage.
            if spells[queue]?.isFailing(now: now) == true {
                failing(queue, until: now + Self.troubleEcho)
            }
        }
    }

    /// Apple has failed it before its partition came here, perhaps for as long as it was another's; it may
    /// wait for as long as Apple has said.
    func foundRetry(_ queue: SendQueue, now: Timestamp) {
        failing(queue, until: now + ReportPolicy.retryWaitMax)
    }

    private func failing(_ queue: SendQueue, until end: Timestamp) {
        if let sendLane = lanes[queue] {
            lanes[queue]?.failingUntil = max(sendLane.failingUntil ?? end, end)
        }
    }

    /// Where a duplicate's deadline is near, `isLate`, it does not wait for the end of a queue.
    func hasHeardPrimary(
        of lane: Lane,
        ofDuplicateDueAt dueAt: Timestamp,
        isLate: Bool,
        now: Timestamp
    ) -> Bool {
        guard policy.hold >= Self.putOffHoldMin else {
            return true
        }
        guard now - dueAt <= Self.overdueMax, pause(of: lane) == nil, isWhole || isLate else {
            return false
        }
        guard let sendLane = lanes[.reports(of: lane)] else {
            return true
        }
        let echo = isLate ? Self.lateTroubleEcho : Self.troubleEcho
        if let troubledAt = sendLane.troubledAt, now - troubledAt <= echo {
            return false
        }
        // It may be one report that always fails: no reason to miss a deadline.
        if !isLate, let failingUntil = sendLane.failingUntil, now <= failingUntil {
            return false
        }
        let primaryDueAt = dueAt + -policy.hold
        let isSent = sendLane.clearedAt.map { primaryDueAt < $0 } ?? false
        return isSent || isLate || !sendLane.isWaiting
    }
}
