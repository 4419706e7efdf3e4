import HTTPServer
import Kafka
import Testing

@testable import tollway

@Suite struct `The end of a demo` {
    /// With the Kafka that was named, and one of the run's own; as `ledger export` says it.
    @Test(
        arguments: [
            (
                "127.0.0.1:15249",
                "no answer from Kafka at 127.0.0.1:15249: Local: Broker transport failure"
                    + " (_TRANSPORT)"
            ),
            (nil, "Kafka: Local: Broker transport failure (_TRANSPORT)"),
        ] as [(String?, String)]
    )
    func `says which Kafka gives no answer`(servers: String?, sentence: String) {
        let failure = CommandFailure(.noKafka, code: "up.kafka", sentence)
        #expect(throws: failure) {
            try DemoInterrupted.ending("up", kafka: servers) {
                throw LogFault.unavailable(
                    code: "_TRANSPORT",
                    message: "Local: Broker transport failure"
                )
            }
        }
    }
}

@Suite struct `The requests of a demo` {
    @Test func `leave no pause short once they are over`() throws {
        let server = try HTTPServer(listen: ListenAddress(host: "127.0.0.1", port: 0))
        let http = try DemoHTTP(stop: StopSignal(), totalTimeoutMilliseconds: 200)
        http.turn = {
            server.run()
            for request in server.takeRequests() {
                server.respond(to: request.id, status: 204)
            }
            server.run()
        }
        #expect(try http.call("GET", "http://127.0.0.1:\(server.port)/")?.status == 204)
        http.turn = nil
        // The time that the request had is over in this one.
        try http.pause(milliseconds: 400)

        let start = ContinuousClock.now
        try http.pause(milliseconds: 100)

        #expect(ContinuousClock.now - start >= .milliseconds(100))
    }

    /// A simulator's listing of some elements, two a page.
    private func listing(count: Int, failsAt: Int? = nil) throws -> (port: UInt16, http: DemoHTTP) {
        let server = try HTTPServer(listen: ListenAddress(host: "127.0.0.1", port: 0))
        let http = try DemoHTTP(stop: StopSignal())
        http.turn = {
            server.run()
            for request in server.takeRequests() {
                let offset = Int(request.query.split(separator: "offset=").last ?? "") ?? 0
                let page = (offset..<min(offset + 2, count)).map { "{\"n\":\($0)}" }
                let next = offset + 2 < count ? "\(offset + 2)" : "null"
                let body = "{\"next\":\(next),\"reports\":[\(page.joined(separator: ","))]}"
                server.respond(
                    to: request.id,
                    status: offset == failsAt ? 500 : 200,
                    body: Array(body.utf8)
                )
            }
            server.run()
        }
        return (server.port, http)
    }

    @Test(arguments: [0, 1, 2, 3, 5])
    func `read a listing to its last page`(count: Int) throws {
        let (port, http) = try listing(count: count)
        var numbers: [Int] = []
        try http.list("http://127.0.0.1:\(port)/reports", "reports") { element in
            numbers.append(element["n"] as? Int ?? -1)
        }
        #expect(numbers == Array(0..<count))
    }

    @Test func `end with an error where a page of a listing does not come`() throws {
        let (port, http) = try listing(count: 5, failsAt: 2)
        #expect(throws: CommandFailure.self) {
            try http.list("http://127.0.0.1:\(port)/reports", "reports") { _ in }
        }
    }
}
