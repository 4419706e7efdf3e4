import HTTPClient
import Testing

/// Goal: one request and its answer, byte by byte, where HTTP/2 allows more than one way.
///
/// Method: `scripted_http2.py`, which reads headers by a decoder of its own.
@Suite(.enabled(if: ScriptedServer.canRun, "needs python3 and the openssl command"))
struct `A request over HTTP 2` {
    /// RFC 9110, 8.6: a length where the method means a body, and none where it does not.
    @Test(arguments: [
        ("HEAD", 0, "-"), ("GET", 0, "-"), ("DELETE", 0, "-"),
        ("POST", 0, "0"), ("PUT", 0, "0"), ("POST", 3, "3"), ("PATCH", 3, "3"), ("DELETE", 3, "3"),
    ])
    func `arrives with its method and length`(
        method: String,
        byteCount: Int,
        length: String
    ) throws {
        let server = try ScriptedServer("plain")
        let body = [UInt8](repeating: 7, count: byteCount)
        let answer = try #require(try server.send("/bytes/5", method: method, body: body).answer)
        #expect(answer.status == 200)
        #expect(answer.header("content-length") == "5")
        #expect(answer.body == pattern(method == "HEAD" ? 0 : 5))
        #expect(try server.events("stream").map(\.details) == [[method, "/bytes/5", length]])
        #expect(try server.events("body").map(\.details) == [[String(byteCount)]])
        // The answer's end is its end: the connection takes the next.
        #expect(try server.send("/echo", body: [1]).answer?.connection == 1)
    }

    @Test(arguments: [
        ("", "/"), ("/", "/"), ("?q=1", "/?q=1"), ("/a%20b?c=d", "/a%20b?c=d"), ("/a#part", "/a"),
    ])
    func `arrives with its path`(tail: String, path: String) throws {
        let server = try ScriptedServer("plain")
        #expect(try server.send(tail, method: "GET").answer?.status == 200)
        #expect(try server.events("stream").map(\.details) == [["GET", path, "-"]])
    }

