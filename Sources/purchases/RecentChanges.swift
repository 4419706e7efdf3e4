internal import StateStore
internal import TokenDomain

/// What of the due table is to be looked through: each region costs a scan, and mostly nothing of it
/// changed.
struct DueNote: Equatable {
    /// Records changed that items wait for.
    var hasWaking = false
    /// The earliest time that an item waits for.
    var time: Timestamp?
    /// Records may be left to be forgotten, from this time on.
    var forgettable: Timestamp?

    var isEmpty: Bool { !hasWaking && time == nil && forgettable == nil }

    mutating func merge(_ other: DueNote) {
        hasWaking = hasWaking || other.hasWaking
        forgettable = .earlier(of: forgettable, other.forgettable)
        wait(until: other.time)
    }

    mutating func wait(until other: Timestamp?) {
        time = .earlier(of: time, other)
    }

    /// Notes what entries of the due table are for a sweep.
    mutating func note(_ entries: DueEntries) {
        entries.forEach { key, _ in
            switch key.first {
            case BookDue.Region.waking.rawValue: hasWaking = true
            case BookDue.Region.waiting.rawValue:
                wait(until: BookDue.time(of: key))
            default: break
            }
        }
    }
}

/// What the committed store may not show yet: scans of it do not find what was put since.
///
/// Whoever looks for the items that wait for something, or for the tokens of a customer, takes the
/// store's and these together, and so may decide before the commit. Two transactions can be ahead of
/// the store: one under way, and one that is put together.
final class RecentChanges {
    private struct Generation {
        /// Items by what they wait for, as ``BookDue`` groups them; some more than once.
        var waiting: [BookKey: [BookPlace]] = [:]
        /// New tokens, by the key of their customer's list.
        var tokens: [BookPlace: [BookPlace]] = [:]
        /// In which something was put.
        var partitions: Set<Int32> = []
        /// What was put for a sweep to find, by partition.
        var sweeps: [Int32: DueNote] = [:]
    }

    /// Since the last commit, and before that since the one before.
    private var now = Generation()
    private var before = Generation()

    // MARK: Noting

    func note(_ place: BookPlace, waitingIn group: [UInt8]) {
        now.waiting[BookKey(bytes: group), default: []].append(place)
    }

    func note(newToken place: BookPlace, of customer: BookPlace) {
        now.tokens[customer, default: []].append(place)
    }

    /// Something was put in a partition, and among it what a sweep of it is to find.
    func note(_ note: DueNote, in partition: Int32) {
        now.partitions.insert(partition)
        if !note.isEmpty {
            now.sweeps[partition, default: DueNote()].merge(note)
        }
    }

    // MARK: Asking

    /// Whether an item may wait there that the store does not show.
    func mayWait(in group: [UInt8]) -> Bool {
        let group = BookKey(bytes: group)
        return now.waiting[group] != nil || before.waiting[group] != nil
    }

    /// All groups in which items may wait that the store does not show, and how many at most; some
    /// twice.
    var groups: [(group: BookKey, itemCount: Int)] {
        (Array(now.waiting) + Array(before.waiting)).map { ($0.key, $0.value.count) }
    }

    /// Items that were put there, in no order.
    ///
    /// By now they may wait for something else.
    func waiting(in group: [UInt8]) -> Set<BookPlace> {
        let group = BookKey(bytes: group)
        return Set(now.waiting[group] ?? []).union(before.waiting[group] ?? [])
    }

    func tokens(of customer: BookPlace) -> [BookPlace] {
        (before.tokens[customer] ?? []) + (now.tokens[customer] ?? [])
    }

    /// In which something was put that the store may not show.
    var partitions: Set<Int32> { now.partitions.union(before.partitions) }

    // MARK: Transactions

    /// The store has what was put before the last commit but one.
    ///
    /// - Returns: what sweeps are to find that it may have only now, by partition.
    func committed() -> [Int32: DueNote] {
        let notes = before.sweeps.merging(now.sweeps) { before, now in
            var note = before
            note.merge(now)
            return note
        }
        before = now
        now = Generation()
        return notes
    }

    /// Nothing of it happened.
    func dropAll() {
        now = Generation()
        before = Generation()
    }
}
