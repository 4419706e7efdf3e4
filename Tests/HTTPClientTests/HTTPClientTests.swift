import Glibc
import HTTPClient
import HTTPServer
import Testing

/// A client and the server it talks to, moved on by one thread.
final class Pair {
    let server: HTTPServer
    let client: HTTPClient
    var answer: (HTTPServer, HTTPRequest) -> Void = { $0.respond(to: $1.id, status: 204) }
    private(set) var requests: [HTTPRequest] = []
    private(set) var responses: [HTTPClientResponse] = []

    init(_ limits: HTTPClient.Limits = HTTPClient.Limits()) throws {
        server = try HTTPServer(
            listen: ListenAddress(host: "127.0.0.1", port: 0),
            limits: HTTPServer.Limits(bodyByteCountMax: 1 << 20)
        )
        client = try HTTPClient(limits: limits, userAgent: "test/1")
    }

    var url: String { "http://127.0.0.1:\(server.port)" }

    func turn(seconds: Double = 10, until condition: () -> Bool) -> Bool {
        let end = ContinuousClock.now + .seconds(seconds)
        while !condition() {
            guard ContinuousClock.now < end else {
                return false
            }
            var descriptors = [server.wakeDescriptor, client.wakeDescriptor].map {
                pollfd(fd: $0, events: Int16(POLLIN), revents: 0)
            }
            _ = unsafe poll(&descriptors, 2, Int32(min(50, server.millisecondsUntilTimeout ?? 50)))
            server.run()
            for request in server.takeRequests() {
                requests.append(request)
                answer(server, request)
            }
            client.run()
            responses += client.takeResponses()
        }
        return true
    }

    /// Sends one request and waits for its result.
    func send(_ request: HTTPClientRequest) throws -> HTTPClientResponse {
        let count = responses.count
        _ = client.submit(request)
        try #require(turn { responses.count > count })
        return responses[count]
    }
}

extension HTTPClientResponse {
    var answer: Answer? {
        guard case .answered(let answer) = outcome else {
            return nil
        }
        return answer
    }

    var failure: Failure? {
        guard case .failed(let failure) = outcome else {
            return nil
        }
        return failure
    }
}

@Suite struct `An HTTP client` {
    @Test(arguments: ["GET", "PUT", "POST", "PATCH", "DELETE"])
    func `sends what it was given and hands over the answer`(method: String) throws {
        let pair = try Pair()
        pair.answer = {
            $0.respond(
                to: $1.id,
                status: 418,
                headers: [("X-Answer", "yes"), ("Retry-After", "12")],
                body: Array("short and stout".utf8)
            )
        }
        let body = method == "GET" || method == "DELETE" ? [] : Array("{}".utf8)
        let response = try pair.send(
            HTTPClientRequest(
                method: method,
                url: pair.url + "/a%20b?c=d",
                headers: [("Authorization", "Bearer x"), ("Content-Type", "application/json")],
                body: body,
                tag: 77
            )
        )
        let request = try #require(pair.requests.first)
        #expect(request.method == method)
        #expect(request.path == "/a%20b")
        #expect(request.query == "c=d")
        #expect(request.header("authorization") == "Bearer x")
        #expect(request.header("content-type") == "application/json")
        #expect(request.header("user-agent") == "test/1")
        #expect(request.header("expect") == nil)
        #expect(request.body == body)
        #expect(response.tag == 77)
        let answer = try #require(response.answer)
        #expect(answer.status == 418)
        #expect(answer.header("x-answer") == "yes")
        #expect(answer.header("retry-after") == "12")
        #expect(answer.body == Array("short and stout".utf8))
        #expect(!answer.isCut)
        #expect(answer.httpMajorVersion == 1)
        #expect(pair.client.inFlightCount == 0)
    }

    @Test func `keeps its connections`() throws {
        let pair = try Pair()
        for _ in 0..<5 {
            _ = try pair.send(HTTPClientRequest(method: "PUT", url: pair.url, body: [1]))
        }
        #expect(pair.server.connectionCount == 1)
    }

    @Test func `has no more under way than its limit, and ends them all`() throws {
        let pair = try Pair(HTTPClient.Limits(concurrency: 4))
        var held: [HTTPRequest.ID] = []
        pair.answer = { held.append($1.id) }
        for tag in 0..<40 {
            _ = pair.client.submit(
                HTTPClientRequest(method: "GET", url: pair.url, tag: UInt64(tag))
            )
        }
        #expect(pair.client.inFlightCount == 40)
        var heldCountMax = 0
        let ended = pair.turn {
            heldCountMax = max(heldCountMax, held.count)
            if held.count == 4 || pair.responses.count + held.count == 40 {
                held.forEach { pair.server.respond(to: $0, status: 200) }
                held = []
            }
            return pair.responses.count == 40
        }
        #expect(ended)
        #expect(heldCountMax == 4)
        #expect(Set(pair.responses.map(\.tag)).count == 40)
    }

