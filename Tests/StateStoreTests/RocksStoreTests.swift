import Foundation
import Testing

@testable import StateStore

@Suite struct `A store on the disk` {
    private static let anothers = "the state is another changelog's, or another partition's"

    /// A store of 20,000 entries in files, at offset 20,000.
    private func filled() throws -> StoreFolder {
        let folder = try StoreFolder()
        let store = try folder.open()
        try store.apply(.spread(0..<20_000), changelogOffset: 20_000)
        store.close()
        return folder
    }

    @Test func `holds what it held when it was closed`() throws {
        let folder = try filled()
        let store = try folder.open()
        #expect(store.changelogOffset == 20_000)
        let fold = MemoryStore()
        try fold.apply(.spread(0..<20_000), changelogOffset: 20_000)
        #expect(try store.checksum() == fold.checksum())
    }

    @Test func `holds all tables as they were when it was closed`() throws {
        let folder = try StoreFolder()
        var store = try folder.open()
        for table in StoreTable.allCases {
            try store.apply(.spread(0..<100, table: table), changelogOffset: 100)
        }
        store.close()
        store = try folder.open()
        for table in StoreTable.allCases {
            #expect(try store.keys(table).count == 100)
        }
    }

    @Test func `holds what a restore by files brought`() throws {
        let folder = try StoreFolder()
        var store = try folder.open()
        try store.beginRestore()
        try store.apply(.spread(0..<40_000), changelogOffset: 40_000)
        try store.endRestore()
        let sum = try store.checksum()
        store.close()
        store = try folder.open()
        #expect(store.changelogOffset == 40_000)
        #expect(try store.checksum() == sum)
    }

    @Test func `is damaged where a restore by files broke off`() throws {
        let folder = try StoreFolder()
        let store = try folder.open()
        try store.beginRestore()
        var large = StoreChanges()
        large.put([UInt8](repeating: 1, count: 8 << 20), forKey: bytes("large"), in: .state)
        // More than is collected in memory: a file went in before the offset did.
        for offset in 1...9 as ClosedRange<Int64> {
            try store.apply(large, changelogOffset: offset)
        }
        store.close()
        try expectDamaged(folder)
    }

    @Test func `keeps what a restore had brought when somebody asked in the middle of it`() throws {
        let folder = try StoreFolder()
        let store = try folder.open()
        try store.beginRestore()
        try store.apply(.spread(0..<40_000), changelogOffset: 40_000)
        #expect(try store.get([StoreChanges.spreadKey(39_999)])[0] != nil)
        try store.apply(.spread(40_000..<50_000), changelogOffset: 50_000)
        store.close()
        let again = try folder.open()
        #expect(again.changelogOffset == 50_000)
        #expect(try again.get([StoreChanges.spreadKey(49_999)])[0] != nil)
    }

    @Test func `is one process's, and one holder's in it`() throws {
        let folder = try filled()
        let store = try folder.open()
        let fault = #expect(throws: StoreFault.self) { try folder.open() }
        guard case .locked = fault else {
            Issue.record("\(String(describing: fault))")
            return
        }
        store.close()
        #expect(try folder.open().changelogOffset == 20_000)
    }

