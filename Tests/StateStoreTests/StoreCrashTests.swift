import Foundation
import Testing

@testable import StateStore

/// The folder of the store that this process is to write to until it is killed: set by
/// ``A store whose process is killed`` when it starts this very program as its child.
private let childPath = ProcessInfo.processInfo.environment["TOLLWAY_TEST_STORE_CHILD"]
/// After how many writes the child closes the store and opens it again; 0: never.
private let childClosesAfter =
    ProcessInfo.processInfo.environment["TOLLWAY_TEST_STORE_CLOSES"].flatMap { Int($0) } ?? 0
/// Entries of the state in one write; one of the other table goes with them.
private let stride = 50

@Suite struct `A store whose process is killed` {
    /// Also where it is killed while it closes, which brings three tables to the disk.
    @Test(arguments: [
        (roundCount: 6, step: 20_000 as Int64, closesAfter: 0), (40, 100, 1),
    ])
    func `is never ahead of its offset, nor behind it`(
        roundCount: Int,
        step: Int64,
        closesAfter: Int
    ) throws {
        let folder = try StoreFolder()
        let path = folder.path + "/store"
        var reached: Int64 = 0
        for round in 1...roundCount {
            let last = try killedChild(
                path: path,
                after: reached + Int64(round % 7 + 1) * step,
                closesAfter: closesAfter
            )
            let store = try open(path)
            let offset = store.changelogOffset ?? 0
            #expect(offset <= last)
            #expect(offset >= reached, "what was once on the disk stays there")
            let fold = MemoryStore()
            for start in Swift.stride(from: 0, to: Int(offset), by: stride) {
                try fold.apply(write(start), changelogOffset: Int64(start + stride))
            }
            #expect(try store.checksum() == fold.checksum(), "round \(round), offset \(offset)")
            #expect(try store.keys(.due) == fold.keys(.due), "round \(round), offset \(offset)")
            store.close()
            reached = offset
        }
        #expect(reached > 0, "something reached the disk before one of the kills")
    }

    /// Starts a child that writes to the store, and kills it in the middle.
    ///
    /// - Returns: the last offset that it said it had applied.
    private func killedChild(
        path: String,
        after offset: Int64,
        closesAfter: Int
    ) throws -> Int64 {
        let child = Process()
        let output = Pipe()
        child.executableURL = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
        child.arguments = [
            "--testing-library", "swift-testing", "--filter", "StoreCrashChild",
        ]
        child.environment = [
            "TOLLWAY_TEST_STORE_CHILD": path, "TOLLWAY_TEST_STORE_CLOSES": "\(closesAfter)",
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
        var store = try open(path)
        var offset = Int(store.changelogOffset ?? 0)
        let output = FileHandle.standardOutput
        while true {
            if childClosesAfter > 0, offset / stride % childClosesAfter == 0 {
                store.close()
                store = try open(path)
            }
            try output.write(contentsOf: Data("applying \(offset + stride)\n".utf8))
            try store.apply(write(offset), changelogOffset: Int64(offset + stride))
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

private func open(_ path: String) throws -> RocksStore {
    try RocksStore(
        path: path,
        changelogIdentity: "topic",
        shared: StoreShared(cacheByteCount: 1 << 20, writeBufferByteCount: 128 << 10),
        clockMilliseconds: { 0 }
    )
}
