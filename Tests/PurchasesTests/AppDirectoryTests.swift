import Foundation
import Synchronization
import Telemetry
import Testing

@testable import purchases

@Suite struct `The apps of purchases` {
    private final class Lines: Sendable {
        let texts = Mutex<[String]>([])
    }

    @Test func `are read again on each signal, and the log says every time what came of it`() throws
    {
        let file = FileManager.default.temporaryDirectory
            .appendingPathComponent("apps-\(UUID().uuidString).json")
        defer { try? FileManager.default.removeItem(at: file) }
        func write(_ text: String) throws {
            try Data(text.utf8).write(to: file)
        }
        let lines = Lines()
        let log = Log(
            worker: "purchases",
            format: .json,
            now: { 0 },
            write: { line in lines.texts.withLock { $0.append(line) } }
        )
        try write(#"{"apps":[{"appAppleId":1,"bundleId":"a"}]}"#)
        let apps = try AppDirectory(path: file.path, log: log)
        try write(#"{"apps":[{"appAppleId":1,"bundleId":"b"}]}"#)
        apps.reload()
        #expect(apps.bundleID(of: 1) == "b")
        for text in ["{", "[]"] {
            try write(text)
            apps.reload()
            #expect(apps.bundleID(of: 1) == "b")
        }
        let written = lines.texts.withLock { $0 }
        let words = ["were read again", "cannot be read again", "cannot be read again"]
        try #require(written.count == words.count, "\(written)")
        for (line, word) in zip(written, words) {
            #expect(line.contains(word))
        }
    }
}
