import Foundation
import Kafka
import StateStore
import TokenDomain
import TokenWire

@testable import StageRuntime
@testable import dedupe
@testable import purchases
@testable import report

/// The stores on the disk against the fold of their changelogs, entry by entry.
///
/// The worker's own last store must be its changelog to the end. One that a worker left behind when
/// it lost the partition ends earlier, and must be the fold up to there; where a kill came in the
/// middle of a restore it says so of itself, and its next owner makes it anew.
struct StoreAudit {
    static let differenceCountMax = 5

    let contents: TopicContents
    let prefix: String
    private(set) var differences: [String] = []
    /// Stores compared, and entries in them.
    private(set) var storeCount = 0
    private(set) var entryCount = 0
    /// Stores left behind that their next owner would make anew.
    private(set) var discardedCount = 0

    init(_ contents: TopicContents, prefix: String) {
        self.contents = contents
        self.prefix = prefix
    }

    /// Compares every store in a `STATE_DIR` of a worker that has a changelog.
    ///
    /// `partitionCount` is of those that must be there to the end; 0 where others own them by now.
    mutating func check(_ worker: Worker, folder: URL, partitionCount: Int) throws {
        guard let changelog = worker.changelog else {
            return
        }
        var isFound: Set<Int32> = []
        for store in try Self.stores(of: worker, in: folder) {
            guard let partition = Int32(store.lastPathComponent) else {
                continue
            }
            isFound.insert(partition)
            try check(
                worker,
                store,
                records: contents[changelog].filter { $0.partition == partition },
                isLast: partitionCount > 0
            )
        }
        let missing = Set(0..<Int32(partitionCount)).subtracting(isFound)
        if !missing.isEmpty {
            differences.append("\(worker.rawValue) has no store of \(missing.sorted())")
        }
    }

    private static func stores(of worker: Worker, in folder: URL) throws -> [URL] {
        let files = FileManager.default
        var found: [URL] = []
        let clusters =
            files.fileExists(atPath: folder.path)
            ? try files.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil) : []
        for cluster in clusters {
            for prefix in try files.contentsOfDirectory(
                at: cluster,
                includingPropertiesForKeys: nil
            ) {
                let own = prefix.appendingPathComponent(worker.rawValue)
                if files.fileExists(atPath: own.path) {
                    found += try files.contentsOfDirectory(
                        at: own,
                        includingPropertiesForKeys: nil
                    )
                }
            }
        }
        return found.sorted { $0.path < $1.path }
    }

    private mutating func check(
        _ worker: Worker,
        _ folder: URL,
        records: [TopicContents.Record],
        isLast: Bool
    ) throws {
        let name = "\(worker.rawValue)'s store \(folder.lastPathComponent)"
        let changelog = worker.changelog?.name(prefix: prefix) ?? ""
        let store: RocksStore
        do throws(StoreFault) {
            store = try RocksStore(
                path: folder.path,
                changelogIdentity: StateDirectory.identity(
                    of: worker == .purchases
                        ? PurchasesStage.storeIdentity(ofChangelog: changelog) : changelog,
                    partition: Int32(folder.lastPathComponent) ?? -1
                ),
                shared: try StoreShared(),
                clockMilliseconds: { WallClock.now }
            )
        } catch {
            if isLast {
                differences.append("\(name) cannot be opened: \(error)")
            }
            discardedCount += 1
            return
        }
        defer { store.close() }
        let end = records.last.map { $0.offset + 1 } ?? 0
        let reached = store.changelogOffset ?? 0
        if isLast, reached < end {
            differences.append("\(name) ends at \(reached), its changelog at \(end)")
        }
        if reached > (records.last.map { $0.offset + 1 } ?? 0), isLast, records.isEmpty {
            differences.append("\(name) is ahead of its changelog, which is empty")
        }
        let fold = try Self.fold(worker, records.filter { $0.offset < reached })
        storeCount += 1
        for table in StoreTable.allCases {
            let owed = try Self.entries(table, of: fold)
            let found = try Self.entries(table, of: store)
            entryCount += found.count
            compare("\(name), \(table)", found, owed)
        }
        if try store.checksum() != fold.checksum() {
            differences.append("\(name) has another checksum than the fold of its changelog")
        }
    }

    /// The last value of each key, and the due table of `report` and of `purchases` from those values
    /// alone.
    private static func fold(
        _ worker: Worker,
        _ records: [TopicContents.Record]
    ) throws -> MemoryStore {
        let store = MemoryStore()
        guard worker != .dedupe else {
            try StagedState.apply(
                records.map { ($0.key ?? [], $0.value) },
                changelogOffset: 1,
                to: store,
                stage: DedupeStage()
            )
            return store
        }
        var last: [[UInt8]: [UInt8]] = [:]
        for record in records {
            last[record.key ?? []] = record.value
        }
        var changes = StoreChanges()
        for (key, value) in last {
            guard worker == .report else {
                PurchasesStage.derive(key: key, value: value, previous: nil, into: &changes)
                continue
            }
            changes.put(value, forKey: key, in: .state)
            guard !WaitingReport.isKey(key) else {
                continue
            }
            let debtor = try Debtor(reading: value, key: key)
            let due = DueKey.bytes(of: debtor, key: key)
            changes.put(DueKey.note(of: debtor), forKey: due, in: .due)
            if let retry = DueKey.retry(of: debtor, key: key) {
                changes.put([], forKey: retry, in: .due)
            }
        }
        try store.apply(changes, changelogOffset: 1)
        return store
    }

    static func entries(
        _ table: StoreTable,
        of store: any PartitionStore
    ) throws -> [[UInt8]: [UInt8]] {
        var entries: [[UInt8]: [UInt8]] = [:]
        try store.scan(table, from: []) { key, value in
            entries[key] = value
            return true
        }
        return entries
    }

    private mutating func compare(
        _ name: String,
        _ found: [[UInt8]: [UInt8]],
        _ owed: [[UInt8]: [UInt8]]
    ) {
        let wrong = Set(found.keys).union(owed.keys).filter { found[$0] != owed[$0] }
        guard !wrong.isEmpty else {
            return
        }
        let examples = wrong.map { String(decoding: $0, as: UTF8.self) }.sorted()
            .prefix(Self.differenceCountMax)
        differences.append(
            "\(name): \(wrong.count) entries differ from the fold of its changelog: "
                + examples.joined(separator: ", ")
        )
    }
}

enum WallClock {
    /// UNIX milliseconds.
    static var now: Int64 { Int64(Date().timeIntervalSince1970 * 1_000) }
}
