import HTTPClient
import Testing

/// Goal: what happens to the requests of a connection when the connection is what goes wrong.
///
/// Method: `scripted_http2.py`; what it has seen counts as much as what the client says.
@Suite(.enabled(if: ScriptedServer.canRun, "needs python3 and the openssl command"))
struct `Requests that share a connection` {
    /// Goal: as many at a time as there may be, and no answer given to another's request.
    ///
    /// Method: the first 64 are answered when all of them have come, the last first.
    @Test func `are each given their own answer`() throws {
        let server = try ScriptedServer("gather", count: 64)
        for tag in 0..<200 {
            server.submit("/echo", method: "POST", body: Array("body \(tag)".utf8), tag: tag)
        }
        try server.requireResponses(200)
        #expect(Set(server.responses.map(\.tag)).count == 200)
        for response in server.responses {
            let answer = try #require(response.answer)
            #expect(answer.status == 200)
            #expect(answer.httpMajorVersion == 2)
            #expect(answer.text == "body \(response.tag)")
        }
        #expect(try server.connectionCount() == 1)
        #expect(try server.events("stream").count == 200)
    }

    /// Goal: no more on a connection than the server allows, not even before it has said how many.
    ///
    /// Method: the server answers none before whatever the client would send meanwhile has come, and
    /// says where there are two. Others are opened, as far as there are no more than eight.
    @Test func `wait for each other where the server allows one`() throws {
        let server = try ScriptedServer("one")
        for tag in 0..<30 {
            server.submit("/echo", body: [UInt8(tag)], tag: tag)
        }
        try server.requireResponses(30)
        for response in server.responses {
            #expect(response.answer?.body == [UInt8(response.tag)])
        }
        #expect(try (2...8).contains(server.connectionCount()))
    }

    /// Goal: libcurl has the URLs that are not plain, and does not wait for a connection of ours.
    @Test func `do not keep one that takes another way`() throws {
        let server = try ScriptedServer("plain")
        #expect(try server.send("/echo", body: [1]).answer?.connection == 1)
        #expect(try server.send("/a/.well-known", body: [1]).answer?.connection == 2)
        #expect(try server.send("/echo", body: [1]).answer?.connection == 1)
    }

    /// RFC 9113, 6.8: what is above the last stream was not acted upon, and may be sent again.
    @Test func `are sent again where the server goes away before them`() throws {
        let server = try ScriptedServer("going-away", count: 6)
        for tag in 0..<6 {
            server.submit("/echo/\(tag)", body: [UInt8(tag)], tag: tag)
        }
        try server.requireResponses(6)
        #expect(Set(server.responses.map(\.tag)).count == 6)
        let first = try server.events("stream").filter { $0.connection == 1 }
        try #require(first.count == 6)
        let processed = first.prefix(3).compactMap { $0.details.dropFirst().first }
        for response in server.responses {
            let answer = try #require(response.answer)
            let path = "/echo/\(response.tag)"
            let isProcessed = processed.contains(path)
            #expect(answer.body == [UInt8(response.tag)])
            let connections = isProcessed ? [1] : [1, 2]
            #expect(answer.connection == connections.last)
            #expect(try server.requests(path).map(\.connection) == connections)
        }
        #expect(try server.connectionCount() == 2)
    }

    @Test func `are doubtful up to the last stream where the server goes away and ends`() throws {
        let server = try ScriptedServer("gone-away", count: 4)
        for tag in 0..<4 {
            server.submit("/echo/\(tag)", body: [UInt8(tag)], tag: tag)
        }
        try server.requireResponses(4)
        let first = try server.events("stream").filter { $0.connection == 1 }
        try #require(first.count == 4)
        let processed = first.prefix(2).compactMap { $0.details.dropFirst().first }
        for response in server.responses {
            let path = "/echo/\(response.tag)"
            if processed.contains(path) {
                #expect(response.failure?.kind == .doubtful)
                #expect(try server.requests(path).count == 1)
            } else {
                #expect(response.answer?.connection == 2)
                #expect(try server.requests(path).count == 2)
            }
        }
    }

    /// RFC 9113, 6.8: with the highest number, the server still takes what is on its way.
    @Test func `are answered where the server announces that it will go away`() throws {
        let server = try ScriptedServer("leaving")
        #expect(try server.send("/echo", body: [1]).answer?.connection == 1)
        #expect(try server.send("/echo", body: [2]).answer?.connection == 2)
        #expect(try server.events("stream").count == 2)
    }

