internal import StageRuntime
internal import StateStore
internal import TokenDomain

/// How many entries of a part of the due table belong to each lane, or to each day of a lane.
///
/// The due table may be long, so it is counted in slices, and a count stands until the next one is
/// complete.
struct LaneCount<Key: Hashable> {
    /// The regions from `first` to before `end`.
    private let first: DueKey.Region
    private let end: DueKey.Region
    /// What an entry counts for on a day; nil for nothing.
    private let key: (_ entry: [UInt8], _ note: [UInt8], _ today: Int64) -> Key?

    private var partitions: [Int32] = []
    private var next: [UInt8]?
    private var counts: [Key: Int] = [:]
    /// The last count that was complete; what became empty stays for one more, with zero.
    private(set) var complete: [Key: Int] = [:]

    fileprivate init(
        first: DueKey.Region,
        end: DueKey.Region,
        key: @escaping (_ entry: [UInt8], _ note: [UInt8], _ today: Int64) -> Key?
    ) {
        self.first = first
        self.end = end
        self.key = key
    }

    /// Begins anew: other partitions are ours now.
    mutating func restart() {
        partitions = []
        next = nil
        counts = [:]
    }

    /// Nothing is ours any more: zero for every lane that was counted.
    @discardableResult
    mutating func forgetAll() -> [Key: Int] {
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
    ) throws(StoreFault) -> [Key: Int]? {
        let today = DueDay.number(of: now)
        if partitions.isEmpty {
            partitions = owned
        }
        var left = SliceLimit.entryCountMax
        while let partition = partitions.last, left > 0 {
            var resumeAt: [UInt8]?
            var found: [Key: Int] = [:]
            try state.scan(
                .due,
                partition: partition,
                from: next ?? DueKey.start(first)
            ) { entry, note in
                guard left > 0 else {
                    resumeAt = entry
                    return false
                }
                guard let region = entry.first, region < end.rawValue else {
                    return false
                }
                left -= 1
                if let key = key(entry, note, today) {
                    found[key, default: 0] += 1
                }
                return true
            }
            counts.merge(found, uniquingKeysWith: +)
            next = resumeAt
            if resumeAt == nil {
                partitions.removeLast()
            }
        }
        guard partitions.isEmpty else {
            return nil
        }
        let emptied = complete.filter { $0.value > 0 }.mapValues { _ in 0 }
        complete = counts.merging(emptied) { counted, _ in counted }
        counts = [:]
        return complete
    }
}

/// Entries of the due table looked at in one slice.
enum SliceLimit {
    static let entryCountMax = 10_000
}

extension LaneCount where Key == Lane {
    /// Tokens held: known, and neither reported nor refused yet.
    static func held() -> LaneCount {
        LaneCount(first: .ready, end: .forgotten) { _, note, _ in DueKey.heldLane(note: note) }
    }

    /// Reports that are due and not yet accepted, those that wait to be tried again included.
    static func due() -> LaneCount {
        LaneCount(first: .ready, end: .waiting) { entry, _, _ in
            guard let (queue, _, _) = DueKey.queued(entry), queue.endpoint == .reports else {
                return nil
            }
            return queue.lane
        }
    }

    /// Those of them that a calendar month owes: Apple wants them 15 days after the month.
    static func monthDue() -> LaneCount {
        LaneCount(first: .ready, end: .waiting) { entry, _, _ in
            guard let (queue, deadline, _) = DueKey.queued(entry), queue.endpoint == .reports,
                deadline == CalendarMonth(of: deadline).start + ReportPolicy.deadlineAfterMonth
            else {
                return nil
            }
            return queue.lane
        }
    }
}

/// A day on which reports of a lane must be at Apple, or become due.
struct DueDay: Hashable {
    enum Kind {
        /// Due now, with its deadline on that day.
        case deadline
        /// Held, and due from that day on.
        case falling
    }

    /// Further ahead, and further back, all count for one day.
    static let daysAhead: Int64 = 31
    private static let milliseconds: Int64 = 86_400_000

    var lane: Lane
    var kind: Kind
    /// Since 1970, UTC.
    var number: Int64

    init(_ lane: Lane, _ kind: Kind, at time: Timestamp, today: Int64) {
        self.lane = lane
        self.kind = kind
        number = min(max(Self.number(of: time), today - 1), today + Self.daysAhead)
    }

    static func number(of time: Timestamp) -> Int64 {
        time.milliseconds / milliseconds
    }

    var start: Timestamp { Timestamp(milliseconds: number * Self.milliseconds) }
}

extension LaneCount where Key == DueDay {
    /// Reports by day.
    static func days() -> LaneCount {
        LaneCount(first: .ready, end: .forgotten) { entry, note, today in
            if let (queue, deadline, _) = DueKey.queued(entry) {
                return queue.endpoint == .reports
                    ? DueDay(queue.lane, .deadline, at: deadline, today: today) : nil
            }
            // What waits for its next attempt is counted at its deadline.
            guard let (time, _) = DueKey.timed(entry), !DueKey.isRetry(note: note),
                let lane = DueKey.heldLane(note: note)
            else {
                return nil
            }
            return DueDay(lane, .falling, at: time, today: today)
        }
    }
}
