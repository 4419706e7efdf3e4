internal import StageRuntime
internal import StateStore
internal import TokenDomain

/// How many entries of a part of the due table belong to each lane, or to each day of a lane.
///
/// The due table may be long, so it is counted in slices, and a count stands until the next one is
/// complete. After a slice it rests in proportion to it: what counting costs a second has a bound.
struct LaneCount {
    /// Each is read by itself, for what was removed at its beginning is not passed then.
    private let regions: [DueKey.Region]
    /// Names what an entry counts for on a day: nothing, or several things at once.
    private let keys: Keys

    typealias Keys = (
        _ entry: [UInt8], _ note: [UInt8], _ today: Int64, _ add: (DueCount) -> Void
    ) -> Void

    /// What is not counted yet; the last of them is next, from `next` on.
    private var places: [(partition: Int32, region: DueKey.Region)] = []
    private var next: [UInt8]?
    /// Until when it rests after the last slice.
    private var restsUntil = Timestamp(milliseconds: 0)
    private var counts: [DueCount: Int] = [:]
    /// The last count that was complete; a lane that is empty now stays for one more, with zero.
    private(set) var complete: [DueCount: Int] = [:]

    fileprivate init(_ regions: [DueKey.Region], keys: @escaping Keys) {
        self.regions = regions
        self.keys = keys
    }

    /// Begins anew: other partitions are ours now.
    mutating func restart() {
        places = []
        next = nil
        counts = [:]
        restsUntil = Timestamp(milliseconds: 0)
    }

    /// Nothing is ours any more: zero for every lane that was counted.
    mutating func forgetAll() -> [DueCount: Int] {
        restart()
        defer { complete = [:] }
        return complete.mapValues { _ in 0 }
    }

    /// Counts on.
    ///
    /// - Returns: the counts of all lanes, where this slice completed them.
    mutating func count(
        in owned: [Int32],
        _ state: StagedState,
        now: Timestamp
    ) throws(StoreFault) -> [DueCount: Int]? {
        guard restsUntil <= now || restsUntil > now + SliceLimit.restMax else {
            return nil
        }
        let today = DueDay.number(of: now)
        if places.isEmpty {
            places = owned.flatMap { partition in regions.map { (partition, $0) } }
        }
        var left = SliceLimit.entryCountMax
        while let (partition, region) = places.last, left > 0 {
            var resumeAt: [UInt8]?
            var found: [DueCount: Int] = [:]
            let whole = DueKey.start(region)
            try state.scan(
                .due,
                partition: partition,
                from: next ?? whole,
                within: whole
            ) { entry, note in
                guard left > 0 else {
                    resumeAt = entry
                    return false
                }
                left -= 1
                keys(entry, note, today) { found[$0, default: 0] += 1 }
                return true
            }
            counts.merge(found, uniquingKeysWith: +)
            next = resumeAt
            if resumeAt == nil {
                places.removeLast()
            }
        }
        restsUntil = now + SliceLimit.rest(after: SliceLimit.entryCountMax - left)
        guard places.isEmpty else {
            return nil
        }
        let emptied = complete.filter { $0.value > 0 }.mapValues { _ in 0 }
        complete = counts.merging(emptied) { counted, _ in counted }
        counts = [:]
        return complete
    }
}

/// What entries are counted for.
enum DueCount: Hashable {
    /// Tokens held: known, and neither reported nor refused yet.
    case held(Lane)
    /// Reports that are due and not yet accepted, those that wait to be tried again included.
    case due(Lane)
    /// Those of them that a calendar month owes: Apple wants them 15 days after the month.
    case monthDue(Lane)
    case day(DueDay)
}

extension LaneCount {
    /// What is due, in one pass.
    static func due() -> LaneCount {
        LaneCount([.ready, .retried]) { entry, _, today, add in
            guard let (queue, deadline) = DueKey.queued(entry), queue.endpoint == .reports else {
                return
            }
            add(.due(queue.lane))
            // The sales of this month have until the next one's.
            let month = CalendarMonth(of: deadline)
            if deadline == month.start + ReportPolicy.deadlineAfterMonth,
                month.start <= Timestamp(milliseconds: 0) + .days(today)
            {
                add(.monthDue(queue.lane))
            }
        }
    }

    /// All that is not past use, in one pass: what is held, and on which days reports fall.
    static func all() -> LaneCount {
        LaneCount([.ready, .retried, .waiting]) { entry, note, today, add in
            let heldLane = DueKey.heldLane(note: note)
            if let heldLane {
                add(.held(heldLane))
            }
            if let (queue, deadline) = DueKey.queued(entry) {
                if queue.endpoint == .reports {
                    add(.day(DueDay(queue.lane, .deadline, at: deadline, today: today)))
                }
                return
            }
            // What waits for its next attempt is counted at its deadline.
            if let heldLane, !DueKey.isRetry(note: note), let time = DueKey.time(entry) {
                add(.day(DueDay(heldLane, .falling, at: time, today: today)))
            }
        }
    }
}
