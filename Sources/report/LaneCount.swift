internal import StageRuntime
internal import StateStore
internal import TokenDomain

/// How many entries of a part of the due table belong to each lane.
///
/// The due table may be long, so it is counted in slices, and a count stands until the next one is
/// complete.
struct LaneCount {
    /// Entries looked at in one slice.
    static let entryCountMax = 10_000

    /// The regions from `first` to before `end`.
    private let first: DueKey.Region
    private let end: DueKey.Region
    /// The lane that an entry counts for; nil for none.
    private let lane: (_ entry: [UInt8], _ note: [UInt8]) -> Lane?

    private var partitions: [Int32] = []
    private var next: [UInt8]?
    private var counts: [Lane: Int] = [:]
    /// The last count that was complete; a lane that became empty stays for one more, with zero.
    private(set) var complete: [Lane: Int] = [:]

    /// Tokens held: known, and neither reported nor refused yet.
    static func held() -> LaneCount {
        LaneCount(first: .ready, end: .forgotten) { _, note in DueKey.heldLane(note: note) }
    }

    /// Reports that are due and not yet accepted, those that wait to be tried again included.
    static func due() -> LaneCount {
        LaneCount(first: .ready, end: .waiting) { entry, _ in
            guard let (queue, _, _) = DueKey.queued(entry), queue.endpoint == .reports else {
                return nil
            }
            return queue.lane
        }
    }

    /// Those of them that a calendar month owes: Apple wants them 15 days after the month.
    static func monthDue() -> LaneCount {
        LaneCount(first: .ready, end: .waiting) { entry, _ in
            guard let (queue, deadline, _) = DueKey.queued(entry), queue.endpoint == .reports,
                deadline == CalendarMonth(of: deadline).start + ReportPolicy.deadlineAfterMonth
            else {
                return nil
            }
            return queue.lane
        }
    }

    private init(
        first: DueKey.Region,
        end: DueKey.Region,
        lane: @escaping (_ entry: [UInt8], _ note: [UInt8]) -> Lane?
    ) {
        self.first = first
        self.end = end
        self.lane = lane
    }

    /// Begins anew: other partitions are ours now.
    mutating func restart() {
        partitions = []
        next = nil
        counts = [:]
    }

    /// Nothing is ours any more: zero for every lane that was counted.
    mutating func forgetAll() -> [Lane: Int] {
        restart()
        defer { complete = [:] }
        return complete.mapValues { _ in 0 }
    }

    /// Counts on.
    ///
    /// - Returns: the counts of all lanes, where this slice completed them.
    mutating func count(
        in owned: [Int32],
        _ state: StagedState
    ) throws(StoreFault) -> [Lane: Int]? {
        if partitions.isEmpty {
            partitions = owned
        }
        var left = Self.entryCountMax
        while let partition = partitions.last, left > 0 {
            var resumeAt: [UInt8]?
            var found: [Lane: Int] = [:]
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
                if let lane = lane(entry, note) {
                    found[lane, default: 0] += 1
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