    @Test func `is not taken for another changelog's`() throws {
        let folder = try filled()
        let fault = #expect(throws: StoreFault.self) {
            try folder.open(identity: "topic made anew")
        }
        #expect(fault == .damaged(message: Self.anothers))
    }

    /// As when a backup is put back in the wrong place: there every token would be new.
    @Test func `is not taken for another partition's`() throws {
        let folder = try filled()
        try FileManager.default.copyItem(
            atPath: folder.storePath,
            toPath: folder.directory().path(partition: 1)
        )
        let fault = #expect(throws: StoreFault.self) { try folder.open(partition: 1) }
        #expect(fault == .damaged(message: Self.anothers))
    }

    @Test func `is not believed once it lay idle for longer than removals are kept`() throws {
        let folder = try filled()
        folder.now += 7 * 86_400_000 / 2
        try folder.open().close()
        folder.now += 1
        try expectDamaged(folder)
    }

    @Test func `goes on from yesterday where yesterday's files are copied back`() throws {
        let folder = try filled()
        let copy = folder.path + "/yesterday"
        try FileManager.default.copyItem(atPath: folder.storePath, toPath: copy)
        let store = try folder.open()
        try store.apply(.spread(20_000..<30_000), changelogOffset: 30_000)
        store.close()
        try FileManager.default.removeItem(atPath: folder.storePath)
        try FileManager.default.moveItem(atPath: copy, toPath: folder.storePath)
        let old = try folder.open()
        #expect(old.changelogOffset == 20_000)
        #expect(try old.get([StoreChanges.spreadKey(20_001)]) == [nil])
    }

    @Test func `keeps clusters, prefixes and odd names apart`() throws {
        let folder = try StoreFolder()
        let paths = ["a", "b", "..", "a/b", ""].map { folder.directory(clusterID: $0).path }
        #expect(Set(paths).count == paths.count)
        #expect(paths.allSatisfy { $0.hasPrefix(folder.path) && !$0.contains("/../") })
    }

    @Test func `starts anew once wiped`() throws {
        let folder = try filled()
        try folder.directory().wipe(partition: 0)
        let store = try folder.open()
        #expect(store.changelogOffset == nil)
        #expect(try store.checksum() == 0)
        try folder.directory().wipe(partition: 1)
    }

    // MARK: Damage

    enum Damage: CaseIterable {
        case tableMissing, tableCut, tableFlipped, manifestMissing, manifestCut, manifestFlipped
        case currentMissing, currentEmpty, currentLeadsNowhere, everyTableMissing
    }

    /// Whatever happens to the files: the store says so, or is right about an earlier offset.
    ///
    /// It never answers wrongly and never says that it knows more than it does.
    @Test(arguments: Damage.allCases)
    func `is damaged, never wrong, after its files were hurt`(damage: Damage) throws {
        let folder = try filled()
        try hurt(folder, damage)
        do {
            let store = try folder.open()
            let sum = try store.checksum()
            let offset = Int(store.changelogOffset ?? 0)
            let fold = MemoryStore()
            try fold.apply(.spread(0..<offset), changelogOffset: Int64(offset))
            #expect(try sum == fold.checksum(), "\(damage) at offset \(offset)")
            #expect(offset <= 20_000)
        } catch StoreFault.damaged {
            // Said so: the runtime wipes and replays.
        }
        try folder.directory().wipe(partition: 0)
        #expect(try folder.open().changelogOffset == nil)
    }

    @Test func `stays damaged once it was found to be, until it is wiped`() throws {
        let folder = try filled()
        try flip(#require(folder.files(ending: ".sst").first))
        let store = try folder.open()
        #expect(throws: StoreFault.self) { try store.checksum() }
        store.close()
        try expectDamaged(folder)
        try folder.directory().wipe(partition: 0)
        #expect(try folder.open().changelogOffset == nil)
    }

    @Test func `is damaged wherever one bit of a table flipped, or does not need that bit`() throws
    {
        let folder = try filled()
        let path = try #require(try folder.files(ending: ".sst").first)
        let intact = try Data(contentsOf: URL(fileURLWithPath: path))
        let fold = MemoryStore()
        try fold.apply(.spread(0..<20_000), changelogOffset: 20_000)
        let sum = try fold.checksum()
        var found = 0
        for step in 0..<64 {
            var hurt = intact
            hurt[step * (intact.count / 64) + step] ^= 1 << (step % 8)
            try hurt.write(to: URL(fileURLWithPath: path))
            do {
                let store = try folder.open()
                #expect(try store.checksum() == sum)
            } catch StoreFault.damaged {
                found += 1
            }
            let mark = folder.storePath + "/DAMAGED"
            if FileManager.default.fileExists(atPath: mark) {
                try FileManager.default.removeItem(atPath: mark)
            }
        }
        #expect(found > 50)
    }

    private func hurt(_ folder: StoreFolder, _ damage: Damage) throws {
        let files = FileManager.default
        let current = folder.storePath + "/CURRENT"
        switch damage {
        case .tableMissing:
            try files.removeItem(atPath: #require(folder.files(ending: ".sst").first))
        case .everyTableMissing:
            for path in try folder.files(ending: ".sst") {
                try files.removeItem(atPath: path)
            }
        case .tableCut:
            try cut(#require(folder.files(ending: ".sst").first))
        case .tableFlipped:
            try flip(#require(folder.files(ending: ".sst").first))
        case .manifestMissing:
            try files.removeItem(atPath: manifest(folder))
        case .manifestCut:
            try cut(manifest(folder))
        case .manifestFlipped:
            try flip(manifest(folder))
        case .currentMissing:
            try files.removeItem(atPath: current)
        case .currentEmpty:
            try Data().write(to: URL(fileURLWithPath: current))
        case .currentLeadsNowhere:
            try Data("MANIFEST-999999\n".utf8).write(to: URL(fileURLWithPath: current))
        }
    }

    private func manifest(_ folder: StoreFolder) throws -> String {
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.storePath)
        return try folder.storePath + "/" + #require(names.first { $0.hasPrefix("MANIFEST") })
    }

    private func cut(_ path: String) throws {
        let data = try Data(contentsOf: URL(fileURLWithPath: path))
        try data.prefix(data.count / 2).write(to: URL(fileURLWithPath: path))
    }

    private func flip(_ path: String) throws {
        var data = try Data(contentsOf: URL(fileURLWithPath: path))
        data[data.count / 2] ^= 0x10
        try data.write(to: URL(fileURLWithPath: path))
    }

    private func expectDamaged(_ folder: StoreFolder) throws {
        let fault = #expect(throws: StoreFault.self) { try folder.open() }
        guard case .damaged = fault else {
            Issue.record("\(String(describing: fault))")
            return
        }
    }
}
