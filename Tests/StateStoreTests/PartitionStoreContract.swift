import Testing

@testable import StateStore

/// What every ``PartitionStore`` promises, whatever it keeps its bytes in.
@Suite struct `A store of one partition` {
    enum Kind: CaseIterable {
        case memory, rocks
    }

    /// The folder lives as long as the store in it is used.
    private func with(_ kind: Kind, _ body: (any PartitionStore) throws -> Void) throws {
        switch kind {
        case .memory:
            try body(MemoryStore())
        case .rocks:
            let folder = try StoreFolder()
            let store = try folder.open()
            defer { store.close() }
            try body(store)
        }
    }

    @Test(arguments: Kind.allCases)
    func `knows nothing at first`(kind: Kind) throws {
        try with(kind) { store in
            #expect(store.changelogOffset == nil)
            #expect(try store.get([]) == [])
            let values = try store.get([bytes("a"), bytes("")])
            #expect(values == [nil, nil])
            #expect(try store.checksum() == 0)
            #expect(try store.keys(.state) == [])
        }
    }

    /// Changes wait in memory until there are many: what is there and what was handed on before is
    /// one to whoever asks.
    @Test(arguments: Kind.allCases)
    func `answers with the newest value wherever it lies`(kind: Kind) throws {
        try with(kind) { store in
            let keys = (0..<200).map { bytes("key \($0)") } + [bytes("none")]
            var offset: Int64 = 0
            for round in 0..<60 {
                var changes = StoreChanges()
                for (number, key) in keys.dropLast().enumerated() where (number + round) % 3 == 0 {
                    if number % 7 == round % 7 {
                        changes.remove(key: key, from: .state)
                    } else {
                        let value = [UInt8](repeating: UInt8(round), count: number)
                        changes.put(value, forKey: key, in: .state)
                    }
                }
                offset += 1
                try store.apply(changes, changelogOffset: offset)
            }
            let expected = keys.dropLast().indices.map { number -> [UInt8]? in
                let round = (0..<60).last { (number + $0) % 3 == 0 } ?? 0
                return number % 7 == round % 7
                    ? nil : [UInt8](repeating: UInt8(round), count: number)
            }
            #expect(try store.get(keys) == expected + [nil])
            #expect(try store.keys(.state).count == expected.count { $0 != nil })
            #expect(try store.get(keys) == expected + [nil])
        }
    }

    @Test(arguments: Kind.allCases)
    func `answers in the order of the keys asked, repeated and unknown ones too`(kind: Kind) throws
    {
        try with(kind) { store in
            try store.apply(.of([("b", "2"), ("a", "1"), ("c", "")]), changelogOffset: 3)
            let keys = ["c", "x", "a", "b", "a"].map(bytes)
            #expect(try store.get(keys) == [[], nil, bytes("1"), bytes("2"), bytes("1")])
            #expect(store.changelogOffset == 3)
        }
    }

    @Test(arguments: Kind.allCases)
    func `lets the later of two changes to one key stand`(kind: Kind) throws {
        try with(kind) { store in
            try store.apply(
                .of([("a", "1"), ("a", nil), ("b", nil), ("b", "2"), ("c", "1"), ("c", "3")]),
                changelogOffset: 6
            )
            #expect(try store.text("a") == nil)
            #expect(try store.text("b") == "2")
            #expect(try store.text("c") == "3")
        }
    }

    @Test(arguments: Kind.allCases)
    func `keeps its tables apart`(kind: Kind) throws {
        try with(kind) { store in
            var changes = StoreChanges()
            changes.put(bytes("state"), forKey: bytes("k"), in: .state)
            changes.put(bytes("due"), forKey: bytes("k"), in: .due)
            changes.put(bytes("due"), forKey: bytes("d"), in: .due)
            try store.apply(changes, changelogOffset: 1)
            #expect(try store.text("k") == "state")
            #expect(try store.text("d") == nil)
            #expect(try store.keys(.due) == [bytes("d"), bytes("k")])
            #expect(try store.keys(.state) == [bytes("k")])
        }
    }

