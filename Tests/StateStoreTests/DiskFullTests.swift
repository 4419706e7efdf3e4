import Foundation
import Testing

@testable import StateStore

/// A small disk in memory; nil where this user may not mount one.
private final class SmallDisk {
    let path: String

    init?(byteCount: Int) {
        path = NSTemporaryDirectory() + "/smalldisk-" + UUID().uuidString
        do {
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
            guard
                try Self.run("/bin/mount", "-t", "tmpfs", "-o", "size=\(byteCount)", "tmpfs", path)
            else {
                try FileManager.default.removeItem(atPath: path)
                return nil
            }
        } catch {
            print("no small disk: \(error)")
            return nil
        }
    }

    deinit {
        do {
            _ = try Self.run("/bin/umount", path)
            try FileManager.default.removeItem(atPath: path)
        } catch {
            print("left behind: \(path): \(error)")
        }
    }

    private var ballast: String { path + "/ballast" }

    func takeSpace(byteCount: Int) throws {
        try Data(count: byteCount).write(to: URL(fileURLWithPath: ballast))
    }

    func makeSpace() throws { try FileManager.default.removeItem(atPath: ballast) }

    static let canMount = SmallDisk(byteCount: 1 << 20) != nil

    private static func run(_ path: String, _ arguments: String...) throws -> Bool {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: path)
        process.arguments = arguments
        process.standardError = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        return process.terminationStatus == 0
    }
}

@Suite(.enabled(if: SmallDisk.canMount, "needs the right to mount a tmpfs"))
struct `A store on a disk that fills up` {
    @Test func `says that it is full, and is right about what it kept`() throws {
        let disk = try #require(SmallDisk(byteCount: 8 << 20))
        try disk.takeSpace(byteCount: 4 << 20)
        let full = try open(disk)
        let fault = fill(full)
        // A flush that failed stays pending for ever; RocksDB itself pauses a second after it.
        let closing = ContinuousClock().measure { full.close() }
        #expect(closing < .seconds(8), "a flush that does not fail is waited for, 10 s at most")
        guard case .diskFull = fault else {
            Issue.record("\(String(describing: fault))")
            return
        }
        // Space is made: what is there is right, up to the offset it states.
        try disk.makeSpace()
        let store = try open(disk)
        let offset = Int(store.changelogOffset ?? 0)
        let fold = MemoryStore()
        try fold.apply(.spread(0..<offset), changelogOffset: Int64(offset))
        #expect(try store.checksum() == fold.checksum())
        store.close()
    }

    /// Of several stores a file is written beside what is applied, and its failure shows later.
    @Test(arguments: [false, true])
    func `is right about each of several stores`(hasSpaceWhenItCloses: Bool) throws {
        let disk = try #require(SmallDisk(byteCount: 24 << 20))
        try disk.takeSpace(byteCount: 12 << 20)
        let shared = try shared()
        let full = try (0..<6).map { try open(disk, "\($0)", shared) }
        var applied: Int64 = 0
        let fault = #expect(throws: StoreFault.self) {
            for start in stride(from: 0, to: 400_000, by: 200) {
                for store in full {
                    try store.apply(
                        .spread(start..<start + 200),
                        changelogOffset: Int64(start) + 200
                    )
                }
                applied = Int64(start) + 200
            }
        }
        guard case .diskFull = fault else {
            Issue.record("\(String(describing: fault))")
            return
        }
        // What could not be written is there as before.
        for store in full {
            let keys = [0, Int(applied) - 1].map { StoreChanges.spreadKey($0) }
            #expect(try store.get(keys).allSatisfy { $0 != nil })
        }
        if hasSpaceWhenItCloses {
            try disk.makeSpace()
        }
        full.forEach { $0.close() }
        if !hasSpaceWhenItCloses {
            try disk.makeSpace()
        }
        for number in full.indices {
            let store = try open(disk, "\(number)", shared)
            let offset = store.changelogOffset ?? 0
            #expect(!hasSpaceWhenItCloses || offset >= applied)
            let fold = MemoryStore()
            try fold.apply(.spread(0..<Int(offset)), changelogOffset: offset)
            #expect(try store.checksum() == fold.checksum(), "store \(number), offset \(offset)")
            store.close()
        }
    }

    /// RocksDB ends the process where a second write to its log fails, which lies on the same disk.
    @Test func `has nothing written to a log`() throws {
        let disk = try #require(SmallDisk(byteCount: 8 << 20))
        try disk.takeSpace(byteCount: 4 << 20)
        let store = try open(disk)
        _ = fill(store)
        try disk.makeSpace()
        store.close()
        let log = try String(contentsOfFile: disk.path + "/store/LOG", encoding: .utf8)
        #expect(log.isEmpty)
    }

    @Test func `says so in a restore by files`() throws {
        let disk = try #require(SmallDisk(byteCount: 4 << 20))
        let store = try open(disk)
        try store.beginRestore()
        let fault = #expect(throws: StoreFault.self) {
            for start in stride(from: 0, to: 200_000, by: 10_000) {
                try store.apply(
                    .spread(start..<start + 10_000),
                    changelogOffset: Int64(start) + 10_000
                )
            }
            try store.endRestore()
        }
        guard case .diskFull = fault else {
            Issue.record("\(String(describing: fault))")
            return
        }
        store.close()
    }

    /// Writes until the disk takes no more.
    private func fill(_ store: RocksStore) -> StoreFault? {
        #expect(throws: StoreFault.self) {
            for start in stride(from: 0, to: 2_000_000, by: 1_000) {
                try store.apply(
                    .spread(start..<start + 1_000),
                    changelogOffset: Int64(start) + 1_000
                )
            }
        }
    }

    private func shared() throws -> StoreShared {
        try StoreShared(cacheByteCount: 1 << 20, writeBufferByteCount: 256 << 10)
    }

    private func open(
        _ disk: SmallDisk,
        _ name: String = "store",
        _ shared: StoreShared? = nil
    ) throws -> RocksStore {
        try RocksStore(
            path: disk.path + "/" + name,
            changelogIdentity: "topic",
            shared: shared ?? self.shared(),
            clockMilliseconds: { 0 }
        )
    }
}
