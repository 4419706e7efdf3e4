import HTTPClient
import Testing

/// Method: the first connection stays open, takes all that comes and acknowledges it, and answers what has no
/// body; each further one answers everything.
@Suite(.enabled(if: ScriptedServer.canRun, "needs python3 and the openssl command"))
struct `An HTTP 2 connection` {
    private func server(seconds: Int, concurrency: Int = 64) throws -> ScriptedServer {
        try ScriptedServer(
            "half-silent",
            limits: HTTPClient.Limits(
                concurrency: concurrency,
                totalTimeoutMilliseconds: seconds * 1_000
            )
        )
    }

    private func connections(of server: ScriptedServer) throws -> [Int] {
        try server.events("stream").map(\.connection)
    }

    @Test func `that answers nothing takes no request after the first that ran out of time`()
        throws
    {
        let server = try server(seconds: 1)
        let first = try server.send("/status/204", method: "GET")
        #expect(first.answer?.httpMajorVersion == 2)
        server.submit("/echo", body: [1], tag: 2)
        server.submit("/echo", body: [1], tag: 3)
        try server.requireResponses(3)
        #expect(server.response(2)?.failure?.kind == .doubtful)
        #expect(server.response(3)?.failure?.kind == .doubtful)
        #expect(try server.send("/status/204", body: [1]).answer?.status == 204)
        #expect(try connections(of: server) == [1, 1, 1, 2])
    }

    /// Goal: what is on its way there ends with it, and is never sent twice.
    @Test func `takes those with it that are younger than the first that ran out of time`() throws {
        let server = try server(seconds: 3, concurrency: 2)
        _ = try server.send("/status/204", method: "GET")
        server.submit("/echo", body: [1], tag: 2)
        let hasEnded = try server.turn(seconds: 1.5) { server.response(2) != nil }
        #expect(!hasEnded)
        server.submit("/echo", body: [1], tag: 3)
        // Waits for the place of one of the two.
        server.submit("/status/204", body: [1], tag: 4)
        try server.requireResponses(4)
        #expect(server.response(2)?.failure?.code == "http.timeout")
        // Its own three seconds were not over.
        let younger = try #require(server.response(3)?.failure)
        #expect(younger.kind == .doubtful && younger.code != "http.timeout")
        #expect(server.response(4)?.answer?.status == 204)
        #expect(try connections(of: server) == [1, 1, 1, 2])
    }

    @Test func `that answers others is kept where one request runs out of time`() throws {
        let server = try server(seconds: 1)
        _ = try server.send("/status/204", method: "GET")
        server.submit("/echo", body: [1], tag: 2)
        server.submit("/status/204", method: "GET", tag: 3)
        try server.requireResponses(3)
        #expect(server.response(2)?.failure?.code == "http.timeout")
        #expect(server.response(3)?.answer?.status == 204)
        #expect(try server.send("/status/204", method: "GET").answer?.status == 204)
        #expect(try connections(of: server) == [1, 1, 1, 1])
    }
}
