internal import CLibrocksdb
import Testing
import TokenDomain

@testable import StateStore

/// Goal: a scan of the due table costs what it finds, not what was removed before that.
@Suite struct `The start of a due table` {
    private static func key(_ number: Int) -> [UInt8] {
        [UInt8(ascii: "w")] + BigEndian.bytes(Int64(number))
    }

    private static func first(
        _ store: any PartitionStore,
        from start: [UInt8],
        within prefix: [UInt8]
    ) throws -> [[UInt8]] {
        var keys: [[UInt8]] = []
        try store.scan(.due, from: start, within: prefix) { key, _ in
            keys.append(key)
            return keys.count < 3
        }
        return keys
    }

    /// What waits is looked through where it is in memory.
    private static let groups = {
        var groups = StoreGroups()
        groups.byKind = [.due: bytes("w")]
        return groups
    }()

    /// What a scan finds first, and that it passes nothing that was removed: RocksDB counts for each
    /// thread what is passed.
    private static func expectFirst(
        _ expected: [[UInt8]],
        _ store: RocksStore,
        from start: [UInt8]
    ) throws {
        rocksdb_set_perf_level(Int32(rocksdb_enable_count))
        let counts = unsafe rocksdb_perfcontext_create()
        defer {
            rocksdb_set_perf_level(Int32(rocksdb_disable))
            unsafe rocksdb_perfcontext_destroy(counts)
        }
        unsafe rocksdb_perfcontext_reset(counts)
        #expect(try first(store, from: start, within: bytes("w")) == expected)
        let metric = Int32(rocksdb_internal_delete_skipped_count)
        let passed = unsafe rocksdb_perfcontext_metric(counts, metric)
        #expect(passed == 0)
    }

    @Test(arguments: [false, true])
    func `is found without passing again what was removed`(isGrouped: Bool) throws {
        let folder = try StoreFolder(groups: isGrouped ? Self.groups : StoreGroups())
        let store = try folder.open()
        defer { store.close() }
        let count = 20_000
        var changes = StoreChanges()
        for number in 0..<count {
            changes.put([], forKey: Self.key(number), in: .due)
        }
        try store.apply(changes, changelogOffset: 1)
        changes = StoreChanges()
        for number in 0..<count - 1 {
            changes.remove(key: Self.key(number), from: .due)
        }
        try store.apply(changes, changelogOffset: 2)
        let prefix = bytes("w")
        let left = [Self.key(count - 1)]
        #expect(try Self.first(store, from: prefix, within: prefix) == left)
        try Self.expectFirst(left, store, from: prefix)
        // Also from within what is empty.
        try Self.expectFirst(left, store, from: Self.key(7))
        guard isGrouped else {
            return
        }
        // Debts come in no order of their deadlines, and go after each other.
        for (number, offset) in zip([9, 3, 5_000, 4, 0], Int64(3)...) {
            changes = StoreChanges()
            changes.put([], forKey: Self.key(number), in: .due)
            try store.apply(changes, changelogOffset: offset * 2)
            try Self.expectFirst([Self.key(number)] + left, store, from: prefix)
            changes = StoreChanges()
            changes.remove(key: Self.key(number), from: .due)
            try store.apply(changes, changelogOffset: offset * 2 + 1)
            try Self.expectFirst(left, store, from: prefix)
        }
    }

    @Test(arguments: UInt64(1)...6, [false, true])
    func `is where it is in memory, whatever is put and removed`(
        seed: UInt64,
        isGrouped: Bool
    ) throws {
        var generator = SeededGenerator(seed: seed)
        let folder = try StoreFolder(groups: isGrouped ? Self.groups : StoreGroups())
        let store = try folder.open()
        defer { store.close() }
        let model = MemoryStore()
        var begin = 0
        for offset in 1...400 {
            var changes = StoreChanges()
            for _ in 0..<Int.random(in: 0...8, using: &generator) {
                // Most come behind the others; few before, or half of them; and one with a long key.
                let isEarly = Int.random(in: 0..<(isGrouped ? 2 : 10), using: &generator) == 0
                let number =
                    isEarly
                    ? Int.random(in: 0...begin + 5, using: &generator) : begin + 50 + offset
                let isLong = Int.random(in: 0..<20, using: &generator) == 0
                let rest = [UInt8](repeating: 7, count: isLong ? 200 : number % 3)
                changes.put([1], forKey: Self.key(number) + rest, in: .due)
            }
            for key in try Self.first(model, from: [], within: [])
            where Bool.random(using: &generator) {
                begin = max(begin, Int(BigEndian.number(key, at: 1)))
                changes.remove(key: key, from: .due)
            }
            // All that waits in memory goes to a file.
            if Int.random(in: 0..<20, using: &generator) == 0 {
                let value = [UInt8](repeating: 1, count: StoreFolder.writeBufferByteCount)
                changes.put(value, forKey: [1], in: .state)
            }
            try store.apply(changes, changelogOffset: Int64(offset))
            try model.apply(changes, changelogOffset: Int64(offset))
            let inside = Self.key(Int.random(in: 0...begin + 60, using: &generator))
            // A scan of all has what waits in memory written, which the others leave where it is.
            let isOfAll = !isGrouped || Int.random(in: 0..<15, using: &generator) == 0
            let all: [([UInt8], [UInt8])] = isOfAll ? [([], [])] : []
            for (start, prefix) in all + [(bytes("w"), bytes("w")), (inside, bytes("w"))] {
                #expect(
                    try Self.first(store, from: start, within: prefix)
                        == Self.first(model, from: start, within: prefix),
                    "seed \(seed), offset \(offset)"
                )
            }
            if isOfAll {
                #expect(try Self.first(store, from: bytes("x"), within: bytes("x")) == [])
            }
        }
    }
}
