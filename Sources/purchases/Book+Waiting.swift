internal import StageRuntime
internal import StateStore
internal import TokenDomain

/// Who waits for what: in the committed store, and put since.
extension Book {
    /// Whether an item may wait for what a group's entries wait for, in the store or put since.
    ///
    /// Where none does, to look for those that do shows it: one question to the store, and not two.
    func mayBeAwaited(_ group: [UInt8], partition: Int32) throws(StoreFault) -> Bool {
        try waiting.mayWait(in: group, partition: partition, state, recent)
    }

    /// The same, of others than some that were put since and may have left the group.
    ///
    /// Most wait for a second or two, and those who look for them ask the store for nothing.
    func mayBeAwaited(
        _ group: [UInt8],
        partition: Int32,
        beside items: Set<BookPlace>
    ) throws(StoreFault) -> Bool {
        try load(Array(items))
        var count = 0
        for place in items where place.partition == partition {
            if let item = try item(place), let own = BookDue.group(of: item.wait, place.key),
                BookDue.target(of: own) == group
            {
                count += 1
            }
        }
        return waiting.mayHaveMore(than: count, in: group, partition: partition)
    }

    /// Whether any does, known for sure of what is in the store.
    private func isAwaited(_ group: [UInt8], partition: Int32) throws(StoreFault) -> Bool {
        guard try mayBeAwaited(group, partition: partition) else {
            return false
        }
        if recent.mayWait(in: group) {
            return true
        }
        var isAny = false
        try state.scan(.due, partition: partition, from: group, within: group) { _, _ in
            isAny = true
            return false
        }
        return isAny
    }

    /// Has the items looked at, before the next flush, that wait for an item or for the start of a
    /// subscription: where there are any.
    mutating func wake(_ place: BookPlace) throws(StoreFault) {
        // Turns at a buy are asked for with it.
        let group = BookDue.start(.reference, of: place.key.bytes)
        if try mayBeAwaited(group, partition: place.partition) {
            note(woken: place)
        }
    }

    /// The same for those that wait for a token of the customer.
    mutating func wake(_ token: BookedToken, at place: BookPlace) throws(StoreFault) {
        let group = BookDue.start(.token, of: BookDue.tokenGroup(of: token, place.key))
        if try mayBeAwaited(group, partition: place.partition) {
            note(woken: place)
        }
    }

    // MARK: Traffic

    /// What is under way and what stands in the queue of a token.
    func traffic(of token: BookPlace) throws(StoreFault) -> TokenTraffic {
        if let known = memory.traffic(of: token) {
            return known
        }
        let sent = BookDue.start(.sent, of: token.key.bytes)
        var places: Set<BookPlace> = []
        if try mayBeAwaited(sent, partition: token.partition) {
            places = recent.waiting(in: sent)
            try state.scan(.due, partition: token.partition, from: sent, within: sent) { entry, _ in
                if let key = BookDue.key(of: entry, after: sent) {
                    places.insert(token.at(key))
                }
                return true
            }
        }
        let sorted = places.sorted()
        try load(sorted)
        var inFlight: [BookPlace] = []
        let id = token.key.tokenID
        for place in sorted where try item(place)?.wait == .sent(id) {
            inFlight.append(place)
        }
        let queue = BookDue.start(.queued, of: token.key.bytes)
        let hasQueue = try isAwaited(queue, partition: token.partition)
        let traffic = TokenTraffic(inFlight: inFlight, queue: hasQueue ? .unknown : .empty)
        memory.keep(traffic, of: token)
        return traffic
    }
}

/// What is under way and what stands in the queue of a token.
///
/// Both follow from its items: kept with the token, they would cost two changelog records a sale. What is
/// forgotten here is found again in the due table.
final class TokenTraffic {
    /// The items of the report that is under way.
    var inFlight: [BookPlace]
    private(set) var queue: Queue

    /// What stands in the queue of a token.
    enum Queue {
        /// Nothing.
        case empty
        /// All that was put into it since it was empty, some of it twice: some may have left it.
        case known([BookPlace])
        /// It must be looked for in the store.
        case unknown
    }

    /// More are looked for in the store.
    private static let knownCountMax = 200

    init(inFlight: [BookPlace], queue: Queue) {
        self.inFlight = inFlight
        self.queue = queue
    }

    /// Items may stand in its queue; where not, none does.
    var hasQueue: Bool {
        if case .empty = queue { false } else { true }
    }

    func enqueue(_ item: BookPlace) {
        switch queue {
        case .empty: queue = .known([item])
        case .known(var items):
            // One reference to it, or to append would copy it.
            queue = .empty
            items.append(item)
            queue = items.count > Self.knownCountMax ? .unknown : .known(items)
        case .unknown: break
        }
    }

    /// Everything that stood in the queue left it.
    func emptyQueue() {
        queue = .empty
    }

    /// Whether line items are those under way.
    func isReport(of lineItemIDs: [String]) -> Bool {
        guard !inFlight.isEmpty else {
            return false
        }
        let isInOrder =
            inFlight.count == lineItemIDs.count
            && zip(inFlight, lineItemIDs).allSatisfy { $0.key.isNamed($1) }
        return isInOrder
            || Set(inFlight.map(\.key.nameBytes)) == Set(lineItemIDs.map { ArraySlice($0.utf8) })
    }
}
