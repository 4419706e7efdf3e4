import HTTPServer
import Testing

/// What an HTTP server refuses by itself, on the first request of a connection as on the last.
@Suite struct `A malformed request` {
    private static let limits = HTTPServer.Limits(
        bodyByteCountMax: 1_000,
        laneByteCountsMax: [10_000],
        headerByteCountMax: 2_000,
        connectionCountMax: 8,
        requestTimeoutMilliseconds: 300,
        idleTimeoutMilliseconds: 600
    )

    /// What is sent, and the status it gets.
    struct Refusal: CustomTestStringConvertible, Sendable {
        var testDescription: String
        var text: String
        var status: Int

        init(_ name: String, _ text: String, _ status: Int) {
            testDescription = name
            self.text = text
            self.status = status
        }
    }

    private static let head = "POST / HTTP/1.1\r\nHost: x\r\n"
    private static let chunked = head + "Transfer-Encoding: chunked\r\n\r\n"
    private static let long = String(repeating: "a", count: 2_000)

    private static let tooMuch = [
        Refusal("a body announced too large", "\(head)Content-Length: 1001\r\n\r\n", 413),
        Refusal(
            "a body announced beyond all numbers",
            "\(head)Content-Length: 18446744073709551616\r\n\r\n",
            413
        ),
        Refusal(
            "a chunked body that grows too large",
            "\(chunked)1f4\r\n\(long.prefix(500))\r\n1f5\r\n\(long.prefix(501))\r\n0\r\n\r\n",
            413
        ),
        Refusal("a chunk announced too large", "\(chunked)3e9\r\n", 413),
        Refusal("headers too large", "\(head)X: \(long)\r\n\r\n", 431),
        Refusal(
            "headers without end",
            "\(head)\(String(repeating: "X: y\r\n", count: 20_000))",
            431
        ),
        Refusal("a target too long", "GET /\(long) HTTP/1.1\r\nHost: x\r\n\r\n", 431),
        Refusal(
            "a method too long",
            "\(String(repeating: "A", count: 32)) / HTTP/1.1\r\nHost: x\r\n\r\n",
            431
        ),
    ]

    private static let tooSlow = [
        Refusal("a request line that stops", "GET / HT", 408),
        Refusal("headers that stop", head, 408),
        Refusal("a body that stops", "\(head)Content-Length: 9\r\n\r\nabc", 408),
        Refusal("a chunk that stops", "\(chunked)5\r\nabc", 408),
    ]

