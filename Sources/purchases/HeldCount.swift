internal import StageRuntime
internal import StateStore
internal import TokenDomain

/// How many sales are held, by app and environment and by what they wait for.
///
/// The due table may be long: it is counted once, in slices, and from then on by what each transaction
/// changes of it.
struct HeldCount {
    enum Cause: String, CaseIterable {
        case token, rate, reference, apple
        /// To be decided by this worker, as soon as it comes to it.
        case work
    }

    struct Group: Hashable {
        var lane: Lane
        var cause: Cause
    }

    /// Entries looked at in one slice.
    private let entryCountMax: Int

    /// The regions in which an item that is held stands once.
    private static let regions: [BookDue.Region] = [
        .base, .sent, .queued, .reference, .token, .rate, .waiting,
    ]

    /// A region of a partition.
    private struct Part: Equatable {
        var partition: Int32
        var region: BookDue.Region
    }

    /// What is not counted yet, the part in hand last; nil before the first slice.
    private var left: [Part]?
    /// The first entry of the part in hand that is not counted; nil at its beginning.
    private var next: [UInt8]?
    private var counts: [Group: Int] = [:]

    init(entryCountMax: Int = 10_000) {
        self.entryCountMax = entryCountMax
    }

    static func cause(of wait: BookedItem.Wait) -> Cause? {
        switch wait {
        case .idle, .reopening: nil
        case .now: .work
        case .token: .token
        case .rate: .rate
        case .reference(let key, _) where key.kind == .event: .apple
        case .reference, .turn, .base: .reference
        case .queued, .sent: .apple
        }
    }

    private static func cause(
        of region: BookDue.Region,
        _ entry: ArraySlice<UInt8>
    ) -> Cause? {
        switch region {
        // Its report goes again: it waits for an event, which nothing but the time ends.
        case .reference where BookDue.targetKind(of: entry) == .event: .apple
        case .base, .reference: .reference
        case .sent, .queued: .apple
        case .token: .token
        case .rate: .rate
        case .waiting: .work
        case .child, .period, .forgotten, .waking: nil
        }
    }

    /// What an entry counts for; nil for one that does not stand for the item itself: it has no note.
    private static func count(
        of entry: ArraySlice<UInt8>,
        _ note: ArraySlice<UInt8>
    ) -> (part: BookDue.Region, group: Group, number: Int)? {
        guard note.count == 8, let region = entry.first.flatMap(BookDue.Region.init),
            let cause = cause(of: region, entry), let lane = BookDue.lane(of: entry, region)
        else {
            return nil
        }
        let number = Int(BigEndian.number(note, at: note.startIndex))
        return (region, Group(lane: lane, cause: cause), number)
    }

    var isComplete: Bool { left?.isEmpty ?? false }

    /// Counts one more partition, whose state has just come; behind the others.
    mutating func add(_ partition: Int32) {
        left?.insert(contentsOf: Self.parts(of: partition), at: 0)
    }

    private static func parts(of partition: Int32) -> [Part] {
        regions.map { Part(partition: partition, region: $0) }
    }

    /// Begins anew: partitions went.
    mutating func restart() {
        left = nil
        next = nil
        // A gauge that was set once is set to zero where nothing is held any more.
        counts = counts.mapValues { _ in 0 }
    }

    /// Nothing is ours any more: zero for all that was counted.
    mutating func forgetAll() -> [Group: Int] {
        restart()
        defer { counts = [:] }
        return counts
    }

    /// Counts on.
    ///
    /// - Returns: all counts; nil while they are not complete.
    mutating func count(
        in owned: [Int32],
        _ state: StagedState
    ) throws(StoreFault) -> [Group: Int]? {
        var parts =
            left
            ?? owned.flatMap(Self.parts)
        defer { left = parts }
        var room = entryCountMax
        while let part = parts.last, room > 0 {
            var resumeAt: [UInt8]?
            var found: [Group: Int] = [:]
            let start = BookDue.start(part.region)
            try state.scan(
                .due,
                partition: part.partition,
                from: next ?? start,
                within: start
            ) { entry, note in
                guard room > 0 else {
                    resumeAt = entry
                    return false
                }
                room -= 1
                if let (_, group, number) = Self.count(of: entry[...], note[...]) {
                    found[group, default: 0] += number
                }
                return true
            }
            counts.merge(found, uniquingKeysWith: +)
            next = resumeAt
            if resumeAt == nil {
                parts.removeLast()
            }
        }
        return parts.isEmpty ? counts : nil
    }

    // MARK: Changes

    /// What a transaction changes of the count.
    struct Changes {
        private struct Entry {
            var part: Part
            var bytes: [UInt8]
            var group: Group
            var number: Int
        }

        /// Of everything, where all is counted when it is staged.
        fileprivate var numbers: [Group: Int] = [:]
        /// One by one, where some may be counted with their part later.
        private var entries: [Entry] = []
        private let isTotal: Bool

        fileprivate init(isTotal: Bool) {
            self.isTotal = isTotal
        }

        var isEmpty: Bool { numbers.isEmpty && entries.isEmpty }

        mutating func note(_ due: DueChange, partition: Int32) {
            due.before.forEach { note($0, $1, sign: -1, partition) }
            due.after.forEach { note($0, $1, sign: 1, partition) }
        }

        private mutating func note(
            _ entry: ArraySlice<UInt8>,
            _ note: ArraySlice<UInt8>,
            sign: Int,
            _ partition: Int32
        ) {
            guard let (region, group, number) = HeldCount.count(of: entry, note) else {
                return
            }
            guard !isTotal else {
                numbers[group, default: 0] += sign * number
                return
            }
            entries.append(
                Entry(
                    part: Part(partition: partition, region: region),
                    bytes: Array(entry),
                    group: group,
                    number: sign * number
                )
            )
        }

        fileprivate func numbers(in count: HeldCount) -> [Group: Int] {
            entries.reduce(into: numbers) { numbers, entry in
                if count.isCounted(entry.part, entry.bytes) {
                    numbers[entry.group, default: 0] += entry.number
                }
            }
        }
    }

    /// For what is staged next.
    var noChanges: Changes { Changes(isTotal: isComplete) }

    /// Takes in what a transaction changed: once the store has it, and before it is counted on.
    mutating func apply(_ changes: Changes) {
        counts.merge(changes.numbers(in: self), uniquingKeysWith: +)
    }

    private func isCounted(_ part: Part, _ entry: [UInt8]) -> Bool {
        guard let left else {
            return false
        }
        guard let index = left.firstIndex(of: part) else {
            return true
        }
        return index == left.count - 1
            && next.map { entry.lexicographicallyPrecedes($0) } ?? false
    }
}