    @Test func `are sent again when they are refused`() throws {
        let server = try ScriptedServer("plain")
        let answer = try #require(try server.send("/refuse-once", body: [1, 2]).answer)
        #expect(answer.status == 200)
        #expect(answer.body == [1, 2])
        #expect(try server.requests("/refuse-once").count == 2)
    }

    @Test func `fail when they are refused again and again`() throws {
        let server = try ScriptedServer("plain")
        let response = try server.send("/refuse", body: [1])
        #expect(response.failure?.kind == .notSent)
        let streamCount = try server.requests("/refuse").count
        #expect((1...8).contains(streamCount), "\(streamCount) streams")
        #expect(server.client.inFlightCount == 0)
        #expect(try server.send("/echo", body: [2]).answer?.body == [2])
    }

    /// What has begun to be answered was acted upon, whatever the server says then.
    @Test func `are not sent again when they are refused behind the start of an answer`() throws {
        let server = try ScriptedServer("plain")
        #expect(try server.send("/begun", body: [1]).failure?.kind == .doubtful)
        #expect(try server.requests("/begun").count == 1)
        #expect(try server.send("/echo", body: [2]).answer?.body == [2])
    }

    /// Goal: connections that end as soon as they have carried one request are no vain attempts.
    @Test func `are all answered where each connection takes one`() throws {
        let server = try ScriptedServer("one-each")
        for tag in 0..<40 {
            server.submit("/echo/\(tag)", body: [UInt8(tag)], tag: tag)
        }
        try server.requireResponses(40)
        for response in server.responses {
            #expect(response.answer?.body == [UInt8(response.tag)])
        }
        #expect(try server.events("stream").count == 40)
    }

    /// Goal: a connection that takes none keeps no request from one that does, however many of those a request
    /// was handed to.
    @Test(arguments: ["one-then-none", "one-then-none-in-turn"])
    func `are answered where other connections take none`(scenario: String) throws {
        let server = try ScriptedServer(scenario)
        for tag in 0..<12 {
            server.submit("/echo/\(tag)", body: [UInt8(tag)], tag: tag)
        }
        try server.requireResponses(12)
        #expect(server.responses.allSatisfy { $0.answer?.connection == 1 })
    }

    /// Goal: as many connections as there may be that take nothing keep no later request from being sent.
    ///
    /// Method: a request is handed to five connections, and waits on the last of them until its time is
    /// over; the second one opens the other three.
    @Test func `are answered again after all connections have taken none`() throws {
        let server = try ScriptedServer(
            "none-at-first",
            count: 8,
            limits: HTTPClient.Limits(totalTimeoutMilliseconds: 5_000)
        )
        for (tag, count) in [5, 8].enumerated() {
            server.submit("/echo", body: [1], tag: tag)
            let haveOpened = try server.turn { try server.connectionCount() == count }
            #expect(haveOpened)
        }
        try server.requireResponses(2)
        for response in server.responses {
            #expect(response.failure?.kind == .notSent)
        }
        #expect(try server.connectionCount() == 8)
        let answer = try #require(try server.send("/echo", body: [1]).answer)
        #expect(answer.status == 200)
        #expect(answer.connection == 10)
    }

    /// That a connection cannot be opened is no reason to wait on one that takes nothing.
    @Test func `are sent over a third connection where one takes none and one cannot be opened`()
        throws
    {
        let server = try ScriptedServer("none-at-first", count: 1)
        let answer = try #require(try server.send("/echo", body: [1]).answer)
        #expect(answer.connection == 3)
    }

    /// Goal: one connection that could not be opened leaves the host with too few for a while only.
    ///
    /// Method: the first allows one request and does not answer it; the second breaks
    /// in its handshake. Nothing but the client itself says when the while is over.
    @Test func `are sent over a third connection some time after one could not be opened`() throws {
        let server = try ScriptedServer(
            "one-at-first",
            count: 1,
            limits: HTTPClient.Limits(connectTimeoutMilliseconds: 5_000)
        )
        server.submit("/silent", body: [1], tag: 1)
        try #require(try server.turn { try server.hasWhole("/silent") })
        server.submit("/echo", body: [2], tag: 2)
        let hasCome = try server.turn(looks: false) { server.response(2) != nil }
        #expect(hasCome)
        #expect(server.response(2)?.answer?.connection == 3)
        #expect(server.response(1) == nil)
    }

