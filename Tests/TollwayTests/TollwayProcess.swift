import Foundation
import Testing

/// One run of the built command, from its arguments to its exit code.
struct TollwayProcess {
    var exitCode: Int32
    var output: String
    var talk: String

    /// The JSON object on standard output.
    func object() throws -> [String: Any] {
        let object = try JSONSerialization.jsonObject(with: Data(output.utf8))
        return try #require(object as? [String: Any])
    }

    /// One JSON object a line.
    func objects() throws -> [[String: Any]] {
        try output.split(separator: "\n").map { line in
            let object = try JSONSerialization.jsonObject(with: Data(line.utf8))
            return try #require(object as? [String: Any])
        }
    }

    /// The code in `{"error":{"code":…,"message":…}}`.
    func errorCode() throws -> String {
        let error = try #require(try object()["error"] as? [String: Any])
        #expect((error["message"] as? String)?.isEmpty == false)
        return try #require(error["code"] as? String)
    }

    /// Where the programs of this build lie: beside the test itself.
    static var folder: URL {
        get throws {
            try #require(Bundle.main.executableURL).deletingLastPathComponent()
        }
    }

    static func make(
        _ arguments: [String],
        environment: [String: String] = [:]
    ) throws -> Process {
        let process = Process()
        process.executableURL = try folder.appendingPathComponent("tollway")
        process.arguments = arguments
        // Only what is given: a setting of whoever runs the tests must not reach them.
        process.environment = ["PATH": "/usr/bin:/bin"].merging(environment) { $1 }
        return process
    }

    /// Runs to the end; output goes through files, so that no pipe can fill up.
    static func run(
        _ arguments: [String],
        input: Data = Data(),
        environment: [String: String] = [:],
        command: URL? = nil
    ) throws -> TollwayProcess {
        let folder = try TemporaryFolder()
        let process = try make(arguments, environment: environment)
        if let command {
            process.executableURL = command
        }
        process.standardInput = try FileHandle(forReadingFrom: try folder.file("in", input))
        let output = try folder.file("out")
        let talk = try folder.file("err")
        process.standardOutput = try FileHandle(forWritingTo: output)
        process.standardError = try FileHandle(forWritingTo: talk)
        try process.run()
        process.waitUntilExit()
        return TollwayProcess(
            exitCode: process.terminationReason == .exit ? process.terminationStatus : -1,
            output: String(decoding: try Data(contentsOf: output), as: UTF8.self),
            talk: String(decoding: try Data(contentsOf: talk), as: UTF8.self)
        )
    }
}

/// A folder that goes away with its owner.
final class TemporaryFolder {
    let url: URL

    init() throws {
        url = FileManager.default.temporaryDirectory
            .appendingPathComponent("tollway-test-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: false)
    }

    @discardableResult
    func file(_ name: String, _ content: Data = Data()) throws -> URL {
        let file = url.appendingPathComponent(name)
        try content.write(to: file)
        return file
    }

    deinit {
        do {
            try FileManager.default.removeItem(at: url)
        } catch {
            // It lies in the temporary folder, where somebody else cleaned up first.
        }
    }
}
