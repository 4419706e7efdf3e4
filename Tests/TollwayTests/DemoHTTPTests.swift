import HTTPServer
import Testing

@testable import tollway

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
}