    /// Goal: a connection that may never be open keeps no request from one that has room.
    ///
    /// Method: the first allows three requests; a second one, for the fourth, gets no handshake.
    @Test func `do not wait for a connection to open where another has room`() throws {
        let server = try ScriptedServer(
            "three-then-deaf",
            limits: HTTPClient.Limits(connectTimeoutMilliseconds: 60_000)
        )
        var last: HTTPClientRequest.ID?
        for tag in 1...3 {
            last = server.submit("/silent/\(tag)", body: [1], tag: tag)
            try #require(try server.turn { try server.hasWhole("/silent/\(tag)") })
        }
        server.submit("/echo", body: [4], tag: 4)
        server.client.run()
        server.client.cancel(try #require(last))
        #expect(try server.send("/echo", body: [5]).answer?.connection == 1)
        #expect(server.response(4) == nil)
    }

    @Test func `do not share the failure of one`() throws {
        let server = try ScriptedServer("gather", count: 3)
        server.submit("/echo", body: [0], tag: 0)
        server.submit("/reset/2", body: [1], tag: 1)
        server.submit("/echo", body: [2], tag: 2)
        try server.requireResponses(3)
        #expect(server.response(0)?.answer?.body == [0])
        #expect(server.response(1)?.failure?.kind == .doubtful)
        #expect(server.response(1)?.failure?.code == "http.protocol")
        #expect(server.response(2)?.answer?.body == [2])
        #expect(try server.requests("/reset/2").count == 1)
        #expect(try server.connectionCount() == 1)
    }

    @Test(arguments: ["drop", "reset"], ["PUT", "GET"])
    func `are doubtful and sent once where the connection ends`(
        scenario: String,
        method: String
    ) throws {
        let server = try ScriptedServer(scenario)
        let body: [UInt8] = method == "PUT" ? [1] : []
        let response = try server.send("/echo/1", method: method, body: body)
        #expect(response.failure?.kind == .doubtful)
        #expect(response.failure?.code == "http.reset")
        #expect(try server.events("stream").count == 1)
        #expect(try server.send("/echo/2", method: method, body: body).answer?.connection == 2)
        #expect(try server.requests("/echo/1").count == 1)
    }

    @Test func `are not sent over one that has ended meanwhile`() throws {
        let server = try ScriptedServer("idle")
        #expect(try server.send("/echo/1", body: [1]).answer?.connection == 1)
        #expect(try server.turn(runsClient: false) { try server.events("ended").count == 1 })
        #expect(try server.send("/echo/2", body: [2]).answer?.connection == 2)
        #expect(try server.requests("/echo/2").count == 1)
    }

    @Test func `go on when one is cancelled`() throws {
        let server = try ScriptedServer("plain")
        let cancelled = server.submit("/silent", body: [1], tag: 1)
        try #require(try server.turn { try server.hasWhole("/silent") })
        let stream = try #require(try server.requests("/silent").first?.stream)
        server.client.cancel(cancelled)
        #expect(server.client.inFlightCount == 0)
        let isReset = try server.turn {
            try server.events("reset").contains { $0.stream == stream && $0.details == ["8"] }
        }
        #expect(isReset, "no RST_STREAM with CANCEL")
        #expect(try server.send("/echo", body: [2]).answer?.connection == 1)
        #expect(server.responses.count == 1)
    }

    @Test func `go on when one is cancelled before there is a connection`() throws {
        let server = try ScriptedServer("plain")
        let cancelled = server.submit("/echo/1", body: [1], tag: 1)
        server.submit("/echo/2", body: [2], tag: 2)
        server.client.run()
        server.client.cancel(cancelled)
        try server.requireResponses(1)
        #expect(server.response(2)?.answer?.body == [2])
    }

    @Test func `go on when one is out of time and others are answered`() throws {
        let server = try ScriptedServer(
            "plain",
            limits: HTTPClient.Limits(totalTimeoutMilliseconds: 5_000)
        )
        server.submit("/silent", body: [1], tag: 1)
        try #require(try server.turn { try server.hasWhole("/silent") })
        #expect(try server.send("/echo/2", body: [2]).answer?.connection == 1)
        try server.requireResponses(2)
        #expect(server.response(1)?.failure?.kind == .doubtful)
        #expect(server.response(1)?.failure?.code == "http.timeout")
        #expect(try server.send("/echo/3", body: [3]).answer?.connection == 1)
        #expect(try server.connectionCount() == 1)
        #expect(try server.requests("/silent").count == 1)
    }

    @Test func `leave one that answers nothing`() throws {
        let server = try ScriptedServer(
            "silent",
            limits: HTTPClient.Limits(totalTimeoutMilliseconds: 5_000)
        )
        for tag in 0..<3 {
            server.submit("/echo/\(tag)", body: [1], tag: tag)
        }
        try server.requireResponses(3)
        #expect(server.responses.first?.failure?.code == "http.timeout")
        for response in server.responses {
            #expect(response.failure?.kind == .doubtful)
        }
        #expect(try server.events("stream").count == 3)
        #expect(try server.send("/echo/4", body: [4]).answer?.connection == 2)
    }

    /// Whether they were sent is the client's to say: it need not wait for the SETTINGS.
    @Test func `leave one that does not even begin`() throws {
        let server = try ScriptedServer(
            "mute",
            limits: HTTPClient.Limits(totalTimeoutMilliseconds: 5_000)
        )
        let response = try server.send("/echo/1", body: [1])
        #expect(response.failure?.code == "http.timeout")
        #expect(try server.send("/echo/2", body: [2]).answer?.connection == 2)
    }

    @Test func `are not sent where the handshake does not end`() throws {
        let server = try ScriptedServer(
            "deaf",
            limits: HTTPClient.Limits(connectTimeoutMilliseconds: 5_000)
        )
        for tag in 0..<3 {
            server.submit("/echo/\(tag)", body: [1], tag: tag)
        }
        try server.requireResponses(3)
        for response in server.responses {
            #expect(response.failure?.kind == .notSent)
            #expect(response.failure?.code == "http.timeout")
        }
        #expect(try server.events("stream").isEmpty)
        #expect(try server.send("/echo/4", body: [4]).answer?.connection == 2)
    }

    @Test(arguments: ["text", "zeros"])
    func `fail where the server does not speak HTTP 2`(scenario: String) throws {
        let server = try ScriptedServer(
            scenario,
            limits: HTTPClient.Limits(totalTimeoutMilliseconds: 10_000)
        )
        for tag in 0..<3 {
            server.submit("/echo/\(tag)", body: [1], tag: tag)
        }
        try server.requireResponses(3)
        for response in server.responses {
            let code = try #require(response.failure?.code)
            #expect(["http.protocol", "http.reset"].contains(code))
        }
        let connectionCount = try server.connectionCount()
        #expect((1...8).contains(connectionCount), "\(connectionCount) connections")
    }

    /// Each is a connection error by RFC 9113: a bad header block, and a body before its headers.
    @Test(arguments: ["/bad-index", "/data-first"])
    func `fail where the server breaks the rules`(path: String) throws {
        let server = try ScriptedServer("plain")
        let response = try server.send(path, body: [1])
        let failure = try #require(response.failure)
        #expect(failure.kind == .doubtful)
        #expect(["http.protocol", "http.reset"].contains(failure.code))
        #expect(try server.requests(path).count == 1)
        #expect(try server.send("/echo", body: [2]).answer?.body == [2])
    }

    @Test func `are not sent where nobody listens`() throws {
        let server = try ScriptedServer("plain")
        for tag in 0..<3 {
            server.submit("/echo", body: [1], tag: tag, port: 1)
        }
        server.submit("/echo", body: [2], tag: 3)
        try server.requireResponses(4)
        for tag in 0..<3 {
            #expect(server.response(tag)?.failure?.kind == .notSent)
            #expect(server.response(tag)?.failure?.code == "http.connect")
        }
        #expect(server.response(3)?.answer?.body == [2])
    }

    @Test func `are not sent to a server that nobody vouches for`() throws {
        let server = try ScriptedServer("plain", isTrusted: false)
        for tag in 0..<3 {
            server.submit("/echo", body: [1], tag: tag)
        }
        try server.requireResponses(3)
        for response in server.responses {
            #expect(response.failure?.kind == .notSent)
            #expect(response.failure?.code == "http.tls_untrusted")
        }
        #expect(try server.events("stream").isEmpty)
    }
}
