import Foundation
import Glibc
import HTTPClient
import HTTPServer
import Testing

/// A certificate for 127.0.0.1, made by the openssl command, and its folder.
private final class TestIdentity {
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

    var identity: HTTPServer.Identity {
        get throws {
            HTTPServer.Identity(
                certificatePEM: Array(
                    try Data(contentsOf: URL(fileURLWithPath: certificateFile))
                ),
                keyPEM: Array(try Data(contentsOf: URL(fileURLWithPath: keyFile)))
            )
        }
    }
}

private let hasOpenSSL = FileManager.default.isExecutableFile(atPath: "/usr/bin/openssl")
private let nghttpd = ["/usr/sbin/nghttpd", "/usr/bin/nghttpd"].first {
    FileManager.default.isExecutableFile(atPath: $0)
}

@Suite(.enabled(if: hasOpenSSL, "needs the openssl command (Debian: openssl)"))
struct `HTTP over TLS` {
    /// Turns the client, and the server where there is one, until all is answered.
    private func turn(_ client: HTTPClient, _ server: HTTPServer?) -> [HTTPClientResponse] {
        var responses: [HTTPClientResponse] = []
        let end = ContinuousClock.now + .seconds(20)
        while client.inFlightCount > 0, ContinuousClock.now < end {
            var descriptors = [client.wakeDescriptor, server?.wakeDescriptor ?? -1].map {
                pollfd(fd: $0, events: Int16(POLLIN), revents: 0)
            }
            let wait = min(100, server?.millisecondsUntilTimeout ?? 100)
            _ = unsafe poll(&descriptors, 2, Int32(wait))
            server?.run()
            for request in server?.takeRequests() ?? [] {
                server?.respond(to: request.id, status: 200, body: request.body)
            }
            server?.run()
            client.run()
            responses += client.takeResponses()
        }
        return responses
    }

    @Test func `is spoken by our server to a client that trusts it`() throws {
        let identity = try TestIdentity()
        let server = try HTTPServer(
            listen: ListenAddress(host: "127.0.0.1", port: 0),
            limits: HTTPServer.Limits(bodyByteCountMax: 1_000_000),
            identity: identity.identity
        )
        let client = try HTTPClient(
            userAgent: "test",
            certificateAuthorityFile: identity.certificateFile
        )
        let body = [UInt8](repeating: 7, count: 300_000)
        for tag in 0..<20 {
            _ = client.submit(
                HTTPClientRequest(
                    method: "PUT",
                    url: "https://127.0.0.1:\(server.port)/",
                    body: body,
                    tag: UInt64(tag)
                )
            )
        }
        let responses = turn(client, server)
        #expect(responses.count == 20)
        for response in responses {
            #expect(response.answer?.status == 200)
            #expect(response.answer?.body == body)
        }
        _ = client.submit(
            HTTPClientRequest(
                method: "PUT",
                url: "https://127.0.0.1:\(server.port)/",
                body: [UInt8](repeating: 7, count: 1_000_001)
            )
        )
        // Refused while it is being sent: the answer is seen, or the end of the connection.
        let refused = try #require(turn(client, server).first)
        #expect(refused.answer.map { $0.status == 413 } ?? (refused.failure?.kind == .doubtful))
    }

    @Test func `is not sent to a server that nobody vouches for`() throws {
        let identity = try TestIdentity()
        let server = try HTTPServer(
            listen: ListenAddress(host: "127.0.0.1", port: 0),
            identity: identity.identity
        )
        let client = try HTTPClient(userAgent: "test")
        _ = client.submit(
            HTTPClientRequest(method: "PUT", url: "https://127.0.0.1:\(server.port)/", body: [1])
        )
        let failure = try #require(turn(client, server).first?.failure)
        #expect(failure.kind == .notSent)
        #expect(failure.code == "http.tls")
    }

    @Test(.enabled(if: nghttpd != nil, "needs nghttpd (Debian: nghttp2-server)"))
    func `shares one HTTP 2 connection among many requests`() throws {
        let identity = try TestIdentity()
        // A port that was free a moment ago.
        let port = try HTTPServer(listen: ListenAddress(host: "127.0.0.1", port: 0)).port
        let process = Process()
        process.executableURL = URL(fileURLWithPath: try #require(nghttpd))
        process.arguments = [
            "--address=127.0.0.1", "--echo-upload", "--verbose", String(port), identity.keyFile,
            identity.certificateFile,
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
            isListening = turn(client, nil).first?.answer != nil
        }
        #expect(isListening)
        for tag in 1...50 {
            submit(UInt64(tag))
        }
        let responses = turn(client, nil)
        #expect(responses.count == 50)
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
