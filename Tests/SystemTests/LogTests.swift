import Foundation
import Testing

/// Goal: no token, no key and no customer in any log of any worker.
///
/// Method: the demo as a user runs it, with its faults at Apple's side, its broken tokens and its
/// forged notices; then every line of every worker is read.
@Suite struct `The logs of the workers` {
    @Test func `tell nobody's secret, one JSON object a line`() throws {
        let folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("tollway-logs-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer {
            #expect(throws: Never.self) { try FileManager.default.removeItem(at: folder) }
        }
        let programs = try #require(Bundle.main.executableURL).deletingLastPathComponent()
        let demo = Process()
        demo.executableURL = programs.appendingPathComponent("tollway")
        demo.arguments = ["demo", "--tokens", "400", "--keep"]
        // The embedded broker, whatever stands in the environment of the tests.
        demo.environment = ["PATH": "/usr/bin:/bin", "TMPDIR": folder.path]
        let talk = folder.appendingPathComponent("talk")
        try Data().write(to: talk)
        demo.standardOutput = FileHandle.nullDevice
        demo.standardError = try FileHandle(forWritingTo: talk)
        try demo.run()
        demo.waitUntilExit()
        let said = String(decoding: try Data(contentsOf: talk), as: UTF8.self)
        #expect(demo.terminationStatus == 0, "\(said)")
        let kept = try #require(said.split(separator: "\n").last { $0.hasPrefix("kept: ") })
        let audit = try LogAudit(folder: URL(fileURLWithPath: String(kept.dropFirst(6))))
        #expect(audit.findings.isEmpty, "\(audit.findings.prefix(5))")
        // Each of the five says at least that it runs and that it ends.
        #expect(audit.lineCount >= 10)
    }

    @Test(arguments: [
        #"{"time":"2026-01-01T00:00:00.000Z","level":"info","worker":"decode","message":"x","a":"secret-of-the-run"}"#,
        #"{"time":"2026-01-01T00:00:00.000Z","level":"info","worker":"decode","message":"x","a":"\#(String(repeating: "Ab1_", count: 20))"}"#,
        #"{"time":"2026-01-01T00:00:00.000Z","level":"info","worker":"ingest","message":"x"}"#,
        "tollway-decode: a plain line", "{}",
    ])
    func `would be found out`(line: String) {
        var audit = LogAudit(canaries: ["secret-of-the-run"])
        audit.read(line, of: "decode")
        #expect(audit.findings.count == 1, "\(audit.findings)")
    }

    @Test func `may repeat themselves, but not for ever`() {
        let line =
            #"{"time":"2026-01-01T00:00:00.000Z","level":"info","worker":"decode","message":"x"}"#
        var audit = LogAudit(canaries: [])
        audit.read([String](repeating: line, count: 120).joined(separator: "\n"), of: "decode")
        #expect(audit.findings.isEmpty)
        audit.read([String](repeating: line, count: 121).joined(separator: "\n"), of: "decode")
        #expect(audit.findings.count == 1)
    }
}
