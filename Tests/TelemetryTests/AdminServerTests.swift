import Glibc
import HTTPClient
import Synchronization
import Telemetry
import Testing

@Suite struct `The admin port` {
    /// Asks the running server, and waits for its answer.
    private func ask(
        _ server: AdminServer,
        _ path: String,
        method: String = "GET",
        host: String? = nil
    ) throws -> HTTPClientResponse.Answer {
        let client = try HTTPClient(userAgent: "test")
        defer { client.close() }
        let url = "http://127.0.0.1:\(server.port)\(path)"
        _ = client.submit(
            HTTPClientRequest(
                method: method,
                url: url,
                headers: host.map { [("Host", $0)] } ?? []
            )
        )
        while true {
            client.run()
            if let response = client.takeResponses().first {
                switch response.outcome {
                case .answered(let answer): return answer
                case .failed(let failure): throw failure
                }
            }
            var entry = pollfd(fd: client.wakeDescriptor, events: Int16(POLLIN), revents: 0)
            _ = unsafe poll(&entry, 1, 1_000)
        }
    }

    private func server(
        _ health: Health = Health(),
        listen: String = "127.0.0.1:0",
        hosts: [String] = []
    ) throws -> AdminServer {
        let metrics = Metrics()
        metrics.counter("a_total", help: "A.").add(3)
        return try AdminServer(listen: listen, hosts: hosts, metrics: metrics, health: health) {
            Array(#"{"worker":"decode"}"#.utf8)
        }
    }

    @Test func `answers probes, metrics and status from its own thread`() throws {
        let health = Health()
        let server = try server(health)
        server.start()
        defer { server.stop() }
        #expect(try ask(server, "/livez").status == 200)
        #expect(try ask(server, "/readyz").status == 503)
        health.setStarted()
        health.setReady()
        #expect(try ask(server, "/readyz").status == 200)
        let metrics = try ask(server, "/metrics")
        #expect(metrics.header("content-type") == "text/plain; version=0.0.4; charset=utf-8")
        #expect(String(decoding: metrics.body, as: UTF8.self).hasSuffix("tollway_a_total 3\n"))
        let status = try ask(server, "/debug/status")
        #expect(status.header("content-type") == "application/json")
        #expect(status.body == Array(#"{"worker":"decode"}"#.utf8))
        let refusal = try ask(server, "/metrics", method: "DELETE")
        #expect(refusal.status == 405)
        #expect(refusal.header("allow") == "GET, HEAD")
    }

    /// Whoever reaches the port may ask without end: an orchestrator's probe must find a place all the same.
    @Test func `answers probes among many that ask one thing after the other`() throws {
        let server = try server()
        server.start()
        defer { server.stop() }
        let requests = Array(
            String(repeating: "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", count: 100).utf8
        )
        var descriptors: [Int32] = []
        defer { descriptors.forEach { _ = close($0) } }
        for _ in 0..<300 {
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            try #require(descriptor >= 0)
            descriptors.append(descriptor)
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = server.port.bigEndian
            address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
            let isConnected = unsafe withUnsafePointer(to: &address) { pointer in
                unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                    unsafe connect(descriptor, pointer, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
            try #require(isConnected == 0)
            _ = unsafe send(descriptor, requests, requests.count, Int32(MSG_NOSIGNAL))
            if descriptors.count % 10 == 0 {
                #expect(try ask(server, "/livez").status == 200)
            }
        }
    }

    /// A page can let its own name point to this machine; what it then reads is this.
    @Test func `answers to addresses and to the names it was given`() throws {
        let health = Health()
        let server = try server(health, hosts: ["decode"])
        server.start()
        defer { server.stop() }
        for host in ["127.0.0.1", "10.0.0.7:9402", "[::1]:9402", "localhost:1", "Decode:9402"] {
            #expect(try ask(server, "/livez", host: host).status == 200, "\(host)")
        }
        for path in ["/livez", "/metrics", "/debug/status", "/none"] {
            let answer = try ask(server, path, host: "rebound.example:9402")
            #expect(answer.status == 421)
            #expect(answer.header("content-type") == "application/problem+json")
            let text = String(decoding: answer.body, as: UTF8.self)
            #expect(text.contains(#""code":"admin.misdirected""#))
        }
    }

    @Test func `tells of a loop that is stuck, with its age`() throws {
        let time = Mutex<Int64>(0)
        let health = Health(now: { time.withLock { $0 } })
        health.setStarted()
        health.setReady()
        let server = try server(health)
        server.start()
        defer { server.stop() }
        #expect(try ask(server, "/livez").status == 200)
        // The loop does not run any more; only the admin thread does.
        time.withLock { $0 = Health.stuckAfterMilliseconds }
        let answer = try ask(server, "/livez?verbose")
        #expect(answer.status == 503)
        #expect(
            String(decoding: answer.body, as: UTF8.self) == "loop: failed, last turn 60000 ms ago\n"
        )
        health.beat()
        #expect(try ask(server, "/livez").status == 200)
    }

    @Test func `stops when told to, also twice, also before it started`() throws {
        let server = try server()
        server.stop()
        server.start()
        #expect(try ask(server, "/livez?verbose").status == 200)
        server.stop()
        server.stop()
        #expect(throws: HTTPClientResponse.Failure.self) { try ask(server, "/livez") }
    }

    @Test func `says which address it cannot have`() throws {
        let first = try server()
        let taken = "127.0.0.1:\(first.port)"
        for listen in [taken, "192.0.2.1:80", "nonsense", ""] {
            let fault = #expect(throws: AdminServerFault.self) { try server(listen: listen) }
            guard case .cannotListen(let address, let because) = fault else {
                Issue.record("\(listen) was taken")
                continue
            }
            #expect(address == listen)
            #expect(!because.isEmpty)
        }
    }
}
