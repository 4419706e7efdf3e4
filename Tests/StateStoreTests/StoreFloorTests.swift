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

    /// RocksDB counts for each thread what it has passed.
    @Test func `is found without passing again what was removed`() throws {
        let folder = try StoreFolder()
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
        rocksdb_set_perf_level(Int32(rocksdb_enable_count))
        let counts = unsafe rocksdb_perfcontext_create()
        defer {
            rocksdb_set_perf_level(Int32(rocksdb_disable))
            unsafe rocksdb_perfcontext_destroy(counts)
        }
        unsafe rocksdb_perfcontext_reset(counts)
        #expect(try Self.first(store, from: prefix, within: prefix) == left)
        // Also from within what is empty.
        #expect(try Self.first(store, from: Self.key(7), within: prefix) == left)
        let metric = Int32(rocksdb_internal_delete_skipped_count)
        let passed = unsafe rocksdb_perfcontext_metric(counts, metric)
        #expect(passed == 0)
    }

    @Test(arguments: UInt64(1)...6)
    func `is where it is in memory, whatever is put and removed`(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let folder = try StoreFolder()
        let store = try folder.open()
        defer { store.close() }
        let model = MemoryStore()
        var begin = 0
        for offset in 1...400 {
            var changes = StoreChanges()
            for _ in 0..<Int.random(in: 0...8, using: &generator) {
                // Most come behind the others; few before, and one with a long key.
                let isEarly = Int.random(in: 0..<10, using: &generator) == 0
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
            try store.apply(changes, changelogOffset: Int64(offset))
            try model.apply(changes, changelogOffset: Int64(offset))
            let inside = Self.key(Int.random(in: 0...begin + 60, using: &generator))
            for (start, prefix) in [([], []), (bytes("w"), bytes("w")), (inside, bytes("w"))] {
                #expect(
                    try Self.first(store, from: start, within: prefix)
                        == Self.first(model, from: start, within: prefix),
                    "seed \(seed), offset \(offset)"
                )
            }
            #expect(try Self.first(store, from: bytes("x"), within: bytes("x")) == [])
        }
    }
}
