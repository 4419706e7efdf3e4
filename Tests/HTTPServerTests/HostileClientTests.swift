import Glibc
import HTTPServer
import Testing

@Suite struct `Hostile clients` {
    private static func limits(connectionCountMax: Int) -> HTTPServer.Limits {
        HTTPServer.Limits(
            bodyByteCountMax: 1 << 20,
            laneByteCountsMax: [4 << 20],
            headerByteCountMax: 4 << 10,
            connectionCountMax: connectionCountMax,
            requestTimeoutMilliseconds: 1_000,
            idleTimeoutMilliseconds: 60_000
        )
    }

    @Test func `drip their requests and are told off in time, and nobody waits for them`() throws {
        let loopback = try Loopback(Self.limits(connectionCountMax: 200))
        loopback.answer = { $0.respond(to: $1.id, status: 200) }
        let slow = try (0..<100).map { _ in try loopback.connect() }
        let start = ContinuousClock.now
        var dripped = 0
        var answeredCount = 0
        // A byte now and then keeps no connection open beyond the time of one request.
        let refused = loopback.turn {
            if dripped < 400, dripped < Int((ContinuousClock.now - start) / .milliseconds(10)) {
                slow.forEach { $0.send("X") }
                dripped += 1
                answeredCount +=
                    (try? loopback.exchange("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
                    .flatMap { $0?.status == 200 ? 1 : 0 } ?? 0
            }
            return slow.allSatisfy { $0.answer?.status == 408 }
        }
        #expect(refused)
        #expect(ContinuousClock.now - start < .seconds(6))
        #expect(answeredCount == dripped)
    }

    @Test func `take all connections, and the oldest of them gives way`() throws {
        let loopback = try Loopback(Self.limits(connectionCountMax: 10))
        loopback.answer = { $0.respond(to: $1.id, status: 200) }
        let idle = try (0..<50).map { _ in try loopback.connect() }
        #expect(loopback.turn { idle.filter { !$0.hasEnded }.count == 10 })
        #expect(try loopback.exchange("GET / HTTP/1.1\r\nHost: x\r\n\r\n")?.status == 200)
        #expect(loopback.server.connectionCount <= 10)
        #expect(!idle[49].hasEnded)
    }

    @Test func `find a full house where every connection is held by a request`() throws {
        let loopback = try Loopback(Self.limits(connectionCountMax: 2))
        let held = try (0..<2).map { _ in try loopback.connect() }
        held.forEach { $0.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n") }
        #expect(loopback.turn { loopback.requests.count == 2 })
        let late = try #require(try loopback.exchange(""))
        #expect(late.status == 503)
        #expect(late.header("retry-after") == "1")
        loopback.requests.forEach { loopback.server.respond(to: $0.id, status: 200) }
        #expect(loopback.turn { held.allSatisfy { $0.answer?.status == 200 } })
    }

    @Test func `cannot hold more bodies than there is room for`() throws {
        let loopback = try Loopback(Self.limits(connectionCountMax: 100))
        let senders = try (0..<10).map { _ in try loopback.connect() }
        let head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\n"
        for sender in senders {
            sender.send(Array(head.utf8) + [UInt8](repeating: 1, count: (1 << 20) - 1))
        }
        #expect(loopback.turn { senders.filter { $0.answer?.status == 408 }.count == 6 })
        // Those that were let in are whole once their last byte is there.
        let survivors = senders.filter { $0.answer == nil }
        #expect(survivors.count == 4)
        survivors.forEach { $0.send([1]) }
        #expect(loopback.turn { loopback.requests.count == 4 })
        #expect(loopback.requests.allSatisfy { $0.body.count == 1 << 20 })
    }

    @Test func `send a huge body and are cut off`() throws {
        let loopback = try Loopback(Self.limits(connectionCountMax: 10))
        let sender = try loopback.connect()
        sender.send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        let chunk = Array("40000\r\n".utf8) + [UInt8](repeating: 1, count: 0x40000) + [13, 10]
        var sentCount = 0
        #expect(loopback.turn { loopback.server.connectionCount == 1 })
        let isGone = loopback.turn {
            if sender.unsentByteCount == 0, sentCount < 1_000 {
                sender.send(chunk)
                sentCount += 1
            }
            return loopback.server.connectionCount == 0
        }
        #expect(isGone)
        #expect(sentCount < 100)
        #expect(sender.received.starts(with: "HTTP/1.1 413 ".utf8))
    }

    @Test func `never read their answers and are let go`() throws {
        let loopback = try Loopback(Self.limits(connectionCountMax: 10))
        loopback.answer = {
            $0.respond(to: $1.id, status: 200, body: [UInt8](repeating: 1, count: 32 << 20))
        }
        let deaf = try loopback.connect(reading: false)
        deaf.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        #expect(loopback.turn { loopback.requests.count == 1 })
        #expect(loopback.server.connectionCount == 1)
        #expect(loopback.turn { loopback.server.connectionCount == 0 })
    }

    @Test(arguments: [
        "G", "GET / HTTP/1.1\r\n", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab",
    ])
    func `leave in the middle`(text: String) throws {
        let loopback = try Loopback(Self.limits(connectionCountMax: 10))
        let connection = try loopback.connect()
        connection.send(text)
        #expect(loopback.turn { loopback.server.connectionCount == 1 })
        loopback.turn()
        connection.close()
        #expect(loopback.turn { loopback.server.connectionCount == 0 })
        #expect(loopback.requests.isEmpty)
    }

    @Test func `leave before the answer, which then goes nowhere`() throws {
        let loopback = try Loopback(Self.limits(connectionCountMax: 10))
        let connection = try loopback.connect()
        connection.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        #expect(loopback.turn { loopback.requests.count == 1 })
        connection.close()
        loopback.turn()
        loopback.server.respond(to: loopback.requests[0].id, status: 200)
        #expect(loopback.turn { loopback.server.connectionCount == 0 })
    }

    /// Seeded noise, on many connections at once.
    @Test(arguments: [1, 2, 3] as [UInt64]) func `send noise`(seed: UInt64) throws {
        var generator = Noise(state: seed)
        let loopback = try Loopback(Self.limits(connectionCountMax: 20))
        loopback.answer = { $0.respond(to: $1.id, status: 200) }
        let pieces = [
            "GET ", "POST ", "/", " HTTP/1.1", "\r\n", "\n", "\r", ":", " ", "Host: x\r\n",
            "Content-Length: ", "5", "99999999999", "Transfer-Encoding: chunked\r\n", "\r\n\r\n",
            "0\r\n\r\n", "Expect: 100-continue\r\n", "\0", "\u{ff}", "abc", "Connection: close\r\n",
        ]
        for _ in 0..<300 {
            let connection = try loopback.connect()
            for _ in 0..<Int.random(in: 1...12, using: &generator) {
                connection.send(pieces[Int.random(in: 0..<pieces.count, using: &generator)])
            }
            loopback.turn(milliseconds: 0)
            if Bool.random(using: &generator) {
                connection.close()
            }
        }
        let answer = try loopback.exchange("GET /still HTTP/1.1\r\nHost: x\r\n\r\n")
        #expect(answer?.status == 200, "seed \(seed)")
    }
}

/// SplitMix64.
struct Noise: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }
}
