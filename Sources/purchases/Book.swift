internal import StageRuntime
internal import StateStore
internal import TokenDomain
internal import TokenWire

/// The records of the book that one batch or tick looks at: read once, put back once.
///
/// A look-up costs the same for a customer with one item and with ten thousand: each record lies
/// under a key of its own.
struct Book {
    private let state: StagedState
    private let recent: RecentChanges
    private var items: [BookPlace: BookedItem?] = [:]
    private var tokens: [BookPlace: BookedToken?] = [:]
    private var subscriptions: [BookPlace: BookedSubscription?] = [:]
    private var events: [BookPlace: BookedEvent?] = [:]
    /// The tokens that the store has of a customer, whose key's prefix stands for them: asked for
    /// once, however many of their sales are decided.
    private var tokenPlaces: [BookPlace: [BookPlace]] = [:]
    /// In the order in which they changed first.
    private var changed: [BookPlace] = []
    private var isChanged: Set<BookPlace> = []

    init(state: StagedState, recent: RecentChanges) {
        self.state = state
        self.recent = recent
    }

    // MARK: Reading

    private func value(at place: BookPlace) throws(StoreFault) -> [UInt8]? {
        try state.values([place.key.bytes], partition: place.partition)[0]
    }

    /// A record of the store is one that this worker wrote and read before.
    private func read<Record>(
        _ place: BookPlace,
        _ make: ([UInt8]) throws(WireFault) -> Record
    ) throws(StoreFault) -> Record? {
        guard let value = try value(at: place) else {
            return nil
        }
        do throws(WireFault) {
            return try make(value)
        } catch {
            preconditionFailure("a record of the local book cannot be read: \(error.message)")
        }
    }

    mutating func item(_ place: BookPlace) throws(StoreFault) -> BookedItem? {
        if let known = items[place] {
            return known
        }
        let item = try read(place) { (value) throws(WireFault) in try BookedItem(reading: value) }
        items[place] = .some(item)
        return item
    }

    mutating func token(_ place: BookPlace) throws(StoreFault) -> BookedToken? {
        if let known = tokens[place] {
            return known
        }
        let token = try read(place) { (value) throws(WireFault) in
            try BookedToken(reading: value, key: place.key)
        }
        tokens[place] = .some(token)
        return token
    }

    mutating func subscription(
        _ place: BookPlace
    ) throws(StoreFault) -> BookedSubscription? {
        if let known = subscriptions[place] {
            return known
        }
        let record = try read(place) { (value) throws(WireFault) in
            try BookedSubscription(reading: value)
        }
        subscriptions[place] = .some(record)
        return record
    }

    /// The event of an item with a number; `place` is the item's.
    mutating func event(_ number: Int64, of place: BookPlace) throws(StoreFault) -> BookedEvent? {
        let place = place.at(place.key.event(number))
        if let known = events[place] {
            return known
        }
        let event = try read(place) { (value) throws(WireFault) in try BookedEvent(reading: value) }
        events[place] = .some(event)
        return event
    }

    /// All tokens of a customer that the store has, at most ``tokenCountMax``, as they are now.
    mutating func tokens(
        of purchaseKey: PurchaseKey,
        partition: Int32
    ) throws(StoreFault) -> [CustomerToken] {
        let prefix = BookKey.prefix(.token, purchaseKey)
        let customer = BookPlace(partition: partition, key: BookKey(bytes: prefix))
        if tokenPlaces[customer] == nil {
            tokenPlaces[customer] = try storedTokens(prefix, partition)
        }
        var places = tokenPlaces[customer] ?? []
        for place in recent.tokens(of: customer) where !places.contains(place) {
            places.append(place)
        }
        var found: [CustomerToken] = []
        for place in places {
            if let candidate = try token(place)?.candidate {
                found.append(candidate)
            }
        }
        return found
    }

    private func storedTokens(
        _ prefix: [UInt8],
        _ partition: Int32
    ) throws(StoreFault) -> [BookPlace] {
        var places: [BookPlace] = []
        try state.scan(.state, partition: partition, from: prefix, within: prefix) { key, _ in
            places.append(BookPlace(partition: partition, key: BookKey(bytes: key)))
            return places.count < Self.tokenCountMax
        }
        return places
    }

