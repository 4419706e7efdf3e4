import Glibc
import Testing

@testable import HTTPServer

@Suite struct `An HTTP server` {
    private static let limits = HTTPServer.Limits(
        bodyByteCountMax: 1_000,
        laneByteCountsMax: [10_000],
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
        let headers = request.headerBytes.split(separator: 0)
            .map { String(decoding: $0, as: UTF8.self) }
        #expect(headers == ["Host", "x", "X-One", "two", "Content-Length", "3"])
        #expect(request.body == Array("abc".utf8))
        #expect(request.remoteAddress == "127.0.0.1")
    }

    @Test func `wakes for the descriptors of others, and says which`() throws {
        let loopback = try Loopback(Self.limits)
        let server = loopback.server
        var pipes: [[Int32]] = [[-1, -1], [-1, -1]]
        for index in pipes.indices {
            try #require(unsafe pipe(&pipes[index]) == 0)
        }
        defer { pipes.joined().forEach { close($0) } }
        let watches = pipes.map { server.watch($0[0]) }
        func readable(waitingAtMost milliseconds: Int) -> [Bool] {
            let readable = server.run(waitingAtMost: milliseconds)
            return watches.map(readable.contains)
        }
        #expect(readable(waitingAtMost: 0) == [false, false])
        var byte: UInt8 = 1
        try #require(unsafe write(pipes[1][1], &byte, 1) == 1)
        // Long enough that the test fails by its time where nothing wakes it.
        #expect(readable(waitingAtMost: 60_000) == [false, true])
        #expect(readable(waitingAtMost: 60_000) == [false, true], "until it is read")
        try #require(unsafe read(pipes[1][0], &byte, 1) == 1)
        #expect(readable(waitingAtMost: 0) == [false, false])
        // The server's own deadlines come first: a client that says nothing is refused.
        _ = try loopback.connect()
        for _ in 0..<2 where server.refusalCount(status: 408, lane: nil) == 0 {
            #expect(readable(waitingAtMost: 60_000) == [false, false])
            server.run()
        }
        #expect(server.refusalCount(status: 408, lane: nil) == 1)
    }

