internal import StageRuntime
internal import StateStore
internal import TokenDomain

/// What the stage does where the wall clock was set back: what was put off for minutes by the time
/// that it had, or was to be decided at once, does not wait for that time to come again.
///
/// Waits for a token or for another sale are of hours and days: they stay as they are.
extension PurchasesStage {
    /// Nothing that has to be asked again is put off for longer.
    private static let putOffMax = PurchaseRules.clockSkewMax
    /// Kafka refuses records that are further ahead of its own clock, unless set otherwise.
    private static let aheadMax = Milliseconds.hours(1)
    /// Records may have been judged since the last tick.
    private static let tickMax = Milliseconds.minutes(1)

    /// A look at what a partition may have put off by a clock that was ahead.
    struct SetBackLook {
        /// The times of the due table that these waits have.
        private var since: Timestamp
        private(set) var until: Timestamp
        /// From this entry on; nil where all were looked at.
        fileprivate(set) var from: [UInt8]?
        /// After so many commits once more: the store lacks what was put by the old time.
        private var looksLeft = 0
        /// Until so many more are done, an abort may have dropped what was moved.
        private var unsettledCount = PurchasesStage.commitsUnderWay

        /// The clock may have been set back before the partition came.
        init(assignedAt: Timestamp) {
            since = assignedAt
            until = assignedAt + PurchasesStage.aheadMax + PurchasesStage.putOffMax
            from = BookDue.start(.waiting, at: assignedAt)
        }

        fileprivate mutating func begin(now: Timestamp, tickedAt: Timestamp) {
            since = now
            until = max(until, tickedAt + PurchasesStage.putOffMax + PurchasesStage.tickMax)
            looksLeft = PurchasesStage.commitsUnderWay
            restart()
        }

        /// From the beginning: what was moved did not happen, or the store has more now.
        private mutating func restart() {
            from = BookDue.start(.waiting, at: since)
            unsettledCount = PurchasesStage.commitsUnderWay
        }

        mutating func committed() {
            if looksLeft > 0 {
                looksLeft -= 1
                restart()
            } else if from == nil, unsettledCount > 0 {
                unsettledCount -= 1
            }
        }

        mutating func aborted() {
            if from != nil || unsettledCount > 0 {
                restart()
            }
        }
    }

    /// Notices a jump since the last tick.
    func noticeClock(now: Timestamp) {
        guard let setBack = clock.setBack(now: now) else {
            return
        }
        for partition in sweeps.keys {
            sweeps[partition]?.setBack.begin(now: now, tickedAt: now + setBack)
        }
    }

    /// Moves what waits for longer than it ever may, a slice at a time.
    func moveBack(
        _ partition: Int32,
        _ look: inout SetBackLook,
        _ book: inout Book,
        _ state: StagedState,
        now: Timestamp
    ) throws(StoreFault) {
        guard let from = look.from else {
            return
        }
        let (found, next) = try entries(
            partition,
            prefix: BookDue.start(.waiting),
            from: from,
            countMax: limits.decisionCountMax,
            state
        )
        var places: [BookPlace] = []
        for (entry, _) in found {
            guard let (time, key) = BookDue.timed(entry, .waiting), time <= look.until else {
                break
            }
            places.append(BookPlace(partition: partition, key: key))
        }
        look.from = places.count == found.count ? next : nil
        try book.load(places)
        for place in places {
            guard var item = try book.item(place) else {
                continue
            }
            switch item.wait {
            case .now where item.waitingSince > now: break
            case .reference(let key, let until?)
            where key.kind == .event && until > now + Self.putOffMax:
                item.wait = .reference(key, until: now + policy.again)
            default: continue
            }
            item.waitingSince = min(item.waitingSince, now)
            book.put(item, at: place)
        }
    }
}
