import Foundation
import Glibc
import Testing

@testable import tollway

/// A `tollway up` under test; everything it started ends with it.
final class RunningUp {
    private static let secondsMax = 180.0
    private static let lookMilliseconds: Int32 = 50

    private let process = Process()
    let folder: URL
    private let programs: URL
    /// How much of its talk was taken already.
    private var talkTaken = 0

    /// Without `KAFKA_HOME` in `settings` it is the embedded broker.
    init(_ arguments: [String], settings: [String: String] = [:]) throws {
        programs = try #require(Bundle.main.executableURL).deletingLastPathComponent()
        folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("tollway-up-test-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
        process.executableURL = programs.appendingPathComponent("tollway")
        process.arguments = ["up", "-o", "json"] + arguments
        process.environment = ["PATH": "/usr/bin:/bin", "TOLLWAY_REPORT_HOLD": "1s"]
            .merging(settings) { $1 }
        process.standardOutput = try handle("out")
        process.standardError = try handle("err")
        try process.run()
    }

    private func handle(_ name: String) throws -> FileHandle {
        let file = folder.appendingPathComponent(name)
        try Data().write(to: file)
        return try FileHandle(forWritingTo: file)
    }

    /// What it wrote so far, by `out` or `err`.
    func text(_ name: String) throws -> String {
        let data = try Data(contentsOf: folder.appendingPathComponent(name))
        return String(decoding: data, as: UTF8.self)
    }

    func `await`(_ what: String, _ isThere: () throws -> Bool) throws {
        let deadline = Date().addingTimeInterval(Self.secondsMax)
        while try !isThere() {
            let talk = try text("err")
            try #require(Date() < deadline, "\(what) did not come: \(talk)")
            try #require(process.isRunning, "it ended: \(talk)")
            _ = poll(nil, 0, Self.lookMilliseconds)
        }
    }

    func page() throws -> [String: Any] {
        try self.await("its page") { try text("out").hasSuffix("\n") }
        let object = try JSONSerialization.jsonObject(with: Data(try text("out").utf8))
        return try #require(object as? [String: Any])
    }

    /// Waits for one of these in what it said since the last time.
    func awaitTalk(_ parts: String...) throws {
        try self.await(parts.joined(separator: " or ")) {
            let talk = try text("err").dropFirst(talkTaken)
            guard let end = parts.compactMap({ talk.range(of: $0)?.upperBound }).min() else {
                return false
            }
            talkTaken += talk.distance(from: talk.startIndex, to: end)
            return true
        }
    }

    func children() -> [(identifier: Int32, name: String)] {
        var found: [(Int32, String)] = []
        for identifier in Self.processes() {
            let status = FileManager.default.contents(atPath: "/proc/\(identifier)/status")
            let lines = String(decoding: status ?? Data(), as: UTF8.self).split(separator: "\n")
            func field(_ name: String) -> String? {
                lines.first { $0.hasPrefix("\(name):") }
                    .map { $0.drop { $0 != "\t" }.trimmingCharacters(in: .whitespaces) }
            }
            if field("PPid") == "\(process.processIdentifier)", let name = field("Name") {
                found.append((identifier, name))
            }
        }
        return found
    }

    private static func processes() -> [Int32] {
        do {
            return try FileManager.default.contentsOfDirectory(atPath: "/proc")
                .compactMap { Int32($0) }
        } catch {
            return []
        }
    }

    /// The child that runs a verb of the command.
    func child(running verb: String) throws -> Int32 {
        let found = children().first { child in
            let words = FileManager.default.contents(atPath: "/proc/\(child.identifier)/cmdline")
            return words?.split(separator: 0).dropFirst().first == Data(verb.utf8)
        }
        return try #require(found).identifier
    }

    /// The text of one more token, from Apple's side on that admin port.
    func token(simulator admin: String) throws -> String {
        try #require(try mint(simulator: admin)["token"] as? String)
    }

    private func mint(simulator admin: String) throws -> [String: Any] {
        let app = DemoStream.apps[0]
        let order =
            #"{"mint":{"event":"purchase","appAppleId":\#(app.appAppleID),"#
            + #""bundleId":"\#(app.bundleID)","customer":"zoe","count":1}}"#
        let answer = try shell("curl -s -d '\(order)' http://127.0.0.1:\(admin)/tokens")
        let page = try JSONSerialization.jsonObject(with: Data(answer.utf8)) as? [String: Any]
        let tokens = try #require(page?["tokens"] as? [[String: Any]], "\(answer)")
        return try #require(tokens.first)
    }

    func send(_ token: String, to door: String) throws {
        let body = #"{"token":"\#(token)","customer":"zoe"}"#
        try shell("curl -s -H 'Content-Type: application/json' -d '\(body)' \(door)")
    }

    func kill(_ name: String) throws {
        let child = try #require(children().first { $0.name == name })
        #expect(Glibc.kill(child.identifier, SIGKILL) == 0)
    }

    /// Waits until the door takes a notice that Apple's side on that admin port signs now.
    func awaitNotice(simulator admin: String, door: String) throws {
        let id = try #require(try mint(simulator: admin)["externalPurchaseId"] as? String)
        let url = door.replacingOccurrences(of: "/v1/tokens", with: "/v1/notifications")
        let notice = #"{"subtype":"UNREPORTED","externalPurchaseId":"\#(id)","url":"\#(url)"}"#
        try self.await("a notice at the door") {
            try shell("curl -s -d '\(notice)' http://127.0.0.1:\(admin)/notifications")
            return try shell("curl -s 'http://127.0.0.1:\(admin)/notifications?limit=10000'")
                .contains("\"SUCCESS\"")
        }
    }

    @discardableResult
    func shell(_ line: String) throws -> String {
        let shell = Process()
        let output = Pipe()
        shell.executableURL = URL(fileURLWithPath: "/bin/sh")
        shell.arguments = ["-c", line]
        shell.environment = ["PATH": "\(programs.path):/usr/bin:/bin"]
        shell.standardOutput = output
        shell.standardError = FileHandle.nullDevice
        try shell.run()
        let data = try output.fileHandleForReading.readToEnd() ?? Data()
        shell.waitUntilExit()
        return String(decoding: data, as: UTF8.self)
    }

    func interrupt() -> Int32 {
        process.interrupt()
        process.waitUntilExit()
        return process.terminationStatus
    }

    /// Waits until it ends by itself.
    func awaitEnd() throws -> Int32 {
        let deadline = Date().addingTimeInterval(Self.secondsMax)
        while process.isRunning {
            let talk = try text("err")
            try #require(Date() < deadline, "it does not end: \(talk)")
            _ = poll(nil, 0, Self.lookMilliseconds)
        }
        return process.terminationStatus
    }

    func end() {
        if process.isRunning {
            process.terminate()
            process.waitUntilExit()
        }
        do {
            try FileManager.default.removeItem(at: folder)
        } catch {
            // It lies in the temporary folder, where somebody else cleaned up first.
        }
    }
}