    @Test(arguments: Kind.allCases)
    func `scans in byte order from where it is told, until it is told to stop`(kind: Kind) throws {
        try with(kind) { store in
            var changes = StoreChanges()
            for key in [[0x80], [0x7f, 0xff], [], [0x7f], [0xff, 0], [0]] as [[UInt8]] {
                changes.put([1], forKey: key, in: .due)
            }
            try store.apply(changes, changelogOffset: 1)
            #expect(
                try store.keys(.due) == [[], [0], [0x7f], [0x7f, 0xff], [0x80], [0xff, 0]]
            )
            #expect(try store.keys(.due, from: [0x7f, 0]) == [[0x7f, 0xff], [0x80], [0xff, 0]])
            var seen = 0
            try store.scan(.due, from: [0]) { _, _ in
                seen += 1
                return seen < 2
            }
            #expect(seen == 2)
        }
    }

    @Test(
        arguments: Kind.allCases,
        [
            ([0x7f], [[0x7f], [0x7f, 0xff]]), ([0x7f, 0xff], [[0x7f, 0xff]]),
            ([0xff], [[0xff, 0], [0xff, 0xff]]), ([0xff, 0xff], [[0xff, 0xff]]), ([0x7e], []),
            ([], [[0x7f], [0x7f, 0xff], [0x80], [0xff, 0], [0xff, 0xff]]),
        ] as [([UInt8], [[UInt8]])]
    )
    func `scans what begins with a prefix`(
        kind: Kind,
        prefixed: (prefix: [UInt8], keys: [[UInt8]])
    ) throws {
        try with(kind) { store in
            var changes = StoreChanges()
            for key in [[0x80], [0x7f, 0xff], [0x7f], [0xff, 0], [0xff, 0xff]] as [[UInt8]] {
                changes.put([1], forKey: key, in: .due)
            }
            try store.apply(changes, changelogOffset: 1)
            var keys: [[UInt8]] = []
            try store.scan(.due, from: prefixed.prefix, within: prefixed.prefix) { key, _ in
                keys.append(key)
                return true
            }
            #expect(keys == prefixed.keys)
        }
    }

    @Test(arguments: Kind.allCases)
    func `scans everything, also where it takes many reads`(kind: Kind) throws {
        try with(kind) { store in
            try store.apply(.spread(0..<3_000), changelogOffset: 3_000)
            let keys = try store.keys(.state)
            #expect(keys.count == 3_000)
            #expect(zip(keys, keys.dropFirst()).allSatisfy { $0.lexicographicallyPrecedes($1) })
        }
    }

    @Test(arguments: Kind.allCases)
    func `shows a scan's own changes after the scan`(kind: Kind) throws {
        try with(kind) { store in
            try store.apply(.of([("a", "1"), ("b", "2")]), changelogOffset: 2)
            #expect(try store.keys(.state) == [bytes("a"), bytes("b")])
            try store.apply(.of([("a", nil), ("c", "3")]), changelogOffset: 3)
            #expect(try store.keys(.state) == [bytes("b"), bytes("c")])
        }
    }

    @Test(arguments: Kind.allCases)
    func `sums up to the same whatever the order and the history`(kind: Kind) throws {
        let fold = MemoryStore()
        try fold.apply(.of([("b", "2"), ("a", "1"), ("", "3")]), changelogOffset: 1)
        try with(kind) { store in
            try store.apply(.of([("a", "0"), ("x", "9"), ("", "3")]), changelogOffset: 3)
            #expect(try store.checksum() != fold.checksum())
            try store.apply(.of([("x", nil), ("a", "1"), ("b", "2")]), changelogOffset: 6)
            #expect(try store.checksum() == fold.checksum())
        }
    }

    @Test(arguments: Kind.allCases)
    func `moves its offset without any change`(kind: Kind) throws {
        try with(kind) { store in
            try store.apply(StoreChanges(), changelogOffset: 7)
            #expect(store.changelogOffset == 7)
        }
    }

    @Test(arguments: Kind.allCases)
    func `is restored to the same as by ordinary writes`(kind: Kind) throws {
        let fold = MemoryStore()
        try with(kind) { store in
            try store.beginRestore()
            for start in stride(from: 0, to: 90_000, by: 10_000) {
                var changes = StoreChanges.spread(start..<start + 10_000)
                for number in stride(from: 0, to: start, by: 7) {
                    changes.remove(key: StoreChanges.spreadKey(number), from: .state)
                }
                changes.put([1], forKey: StoreChanges.spreadKey(start), in: .due)
                try store.apply(changes, changelogOffset: Int64(start) + 10_000)
                try fold.apply(changes, changelogOffset: Int64(start) + 10_000)
            }
            try store.endRestore()
            #expect(try store.checksum() == fold.checksum())
            #expect(try store.keys(.due) == fold.keys(.due))
            #expect(store.changelogOffset == 90_000)
            try store.apply(.of([("after", "1")]), changelogOffset: 90_001)
            #expect(try store.text("after") == "1")
        }
    }

    @Test(arguments: Kind.allCases)
    func `answers in the middle of a restore`(kind: Kind) throws {
        try with(kind) { store in
            try store.beginRestore()
            try store.apply(.of([("a", "1")]), changelogOffset: 1)
            #expect(try store.text("a") == "1")
            try store.apply(.of([("b", "2"), ("a", nil)]), changelogOffset: 2)
            try store.endRestore()
            #expect(try store.get([bytes("a"), bytes("b")]) == [nil, bytes("2")])
            #expect(store.changelogOffset == 2)
        }
    }
}
