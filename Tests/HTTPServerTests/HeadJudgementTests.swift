import HTTPServer
import Testing

/// A head is judged before its body is taken.
@Suite struct `The head of a request` {
    private static func limits(
        lanes: [Int] = [64 << 10, 64 << 10],
        laneConnectionCountsMax: [Int] = [],
        connectionCountMax: Int = 100
    ) -> HTTPServer.Limits {
        HTTPServer.Limits(
            bodyByteCountMax: 64 << 10,
            laneByteCountsMax: lanes,
            laneConnectionCountsMax: laneConnectionCountsMax,
            judgesHeads: true,
            connectionCountMax: connectionCountMax
        )
    }

    private static func head(_ byteCount: Int, path: String = "/", _ more: String = "") -> String {
        "POST \(path) HTTP/1.1\r\nHost: x\r\nContent-Length: \(byteCount)\r\n\(more)\r\n"
    }

    /// Lets every body in, `/1…` in lane 1 and all others in lane 0, and answers what is whole.
    private func open(_ loopback: Loopback) {
        loopback.answer = { server, request in
            if request.isComplete {
                server.respond(to: request.id, status: 200)
            } else {
                server.accept(
                    request.id,
                    lane: request.path.hasPrefix("/1") ? 1 : 0,
                    bodyByteCountMax: 64 << 10
                )
            }
        }
    }

    @Test func `comes alone, and the body only once it is let in`() throws {
        let loopback = try Loopback(Self.limits())
        let connection = try loopback.connect()
        connection.send(Self.head(6, "Expect: 100-continue\r\n"))
        #expect(loopback.turn { loopback.requests.count == 1 })
        let head = loopback.requests[0]
        #expect(!head.isComplete)
        #expect(head.announcedByteCount == 6)
        #expect(head.body.isEmpty)
        #expect(head.header("expect") == "100-continue")
        loopback.turn()
        #expect(connection.received.isEmpty)
        loopback.server.accept(head.id, lane: 1, bodyByteCountMax: 10)
        #expect(loopback.turn { connection.received.starts(with: "HTTP/1.1 100 ".utf8) })
        connection.send("abc")
        #expect(loopback.turn { loopback.server.incompleteByteCount(lane: 1) == 3 })
        connection.send("def")
        #expect(loopback.turn { loopback.requests.count == 2 })
        #expect(loopback.requests[1].isComplete)
        #expect(loopback.requests[1].body == Array("abcdef".utf8))
        #expect(loopback.server.incompleteByteCount(lane: 1) == 0)
        loopback.server.respond(to: loopback.requests[1].id, status: 202)
        #expect(loopback.turn { connection.answers.first?.status == 202 })
        #expect(!connection.hasEnded)
    }

    @Test func `is refused without a 100 and without a byte of the body`() throws {
        let loopback = try Loopback(Self.limits())
        loopback.answer = { $0.respond(to: $1.id, status: 401) }
        let asking = try loopback.connect()
        asking.send(Self.head(6, "Expect: 100-continue\r\n"))
        let sending = try loopback.connect()
        sending.send(Array(Self.head(60_000).utf8) + [UInt8](repeating: 1, count: 50_000))
        #expect(loopback.turn { asking.hasEnded && sending.hasEnded })
        for connection in [asking, sending] {
            #expect(connection.answers.map(\.status) == [401])
            #expect(connection.answer?.header("connection") == "close")
            #expect(!connection.wasReset)
        }
        #expect(!String(decoding: asking.received, as: UTF8.self).contains(" 100 "))
        #expect(loopback.server.incompleteByteCount(lane: 0) == 0)
    }

    @Test func `lets a body in only up to what it was given`() throws {
        let loopback = try Loopback(Self.limits())
        loopback.answer = { $0.accept($1.id, lane: 0, bodyByteCountMax: 10) }
        let announced = try loopback.exchange(Self.head(11))
        let chunked = try loopback.exchange(
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n"
        )
        #expect(announced?.status == 413)
        #expect(chunked?.status == 413)
        #expect(loopback.server.refusalCount(status: 413, lane: 0) == 2)
    }

    /// However much of it came with the head: what is judged is the head.
    @Test(arguments: [0, 5, 60_000])
    func `comes alone also where it announces more than is taken`(sentByteCount: Int) throws {
        let loopback = try Loopback(
            HTTPServer.Limits(bodyByteCountMax: 4, laneByteCountsMax: [4], judgesHeads: true)
        )
        let connection = try loopback.connect()
        let body = String(repeating: "a", count: sentByteCount)
        connection.send(Self.head(max(sentByteCount, 5)) + body)
        #expect(loopback.turn { loopback.requests.count == 1 })
        #expect(!loopback.requests[0].isComplete)
        loopback.server.accept(loopback.requests[0].id, lane: 0, bodyByteCountMax: 4)
        #expect(loopback.turn { connection.answer?.status == 413 })
        #expect(loopback.turn { connection.hasEnded })
        #expect(loopback.requests.count == 1)
    }

