import Foundation
import Testing

@testable import StateStore

/// The folder of the store that this process is to write to until it is killed: set by
/// ``A store whose process is killed`` when it starts this very program as its child.
private let childPath = ProcessInfo.processInfo.environment["TOLLWAY_TEST_STORE_CHILD"]
/// After how many writes the child closes the store and opens it again; 0: never.
private let childClosesAfter =
    ProcessInfo.processInfo.environment["TOLLWAY_TEST_STORE_CLOSES"].flatMap { Int($0) } ?? 0
/// How many stores it writes to, which share: of several a file is written beside what is applied.
private let childStoreCount =
    ProcessInfo.processInfo.environment["TOLLWAY_TEST_STORE_COUNT"].flatMap { Int($0) } ?? 1
/// Entries of the state in one write; one of the other table goes with them.
private let stride = 50

@Suite struct `A store whose process is killed` {
    /// Also where it is killed while it closes, which brings three tables to the disk, and while a file of
    /// one of several stores is written.
    @Test(arguments: [
        (roundCount: 6, step: 20_000 as Int64, closesAfter: 0, storeCount: 1), (40, 100, 1, 1),
        (12, 1_000, 0, 6),
    ])
    func `is never ahead of its offset, nor behind it`(
        roundCount: Int,
        step: Int64,
        closesAfter: Int,
        storeCount: Int
    ) throws {
        let folder = try StoreFolder()
        let path = folder.path + "/store"
        var reached = [Int64](repeating: 0, count: storeCount)
        for round in 1...roundCount {
            let last = try killedChild(
                path: path,
                after: (reached.max() ?? 0) + Int64(round % 7 + 1) * step,
                closesAfter: closesAfter,
                storeCount: storeCount
            )
            for number in 0..<storeCount {
                let store = try open(path, number, shared: shared())
                let offset = store.changelogOffset ?? 0
                #expect(offset <= last)
                #expect(offset >= reached[number], "what was once on the disk stays there")
                let fold = MemoryStore()
                for start in Swift.stride(from: 0, to: Int(offset), by: stride) {
                    try fold.apply(write(start), changelogOffset: Int64(start + stride))
                }
                #expect(try store.checksum() == fold.checksum(), "round \(round), offset \(offset)")
                #expect(try store.keys(.due) == fold.keys(.due), "round \(round), offset \(offset)")
                store.close()
                reached[number] = offset
            }
        }
        #expect(!reached.contains(0), "something reached the disk before one of the kills")
    }

    /// Starts a child that writes to the store, and kills it in the middle.
    ///
    /// - Returns: the last offset that it said it had applied.
    private func killedChild(
        path: String,
        after offset: Int64,
        closesAfter: Int,
        storeCount: Int
    ) throws -> Int64 {
        let child = Process()
        let output = Pipe()
        child.executableURL = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
        child.arguments = [
            "--testing-library", "swift-testing", "--filter", "StoreCrashChild",
        ]
        child.environment = [
            "TOLLWAY_TEST_STORE_CHILD": path, "TOLLWAY_TEST_STORE_CLOSES": "\(closesAfter)",
            "TOLLWAY_TEST_STORE_COUNT": "\(storeCount)",
        ]
        child.standardOutput = output
        try child.run()
        var text = ""
        var last: Int64 = -1
        while last < offset {
            let data = output.fileHandleForReading.availableData
            guard !data.isEmpty else {
                Issue.record("the child ended by itself: \(text.suffix(400))")
                break
            }
            text += String(decoding: data, as: UTF8.self)
            last = Self.lastOffset(in: text) ?? last
        }
        if closesAfter > 0 {
            // Anywhere between two writes, most of which is closing and opening.
            let instant = ContinuousClock.now + .microseconds(.random(in: 0...20_000))
            while ContinuousClock.now < instant {}
        }
        kill(child.processIdentifier, SIGKILL)
        child.waitUntilExit()
        text += String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        return Self.lastOffset(in: text) ?? last
    }

    /// The child says `applying N` before each write and so never less than it did.
    private static func lastOffset(in text: String) -> Int64? {
        text.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
            .last { $0.hasPrefix("applying ") }
            .flatMap { Int64($0.dropFirst("applying ".count)) }
    }
}

@Suite(.enabled(if: childPath != nil, "only as the child of another test"))
struct StoreCrashChild {
    @Test func `writes until it is killed`() throws {
        let path = try #require(childPath)
        let shared = try shared()
        var stores = try (0..<childStoreCount).map { try open(path, $0, shared: shared) }
        // One may be behind the others: it was killed before its file was there.
        var offset = stores.map { Int($0.changelogOffset ?? 0) }.min() ?? 0
        let output = FileHandle.standardOutput
        while true {
            if childClosesAfter > 0, offset / stride % childClosesAfter == 0 {
                for number in stores.indices {
                    stores[number].close()
                    stores[number] = try open(path, number, shared: shared)
                }
            }
            let next = Int64(offset + stride)
            try output.write(contentsOf: Data("applying \(next)\n".utf8))
            for store in stores where store.changelogOffset ?? 0 < next {
                try store.apply(write(offset), changelogOffset: next)
            }
            offset += stride
        }
    }
}

/// What the child writes at an offset.
private func write(_ start: Int) -> StoreChanges {
    var changes = StoreChanges.spread(start..<start + stride)
    changes.put([1], forKey: StoreChanges.spreadKey(start), in: .due)
    return changes
}

private func shared() throws -> StoreShared {
    try StoreShared(cacheByteCount: 1 << 20, writeBufferByteCount: 128 << 10)
}

private func open(_ path: String, _ number: Int, shared: StoreShared) throws -> RocksStore {
    try RocksStore(
        path: "\(path)-\(number)",
        changelogIdentity: "topic",
        shared: shared,
        clockMilliseconds: { 0 }
    )
}