    /// No customer has as many; who sends more forges them.
    static let tokenCountMax = 2_000

    // MARK: Writing

    private mutating func note(_ place: BookPlace) {
        if isChanged.insert(place).inserted {
            changed.append(place)
        }
    }

    mutating func put(_ item: BookedItem?, at place: BookPlace) {
        items[place] = .some(item)
        note(place)
        if let group = item.flatMap({ BookDue.group(of: $0.wait, place.key) }) {
            recent.note(place, waitingIn: group)
        }
    }

    mutating func put(_ token: BookedToken, at place: BookPlace) {
        tokens[place] = token
        note(place)
    }

    /// Puts a token that the book had not heard of: the customer's sales see it at once.
    mutating func putNew(_ token: BookedToken, at place: BookPlace) {
        put(token, at: place)
        let prefix = BookKey.prefix(.token, place.key.purchaseKey)
        recent.note(newToken: place, of: place.at(BookKey(bytes: prefix)))
    }

    mutating func put(_ subscription: BookedSubscription, at place: BookPlace) {
        subscriptions[place] = subscription
        note(place)
    }

    fileprivate mutating func removeToken(_ place: BookPlace) {
        tokens[place] = .some(nil)
        note(place)
    }

    fileprivate mutating func removeSubscription(_ place: BookPlace) {
        subscriptions[place] = .some(nil)
        note(place)
    }

    mutating func put(_ event: BookedEvent?, number: Int64, of place: BookPlace) {
        let place = place.at(place.key.event(number))
        events[place] = .some(event)
        note(place)
    }

    /// Whether an item waits in a group of the due table, or may.
    func isAwaited(_ group: [UInt8], partition: Int32) throws(StoreFault) -> Bool {
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

    /// Has the items woken that wait for an item, where there are any: to put that down where nobody
    /// waits would cost two changelog records.
    func wake(_ item: inout BookedItem, at place: BookPlace) throws(StoreFault) {
        let group = BookDue.start(.reference, of: place.key.bytes)
        var isAny = recent.mayWait(in: BookDue.turns(of: place.key))
        if !isAny {
            isAny = try isAwaited(group, partition: place.partition)
        }
        if isAny {
            item.wakesFrom = []
        }
    }

    /// The same for those that wait for a token of the customer.
    func wake(_ token: inout BookedToken, at place: BookPlace) throws(StoreFault) {
        let group = BookDue.start(.token, of: BookDue.tokenGroup(of: token, place.key))
        if try isAwaited(group, partition: place.partition) {
            token.wakesFrom = []
        }
    }

    /// The same for those that wait for the start of a subscription.
    func wake(_ record: inout BookedSubscription, at place: BookPlace) throws(StoreFault) {
        let group = BookDue.start(.reference, of: place.key.bytes)
        if try isAwaited(group, partition: place.partition) {
            record.wakesFrom = []
        }
    }

    /// Whether a record was put since the last flush.
    func isChanged(_ place: BookPlace) -> Bool { isChanged.contains(place) }

    /// Stages what changed.
    ///
    /// - Returns: the partitions in which something did.
    mutating func flush() -> Set<Int32> {
        defer {
            changed = []
            isChanged = []
        }
        for place in changed {
            let value: [UInt8]? =
                switch place.key.kind {
                case .item: (items[place] ?? nil)?.json
                case .token: (tokens[place] ?? nil)?.json
                case .subscription: (subscriptions[place] ?? nil)?.json
                case .event: (events[place] ?? nil)?.json
                case nil: nil
                }
            state.put(value, forKey: place.key.bytes, partition: place.partition)
        }
        return Set(changed.map(\.partition))
    }
}

extension Book {
    /// Removes a record for which nothing waits.
    mutating func forget(_ place: BookPlace) {
        switch place.key.kind {
        case .item: put(nil as BookedItem?, at: place)
        case .token: removeToken(place)
        case .subscription: removeSubscription(place)
        case .event, nil: break
        }
    }
}
