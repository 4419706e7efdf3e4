import StateStore
import TokenDomain

@testable import report

/// A store of `report` that forgets accounts early, as if ``ReportPolicy/memory`` were shorter: a year of
/// 100 million accounts is 60 GB.
///
/// What it forgets is settled and past its token's period, in the order in which the stage would forget
/// it a year later. Nobody asks for it again, for no token of ``YearOfTokens`` comes twice; Apple
/// remembers all of them.
final class YearStore: PartitionStore {
    /// Instead of the 400 days of ``ReportPolicy/memory``.
    private static let memory = Milliseconds.days(4)
    private static let interval = Milliseconds.hours(6)

    private let store: any PartitionStore
    private let clock: () -> Timestamp
    private var nextForgetting: Timestamp

    init(_ store: any PartitionStore, clock: @escaping () -> Timestamp) {
        self.store = store
        self.clock = clock
        nextForgetting = clock() + Self.interval
    }

    var changelogOffset: Int64? { store.changelogOffset }
    var lastUsedMilliseconds: Int64 { store.lastUsedMilliseconds }

    func get(_ lookup: StoreLookup) throws(StoreFault) {
        try store.get(lookup)
    }

    func apply(_ changes: StoreChanges, changelogOffset: Int64) throws(StoreFault) {
        try store.apply(changes, changelogOffset: changelogOffset)
        guard nextForgetting <= clock() else {
            return
        }
        nextForgetting = clock() + Self.interval
        let forgotten = try forgottenChanges()
        if !forgotten.isEmpty {
            try store.apply(forgotten, changelogOffset: changelogOffset)
        }
    }

    private func forgottenChanges() throws(StoreFault) -> StoreChanges {
        let horizon = clock() + ReportPolicy.memory + -Self.memory
        let region = DueKey.start(.forgotten)
        var changes = StoreChanges()
        try store.scan(.due, from: region, within: region) { entry, _ in
            guard let (time, key) = DueKey.timed(entry), time <= horizon else {
                return false
            }
            changes.remove(key: entry, from: .due)
            changes.remove(key: key, from: .state)
            return true
        }
        return changes
    }

    func scan(
        _ table: StoreTable,
        from start: [UInt8],
        within prefix: [UInt8],
        visit: (_ key: [UInt8], _ value: [UInt8]) -> Bool
    ) throws(StoreFault) {
        try store.scan(table, from: start, within: prefix, visit: visit)
    }

    func checksum() throws(StoreFault) -> UInt64 { try store.checksum() }

    func close() -> StoreFault? { store.close() }
}

/// Opens a ``YearStore`` of each partition.
final class YearStoreProvider: StoreProvider {
    private let provider: any StoreProvider
    private let clock: () -> Timestamp

    init(_ provider: any StoreProvider, clock: @escaping () -> Timestamp) {
        self.provider = provider
        self.clock = clock
    }

    func open(
        partition: Int32,
        changelogIdentity: String
    ) throws(StoreFault) -> any PartitionStore {
        YearStore(
            try provider.open(partition: partition, changelogIdentity: changelogIdentity),
            clock: clock
        )
    }

    func wipe(partition: Int32) throws(StoreFault) {
        try provider.wipe(partition: partition)
    }
}
