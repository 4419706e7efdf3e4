import HTTPServer
import Testing

@Suite struct `An HTTP server` {
    private static let limits = HTTPServer.Limits(
        bodyByteCountMax: 1_000,
        heldByteCountMax: 10_000,
        headerByteCountMax: 2_000,
        connectionCountMax: 8,
        requestTimeoutMilliseconds: 300,
        idleTimeoutMilliseconds: 600
    )

    @Test func `hands over a complete request`() throws {
        let loopback = try Loopback()
        let connection = try loopback.connect()
        connection.send(
            "POST /v1/to%20kens?a=1&b=%2F HTTP/1.1\r\nHost: x\r\nX-One:  two \r\nContent-Length: 3\r\n\r\na"
        )
        loopback.turn()
        #expect(loopback.requests.isEmpty)
        connection.send("bc")
        #expect(loopback.turn { !loopback.requests.isEmpty })
        let request = try #require(loopback.requests.first)
        #expect(request.method == "POST")
        #expect(request.path == "/v1/to%20kens")
        #expect(request.query == "a=1&b=%2F")
        #expect(request.header("x-one") == "two")
        #expect(request.header("x-two") == nil)
        #expect(request.headers.map(\.name) == ["host", "x-one", "content-length"])
        #expect(request.body == Array("abc".utf8))
        #expect(request.remoteAddress == "127.0.0.1")
    }

    @Test func `answers much later, in any order, and takes the next request`() throws {
        let loopback = try Loopback()
        let first = try loopback.connect()
        let second = try loopback.connect()
        first.send("GET /first HTTP/1.1\r\nHost: x\r\n\r\n")
        second.send("GET /second HTTP/1.1\r\nHost: x\r\n\r\n")
        #expect(loopback.turn { loopback.requests.count == 2 })
        #expect(loopback.server.heldRequestCount == 2)
        for request in loopback.requests.reversed() {
            loopback.server.respond(
                to: request.id,
                status: 200,
                headers: [("X-Path", request.path)],
                body: Array(request.path.utf8)
            )
            // Once only: a second answer is ignored.
            loopback.server.respond(to: request.id, status: 500)
        }
        #expect(loopback.turn { first.answer != nil && second.answer != nil })
        #expect(first.answer?.body == "/first")
        #expect(second.answer?.header("x-path") == "/second")
        #expect(loopback.server.heldRequestCount == 0)
        first.send("GET /third HTTP/1.1\r\nHost: x\r\n\r\n")
        #expect(loopback.turn { loopback.requests.count == 3 })
        #expect(loopback.requests.last?.path == "/third")
    }

    @Test func `takes requests sent back to back one by one`() throws {
        let loopback = try Loopback()
        loopback.answer = { $0.respond(to: $1.id, status: 200, body: Array($1.path.utf8)) }
        let connection = try loopback.connect()
        for number in 0..<20 {
            connection.send("GET /\(number) HTTP/1.1\r\nHost: x\r\n\r\n")
        }
        #expect(loopback.turn { connection.answers.count == 20 })
        #expect(connection.answers.map(\.body) == (0..<20).map { "/\($0)" })
    }

    @Test(arguments: [
        (
            "a body announced too large",
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n", 413
        ),
        (
            "a body announced beyond all numbers",
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551615\r\n\r\n", 413
        ),
        (
            "a chunked body that grows too large",
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n"
                + String(repeating: "a", count: 1_001) + "\r\n0\r\n\r\n", 413
        ),
        (
            "headers too large",
            "GET / HTTP/1.1\r\nHost: x\r\nX: \(String(repeating: "a", count: 2_000))\r\n\r\n", 431
        ),
        (
            "a target too long",
            "GET /\(String(repeating: "a", count: 2_000)) HTTP/1.1\r\nHost: x\r\n\r\n", 431
        ),
        ("a request line that stops", "GET / HT", 408),
        ("headers that stop", "GET / HTTP/1.1\r\nHost: x\r\n", 408),
        ("a body that stops", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc", 408),
    ])
    func `refuses by itself`(name: String, text: String, status: Int) throws {
        let loopback = try Loopback(Self.limits)
        let answer = try #require(try loopback.exchange(text), "\(name)")
        #expect(answer.status == status, "\(name)")
        #expect(answer.header("content-type") == "application/problem+json", "\(name)")
        #expect(answer.header("connection") == "close", "\(name)")
        #expect(answer.body.contains("\"status\":\(status)"), "\(name)")
        #expect(loopback.requests.isEmpty)
        #expect(loopback.turn { loopback.server.connectionCount == 0 }, "\(name)")
    }

    @Test(arguments: [
        ("no HTTP at all", "hello\r\n\r\n"),
        ("another version", "GET / HTTP/3.7\r\nHost: x\r\n\r\n"),
        ("no host", "GET / HTTP/1.1\r\n\r\n"),
        ("a length that is no number", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n"),
        (
            "a chunk that is no number",
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n"
        ),
        ("a header without colon", "GET / HTTP/1.1\r\nHost: x\r\nnocolon\r\n\r\n"),
    ])
    func `hands over nothing malformed`(name: String, text: String) throws {
        let loopback = try Loopback(Self.limits)
        _ = try loopback.exchange(text)
        #expect(loopback.requests.isEmpty, "\(name)")
        #expect(loopback.turn { loopback.server.connectionCount == 0 }, "\(name)")
    }

    @Test func `takes exactly the limits`() throws {
        let loopback = try Loopback(Self.limits)
        loopback.answer = { $0.respond(to: $1.id, status: 200) }
        let body = String(repeating: "a", count: 1_000)
        let answer = try loopback.exchange(
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n\(body)"
        )
        #expect(answer?.status == 200)
        #expect(loopback.requests.first?.body.count == 1_000)
    }
}
