import Foundation
import Testing

@testable import StateStore

/// A scan within a group asks a filter and what waits in memory first: it must find what a plain scan
/// finds, wherever that lies.
@Suite struct `A group of keys` {
    private static let groups = {
        var groups = StoreGroups()
        groups.byName = [.state: bytes("t"), .due: bytes("qr")]
        groups.byKind = [.due: bytes("w")]
        return groups
    }()
    /// Of the due table those with groups first: a scan of others has what waits in memory written.
    private static let kinds = bytes("qrwtx")

    /// A kind, the length of a name, the name, and what follows.
    private static func key(_ kind: UInt8, _ name: [UInt8], _ rest: [UInt8] = []) -> [UInt8] {
        [kind, UInt8(name.count >> 8), UInt8(name.count & 0xff)] + name + rest
    }

    private static func isGrouped(_ kind: UInt8, _ table: StoreTable) -> Bool {
        [groups.byName, groups.byKind].contains { $0[table]?.contains(kind) ?? false }
    }

    private static func entries(
        _ store: any PartitionStore,
        _ table: StoreTable,
        within prefix: [UInt8],
        from start: [UInt8]? = nil
    ) throws -> [[[UInt8]]] {
        var entries: [[[UInt8]]] = []
        try store.scan(table, from: start ?? prefix, within: prefix) { key, value in
            entries.append([key, value])
            return true
        }
        return entries
    }

