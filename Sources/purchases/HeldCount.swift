internal import StageRuntime
internal import StateStore
internal import TokenDomain

/// How many sales are held, by app and by what they wait for.
///
/// The due table may be long, so it is counted in slices, and a count stands until the next one is
/// complete.
struct HeldCount {
    enum Cause: String, CaseIterable {
        case token, rate, reference, apple
        /// To be decided by this worker, as soon as it comes to it.
        case work
    }

    struct Group: Hashable {
        var app: Int64
        var cause: Cause
    }

    /// Entries looked at in one slice.
    static let entryCountMax = 10_000

    /// The regions in which an item that is held stands once.
    private static let regions: [(BookDue.Region, Cause)] = [
        (.base, .reference), (.sent, .apple), (.queued, .apple), (.reference, .reference),
        (.token, .token), (.rate, .rate), (.waiting, .work),
    ]

    private var left: [(partition: Int32, region: BookDue.Region, cause: Cause)] = []
    private var next: [UInt8]?
    private var counts: [Group: Int] = [:]
    private var complete: [Group: Int] = [:]

    static func cause(of wait: BookedItem.Wait) -> Cause? {
        switch wait {
        case .idle, .reopening: nil
        case .now: .work
        case .token: .token
        case .rate: .rate
        case .reference, .turn, .base: .reference
        case .queued, .sent: .apple
        }
    }

    /// Begins anew: other partitions are ours now.
    mutating func restart() {
        left = []
        next = nil
        counts = [:]
    }

    /// Nothing is ours any more: zero for all that was counted.
    mutating func forgetAll() -> [Group: Int] {
        restart()
        defer { complete = [:] }
        return complete.mapValues { _ in 0 }
    }

    /// Counts on.
    ///
    /// - Returns: all counts, where this slice completed them.
    mutating func count(
        in owned: [Int32],
        _ state: StagedState
    ) throws(StoreFault) -> [Group: Int]? {
        if left.isEmpty {
            left = owned.flatMap { partition in
                Self.regions.map { (partition, $0.0, $0.1) }
            }
        }
        var room = Self.entryCountMax
        while let (partition, region, cause) = left.last, room > 0 {
            var resumeAt: [UInt8]?
            var found: [Group: Int] = [:]
            try state.scan(
                .due,
                partition: partition,
                from: next ?? BookDue.start(region),
                within: BookDue.start(region)
            ) { entry, note in
                guard room > 0 else {
                    resumeAt = entry
                    return false
                }
                room -= 1
                // Only the entry that stands for the item itself has a note.
                if note.count == 8, let app = BookDue.app(of: entry, region) {
                    found[Group(app: app, cause: cause), default: 0] +=
                        Int(BigEndian.number(note, at: 0))
                }
                return true
            }
            counts.merge(found, uniquingKeysWith: +)
            next = resumeAt
            if resumeAt == nil {
                left.removeLast()
            }
        }
        guard left.isEmpty else {
            return nil
        }
        let emptied = complete.filter { $0.value > 0 }.mapValues { _ in 0 }
        complete = counts.merging(emptied) { counted, _ in counted }
        counts = [:]
        return complete
    }
}
