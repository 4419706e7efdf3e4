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

    @Test func `is right up to its offset where a restore broke off`() throws {
        let folder = try StoreFolder()
        let store = try folder.open()
        try store.beginRestore()
        for start in stride(from: 0, to: 1_000_000, by: 100_000) {
            try store.apply(
                .spread(start..<start + 100_000),
                changelogOffset: Int64(start) + 100_000
            )
        }
        // More than is collected in memory: a copy has what lies in files, as after a crash.
        let copy = folder.directory().path(partition: 1)
        try FileManager.default.copyItem(atPath: folder.storePath, toPath: copy)
        store.close()
        try FileManager.default.removeItem(atPath: folder.storePath)
        try FileManager.default.moveItem(atPath: copy, toPath: folder.storePath)
        let broken = try folder.open()
        let offset = try #require(broken.changelogOffset)
        #expect(offset < 1_000_000)
        let fold = MemoryStore()
        try fold.apply(.spread(0..<Int(offset)), changelogOffset: offset)
        #expect(try broken.checksum() == fold.checksum())
    }

    /// What waits in memory is bounded for all stores together; each keeps its own.
    @Test(arguments: [1, 3, 12] as [Int32])
    func `writes a file once the stores that share have too much in memory`(count: Int32) throws {
        let folder = try StoreFolder()
        let stores = try (0..<count).map { try folder.open(partition: $0) }
        var waitingMax = 0
        for end in stride(from: 1_000, through: 40_000, by: 1_000) {
            for store in stores {
                try store.apply(.spread(end - 1_000..<end), changelogOffset: Int64(end))
                let waiting = stores.map(\.waitingByteCount).reduce(0, +)
                waitingMax = max(waitingMax, waiting)
            }
        }
        let batchByteCount = StoreChanges.spread(39_000..<40_000).encoded.count
        #expect(waitingMax > StoreFolder.writeBufferByteCount - batchByteCount)
        // And what is on its way.
        #expect(waitingMax < StoreFolder.writeBufferByteCount * 4 / 3 + 2 * batchByteCount)
        let fold = MemoryStore()
        try fold.apply(.spread(0..<40_000), changelogOffset: 40_000)
        let sum = try fold.checksum()
        for (partition, store) in stores.enumerated() {
            #expect(try store.checksum() == sum)
            store.close()
            let again = try folder.open(partition: Int32(partition))
            #expect(again.changelogOffset == 40_000)
            #expect(try again.checksum() == sum)
        }
    }

    /// A scan has what waits written to RocksDB's memory, behind which a file comes in later.
    @Test func `has the newest of what was written before a scan and after it`() throws {
        let folder = try StoreFolder()
        var store = try folder.open()
        for round in 1...8 as ClosedRange<Int64> {
            var changes = StoreChanges.spread(0..<6_000, table: .due)
            changes.put([UInt8(round)], forKey: bytes("round"), in: .state)
            if round % 2 == 0 {
                changes.remove(key: bytes("odd"), from: .state)
            } else {
                changes.put([1], forKey: bytes("odd"), in: .state)
            }
            try store.apply(changes, changelogOffset: 2 * round)
            changes = StoreChanges()
            changes.put([UInt8(100 + round)], forKey: bytes("round"), in: .state)
            try store.apply(changes, changelogOffset: 2 * round + 1)
            #expect(try store.keys(.due).count == 6_000)
            #expect(try store.get([bytes("round"), bytes("odd")])[0] == [UInt8(100 + round)])
            if round % 3 == 0 {
                store.close()
                store = try folder.open()
            }
            #expect(store.changelogOffset == 2 * round + 1)
            #expect(try (store.get([bytes("odd")])[0] == nil) == (round % 2 == 0))
            #expect(try store.keys(.state).count == (round % 2 == 0 ? 1 : 2))
        }
    }

    /// An earlier version had three tables of RocksDB in a store: its manifest, before any file.
    @Test func `is damaged where an earlier version wrote it, and then begins empty`() throws {
        let manifest = """
            Vvm4+BwAAQEabGV2ZWxkYi5CeXRld2lzZUNvbXBhcmF0b3L0AwxaBAABAgAEAPwsJvkGAAEJAAMGBAA1f3En
            LQABARpsZXZlbGRiLkJ5dGV3aXNlQ29tcGFyYXRvcgIEAwYEAMgBAckBBXN0YXRly4uNtSsAAQEabGV2ZWxk
            Yi5CeXRld2lzZUNvbXBhcmF0b3ICBAMIBADIAQLJAQNkdWU=
            """
        let folder = try StoreFolder()
        let path = URL(fileURLWithPath: folder.storePath)
        try FileManager.default.createDirectory(at: path, withIntermediateDirectories: true)
        try #require(Data(base64Encoded: manifest, options: .ignoreUnknownCharacters))
            .write(to: path.appending(path: "MANIFEST-000005"))
        try Data("MANIFEST-000005\n".utf8).write(to: path.appending(path: "CURRENT"))
        try expectDamaged(folder)
        try folder.directory().wipe(partition: 0)
        #expect(try folder.open().changelogOffset == nil)
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

    /// Its changelog may have lost what it has: it says how far it is and since when, and stays.
    @Test(arguments: [(1, 2), (4, 5), (5, 1)])
    func `is told from another's where it is in another form`(form: Int, newForm: Int) throws {
        let folder = try StoreFolder()
        let identity = StateDirectory.identity(ofChangelog: "topic", form: form)
        let newIdentity = StateDirectory.identity(ofChangelog: "topic", form: newForm)
        let store = try folder.open(identity: identity)
        try store.apply(.spread(0..<10), changelogOffset: 10)
        store.close()
        let usedAt = folder.now
        folder.now += 1
        let fault = #expect(throws: StoreFault.self) { try folder.open(identity: newIdentity) }
        #expect(
            fault
                == .otherForm(
                    message: "the state is in another form",
                    changelogOffset: 10,
                    lastUsedMilliseconds: usedAt
                )
        )
        try FileManager.default.copyItem(
            atPath: folder.storePath,
            toPath: folder.directory().path(partition: 1)
        )
        let ofOtherPartition = #expect(throws: StoreFault.self) {
            try folder.open(partition: 1, identity: newIdentity)
        }
        #expect(ofOtherPartition == .damaged(message: Self.anothers))
        let another = StateDirectory.identity(ofChangelog: "topic2", form: newForm)
        let ofAnother = #expect(throws: StoreFault.self) { try folder.open(identity: another) }
        #expect(ofAnother == .damaged(message: Self.anothers))
        #expect(try folder.open(identity: identity).changelogOffset == 10)
    }

    @Test(arguments: [Int64(7), 1])
    func `is not believed once it lay idle for longer than removals are kept`(days: Int64) throws {
        let folder = try filled()
        folder.tombstoneMilliseconds = days * 86_400_000
        folder.now += days * 86_400_000 / 2
        try folder.open().close()
        folder.now += 1
        let fault = #expect(throws: StoreFault.self) { try folder.open() }
        guard case .idle(_, let offset, let lastUsed) = fault else {
            Issue.record("\(String(describing: fault))")
            return
        }
        #expect(offset == 20_000 && lastUsed == folder.now - days * 86_400_000 / 2 - 1)
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

    /// RocksDB takes a file in as another name of it, and removes the first one then: power that fails
    /// between leaves both.
    @Test func `keeps its tables where one is left under the name of the next file`() throws {
        let folder = try StoreFolder()
        var store = try folder.open()
        try store.apply(.spread(0..<40_000), changelogOffset: 1)
        store.close()
        let table = try #require(try folder.files(ending: ".sst").first)
        let left = folder.storePath + "/spill.sst"
        try FileManager.default.linkItem(atPath: table, toPath: left)
        store = try folder.open()
        try store.apply(.spread(40_000..<80_000), changelogOffset: 2)
        store.close()
        store = try folder.open()
        defer { store.close() }
        for number in stride(from: 0, to: 80_000, by: 7) {
            let value = try store.get([StoreChanges.spreadKey(number)])[0]
            #expect(value == Array("value \(number)".utf8))
        }
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