    private static func expectSame(
        _ store: any PartitionStore,
        _ model: any PartitionStore,
        _ names: [[UInt8]],
        isWhole: Bool = true
    ) throws {
        let keys = kinds.flatMap { kind in
            names.flatMap { name in
                [key(kind, name)] + (0...UInt8.max).map { key(kind, name, [$0]) }
            }
        }
        #expect(try store.get(keys) == model.get(keys))
        for table in StoreTable.allCases.reversed() {
            for kind in kinds where isWhole || isGrouped(kind, table) {
                for name in names {
                    let group = key(kind, name)
                    #expect(
                        try entries(store, table, within: group)
                            == entries(model, table, within: group),
                        "table \(table), kind \(kind), name \(name)"
                    )
                    let start = group + [0x80]
                    #expect(
                        try entries(store, table, within: group, from: start)
                            == entries(model, table, within: group, from: start)
                    )
                }
                #expect(
                    try entries(store, table, within: [kind])
                        == entries(model, table, within: [kind])
                )
            }
            if isWhole {
                #expect(try store.keys(table) == model.keys(table))
            }
        }
    }

    /// Its own filter waits until the other one is made.
    @Test func `is found in a store that was restored while another one's filter is made`() throws {
        let folder = try StoreFolder(groups: Self.groups)
        var other = try folder.open(partition: 1)
        try other.apply(.spread(0..<300_000), changelogOffset: 1)
        other.close()
        let store = try folder.open()
        try store.beginRestore()
        // More than is collected in memory, and as many keys.
        let value = [UInt8](repeating: 1, count: 150)
        var changes = StoreChanges()
        for number in 0..<300_000 {
            changes.put(value, forKey: StoreChanges.spreadKey(number), in: .state)
        }
        try store.apply(changes, changelogOffset: 1)
        changes = StoreChanges()
        for number in UInt8(0)..<10 {
            changes.put([number], forKey: Self.key(0x71, bytes("a"), [number]), in: .due)
        }
        try store.apply(changes, changelogOffset: 2)
        try FileManager.default.removeItem(
            atPath: folder.directory().path(partition: 1) + "/FILTER"
        )
        other = try folder.open(partition: 1)
        #expect(!other.isFilterMade)
        try store.endRestore()
        let found = try Self.entries(store, .due, within: Self.key(0x71, bytes("a")))
        #expect(found.map { $0[1] } == (UInt8(0)..<10).map { [$0] })
    }

    /// With several stores the front that is full is written beside those who read it.
    @Test(arguments: UInt64(1)...8, [1, 6] as [Int32])
    func `is what was put into it, in memory, in files and on the way`(
        seed: UInt64,
        storeCount: Int32
    ) throws {
        let folder = try StoreFolder(groups: Self.groups)
        var stores = try (0..<storeCount).map { try folder.open(partition: $0) }
        let models = stores.map { _ in MemoryStore() }
        var chance = Chance(state: seed)
        // Names of which one begins another, and of bytes that end a range.
        let names = [[], [0], [0xff], [0xff, 0xff], bytes("a"), bytes("ab"), bytes("b")]
        for round in 1...40 * Int(storeCount) {
            let number = chance.below(stores.count)
            let changes = Self.changes(UInt8(truncatingIfNeeded: round), names, &chance)
            try stores[number].apply(changes, changelogOffset: Int64(round))
            try models[number].apply(changes, changelogOffset: Int64(round))
            if chance.below(storeCount == 1 ? 6 : 60) == 0 {
                stores[number].close()
                stores[number] = try folder.open(partition: Int32(number))
            }
            // A scan without a group has what waits in memory written first.
            let isWhole = chance.below(storeCount == 1 ? 2 : 40) == 0
            try Self.expectSame(stores[number], models[number], names, isWhole: isWhole)
        }
        for (store, model) in zip(stores, models) {
            try Self.expectSame(store, model, names)
            #expect(try store.checksum() == model.checksum())
            try Self.expectSame(store, model, names)
            #expect(store.changelogOffset == model.changelogOffset)
        }
    }

    private static func changes(
        _ round: UInt8,
        _ names: [[UInt8]],
        _ chance: inout Chance
    ) -> StoreChanges {
        var changes = StoreChanges()
        for _ in 0..<chance.below(60) {
            let table = StoreTable.allCases[chance.below(2)]
            let rest: [UInt8] = chance.below(4) == 0 ? [] : [UInt8(chance.below(256))]
            let key = key(
                kinds[chance.below(kinds.count)],
                names[chance.below(names.count)],
                rest
            )
            if chance.below(3) == 0 {
                changes.remove(key: key, from: table)
            } else {
                // Long enough that files are written now and then.
                let value = [UInt8](repeating: round, count: chance.below(1_000))
                changes.put(value, forKey: key, in: table)
            }
        }
        return changes
    }

    @Test func `is there after a restore`() throws {
        let folder = try StoreFolder(groups: Self.groups)
        let store = try folder.open()
        let model = MemoryStore()
        try store.beginRestore()
        for number in 0..<200 {
            var changes = StoreChanges()
            let name = bytes("\(number)")
            changes.put([1], forKey: Self.key(Self.kinds[number % 5], name, [2]), in: .due)
            changes.put([1], forKey: Self.key(Self.kinds[number % 5], name, [2]), in: .state)
            try store.apply(changes, changelogOffset: Int64(number + 1))
            try model.apply(changes, changelogOffset: Int64(number + 1))
        }
        try store.endRestore()
        try Self.expectSame(store, model, (0..<201).map { bytes("\($0)") })
    }

    @Test func `leaves what waits in memory where it is when it is scanned`() throws {
        let folder = try StoreFolder(groups: Self.groups)
        let store = try folder.open()
        var changes = StoreChanges()
        let key = Self.key(Self.kinds[0], [1])
        changes.put([1], forKey: key, in: .due)
        try store.apply(changes, changelogOffset: 1)
        let before = store.waitingByteCount
        #expect(before > 0)
        for prefix in [key, Array(key[..<1])] {
            #expect(try Self.entries(store, .due, within: prefix).count == 1)
        }
        #expect(store.waitingByteCount == before)
        #expect(try store.keys(.due).count == 1)
        #expect(store.waitingByteCount == 0)
    }
}

private struct Chance {
    var state: UInt64

    mutating func below(_ bound: Int) -> Int {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return Int(state >> 33) % bound
    }
}
