import Foundation
import Glibc
import HTTPClient
import Testing

/// `silent_http2.py` and a client of it.
private final class SilentServer {
    static let python = ["/usr/bin/python3", "/usr/local/bin/python3"].first {
        FileManager.default.isExecutableFile(atPath: $0)
    }

    let client: HTTPClient
    private let identity: TestIdentity
    private let process = Process()
    private let log: URL

    init(timeoutMilliseconds: Int, concurrency: Int = 64) throws {
        identity = try TestIdentity()
        log = identity.folder.appendingPathComponent("log")
        try Data().write(to: log)
        let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("silent_http2.py").path
        process.executableURL = URL(fileURLWithPath: try #require(Self.python))
        process.arguments = [script, identity.certificateFile, identity.keyFile]
        process.standardOutput = try FileHandle(forWritingTo: log)
        process.standardError = FileHandle.nullDevice
        client = try HTTPClient(
            limits: HTTPClient.Limits(
                concurrency: concurrency,
                totalTimeoutMilliseconds: timeoutMilliseconds
            ),
            userAgent: "test",
            certificateAuthorityFile: identity.certificateFile
        )
        try process.run()
    }

    deinit {
        // Not SIGTERM: the test's threads block it, and children inherit that.
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }

    private func numbers() throws -> [Int] {
        try String(contentsOf: log, encoding: .utf8).split(separator: "\n").compactMap { Int($0) }
    }

    /// The connection of each request so far, counted from 1.
    var connections: [Int] {
        get throws { Array(try numbers().dropFirst()) }
    }

    /// The port, once the server listens.
    func port() throws -> Int {
        let end = ContinuousClock.now + .seconds(10)
        while try numbers().isEmpty, ContinuousClock.now < end {
            var entry = pollfd(fd: client.wakeDescriptor, events: Int16(POLLIN), revents: 0)
            _ = unsafe poll(&entry, 1, 10)
        }
        return try #require(try numbers().first)
    }

    func submit(_ method: String, _ port: Int, tag: UInt64) {
        _ = client.submit(
            HTTPClientRequest(
                method: method,
                url: "https://127.0.0.1:\(port)/",
                body: method == "PUT" ? [1] : [],
                tag: tag
            )
        )
    }

    /// Runs the client until so many have ended, or the time is over.
    func responses(_ count: Int, within time: Duration = .seconds(20)) -> [HTTPClientResponse] {
        var responses: [HTTPClientResponse] = []
        let end = ContinuousClock.now + time
        while responses.count < count, ContinuousClock.now < end {
            var entry = pollfd(fd: client.wakeDescriptor, events: Int16(POLLIN), revents: 0)
            _ = unsafe poll(&entry, 1, 100)
            client.run()
            responses += client.takeResponses()
        }
        return responses.sorted { $0.tag < $1.tag }
    }
}

@Suite(.enabled(if: SilentServer.python != nil, "needs python3"))
struct `An HTTP 2 connection` {
    @Test func `that answers nothing takes no request after the first that ran out of time`()
        throws
    {
        let server = try SilentServer(timeoutMilliseconds: 1_000)
        let port = try server.port()
        server.submit("GET", port, tag: 1)
        let first = try #require(server.responses(1).first)
        #expect(first.answer?.httpMajorVersion == 2)
        server.submit("PUT", port, tag: 2)
        server.submit("PUT", port, tag: 3)
        for response in server.responses(2) {
            #expect(response.failure?.kind == .doubtful)
        }
        server.submit("PUT", port, tag: 4)
        #expect(server.responses(1).first?.answer?.status == 204)
        #expect(try server.connections == [1, 1, 1, 2])
    }

    /// Goal: what is on its way there ends with it, and is never sent twice.
    @Test func `takes those with it that are younger than the first that ran out of time`() throws {
        let server = try SilentServer(timeoutMilliseconds: 3_000, concurrency: 2)
        let port = try server.port()
        server.submit("GET", port, tag: 1)
        _ = server.responses(1)
        server.submit("PUT", port, tag: 2)
        #expect(server.responses(1, within: .milliseconds(1_500)).isEmpty)
        server.submit("PUT", port, tag: 3)
        // Waits for the place of one of the two.
        server.submit("PUT", port, tag: 4)
        let responses = server.responses(3)
        #expect(responses.map(\.tag) == [2, 3, 4])
        #expect(responses.first?.failure?.code == "http.timeout")
        // Its own three seconds were not over.
        let younger = try #require(responses.dropFirst().first?.failure)
        #expect(younger.kind == .doubtful && younger.code != "http.timeout")
        #expect(responses.last?.answer?.status == 204)
        #expect(try server.connections == [1, 1, 1, 2])
    }

    @Test func `that answers others is kept where one request runs out of time`() throws {
        let server = try SilentServer(timeoutMilliseconds: 1_000)
        let port = try server.port()
        server.submit("GET", port, tag: 1)
        _ = server.responses(1)
        server.submit("PUT", port, tag: 2)
        server.submit("GET", port, tag: 3)
        let both = server.responses(2)
        #expect(both.first?.failure?.code == "http.timeout")
        #expect(both.last?.answer?.status == 204)
        server.submit("GET", port, tag: 4)
        #expect(server.responses(1).first?.answer?.status == 204)
        #expect(try server.connections == [1, 1, 1, 1])
    }
}
