import Foundation
import Testing

@testable import StateStore

/// The filter in front of RocksDB may say "perhaps" too often, and "no" never wrongly: a key that it
/// denied would be a token reported twice.
@Suite struct `What a store may have` {
    /// More than the first layer of a filter has room for, and than the second.
    private static let keyCount = 150_000

    private func expectAll(_ range: Range<Int>, in store: RocksStore) throws {
        let values = try store.get(range.map(StoreChanges.spreadKey))
        let wrong = zip(range, values).filter { number, value in
            value != Array("value \(number)".utf8)
        }
        #expect(wrong.isEmpty, "\(wrong.count) are denied, the first \(wrong[0].0)")
    }

    private func expectNone(_ range: Range<Int>, in store: RocksStore) throws {
        let values = try store.get(range.map(StoreChanges.spreadKey))
        #expect(values.allSatisfy { $0 == nil })
    }

    private func fill(_ store: RocksStore, _ range: Range<Int>) throws {
        for start in stride(from: range.lowerBound, to: range.upperBound, by: 10_000) {
            let end = min(start + 10_000, range.upperBound)
            try store.apply(.spread(start..<end), changelogOffset: Int64(end))
        }
    }

    private func keptPath(_ folder: StoreFolder) -> String { folder.storePath + "/FILTER" }

    private func isKept(_ folder: StoreFolder) -> Bool {
        FileManager.default.fileExists(atPath: keptPath(folder))
    }

    @Test func `is everything that was put, while it grows`() throws {
        let folder = try StoreFolder()
        let store = try folder.open()
        for start in stride(from: 0, to: Self.keyCount, by: 50_000) {
            try fill(store, start..<start + 50_000)
            try expectAll(0..<start + 50_000, in: store)
        }
        try expectNone(Self.keyCount..<Self.keyCount + 50_000, in: store)
    }

    /// What is made of many keys is there some changes later: what they put is in it as well.
    private func fillUntilMade(_ store: RocksStore, from count: Int) throws -> Int {
        var end = count
        let deadline = ContinuousClock.now + .seconds(60)
        while !store.isFilterMade, ContinuousClock.now < deadline {
            try fill(store, end..<end + 1)
            end += 1
            try expectAll(end - 1..<end, in: store)
            try expectNone(end..<end + 1, in: store)
        }
        #expect(store.isFilterMade, "it is not made in time")
        try expectAll(0..<end, in: store)
        try expectNone(end..<end + 1_000, in: store)
        return end
    }

    /// With each start a store would read all its keys, and look up each new one in its files meanwhile.
    @Test func `is kept with the layers that it has grown by`() throws {
        let folder = try StoreFolder()
        var store = try folder.open()
        try fill(store, 0..<300_000)
        let byteCount = store.filterByteCount
        store.close()
        #expect(isKept(folder))
        store = try folder.open()
        #expect(store.filterByteCount == byteCount, "another one was made")
        try expectAll(0..<300_000, in: store)
    }

    @Test func `is made anew where it has grown in many steps, and the one before serves`() throws {
        let folder = try StoreFolder()
        var store = try folder.open()
        var end = 810_000
        try fill(store, 0..<end)
        while store.isFilterMade, end < 860_000 {
            try fill(store, end..<end + 10_000)
            end += 10_000
        }
        #expect(!store.isFilterMade, "it has not grown in as many steps")
        try expectAll(0..<end, in: store)
        store.close()
        #expect(isKept(folder), "the one that serves is whole")
        store = try folder.open()
        // With the next layer it is begun once more.
        try fill(store, end..<1_050_000)
        let count = try fillUntilMade(store, from: 1_050_000)
        // 16 bits a key, and a quarter in advance.
        #expect((count * 2..<count * 2 * 5 / 4).contains(store.filterByteCount))
        store.close()
        #expect(isKept(folder))
        store = try folder.open()
        try expectAll(0..<count, in: store)
    }

    @Test func `is made bit by bit of what a killed process left`() throws {
        let folder = try StoreFolder()
        var store = try folder.open()
        try fill(store, 0..<600_000)
        store.close()
        for isClosedAtOnce in [true, false] {
            if isKept(folder) {
                try FileManager.default.removeItem(atPath: keptPath(folder))
            }
            store = try folder.open()
            #expect(!store.isFilterMade, "it is made of so many keys at once")
            try expectAll(0..<600_000, in: store)
            try expectNone(700_000..<701_000, in: store)
            if isClosedAtOnce {
                store.close()
                #expect(!isKept(folder), "half of it denies the rest")
            }
        }
        let end = try fillUntilMade(store, from: 600_000)
        store.close()
        #expect(isKept(folder))
        store = try folder.open()
        try expectAll(0..<end, in: store)
        try expectNone(end..<end + 1_000, in: store)
    }