    @Test func `says nothing where the body is there with it`() throws {
        let loopback = try Loopback(Self.limits())
        open(loopback)
        #expect(try loopback.exchange(Self.head(3) + "abc")?.status == 200)
        #expect(loopback.requests.map(\.isComplete) == [true])
    }

    @Test func `decides whose room the body takes`() throws {
        let loopback = try Loopback(Self.limits())
        open(loopback)
        let hoarders = try (0..<8).map { _ in try loopback.connect() }
        for hoarder in hoarders {
            hoarder.send(Array(Self.head(60_000).utf8) + [UInt8](repeating: 1, count: 59_999))
        }
        #expect(loopback.turn { hoarders.filter { $0.answer?.status == 408 }.count == 7 })
        #expect(loopback.server.incompleteByteCount(lane: 0) == 59_999)
        let other = try loopback.connect()
        other.send(Array(Self.head(60_000, path: "/1").utf8))
        loopback.turn()
        other.send([UInt8](repeating: 1, count: 60_000))
        #expect(loopback.turn { other.answer?.status == 200 })
        #expect(loopback.server.incompleteByteCount(lane: 0) == 59_999)
    }

    @Test func `lets a newcomer in, and the slowest body gives way`() throws {
        let loopback = try Loopback(Self.limits())
        open(loopback)
        let slow = try loopback.connect()
        slow.send(Array(Self.head(40_000).utf8) + [UInt8](repeating: 1, count: 30_000))
        #expect(loopback.turn { loopback.server.incompleteByteCount(lane: 0) == 30_000 })
        let steady = try loopback.connect()
        steady.send(Array(Self.head(40_000).utf8) + [UInt8](repeating: 1, count: 30_000))
        #expect(loopback.turn { loopback.server.incompleteByteCount(lane: 0) == 60_000 })
        // A byte now and then is no step.
        slow.send([1])
        #expect(loopback.turn { loopback.server.incompleteByteCount(lane: 0) == 60_001 })
        let newcomer = try loopback.connect()
        newcomer.send(Array(Self.head(30_000).utf8) + [UInt8](repeating: 1, count: 20_000))
        #expect(loopback.turn { slow.answer?.status == 408 })
        steady.send([UInt8](repeating: 1, count: 10_000))
        newcomer.send([UInt8](repeating: 1, count: 10_000))
        #expect(loopback.turn { steady.answer?.status == 200 && newcomer.answer?.status == 200 })
    }

    @Test func `lets in as many bodies as its lane may have connections`() throws {
        let loopback = try Loopback(Self.limits(laneConnectionCountsMax: [100, 2]))
        open(loopback)
        func begin(_ path: String) throws -> RawConnection {
            let connection = try loopback.connect()
            connection.send(Self.head(10, path: path) + "a")
            let count = loopback.requests.count
            #expect(loopback.turn { loopback.requests.count > count })
            loopback.turn()
            return connection
        }
        let inOthers = try (0..<3).map { _ in try begin("/0") }
        let inLane = try (0..<3).map { _ in try begin("/1") }
        #expect(loopback.turn { inLane[0].answer?.status == 408 })
        #expect(loopback.server.refusalCount(status: 408, lane: 1) == 1)
        (inOthers + inLane[1...]).forEach { $0.send("bcdefghij") }
        #expect(loopback.turn { (inOthers + inLane[1...]).allSatisfy { $0.answer?.status == 200 } })
        // Those are not counted any more.
        let later = try (0..<2).map { _ in try begin("/1") }
        later[0].close()
        #expect(loopback.turn { loopback.server.incompleteByteCount(lane: 1) == 1 })
        _ = try begin("/1")
        #expect(loopback.server.refusalCount(status: 408, lane: 1) == 1)
    }

    @Test func `closes of a full lane one of the network that has most in it`() throws {
        let loopback = try Loopback(Self.limits(laneConnectionCountsMax: [100, 4]))
        open(loopback)
        func begin(from host: UInt32) throws -> RawConnection {
            let connection = try loopback.connect(from: host)
            connection.send(Self.head(10, path: "/1") + "a")
            let count = loopback.requests.count
            #expect(loopback.turn { loopback.requests.count > count })
            loopback.turn()
            return connection
        }
        // The oldest of all is of another network than those that come without end.
        let honest = try begin(from: 2)
        let greedy = try (0..<20).map { _ in try begin(from: 3) }
        #expect(loopback.turn { greedy[16].answer?.status == 408 })
        #expect(loopback.server.refusalCount(status: 408, lane: 1) == 17)
        honest.send("bcdefghij")
        #expect(loopback.turn { honest.answer?.status == 200 })
    }