    @Test func `sends an answer without end, until its client is gone`() throws {
        let loopback = try Loopback()
        let connection = try loopback.connect()
        connection.send("GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
        #expect(loopback.turn { !loopback.requests.isEmpty })
        let id = try #require(loopback.requests.first).id
        #expect(!loopback.server.send([1], toStream: id))
        loopback.server.beginStream(to: id, status: 200, headers: [("X-One", "two")])
        // It is answered already.
        loopback.server.respond(to: id, status: 500)
        func text() -> String { String(decoding: connection.received, as: UTF8.self) }
        for part in ["data: 1\n\n", "data: 2\n\n"] {
            #expect(loopback.server.send(Array(part.utf8), toStream: id))
            #expect(loopback.turn { text().hasSuffix(part) })
        }
        #expect(text().contains("X-One: two\r\n") && text().contains("Connection: close\r\n"))
        #expect(!text().contains("Content-Length"))
        #expect(loopback.server.connectionCount == 1)
        connection.close()
        #expect(loopback.turn { loopback.server.connectionCount == 0 })
        #expect(!loopback.server.send([1], toStream: id))
    }

    @Test func `drops a client that takes nothing of an answer without end`() throws {
        let loopback = try Loopback(Self.limits)
        let connection = try loopback.connect(reading: false)
        connection.send("GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
        #expect(loopback.turn { !loopback.requests.isEmpty })
        let id = try #require(loopback.requests.first).id
        loopback.server.beginStream(to: id, status: 200, headers: [])
        // More than the system's buffers hold, and less than the server keeps.
        #expect(loopback.server.send([UInt8](repeating: 1, count: 12 << 20), toStream: id))
        #expect(loopback.turn { !loopback.server.send([], toStream: id) })
        #expect(loopback.server.connectionCount == 0)
    }

    @Test func `keeps no more of an answer without end than it may`() throws {
        let loopback = try Loopback()
        let connection = try loopback.connect(reading: false)
        connection.send("GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
        #expect(loopback.turn { !loopback.requests.isEmpty })
        let id = try #require(loopback.requests.first).id
        loopback.server.beginStream(to: id, status: 200, headers: [])
        let part = [UInt8](repeating: 1, count: 9 << 20)
        #expect(loopback.server.send(part, toStream: id))
        var isOpen = true
        for _ in 0..<3 where isOpen {
            isOpen = loopback.server.send(part, toStream: id)
        }
        #expect(!isOpen)
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

    @Test func `tells of a request that became complete after the last look`() throws {
        let loopback = try Loopback()
        let connection = try loopback.connect()
        connection.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        let isTold = loopback.turn {
            // What a loop does that runs the server once more before it waits.
            loopback.server.run()
            return loopback.server.millisecondsUntilTimeout == 0
        }
        #expect(isTold)
        #expect(loopback.server.takeRequests().count + loopback.requests.count == 1)
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

    @Test func `drops a connection without an answer`() throws {
        let loopback = try Loopback()
        loopback.answer = { $0.reset($1.id) }
        let connection = try loopback.connect()
        connection.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        #expect(loopback.turn { connection.hasEnded })
        #expect(connection.received.isEmpty)
        #expect(loopback.turn { loopback.server.connectionCount == 0 })
    }

    @Test func `tears an answer in its middle`() throws {
        let loopback = try Loopback()
        loopback.answer = {
            $0.respondTorn(
                to: $1.id,
                status: 200,
                headers: [("X-One", "1")],
                body: Array("0123456789".utf8)
            )
        }
        let connection = try loopback.connect()
        connection.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        #expect(loopback.turn { connection.hasEnded })
        let text = String(decoding: connection.received, as: UTF8.self)
        #expect(text.hasPrefix("HTTP/1.1 200 "))
        #expect(text.contains("Content-Length: 10\r\n"))
        #expect(text.hasSuffix("\r\n\r\n01234"))
    }

    @Test func `lets a client ask before it sends a body`() throws {
        let loopback = try Loopback()
        loopback.answer = { $0.respond(to: $1.id, status: 200) }
        let connection = try loopback.connect()
        connection.send(
            "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
        )
        #expect(loopback.turn { connection.received.starts(with: "HTTP/1.1 100 ".utf8) })
        connection.send("abc")
        #expect(loopback.turn { connection.answer?.status == 200 })
    }

    @Test func `ends what has begun once it stops accepting`() throws {
        let loopback = try Loopback()
        let idle = try loopback.connect()
        idle.send("GET /idle HTTP/1.1\r\nHost: x\r\n\r\n")
        #expect(loopback.turn { loopback.requests.count == 1 })
        loopback.server.respond(to: loopback.requests[0].id, status: 200)
        #expect(loopback.turn { idle.answer != nil })
        let held = try loopback.connect()
        held.send("GET /held HTTP/1.1\r\nHost: x\r\n\r\n")
        #expect(loopback.turn { loopback.requests.count == 2 })
        let late = try loopback.connect()
        late.send("POST /late HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n")
        #expect(loopback.turn { loopback.server.incompleteRequestCount == 1 })

        loopback.server.stopAccepting()
        #expect(throws: (any Error).self) { try loopback.connect() }
        #expect(loopback.turn { idle.hasEnded })
        late.send("x")
        #expect(loopback.turn { loopback.requests.count == 3 })
        for request in loopback.requests {
            loopback.server.respond(to: request.id, status: 204)
        }
        #expect(loopback.turn { held.hasEnded && late.hasEnded })
        #expect(held.answer?.status == 204)
        #expect(held.answer?.header("connection")?.lowercased() == "close")
        #expect(late.answer?.status == 204)
        #expect(loopback.turn { loopback.server.connectionCount == 0 })
    }

    /// Goal: the system resets who stands in line at a socket that is closed.
    @Test(arguments: [(kept: 300, idle: 0), (0, 1_000), (10, 1_000)])
    func `takes in all who have connected and sent when it stops accepting`(
        keptCount: Int,
        idleCount: Int
    ) throws {
        let loopback = try Loopback()
        let kept = try (0..<keptCount).map { _ in try loopback.connect() }
        let idle = try (0..<idleCount).map { _ in try loopback.connect() }
        for connection in kept + idle {
            connection.send("GET /first HTTP/1.1\r\nHost: x\r\n\r\n")
        }
        loopback.answer = { $0.respond(to: $1.id, status: 204) }
        #expect(loopback.turn(seconds: 60) { (kept + idle).allSatisfy { $0.answer != nil } })
        let new = try (0..<200).map { _ in try loopback.connect() }
        for connection in kept + new {
            connection.send("GET /last HTTP/1.1\r\nHost: x\r\n\r\n")
        }
        loopback.server.stopAccepting()
        // One turn, as of a worker that then has nothing begun.
        loopback.server.run()
        let last = loopback.server.takeRequests()
        #expect(last.count == keptCount + 200)
        for request in last {
            loopback.server.respond(to: request.id, status: 204)
        }
        #expect(loopback.server.incompleteRequestCount == 0)
        #expect(loopback.turn { (kept + idle + new).allSatisfy(\.hasEnded) })
        #expect(kept.allSatisfy { $0.answers.count == 2 })
        #expect(idle.allSatisfy { $0.answers.count == 1 })
        #expect(new.allSatisfy { $0.answers.count == 1 })
    }

    @Test func `listens again on the port it had`() throws {
        let limits = HTTPServer.Limits()
        var loopback: Loopback? = try Loopback(limits)
        let port = try #require(loopback?.server.port)
        let connection = try #require(try loopback?.connect())
        connection.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        #expect(loopback?.turn { loopback?.requests.count == 1 } == true)
        // Closed while a request is held: the client sees the end, and the server does not mind.
        loopback?.server.close()
        loopback?.server.close()
        #expect(loopback?.turn { connection.hasEnded } == true)
        loopback = nil
        let again = try HTTPServer(listen: ListenAddress(host: "127.0.0.1", port: port))
        #expect(again.port == port)
        let fault = #expect(throws: HTTPServerFault.self) {
            try HTTPServer(listen: ListenAddress(host: "127.0.0.1", port: port))
        }
        #expect(
            fault
                == .cannotListen(
                    address: "127.0.0.1:\(port)",
                    message: "Address already in use"
                )
        )
    }

    @Test(arguments: ["host.invalid", "203.0.113.1"])
    func `cannot listen where it is not`(host: String) {
        #expect(throws: HTTPServerFault.self) {
            try HTTPServer(listen: ListenAddress(host: host, port: 0))
        }
    }

    @Test func `listens on IPv6, too`() throws {
        let server = try HTTPServer(listen: ListenAddress(host: "::1", port: 0))
        #expect(server.port > 0)
    }
}

@Suite struct `An address to listen on` {
    @Test(
        arguments: [
            ("127.0.0.1:8080", "127.0.0.1", 8080, true), ("[::1]:0", "::1", 0, true),
            ("localhost:65535", "localhost", 65_535, true), ("0.0.0.0:80", "0.0.0.0", 80, false),
            ("[::]:80", "::", 80, false), ("127.9.8.7:1", "127.9.8.7", 1, true),
            ("127.evil.example:1", "127.evil.example", 1, false),
        ] as [(String, String, UInt16, Bool)]
    )
    func `is read`(text: String, host: String, port: UInt16, isLoopback: Bool) throws {
        let address = try #require(ListenAddress(text))
        #expect(address.host == host)
        #expect(address.port == port)
        #expect(address.isLoopback == isLoopback)
        #expect(address.description == text)
    }

    @Test(arguments: ["", ":80", "127.0.0.1", "127.0.0.1:", "a:65536", "a:-1", "::1:80", "[::1:80"])
    func `is refused`(text: String) {
        #expect(ListenAddress(text) == nil)
    }
}
