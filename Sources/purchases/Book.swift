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

    init(state: StagedState) {
        self.state = state
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
        // What was put since the last commit is not in the store yet.
        let known = Set(places)
        places += tokens.keys.filter {
            $0.partition == partition && !known.contains($0) && $0.key.bytes.starts(with: prefix)
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
        try state.scan(.state, partition: partition, from: prefix) { key, _ in
            guard key.starts(with: prefix) else {
                return false
            }
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
    }

    mutating func put(_ token: BookedToken, at place: BookPlace) {
        tokens[place] = token
        note(place)
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