    /// Two of four that its lane may have are like any other connection; the two beyond go first.
    @Test func `gives way to a newcomer before idle ones, beyond half of its lane`() throws {
        let loopback = try Loopback(
            Self.limits(laneConnectionCountsMax: [8, 4], connectionCountMax: 8)
        )
        open(loopback)
        func connect(_ text: String) throws -> RawConnection {
            let connection = try loopback.connect()
            connection.send(text)
            let count = loopback.requests.count
            #expect(loopback.turn { loopback.requests.count > count })
            loopback.turn()
            return connection
        }
        let get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
        let idle = try (0..<2).map { _ in try connect(get) }
        let keyed = try (0..<2).map { _ in try connect(Self.head(10) + "a") }
        let bounded = try (0..<4).map { _ in try connect(Self.head(10, path: "/1") + "a") }
        let server = loopback.server
        #expect(server.connectionCount == 8)
        for (index, gone) in [bounded[0], bounded[1], idle[0], idle[1]].enumerated() {
            _ = try connect(Self.head(10) + "a")
            #expect(loopback.turn { gone.hasEnded }, "newcomer \(index)")
            #expect(server.connectionCount == 8)
        }
        #expect((keyed + bounded[2...]).allSatisfy { !$0.hasEnded })
        #expect(server.evictionCount(.body(lane: 1)) == 2)
        #expect(server.evictionCount(.idle) == 2)
        #expect(server.evictionCount(.body(lane: 0)) == 0)
    }

    /// Which is closed first, where there is room for no more connections.
    @Test func `is kept waiting by no connection that says nothing`() throws {
        var limits = Self.limits(connectionCountMax: 4)
        limits.newcomerMilliseconds = 0
        let loopback = try Loopback(limits)
        open(loopback)
        loopback.answer = { [answer = loopback.answer] server, request in
            if request.path == "/none" {
                server.respond(to: request.id, status: 404)
            } else {
                answer?(server, request)
            }
        }
        let get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
        let kept = try loopback.connect()
        kept.send(get)
        #expect(loopback.turn { kept.answers.count == 1 })
        let probing = try loopback.connect()
        probing.send("GET /none HTTP/1.1\r\nHost: x\r\n\r\n")
        #expect(loopback.turn { probing.answers.count == 1 })
        let begun = try loopback.connect()
        begun.send("GET ")
        let silent = try loopback.connect()
        #expect(loopback.turn { loopback.server.connectionCount == 4 })
        #expect(loopback.turn { loopback.server.incompleteRequestCount == 1 })

        for (index, gone) in [silent, begun, probing, kept].enumerated() {
            let newcomer = try loopback.connect()
            newcomer.send(get)
            #expect(loopback.turn { newcomer.answers.count == 1 }, "newcomer \(index)")
            #expect(loopback.turn { gone.hasEnded }, "newcomer \(index)")
            let left = [silent, begun, probing, kept][(index + 1)...]
            #expect(left.allSatisfy { !$0.hasEnded }, "newcomer \(index)")
        }
    }

    /// Goal: who connects and says nothing, now and then, keeps nobody out who needs a round trip.
    ///
    /// Method: all connections are idle ones that were refused, or were served; each newcomer comes before the
    /// one before it has sent anything.
    @Test(arguments: [404, 200])
    func `is not closed for those that come behind it while others are idle`(status: Int) throws {
        var limits = Self.limits(connectionCountMax: 8)
        limits.newcomerMilliseconds = 60_000
        let loopback = try Loopback(limits)
        loopback.answer = { $0.respond(to: $1.id, status: status) }
        let get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
        let idle = try (0..<8).map { _ in try loopback.connect() }
        idle.forEach { $0.send(get) }
        #expect(loopback.turn { idle.allSatisfy { $0.answers.count == 1 } })
        let newcomers = try (0..<4).map { index in
            let newcomer = try loopback.connect()
            if index % 2 == 1 {
                newcomer.send("GE")
            }
            #expect(loopback.turn { idle.filter(\.hasEnded).count == index + 1 })
            return newcomer
        }
        for (index, newcomer) in newcomers.enumerated() {
            newcomer.send(index % 2 == 1 ? String(get.dropFirst(2)) : get)
        }
        #expect(loopback.turn { newcomers.allSatisfy { $0.answers.count == 1 } })
        #expect(loopback.server.evictionCount(.silent) == 0)
        #expect(loopback.server.evictionCount(status == 404 ? .unserved : .idle) == 4)
    }