    @Test func `follows no redirect`() throws {
        let pair = try Pair()
        pair.answer = { $0.respond(to: $1.id, status: 307, headers: [("Location", "/elsewhere")]) }
        let response = try pair.send(HTTPClientRequest(method: "PUT", url: pair.url, body: [1]))
        #expect(response.answer?.status == 307)
        #expect(response.answer?.header("location") == "/elsewhere")
        #expect(pair.requests.count == 1)
    }

    @Test(arguments: [(99, false), (100, false), (101, true), (500_000, true)])
    func `cuts an answer at its limit`(byteCount: Int, isCut: Bool) throws {
        let pair = try Pair(HTTPClient.Limits(responseByteCountMax: 100))
        pair.answer = {
            $0.respond(to: $1.id, status: 200, body: [UInt8](repeating: 7, count: byteCount))
        }
        let answer = try #require(
            pair.send(HTTPClientRequest(method: "GET", url: pair.url)).answer
        )
        #expect(answer.isCut == isCut)
        #expect(answer.body.count == min(byteCount, 100))
        #expect(answer.status == 200)
    }

    @Test func `calls it doubtful when the connection is reset after the request`() throws {
        let pair = try Pair()
        pair.answer = { $0.reset($1.id) }
        let response = try pair.send(HTTPClientRequest(method: "PUT", url: pair.url, body: [1]))
        #expect(response.failure?.kind == .doubtful)
        #expect(response.failure?.code == "http.reset")
    }

    @Test(arguments: ["PUT", "GET"])
    func `sends once, also where a kept connection is reset`(method: String) throws {
        let pair = try Pair()
        for _ in 0..<3 {
            _ = try pair.send(HTTPClientRequest(method: "GET", url: pair.url))
        }
        #expect(pair.server.connectionCount == 1)
        pair.answer = { $0.reset($1.id) }
        let body: [UInt8] = method == "PUT" ? [1] : []
        let response = try pair.send(HTTPClientRequest(method: method, url: pair.url, body: body))
        #expect(response.failure?.kind == .doubtful)
        #expect(response.failure?.code == "http.reset")
        #expect(pair.requests.count == 4)
    }

    @Test func `calls it doubtful when the answer breaks off`() throws {
        let pair = try Pair()
        pair.answer = { $0.respondTorn(to: $1.id, status: 200, body: Array("0123456789".utf8)) }
        let response = try pair.send(HTTPClientRequest(method: "PUT", url: pair.url, body: [1]))
        #expect(response.failure?.kind == .doubtful)
        #expect(response.failure?.code == "http.reset")
    }

    @Test func `calls it doubtful when no answer comes in time`() throws {
        let pair = try Pair(HTTPClient.Limits(totalTimeoutMilliseconds: 200))
        pair.answer = { _, _ in }
        let response = try pair.send(HTTPClientRequest(method: "PUT", url: pair.url, body: [1]))
        #expect(response.failure?.kind == .doubtful)
        #expect(response.failure?.code == "http.timeout")
        #expect(pair.requests.count == 1)
    }

    @Test(arguments: [
        ("http://127.0.0.1:1/", "http.connect"),
        ("http://host.invalid/", "http.resolve"),
        ("ftp://127.0.0.1/", "http.url"),
        ("file:///etc/passwd", "http.url"),
        ("http://", "http.url"),
    ])
    func `knows that nothing was sent`(url: String, code: String) throws {
        let pair = try Pair()
        let response = try pair.send(HTTPClientRequest(method: "PUT", url: url, body: [1]))
        #expect(response.failure?.kind == .notSent)
        #expect(response.failure?.code == code)
    }

    @Test func `knows that nothing was sent to a server that speaks no TLS`() throws {
        let pair = try Pair()
        let url = pair.url.replacing("http:", with: "https:")
        let response = try pair.send(HTTPClientRequest(method: "PUT", url: url, body: [1]))
        #expect(response.failure?.kind == .notSent)
        #expect(response.failure?.code == "http.tls")
    }

    @Test func `gives up what is cancelled, waiting or under way`() throws {
        let pair = try Pair(HTTPClient.Limits(concurrency: 1))
        pair.answer = { _, _ in }
        let first = pair.client.submit(HTTPClientRequest(method: "GET", url: pair.url + "/1"))
        let second = pair.client.submit(HTTPClientRequest(method: "GET", url: pair.url + "/2"))
        _ = pair.client.submit(HTTPClientRequest(method: "GET", url: pair.url + "/3", tag: 3))
        #expect(pair.turn { pair.requests.count == 1 })
        pair.client.cancel(first)
        pair.client.cancel(first)
        pair.client.cancel(second)
        #expect(pair.client.inFlightCount == 1)
        #expect(pair.turn { pair.requests.count == 2 })
        #expect(pair.requests[1].path == "/3")
        pair.server.respond(to: pair.requests[1].id, status: 200)
        #expect(pair.turn { pair.responses.count == 1 })
        #expect(pair.responses[0].tag == 3)
    }

    @Test func `refuses a bundle of roots that is not there`() {
        #expect(throws: HTTPClientFault.badCertificateAuthorityFile(path: "/nowhere.pem")) {
            try HTTPClient(userAgent: "x", certificateAuthorityFile: "/nowhere.pem")
        }
    }
}
