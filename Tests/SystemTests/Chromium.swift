import Foundation
import Testing

/// A headless Chromium, driven by `browser.py`.
enum Chromium {
    static let program = find(["chromium", "chromium-browser", "google-chrome"])
    private static let python = find(["python3"])

    static var isThere: Bool { program != nil && python != nil }
    static let skipped: Comment = "skipped: there is no chromium, or no python3, in the PATH"

    /// What a run of steps came to.
    struct Seen {
        /// One for each step; nil where it gives none.
        var values: [Any?]
        var errors: [String]
        var dialogs: [String]
        var requests: [String]
    }

    private static func find(_ names: [String]) -> String? {
        let path = ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin"
        let folders = path.split(separator: ":").map(String.init)
        return names.lazy.flatMap { name in folders.map { "\($0)/\(name)" } }
            .first { FileManager.default.isExecutableFile(atPath: $0) }
    }

    /// Carries steps out, in a browser that nothing was done in before.
    static func run(_ steps: [[String: Any]], folder: URL) throws -> Seen {
        let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("browser.py").path
        let input = folder.appendingPathComponent("steps.json")
        try JSONSerialization.data(withJSONObject: steps).write(to: input)
        let process = Process()
        let output = Pipe()
        process.executableURL = URL(fileURLWithPath: try #require(python))
        process.arguments = [script, try #require(program), folder.path]
        process.standardInput = try FileHandle(forReadingFrom: input)
        process.standardOutput = output
        try process.run()
        let data = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        let object = try #require(
            try JSONSerialization.jsonObject(with: data) as? [String: Any]
        )
        let fault = object["fault"] as? String
        try #require(fault == nil, "\(fault ?? "")")
        return Seen(
            values: (object["values"] as? [Any] ?? []).map { $0 is NSNull ? nil : $0 },
            errors: object["errors"] as? [String] ?? [],
            dialogs: object["dialogs"] as? [String] ?? [],
            requests: object["requests"] as? [String] ?? []
        )
    }
}
