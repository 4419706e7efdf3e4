internal import TokenDomain

/// What the committed store may not show yet: scans of it do not find what was put since.
///
/// Whoever looks for the items that wait for something, or for the tokens of a customer, takes the
/// store's and these together, and so may decide before the commit. Two transactions can be ahead of
/// the store: one under way, and one that is put together.
final class RecentChanges {
    private struct Generation {
        /// Items by what they wait for, as ``BookDue`` groups them.
        var waiting: [BookKey: Set<BookPlace>] = [:]
        /// New tokens, by the customer whose key's prefix stands for them.
        var tokens: [BookPlace: [BookPlace]] = [:]
        /// Queues that were empty before: all that stands in them was put since.
        var begunQueues: Set<BookKey> = []
        /// In which something was put.
        var partitions: Set<Int32> = []
    }

    /// Since the last commit, and before that since the one before.
    private var now = Generation()
    private var before = Generation()

    // MARK: Noting

    func note(_ place: BookPlace, waitingIn group: [UInt8]) {
        now.waiting[BookKey(bytes: group), default: []].insert(place)
    }

    func note(newToken place: BookPlace, of customer: BookPlace) {
        now.tokens[customer, default: []].append(place)
    }

    /// - Parameter group: of the entries that stand in the queue of a token.
    func note(begunQueue group: [UInt8]) {
        now.begunQueues.insert(BookKey(bytes: group))
    }

    func note(_ partitions: Set<Int32>) {
        now.partitions.formUnion(partitions)
    }

    // MARK: Asking

    /// Whether an item may wait there that the store does not show.
    func mayWait(in group: [UInt8]) -> Bool {
        let group = BookKey(bytes: group)
        return now.waiting[group] != nil || before.waiting[group] != nil
    }

    /// All groups in which an item may wait that the store does not show.
    var groups: [BookKey] { Array(now.waiting.keys) + Array(before.waiting.keys) }

    /// Whether ``waiting(in:)`` has all that stands in the queue of a token.
    func hasWholeQueue(_ group: [UInt8]) -> Bool {
        let group = BookKey(bytes: group)
        return now.begunQueues.contains(group) || before.begunQueues.contains(group)
    }

    /// Items that were put there, in no order.
    ///
    /// By now they may wait for something else.
    func waiting(in group: [UInt8]) -> Set<BookPlace> {
        let group = BookKey(bytes: group)
        return (now.waiting[group] ?? []).union(before.waiting[group] ?? [])
    }

    func tokens(of customer: BookPlace) -> [BookPlace] {
        (before.tokens[customer] ?? []) + (now.tokens[customer] ?? [])
    }

    /// In which something was put that the store may not show.
    var partitions: Set<Int32> { now.partitions.union(before.partitions) }

    // MARK: Transactions

    /// The store has what was put before the last commit but one.
    ///
    /// - Returns: the partitions in which something was put that it may have only now.
    func committed() -> Set<Int32> {
        let partitions = partitions
        before = now
        now = Generation()
        return partitions
    }

    /// Nothing of it happened.
    func dropAll() {
        now = Generation()
        before = Generation()
    }
}
