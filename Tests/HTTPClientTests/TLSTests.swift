import Foundation
import Glibc
import HTTPClient
import HTTPServer
import Testing

/// A certificate for 127.0.0.1, made by the openssl command, and its folder.
final class TestIdentity {
    let folder: URL
    var certificateFile: String { folder.appendingPathComponent("certificate.pem").path }
    var keyFile: String { folder.appendingPathComponent("key.pem").path }

    init() throws {
        folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("tollway-test-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/openssl")
        process.arguments = [
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-keyout", keyFile, "-out", certificateFile, "-days", "2", "-subj", "/CN=127.0.0.1",
            "-addext", "subjectAltName=IP:127.0.0.1",
        ]
        process.standardError = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        try #require(process.terminationStatus == 0)
    }

    deinit {
        do {
            try FileManager.default.removeItem(at: folder)
        } catch {
            Issue.record("\(error)")
        }
    }
}

private let hasOpenSSL = FileManager.default.isExecutableFile(atPath: "/usr/bin/openssl")
private let nghttpd = ["/usr/sbin/nghttpd", "/usr/bin/nghttpd"].first {
    FileManager.default.isExecutableFile(atPath: $0)
}

@Suite(.enabled(if: hasOpenSSL, "needs the openssl command (Debian: openssl)"))
struct `HTTP over TLS` {
    /// Runs the client until all is answered.
    private func turn(_ client: HTTPClient) -> [HTTPClientResponse] {
        var responses: [HTTPClientResponse] = []
        let end = ContinuousClock.now + .seconds(20)
        while client.inFlightCount > 0, ContinuousClock.now < end {
            var entry = pollfd(fd: client.wakeDescriptor, events: Int16(POLLIN), revents: 0)
            _ = unsafe poll(&entry, 1, 100)
            client.run()
            responses += client.takeResponses()
        }
        return responses
    }

    /// Runs `openssl s_server`, which answers every GET with a page about the session.
    private func withServer(
        _ identity: TestIdentity,
        _ body: (_ url: String) throws -> Void
    ) throws {
        // A port that was free a moment ago.
        let port = try HTTPServer(listen: ListenAddress(host: "127.0.0.1", port: 0)).port
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/openssl")
        process.arguments = [
            "s_server", "-accept", "127.0.0.1:\(port)", "-www", "-quiet",
            "-cert", identity.certificateFile, "-key", identity.keyFile,
        ]
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        defer {
            // Not SIGTERM: the test's threads block it, and children inherit that.
            kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
        }
        try body("https://127.0.0.1:\(port)/")
    }

    /// The first outcome that is not the server's not listening yet.
    private func outcome(_ client: HTTPClient, _ url: String) throws -> HTTPClientResponse {
        var last: HTTPClientResponse?
        let end = ContinuousClock.now + .seconds(10)
        while ContinuousClock.now < end {
            _ = client.submit(HTTPClientRequest(method: "GET", url: url))
            last = turn(client).first
            if last?.answer != nil || last?.failure?.code.hasPrefix("http.tls") == true {
                break
            }
        }
        return try #require(last)
    }

    @Test func `is spoken to a server that is vouched for`() throws {
        let identity = try TestIdentity()
        try withServer(identity) { url in
            let client = try HTTPClient(
                userAgent: "test",
                certificateAuthorityFile: identity.certificateFile
            )
            let answer = try #require(try outcome(client, url).answer)
            #expect(answer.status == 200)
            #expect(String(decoding: answer.body, as: UTF8.self).contains("TLSv1."))
        }
    }

    @Test func `is not sent to a server that nobody vouches for`() throws {
        try withServer(try TestIdentity()) { url in
            let client = try HTTPClient(userAgent: "test")
            let failure = try #require(try outcome(client, url).failure)
            #expect(failure.kind == .notSent)
            #expect(failure.code == "http.tls_untrusted")
        }
    }

    @Test(.enabled(if: nghttpd != nil, "needs nghttpd (Debian: nghttp2-server)"))
    func `shares one HTTP 2 connection among many requests`() throws {
        let identity = try TestIdentity()
        // A port that was free a moment ago.
        let port = try HTTPServer(listen: ListenAddress(host: "127.0.0.1", port: 0)).port
        let process = Process()
        process.executableURL = URL(fileURLWithPath: try #require(nghttpd))
        process.arguments = [
            "--address=127.0.0.1", "--echo-upload", "--verbose", "--max-concurrent-streams=250",
            String(port), identity.keyFile, identity.certificateFile,
        ]
        let log = identity.folder.appendingPathComponent("log")
        try Data().write(to: log)
        process.standardOutput = try FileHandle(forWritingTo: log)
        process.standardError = FileHandle.nullDevice
        try process.run()
        defer {
            // Not SIGTERM: the test's threads block it, and children inherit that.
            kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
        }
        let client = try HTTPClient(
            limits: HTTPClient.Limits(concurrency: 200),
            userAgent: "test",
            certificateAuthorityFile: identity.certificateFile
        )
        func submit(_ tag: UInt64) {
            _ = client.submit(
                HTTPClientRequest(
                    method: "POST",
                    url: "https://127.0.0.1:\(port)/echo",
                    body: Array("body \(tag)".utf8),
                    tag: tag
                )
            )
        }
        // It takes a moment to listen; until then nothing can be sent.
        var isListening = false
        let end = ContinuousClock.now + .seconds(10)
        while !isListening, ContinuousClock.now < end {
            submit(0)
            isListening = turn(client).first?.answer != nil
        }
        #expect(isListening)
        // More than libcurl would have on one by itself, less than the server allows.
        for tag in 1...200 {
            submit(UInt64(tag))
        }
        let responses = turn(client)
        #expect(responses.count == 200)
        for response in responses {
            let answer = try #require(response.answer)
            #expect(answer.status == 200)
            #expect(answer.httpMajorVersion == 2)
            #expect(answer.body == Array("body \(response.tag)".utf8))
        }
        // nghttpd numbers the connections that it takes: all went over the first.
        let text = try String(contentsOf: log, encoding: .utf8)
        #expect(text.contains("[id=1]"))
        #expect(!text.contains("[id=2]"))
    }
}
