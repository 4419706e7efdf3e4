internal import StageRuntime
internal import StateStore
internal import TokenDomain
internal import TokenWire

/// The accounts of one batch: looked up together, read once, put back once.
struct AccountBatch {
    private let state: StagedState
    private let cache: AccountCache
    private var debtors: [AccountPlace: Debtor] = [:]
    /// The entries in the due table of what was looked up.
    private var replaced: [AccountPlace: [DueEntry]] = [:]
    /// In the order in which they changed first.
    private var changed: [AccountPlace] = []
    private var isChanged: Set<AccountPlace> = []
    /// Records of reports that wait: put, or removed where there is none.
    private var lineChanges: [AccountPlace: ReportIntent?] = [:]

    init(state: StagedState, cache: AccountCache) {
        self.state = state
        self.cache = cache
    }

    /// Looks accounts up, all of a partition in one call.
    mutating func load(_ places: [AccountPlace]) throws(StoreFault) {
        var keys: [Int32: [[UInt8]]] = [:]
        var seen: Set<AccountPlace> = []
        for place in places where seen.insert(place).inserted {
            if let debtor = cache[place] {
                replaced[place] = DueKey.entries(of: debtor, key: place.key)
                debtors[place] = debtor
            } else {
                keys[place.partition, default: []].append(place.key)
            }
        }
        for (partition, keys) in keys {
            for (key, value) in zip(keys, try state.values(keys, partition: partition)) {
                if let value {
                    let place = AccountPlace(key: key, partition: partition)
                    let debtor = Debtor(value, key: key)
                    replaced[place] = DueKey.entries(of: debtor, key: key)
                    debtors[place] = debtor
                }
            }
        }
    }

    /// Looks up the next report in the line of each account, where it has one.
    mutating func loadNext(_ places: [AccountPlace]) throws(StoreFault) {
        var waiting: [Int32: [(place: AccountPlace, key: [UInt8])]] = [:]
        for place in Set(places) {
            if let account = token(at: place), !account.line.isEmpty, !account.line.isNextAtHand {
                let key = WaitingReport.key(
                    of: account.externalPurchaseID,
                    place: account.line.first
                )
                waiting[place.partition, default: []].append((place, key))
            }
        }
        for (partition, asked) in waiting {
            let values = try state.values(asked.map(\.key), partition: partition)
            for ((place, _), value) in zip(asked, values) {
                guard case .token(var account)? = debtors[place], let value else {
                    preconditionFailure("every report in line has a record")
                }
                account.line.lay(Debtor.waiting(value))
                debtors[place] = .token(account)
            }
        }
    }

    subscript(place: AccountPlace) -> Debtor? { debtors[place] }

    func token(at place: AccountPlace) -> TokenAccount? {
        guard case .token(let account)? = debtors[place] else {
            return nil
        }
        return account
    }

    func transaction(at place: AccountPlace) -> AccountTokenDebt? {
        guard case .transaction(let debt)? = debtors[place] else {
            return nil
        }
        return debt
    }

    /// Keeps an account, if it is another than before.
    ///
    /// - Returns: whether it is.
    mutating func keep(_ debtor: Debtor, at place: AccountPlace) -> Bool {
        guard debtors[place] != debtor else {
            return false
        }
        debtors[place] = debtor
        if case .token(var account) = debtor, account.line.hasChanges {
            for (number, intent) in account.line.takeChanges() {
                let key = WaitingReport.key(of: account.externalPurchaseID, place: number)
                lineChanges[AccountPlace(key: key, partition: place.partition)] = intent
            }
            debtors[place] = .token(account)
        }
        if isChanged.insert(place).inserted {
            changed.append(place)
        }
        return true
    }

    /// Stages what changed.
    ///
    /// - Returns: the accounts put, and where.
    func put() -> [(place: AccountPlace, debtor: Debtor)] {
        for (place, intent) in lineChanges {
            let value = intent.map { intent in
                var value: [UInt8] = []
                WaitingReport.write(intent, to: &value)
                return value
            }
            state.put(
                value,
                forKey: place.key,
                partition: place.partition,
                due: DueChange(before: [], after: [])
            )
        }
        return changed.compactMap { place in
            debtors[place].map { debtor in
                var value: [UInt8] = []
                debtor.write(to: &value)
                let entries = DueKey.entries(of: debtor, key: place.key)
                // A restore derives them from the value, and the cache has what others look up.
                assert(
                    DueKey.entries(of: Debtor(value, key: place.key), key: place.key)
                        .elementsEqual(entries, by: ==)
                )
                assert(debtor.queue == nil || Debtor(value, key: place.key) == debtor)
                state.put(
                    value,
                    forKey: place.key,
                    partition: place.partition,
                    due: DueChange(before: replaced[place] ?? [], after: entries)
                )
                cache.put(debtor, valueByteCount: value.count, at: place)
                return (place, debtor)
            }
        }
    }
}
