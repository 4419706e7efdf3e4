import Foundation
import Glibc
import HTTPClient
import Testing

/// `scripted_http2.py` and a client of it.
final class ScriptedServer {
    /// A line of the server's log; the script says which there are.
    struct Event: Equatable {
        var name: String
        var connection: Int
        /// 0: of the connection.
        var stream: Int
        var details: [String]

        init?(line: Substring) {
            let words = line.split(separator: " ").map(String.init)
            guard words.count >= 3, let connection = Int(words[1]), let stream = Int(words[2])
            else {
                return nil
            }
            name = words[0]
            self.connection = connection
            self.stream = stream
            details = Array(words[3...])
        }
    }

    static let python = ["/usr/bin/python3", "/usr/local/bin/python3"].first {
        FileManager.default.isExecutableFile(atPath: $0)
    }
    static let canRun =
        python != nil && FileManager.default.isExecutableFile(atPath: "/usr/bin/openssl")

    let client: HTTPClient
    private(set) var port = 0
    /// In the order in which they ended.
    private(set) var responses: [HTTPClientResponse] = []
    private let identity: TestIdentity
    private let process = Process()
    private let log: URL

    /// Starts the server and waits for its port.
    ///
    /// - Parameters:
    ///   - scenario: one of the script's.
    ///   - count: how many requests the scenario gathers.
    ///   - limits: the client's.
    ///   - isTrusted: whether the client trusts the server's certificate.
    /// - Throws: where a certificate or the process cannot be had.
    init(
        _ scenario: String,
        count: Int = 0,
        limits: HTTPClient.Limits = HTTPClient.Limits(),
        isTrusted: Bool = true
    ) throws {
        identity = try TestIdentity()
        log = identity.folder.appendingPathComponent("log")
        client = try HTTPClient(
            limits: limits,
            userAgent: "test",
            certificateAuthorityFile: isTrusted ? identity.certificateFile : nil
        )
        try Data().write(to: log)
        let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("scripted_http2.py").path
        process.executableURL = URL(fileURLWithPath: try #require(Self.python))
        process.arguments = [
            // Without the folder that Python would make beside the script.
            "-B", script, identity.certificateFile, identity.keyFile, scenario, String(count),
        ]
        process.standardOutput = try FileHandle(forWritingTo: log)
        process.standardError = FileHandle.nullDevice
        try process.run()
        let isListening = try turn { try !lines().isEmpty }
        try #require(isListening, "the server has not started")
        port = try #require(try lines().first.flatMap { Int($0) })
    }

    deinit {
        guard process.isRunning else {
            return
        }
        // Not SIGTERM: the test's threads block it, and children inherit that.
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
        do {
            let faults = try events("fault")
            if !faults.isEmpty {
                Issue.record("the client broke the rules: \(faults)")
            }
        } catch {
            Issue.record("\(error)")
        }
    }

    /// Those that are whole.
    private func lines() throws -> [Substring] {
        let text = try String(contentsOf: log, encoding: .utf8)
        return text.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
    }

    /// Everything so far; of one connection in its order.
    func events() throws -> [Event] {
        try lines().dropFirst().compactMap { Event(line: $0) }
    }

    /// The events of that name.
    func events(_ name: String) throws -> [Event] {
        try events().filter { $0.name == name }
    }

    /// How many connections have got through their handshake.
    func connectionCount() throws -> Int {
        try events("connection").count
    }

    /// The requests whose headers have come for that path.
    func requests(_ path: String) throws -> [Event] {
        try events("stream").filter { $0.details.dropFirst().first == path }
    }

    /// Whether all of a request for that path has come.
    func hasWhole(_ path: String) throws -> Bool {
        let whole = try events("body")
        return try requests(path).contains { request in
            whole.contains {
                $0.connection == request.connection && $0.stream == request.stream
            }
        }
    }

    /// Queues a request; `port` is another's than the server's.
    @discardableResult
    func submit(
        _ path: String,
        method: String = "PUT",
        headers: [(String, String)] = [],
        body: [UInt8] = [],
        tag: Int = 0,
        port: Int? = nil
    ) -> HTTPClientRequest.ID {
        client.submit(
            HTTPClientRequest(
                method: method,
                url: "https://127.0.0.1:\(port ?? self.port)\(path)",
                headers: headers,
                body: body,
                tag: UInt64(tag)
            )
        )
    }

    /// Runs the client until the condition holds, or waits without it; false where that takes too long.
    ///
    /// Unless it `looks`, it runs the client only when that wakes.
    func turn(
        seconds: Double = 20,
        runsClient: Bool = true,
        looks: Bool = true,
        until condition: () throws -> Bool
    ) throws -> Bool {
        let end = ContinuousClock.now + .seconds(seconds)
        while try !condition() {
            guard ContinuousClock.now < end else {
                return false
            }
            var entry = pollfd(fd: client.wakeDescriptor, events: Int16(POLLIN), revents: 0)
            let isWoken = unsafe poll(&entry, runsClient ? 1 : 0, 10) > 0
            guard runsClient, looks || isWoken else {
                continue
            }
            client.run()
            responses += client.takeResponses()
        }
        return true
    }

    /// Waits until so many responses have come in all, which are then all.
    func requireResponses(_ count: Int) throws {
        let haveCome = try turn { responses.count >= count }
        let seen = try events()
        try #require(haveCome, "\(responses.count) responses: \(seen)")
        try #require(responses.count == count)
        try #require(client.inFlightCount == 0)
    }

    /// Sends one request and waits for its response, while others may be under way.
    func send(
        _ path: String,
        method: String = "PUT",
        headers: [(String, String)] = [],
        body: [UInt8] = []
    ) throws -> HTTPClientResponse {
        let tag = 1_000_000 + responses.count
        submit(path, method: method, headers: headers, body: body, tag: tag)
        let hasCome = try turn { response(tag) != nil }
        let seen = try events()
        try #require(hasCome, "no response: \(seen)")
        return try #require(response(tag))
    }

    /// The first response of a request with that tag.
    func response(_ tag: Int) -> HTTPClientResponse? {
        responses.first { $0.tag == UInt64(tag) }
    }
}

extension HTTPClientResponse.Answer {
    /// The number of the scripted server's connection that it came on.
    var connection: Int? { header("x-connection").flatMap { Int($0) } }

    var text: String { String(decoding: body, as: UTF8.self) }
}
