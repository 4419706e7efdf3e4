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
        _ names: [[UInt8]]
    ) throws {
        for table in StoreTable.allCases.reversed() {
            for kind in kinds {
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
            #expect(try store.keys(table) == model.keys(table))
        }
    }

    @Test(arguments: UInt64(1)...8)
    func `is what was put into it, in memory, in files and in both`(seed: UInt64) throws {
        let folder = try StoreFolder(groups: Self.groups)
        var store = try folder.open()
        let model = MemoryStore()
        var chance = Chance(state: seed)
        // Names of which one begins another, and of bytes that end a range.
        let names = [[], [0], [0xff], [0xff, 0xff], bytes("a"), bytes("ab"), bytes("b")]
        for round in 1...40 {
            var changes = StoreChanges()
            for _ in 0..<chance.below(60) {
                let table = StoreTable.allCases[chance.below(2)]
                let rest: [UInt8] = chance.below(4) == 0 ? [] : [UInt8(chance.below(256))]
                let key = Self.key(
                    Self.kinds[chance.below(Self.kinds.count)],
                    names[chance.below(names.count)],
                    rest
                )
                if chance.below(3) == 0 {
                    changes.remove(key: key, from: table)
                } else {
                    // Long enough that files are written now and then.
                    let value = [UInt8](repeating: UInt8(round), count: chance.below(1_000))
                    changes.put(value, forKey: key, in: table)
                }
            }
            try store.apply(changes, changelogOffset: Int64(round))
            try model.apply(changes, changelogOffset: Int64(round))
            if chance.below(6) == 0 {
                store.close()
                store = try folder.open()
            }
            if chance.below(2) == 0 {
                try Self.expectSame(store, model, names)
            }
        }
        try Self.expectSame(store, model, names)
        #expect(try store.checksum() == model.checksum())
        try Self.expectSame(store, model, names)
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