    /// Whoever begins one head after the other is new with none but the first.
    @Test(arguments: [404, 200])
    func `is let in for one that has had an answer and begins a head`(status: Int) throws {
        var limits = Self.limits(connectionCountMax: 3)
        limits.newcomerMilliseconds = 60_000
        let loopback = try Loopback(limits)
        loopback.answer = { $0.respond(to: $1.id, status: $1.path == "/" ? 200 : status) }
        let get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
        let first = try loopback.connect()
        first.send("GET")
        #expect(loopback.turn { loopback.server.incompleteRequestCount == 1 })
        let again = try loopback.connect()
        again.send("GET /x HTTP/1.1\r\nHost: x\r\n\r\nG")
        #expect(loopback.turn { again.answers.count == 1 })
        #expect(loopback.turn { loopback.server.incompleteRequestCount == 2 })
        let idle = try loopback.connect()
        idle.send(get)
        #expect(loopback.turn { idle.answers.count == 1 })
        let newcomer = try loopback.connect()
        newcomer.send(get)
        #expect(loopback.turn { newcomer.answers.count == 1 && again.hasEnded })
        #expect(!idle.hasEnded && !first.hasEnded)
        #expect(loopback.server.evictionCount(.head) == 1)
    }

    /// As many newcomers as there may be connections close each other, the first one first.
    @Test func `is closed for another where all are new`() throws {
        var limits = Self.limits(connectionCountMax: 2)
        limits.newcomerMilliseconds = 60_000
        let loopback = try Loopback(limits)
        let all = try (0..<3).map { index in
            let newcomer = try loopback.connect()
            #expect(loopback.turn { loopback.server.connectionCount == min(index + 1, 2) })
            return newcomer
        }
        #expect(loopback.turn { all[0].hasEnded })
        #expect(!all[1].hasEnded && !all[2].hasEnded)
        #expect(loopback.server.evictionCount(.silent) == 1)
    }

    /// Who has a next request ready is between two for the time that it takes to let a newcomer in.
    @Test(arguments: [8, 200])
    func `is kept waiting by no connection that sends one after the other`(count: Int) throws {
        let loopback = try Loopback(Self.limits(connectionCountMax: count))
        let (server, get) = (loopback.server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        for _ in 0..<count {
            try loopback.connect(reading: false).send(String(repeating: get, count: 500))
        }
        var newcomer: RawConnection?
        for turn in 0..<100 where newcomer?.answer == nil {
            server.run()
            let requests = server.takeRequests()
            // 64 whose sockets have something to read, and as many that are new, or go on.
            #expect(requests.count <= 3 * 64)
            for request in requests {
                server.respond(to: request.id, status: request.path == "/new" ? 200 : 404)
            }
            if turn == 20 {
                #expect(server.connectionCount == count)
                newcomer = try loopback.connect()
                newcomer?.send("GET /new HTTP/1.1\r\nHost: x\r\n\r\n")
            }
            newcomer?.receive()
        }
        #expect(newcomer?.answer?.status == 200)
        #expect(server.refusalCount(status: 503, lane: nil) == 0)
        #expect(server.evictionCount(.unserved) == 1)
    }

    @Test func `is kept waiting by no connection that reads no answers`() throws {
        let loopback = try Loopback(Self.limits(connectionCountMax: 4))
        let get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
        open(loopback)
        let kept = try loopback.connect()
        kept.send(get)
        #expect(loopback.turn { kept.answers.count == 1 })
        let begun = try loopback.connect()
        begun.send(Self.head(10) + "a")
        #expect(loopback.turn { loopback.server.incompleteByteCount(lane: 0) == 1 })
        let answer = loopback.answer
        loopback.answer = {
            $0.respond(to: $1.id, status: 200, body: [UInt8](repeating: 1, count: 32 << 20))
        }
        let deaf = try (0..<2).map { _ in try loopback.connect(reading: false) }
        deaf.forEach { $0.send(get) }
        let count = loopback.requests.count
        #expect(loopback.turn { loopback.requests.count == count + 2 })
        loopback.answer = answer
        for number in 1...2 {
            let newcomer = try loopback.connect()
            newcomer.send(get)
            #expect(loopback.turn { newcomer.answers.count == 1 })
            #expect(loopback.server.evictionCount(.answer) == UInt64(number))
        }
        #expect(!kept.hasEnded && !begun.hasEnded)
    }
}
