internal import StageRuntime
internal import StateStore
internal import TokenDomain
internal import TokenWire

/// Where an account lies: which partition's state, under which key.
struct AccountPlace: Hashable {
    var partition: Int32
    var key: [UInt8]

    /// The account of a token.
    init(_ id: TokenID, partition: Int32) {
        self.init(key: Array(id.text.utf8), partition: partition)
    }

    init(key: [UInt8], partition: Int32) {
        self.partition = partition
        self.key = key
    }
}

/// The accounts of one batch: looked up together, read once, put back once.
struct AccountDesk {
    private let state: StagedState
    private var accounts: [AccountPlace: TokenAccount] = [:]
    /// In the order in which they changed first.
    private var changed: [AccountPlace] = []
    private var isChanged: Set<AccountPlace> = []

    init(state: StagedState) {
        self.state = state
    }

    /// Looks accounts up, all of a partition in one call.
    mutating func load(_ places: [AccountPlace]) throws(StoreFault) {
        var keys: [Int32: [[UInt8]]] = [:]
        var seen: Set<AccountPlace> = []
        for place in places where seen.insert(place).inserted {
            keys[place.partition, default: []].append(place.key)
        }
        for (partition, keys) in keys {
            for (key, value) in zip(keys, try state.values(keys, partition: partition)) {
                if let value {
                    accounts[AccountPlace(key: key, partition: partition)] = Self.read(value)
                }
            }
        }
    }

    subscript(place: AccountPlace) -> TokenAccount? { accounts[place] }

    /// Keeps an account, if it is another than before.
    mutating func keep(_ account: TokenAccount, at place: AccountPlace) -> Bool {
        guard accounts[place] != account else {
            return false
        }
        accounts[place] = account
        if isChanged.insert(place).inserted {
            changed.append(place)
        }
        return true
    }

    /// Stages what changed.
    ///
    /// - Returns: the accounts put.
    func put() -> [TokenAccount] {
        changed.compactMap { place in
            accounts[place].map { account in
                var value: [UInt8] = []
                account.write(to: &value)
                state.put(value, forKey: place.key, partition: place.partition)
                return account
            }
        }
    }

    /// Reads an account's value. One that cannot be read was written by us, or by nobody who may.
    static func read(_ value: [UInt8]) -> TokenAccount {
        do throws(WireFault) {
            return try TokenAccount(reading: value.span)
        } catch {
            preconditionFailure("a value of report's state cannot be read: \(error.message)")
        }
    }
}