    private static let badHeads = [
        Refusal("no HTTP at all", "hello\r\n\r\n", 400),
        Refusal("no target", "GET  HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        Refusal("a blank in the target", "GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        Refusal("a zero in the target", "GET /a\0b HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        Refusal("a bare CR in the target", "GET /a\rb HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        Refusal("more than ASCII in the target", "GET /ü HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        Refusal("a URL of another host", "GET http://y/ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        Refusal("a URL of a longer host", "GET http://x:1/ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        Refusal("a URL without a host", "GET http:///a HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        Refusal("a method that is no word", "GE(T / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        Refusal("a version that is no number", "GET / HTTP/1.x\r\nHost: x\r\n\r\n", 400),
        Refusal("another version", "GET / HTTP/3.7\r\nHost: x\r\n\r\n", 505),
        Refusal("HTTP/2 without asking", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        Refusal("no host", "GET / HTTP/1.1\r\n\r\n", 400),
        Refusal("two hosts", "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
        Refusal("the same host twice", "GET / HTTP/1.1\r\nHost: x\r\nhost: x\r\n\r\n", 400),
        Refusal("a negative length", "\(head)Content-Length: -1\r\n\r\n", 400),
        Refusal("a length with a sign", "\(head)Content-Length: +1\r\n\r\nx", 400),
        Refusal("an empty length", "\(head)Content-Length:\r\n\r\n", 400),
        Refusal("two lengths", "\(head)Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        Refusal("a list of lengths", "\(head)Content-Length: 1, 1\r\n\r\nx", 400),
        Refusal(
            "the same length twice",
            "\(head)Content-Length: 1\r\nContent-Length: 1\r\n\r\nx",
            400
        ),
        Refusal(
            "a length and chunks",
            "\(head)Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            400
        ),
        Refusal(
            "chunks and a length",
            "\(head)Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
            400
        ),
        Refusal(
            "chunks twice",
            "\(head)Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            400
        ),
        Refusal(
            "chunks in HTTP/1.0",
            "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400
        ),
        Refusal("another encoding", "\(head)Transfer-Encoding: gzip\r\n\r\n", 501),
        Refusal("an encoding before chunks", "\(head)Transfer-Encoding: x, chunked\r\n\r\n", 501),
        Refusal("a header without colon", "\(head)nocolon\r\n\r\n", 400),
        Refusal("a header without name", "\(head): y\r\n\r\n", 400),
        Refusal("a blank before the colon", "\(head)X : y\r\n\r\n", 400),
        Refusal("a folded header", "\(head)X: y\r\n z\r\n\r\n", 400),
        Refusal("a header folded by a tab", "\(head)X: y\r\n\tz\r\n\r\n", 400),
        Refusal("a blank before the first header", "POST / HTTP/1.1\r\n Host: x\r\n\r\n", 400),
        Refusal("a zero in a header", "\(head)X: a\0b\r\n\r\n", 400),
        Refusal("a bare CR in a header", "\(head)X: a\rb\r\n\r\n", 400),
        Refusal("a bare CR at its end", "\(head)X: a\r\r\n\r\n", 400),
        Refusal("lines that end in LF alone", "GET / HTTP/1.1\nHost: x\n\n", 400),
        Refusal("one line that ends in LF alone", "\(head)X: a\nY: b\r\n\r\n", 400),
    ]

    private static let badChunks = [
        "zz\r\nabc\r\n0\r\n\r\n", "\r\n", "-1\r\n", "+1\r\na\r\n0\r\n\r\n", "0x1\r\na\r\n",
        " 1\r\na\r\n", "1 \r\na\r\n", "1\na\r\n0\r\n\r\n", "1\r\na\n0\r\n\r\n", "3\r\nabcd\r\n",
        "1\r\nab\r\n0\r\n\r\n", "ffffffffffffffffffff\r\n", "000000001\r\na\r\n0\r\n\r\n",
        "1;x\0y\r\na\r\n", "1;x\ny\r\na\r\n", "0\r\n folded\r\n\r\n", "0\r\nX: a\0\r\n\r\n",
        "0\r\nX: a\n\r\n", "0\r\n\rX", "1;\(String(repeating: "e", count: 20_000))",
        "0\r\n\(String(repeating: "X: y\r\n", count: 5_000))",
    ].map { Refusal("chunks: \($0.prefix(30).debugDescription)", chunked + $0, 400) }

    private static let all = tooMuch + tooSlow + badHeads + badChunks

    @Test(arguments: all)
    func `is refused`(refusal: Refusal) throws {
        let loopback = try Loopback(Self.limits)
        try expect(refusal, after: 0, loopback, try loopback.connect())
    }

    @Test func `is nothing at all`() throws {
        let loopback = try Loopback(Self.limits)
        try expect(Refusal("", "", 408), after: 0, loopback, try loopback.connect())
    }

    @Test(arguments: all)
    func `is refused after good ones on a kept connection`(refusal: Refusal) throws {
        let loopback = try Loopback(Self.limits)
        loopback.answer = { $0.respond(to: $1.id, status: 200, body: $1.body) }
        let connection = try loopback.connect()
        connection.send("POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc")
        #expect(loopback.turn { connection.answers.count == 1 })
        connection.send("\(Self.chunked.replacing("POST /", with: "POST /2"))1\r\na\r\n0\r\n\r\n")
        #expect(loopback.turn { connection.answers.count == 2 })
        try expect(refusal, after: 2, loopback, connection)
    }

    @Test(arguments: all)
    func `is refused where it lies behind a good one`(refusal: Refusal) throws {
        let loopback = try Loopback(Self.limits)
        loopback.answer = { $0.respond(to: $1.id, status: 200, body: $1.body) }
        let connection = try loopback.connect()
        connection.send("POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc")
        try expect(refusal, after: 1, loopback, connection)
    }

    private func expect(
        _ refusal: Refusal,
        after count: Int,
        _ loopback: Loopback,
        _ connection: RawConnection
    ) throws {
        connection.send(refusal.text)
        _ = loopback.turn { connection.answers.count > count || connection.hasEnded }
        #expect(connection.answers.count == count + 1)
        let answer = try #require(connection.answers.last)
        #expect(answer.status == refusal.status)
        #expect(answer.header("content-type") == "application/problem+json")
        #expect(answer.header("connection") == "close")
        #expect(answer.body.contains("\"status\":\(refusal.status)"))
        #expect(answer.body.hasSuffix("}\n"))
        #expect(loopback.requests.count == count)
        #expect(loopback.turn { connection.hasEnded })
        connection.close()
        #expect(loopback.turn { loopback.server.connectionCount == 0 })
    }

    @Test func `does not come of where a good one is split`() throws {
        let loopback = try Loopback()
        loopback.answer = { $0.respond(to: $1.id, status: 200, body: $1.body) }
        let text =
            "\r\nPOST /1 HTTP/1.1\r\nHost: x\r\nX:\r\nContent-Length: 5\r\n\r\nhello"
            + "POST /2?q HTTP/1.1\r\nhost:x\r\nTransfer-Encoding:  Chunked \r\n\r\n"
            + "3;a=\"b\"\r\nfoo\r\n00003\r\nbar\r\n0\r\nTrailer: t\r\n\r\n"
            + "GET /3 HTTP/1.0\r\n\r\n"
        let bytes = Array(text.utf8)
        for split in 1..<bytes.count {
            let connection = try loopback.connect()
            connection.send(Array(bytes[..<split]))
            loopback.turn(milliseconds: 0)
            connection.send(Array(bytes[split...]))
            #expect(loopback.turn { connection.hasEnded }, "split at \(split)")
            #expect(connection.answers.map(\.status) == [200, 200, 200], "split at \(split)")
            #expect(connection.answers.map(\.body) == ["hello", "foobar", ""], "split at \(split)")
            connection.close()
        }
        #expect(loopback.requests[1].path == "/2")
        #expect(loopback.requests[1].query == "q")
        #expect(loopback.requests[0].header("x") == "")
    }

    /// As proxies send it (RFC 9112, 3.2.2).
    @Test(arguments: [
        ("http://Shop.example:8080/v1/tokens?a=b", "/v1/tokens"),
        ("HTTPS://shop.example:8080/a//b", "/a//b"), ("http://shop.example:8080", "/"),
    ])
    func `does not come of a target that is a URL`(target: String, path: String) throws {
        let loopback = try Loopback()
        loopback.answer = { $0.respond(to: $1.id, status: 200) }
        let answer = try loopback.exchange(
            "GET \(target) HTTP/1.1\r\nHost: shop.example:8080\r\n\r\n"
        )
        #expect(answer?.status == 200)
        #expect(loopback.requests.map(\.path) == [path])
    }

    @Test func `does not come of a good one sent byte by byte`() throws {
        let loopback = try Loopback()
        loopback.answer = { $0.respond(to: $1.id, status: 200, body: $1.body) }
        let connection = try loopback.connect()
        let text =
            Self.chunked + "3\r\nfoo\r\n0\r\n\r\n" + "\(Self.head)Content-Length: 2\r\n\r\nab"
        for byte in text.utf8 {
            connection.send([byte])
            loopback.turn(milliseconds: 0)
        }
        #expect(loopback.turn { connection.answers.count == 2 })
        #expect(connection.answers.map(\.body) == ["foo", "ab"])
    }

    /// Mutations of good requests: whatever comes, the server lives, and only whole requests pass.
    @Test(arguments: 1...8 as ClosedRange<UInt64>)
    func `does no harm, however it came about`(seed: UInt64) throws {
        var noise = Noise(state: seed)
        let loopback = try Loopback(Self.limits)
        loopback.answer = { $0.respond(to: $1.id, status: 200) }
        let good = [
            "\(Self.head)Content-Length: 11\r\nX: y\r\n\r\nhello world",
            "\(Self.chunked)5;e\r\nhello\r\n1\r\n!\r\n0\r\nT: t\r\n\r\n",
            "GET /a?b=c HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n",
        ].map { Array($0.utf8) }
        for _ in 0..<400 {
            var bytes: [UInt8] = []
            for _ in 0..<Int.random(in: 1...3, using: &noise) {
                bytes += good[Int.random(in: 0..<good.count, using: &noise)]
            }
            for _ in 0..<Int.random(in: 0...4, using: &noise) {
                noise.mutate(&bytes)
            }
            let connection = try loopback.connect()
            let split = Int.random(in: 0...bytes.count, using: &noise)
            connection.send(Array(bytes[..<split]))
            loopback.turn(milliseconds: 0)
            connection.send(Array(bytes[split...]))
            loopback.turn(milliseconds: 0)
            let statuses = connection.answers.map(\.status)
            // Nothing is answered after a refusal.
            #expect(
                statuses.dropLast().allSatisfy { $0 == 200 },
                "seed \(seed), \(statuses), \(String(decoding: bytes, as: UTF8.self))"
            )
            connection.close()
        }
        let answer = try loopback.exchange("GET /still HTTP/1.1\r\nHost: x\r\n\r\n")
        #expect(answer?.status == 200, "seed \(seed)")
    }
}

extension Noise {
    /// Changes, drops, doubles or inserts something somewhere.
    fileprivate mutating func mutate(_ bytes: inout [UInt8]) {
        guard !bytes.isEmpty else {
            return
        }
        let pieces = ["\r", "\n", "\0", " ", "\t", ":", "\r\n", ";", "0", "f", "\r\n ", "\u{ff}"]
        let index = Int.random(in: 0..<bytes.count, using: &self)
        let end = min(bytes.count, index + Int.random(in: 1...20, using: &self))
        switch Int.random(in: 0..<5, using: &self) {
        case 0: bytes[index] ^= 1 << UInt8.random(in: 0..<8, using: &self)
        case 1: bytes.removeSubrange(index..<end)
        case 2: bytes.insert(contentsOf: bytes[index..<end], at: index)
        case 3: bytes[index] = UInt8.random(in: 0...255, using: &self)
        default:
            let piece = pieces[Int.random(in: 0..<pieces.count, using: &self)]
            bytes.insert(contentsOf: piece.utf8, at: index)
        }
    }
}