    @Test func `is known again after it was closed, and after that`() throws {
        let folder = try StoreFolder()
        var store = try folder.open()
        var end = 0
        for _ in 0..<3 {
            try fill(store, end..<end + 30_000)
            end += 30_000
            store.close()
            #expect(isKept(folder))
            store = try folder.open()
            #expect(!isKept(folder), "it is of the store as it was")
            try expectAll(0..<end, in: store)
        }
    }

    @Test func `is what a restore by files brought, and what came after it`() throws {
        let folder = try StoreFolder()
        let store = try folder.open()
        try store.beginRestore()
        try fill(store, 0..<Self.keyCount)
        try store.endRestore()
        try fill(store, Self.keyCount..<Self.keyCount + 1000)
        try expectAll(0..<Self.keyCount + 1000, in: store)
    }

    @Test func `is less once enough of it was removed`() throws {
        let folder = try StoreFolder()
        var store = try folder.open()
        try fill(store, 0..<Self.keyCount)
        var removals = StoreChanges()
        for number in 1000..<Self.keyCount {
            removals.remove(key: StoreChanges.spreadKey(number), from: .state)
        }
        try store.apply(removals, changelogOffset: Int64(Self.keyCount) + 1)
        for _ in 0..<2 {
            try expectAll(0..<1000, in: store)
            try expectNone(1000..<Self.keyCount, in: store)
            store.close()
            store = try folder.open()
        }
    }

    @Test func `does not grow with what comes and goes`() throws {
        let folder = try StoreFolder()
        let store = try folder.open()
        var offset: Int64 = 0
        for start in stride(from: 0, to: 1_000_000, by: 10_000) {
            offset += 1
            try store.apply(.spread(start..<start + 10_000), changelogOffset: offset)
            var removals = StoreChanges()
            for number in start..<start + 10_000 {
                removals.remove(key: StoreChanges.spreadKey(number), from: .state)
            }
            offset += 1
            try store.apply(removals, changelogOffset: offset)
        }
        // With all of them it would be 1.6 MB.
        #expect(store.filterByteCount < 1_330_000)
    }

    enum Damage: CaseIterable {
        case missing, unreadable, empty, cut, flipped, ofYesterday, ofAnotherStore
    }

    @Test(arguments: Damage.allCases)
    func `does not depend on the file that keeps it`(damage: Damage) throws {
        let folder = try StoreFolder()
        var store = try folder.open()
        try fill(store, 0..<20_000)
        store.close()
        let kept = URL(fileURLWithPath: keptPath(folder))
        let yesterday = try Data(contentsOf: kept)
        store = try folder.open()
        try fill(store, 20_000..<40_000)
        store.close()
        var file = try Data(contentsOf: kept)
        switch damage {
        case .missing: try FileManager.default.removeItem(at: kept)
        case .unreadable:
            // Reading a folder fails, and so does writing the next one over it.
            try FileManager.default.removeItem(at: kept)
            try FileManager.default.createDirectory(at: kept, withIntermediateDirectories: false)
        case .empty: file = Data()
        case .cut: file = file.prefix(file.count / 2)
        case .flipped:
            // In the first half of the lines, where bits are set: a key of it would be denied.
            for index in stride(from: file.count / 4, to: file.count / 2, by: 8) {
                file[index] = 0
            }
        case .ofYesterday: file = yesterday
        case .ofAnotherStore:
            // Which went through as many changes.
            let other = try StoreFolder()
            for range in [50_000..<70_000, 70_000..<90_000] {
                let store = try other.open()
                try fill(store, range)
                store.close()
            }
            file = try Data(contentsOf: URL(fileURLWithPath: keptPath(other)))
        }
        if damage != .missing, damage != .unreadable {
            try file.write(to: kept)
        }
        for _ in 0..<2 {
            store = try folder.open()
            try expectAll(0..<40_000, in: store)
            try expectNone(40_000..<60_000, in: store)
            store.close()
        }
    }
}
