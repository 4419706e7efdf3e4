import Foundation
import Testing

@testable import StateStore

/// A folder of its own for one test, gone with it, and a clock to set.
final class StoreFolder {
    /// Changes that wait in memory, of each store.
    static let writeBufferByteCount = 256 << 10

    let path: String
    var now: Int64 = 1_750_000_000_000
    var tombstoneMilliseconds = StateDirectory.tombstoneMilliseconds
    let shared: StoreShared

    init(
        under parent: String = NSTemporaryDirectory(),
        groups: StoreGroups = StoreGroups()
    ) throws {
        path = parent + "/statestore-" + UUID().uuidString
        shared = try StoreShared(
            cacheByteCount: 1 << 20,
            writeBufferByteCount: Self.writeBufferByteCount,
            groups: groups
        )
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    deinit {
        do {
            try FileManager.default.removeItem(atPath: path)
        } catch {
            print("left behind: \(path): \(error)")
        }
    }

    func directory(clusterID: String = "cluster") -> StateDirectory {
        StateDirectory(
            root: path,
            clusterID: clusterID,
            topicPrefix: "tollway.",
            worker: "dedupe",
            shared: shared,
            tombstoneMilliseconds: tombstoneMilliseconds,
            clockMilliseconds: { self.now }
        )
    }

    func open(partition: Int32 = 0, identity: String = "topic") throws -> RocksStore {
        try #require(
            directory().open(partition: partition, changelogIdentity: identity) as? RocksStore
        )
    }

    var storePath: String { directory().path(partition: 0) }

    /// The store's files with this ending, the largest first.
    func files(ending suffix: String) throws -> [String] {
        let sizes = try FileManager.default.contentsOfDirectory(atPath: storePath)
            .filter { $0.hasSuffix(suffix) }
            .map { name in
                let attributes = try FileManager.default.attributesOfItem(
                    atPath: storePath + "/" + name
                )
                return (path: storePath + "/" + name, size: attributes[.size] as? Int ?? 0)
            }
        return sizes.sorted { $0.size > $1.size }.map(\.path)
    }
}

extension StoreChanges {
    /// Puts and removals in the state table, as text.
    static func of(_ entries: [(String, String?)]) -> StoreChanges {
        var changes = StoreChanges()
        for (key, value) in entries {
            if let value {
                changes.put(Array(value.utf8), forKey: Array(key.utf8), in: .state)
            } else {
                changes.remove(key: Array(key.utf8), from: .state)
            }
        }
        return changes
    }

    /// `count` entries that look like hashes, the same for the same range.
    static func spread(_ range: Range<Int>, table: StoreTable = .state) -> StoreChanges {
        var changes = StoreChanges()
        for number in range {
            changes.put(
                Array("value \(number)".utf8),
                forKey: spreadKey(number),
                in: table
            )
        }
        return changes
    }

    static func spreadKey(_ number: Int) -> [UInt8] {
        let word = UInt64(number) &* 0x9e37_79b9_7f4a_7c15
        return (0..<8).map { UInt8(truncatingIfNeeded: word >> (8 * UInt64($0))) }
            + Array("\(number)".utf8)
    }
}

func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

extension PartitionStore {
    func text(_ key: String) throws -> String? {
        try get([bytes(key)])[0].map { String(decoding: $0, as: UTF8.self) }
    }

    func keys(_ table: StoreTable, from start: [UInt8] = []) throws -> [[UInt8]] {
        var keys: [[UInt8]] = []
        try scan(table, from: start) { key, _ in
            keys.append(key)
            return true
        }
        return keys
    }
}