    /// Goal: the same headers whether the connection's table may keep them or not.
    @Test(arguments: ["plain", "small-table"])
    func `arrives with its headers`(scenario: String) throws {
        let server = try ScriptedServer(scenario)
        let long = String(repeating: "a", count: 20_000)
        for turn in 0..<3 {
            let answer = try #require(
                try server.send(
                    "/headers?turn=\(turn)",
                    headers: [
                        ("Authorization", "Bearer x"), ("X-Empty", ""), ("X-Long", long),
                        ("X-Turn", "\(turn)"), ("X-Odd", "a: \"b\"; ~{|}"),
                    ],
                    body: [1]
                ).answer
            )
            #expect(answer.header("via") == "HTTP/1.1 proxy")
            #expect(answer.header("x-blank") == "blank")
            #expect(answer.header("x-connection") == "1")
            let lines = answer.text.split(separator: "\n").map(String.init)
            for line in [
                ":method: PUT", ":scheme: https", ":authority: 127.0.0.1:\(server.port)",
                ":path: /headers?turn=\(turn)", "user-agent: test", "authorization: Bearer x",
                "content-length: 1", "x-empty: ", "x-long: \(long)", "x-turn: \(turn)",
                "x-odd: a: \"b\"; ~{|}",
            ] {
                #expect(lines.filter { $0 == line }.count == 1, "\(line.prefix(80))")
            }
            let names = lines.compactMap { $0.split(separator: ":").first.map(String.init) }
            #expect(Set(names).isDisjoint(with: ["host", "expect", "content-type"]))
        }
        #expect(try server.connectionCount() == 1)
    }

    /// Goal: the answer that counts is the last, and nothing around it harms it.
    ///
    /// Method: 100, 103, an unknown frame, an unknown setting, headers in two frames, a padded
    /// body, trailers.
    @Test func `is answered by the final headers`() throws {
        let server = try ScriptedServer("plain")
        let answer = try #require(try server.send("/informational", body: [1, 2, 3]).answer)
        #expect(answer.status == 200)
        #expect(answer.header("x-answer") == "final")
        #expect(answer.header("x-long") == String(repeating: "y", count: 1_000))
        #expect(answer.header("link") == nil)
        #expect(answer.body == [1, 2, 3])
        #expect(!answer.isCut)
        #expect(try server.send("/echo", body: [4]).answer?.connection == 1)
    }

    @Test(arguments: [204, 304, 404, 429, 500])
    func `is answered without a body`(status: Int) throws {
        let server = try ScriptedServer("plain")
        let answer = try #require(try server.send("/status/\(status)", body: [1]).answer)
        #expect(answer.status == status)
        #expect(answer.body.isEmpty)
    }

    @Test(arguments: [(99, false), (100, false), (101, true), (1_000_000, true)])
    func `has its answer cut at the limit`(byteCount: Int, isCut: Bool) throws {
        let server = try ScriptedServer(
            "plain",
            limits: HTTPClient.Limits(responseByteCountMax: 100)
        )
        // More than once: what is thrown away must not stop the connection.
        for _ in 0..<5 {
            let answer = try #require(try server.send("/bytes/\(byteCount)").answer)
            #expect(answer.status == 200)
            #expect(answer.isCut == isCut)
            #expect(answer.body == pattern(min(byteCount, 100)))
        }
        let last = try #require(try server.send("/echo", body: [1]).answer)
        #expect(last.body == [1])
        #expect(!last.isCut)
        #expect(try server.connectionCount() == 1)
    }

    /// Goal: bodies larger than the windows, both ways and two at a time.
    ///
    /// Method: the server opens a window of 65,535 bytes anew when it is used up.
    @Test func `has bodies larger than a window`() throws {
        let server = try ScriptedServer(
            "plain",
            limits: HTTPClient.Limits(responseByteCountMax: 4 << 20)
        )
        let body = pattern(300_000)
        server.submit("/echo", body: body, tag: 1)
        server.submit("/bytes/3000000", body: body, tag: 2)
        try server.requireResponses(2)
        // Not by ==, whose failure would print them.
        let echo = try #require(server.response(1)?.answer)
        let isEcho = echo.body == body
        #expect(isEcho, "\(echo.body.count) bytes")
        let large = try #require(server.response(2)?.answer)
        let isWhole = large.body == pattern(3_000_000)
        #expect(isWhole, "\(large.body.count) bytes")
        #expect(!echo.isCut && !large.isCut)
        #expect(try server.connectionCount() == 1)
    }

    /// RFC 9113, 8.1: RST_STREAM with NO_ERROR behind a whole answer only stops the request.
    @Test func `is answered before all of it is sent`() throws {
        let server = try ScriptedServer("plain")
        let response = try server.send("/early", body: pattern(300_000))
        #expect(response.answer?.status == 413)
        #expect(try server.send("/echo", body: [1]).answer?.body == [1])
        #expect(try server.requests("/early").count == 1)
    }

    /// RFC 9113, 8.1.1: a malformed answer is a stream error.
    @Test(arguments: ["/no-status", "/wrong-length"])
    func `fails by a malformed answer`(path: String) throws {
        let server = try ScriptedServer("plain")
        let failure = try #require(try server.send(path, body: [1]).failure)
        #expect(failure.kind == .doubtful)
        #expect(["http.protocol", "http.reset"].contains(failure.code))
        #expect(try server.requests(path).count == 1)
        #expect(try server.send("/echo", body: [2]).answer?.body == [2])
    }

    @Test(arguments: ["http1", "no-alpn"])
    func `goes over HTTP 1 where the server has no other`(scenario: String) throws {
        let server = try ScriptedServer(scenario)
        for tag in 0..<5 {
            server.submit("/echo/\(tag)", body: [UInt8(tag)], tag: tag)
        }
        try server.requireResponses(5)
        for response in server.responses {
            let answer = try #require(response.answer)
            #expect(answer.httpMajorVersion == 1)
            #expect(answer.body == [UInt8(response.tag)])
            #expect(try server.requests("/echo/\(response.tag)").count == 1)
        }
    }
}

/// The body of the server's `/bytes`.
private func pattern(_ byteCount: Int) -> [UInt8] {
    (0..<byteCount).map { UInt8($0 % 251) }
}
