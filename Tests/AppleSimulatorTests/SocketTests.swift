import Crypto
import HTTPClient
import HTTPServer
import Testing

@testable import AppleSimulator

#if canImport(Glibc)
    import Glibc
#endif

/// A simulator on three free ports, a caller, and one app with a key.
private final class RunningSimulator {
    let simulator: AppleSimulator
    let app: SimulatedApp
    let client: HTTPClient

    init(_ change: (inout AppleSimulator.Options) -> Void = { _ in }) throws {
        app = try SimulatedApp()
        var options = AppleSimulator.Options()
        options.port = 0
        options.keys = [
            AppleSimulator.RegisteredKey(
                keyID: app.keyID,
                issuerID: app.issuerID,
                publicKeyPEM: app.key.publicKeyPEM,
                bundleIDs: [app.bundleID]
            )
        ]
        change(&options)
        simulator = try AppleSimulator(options: options)
        client = try HTTPClient(userAgent: "tests")
        simulator.start()
    }

    deinit {
        client.close()
        simulator.stop()
    }

    func register(_ ids: String...) {
        simulator.withWorld { world in
            for id in ids {
                world.register(
                    IssuedToken(
                        externalPurchaseID: id,
                        appAppleID: app.appAppleID,
                        bundleID: app.bundleID,
                        tokenCreationDate: SimulatedApp.start
                    )
                )
            }
        }
    }

    func put(_ body: String, in environment: StoreEnvironment = .production) -> HTTPClientRequest {
        HTTPClientRequest(
            method: "PUT",
            url: simulator.baseURL(environment) + "/externalPurchase/v1/reports",
            headers: [
                ("Content-Type", "application/json"),
                ("Authorization", app.authorization(at: SystemClock.now() / 1000)),
            ],
            body: Array(body.utf8)
        )
    }

    func admin(_ method: String, _ path: String, _ body: String = "") throws -> JSONValue {
        let response = send([
            HTTPClientRequest(
                method: method,
                url: simulator.adminURL + path,
                body: Array(body.utf8)
            )
        ])
        guard case .answered(let answer) = response[0] else { return .null }
        return try JSONValue(reading: answer.body)
    }

    /// Sends all at once and waits for every answer; in the order of the requests.
    func send(_ requests: [HTTPClientRequest]) -> [HTTPClientResponse.Outcome] {
        var outcomes: [UInt64: HTTPClientResponse.Outcome] = [:]
        for (index, request) in requests.enumerated() {
            var request = request
            request.tag = UInt64(index)
            _ = client.submit(request)
        }
        var wait = DescriptorWait([client.wakeDescriptor])
        while outcomes.count < requests.count {
            client.run()
            for response in client.takeResponses() { outcomes[response.tag] = response.outcome }
            if outcomes.count < requests.count {
                _ = wait.wait(milliseconds: 1000)
            }
        }
        return requests.indices.compactMap { outcomes[UInt64($0)] }
    }

    func statuses(_ requests: [HTTPClientRequest]) -> [Int] {
        send(requests).map { outcome in
            if case .answered(let answer) = outcome { answer.status } else { 0 }
        }
    }
}

@Suite struct `Over real sockets` {
    @Test func `S1: each environment has its port, and admin sees both`() throws {
        let running = try RunningSimulator()
        running.register("t", "SANDBOX_t")
        #expect(
            running.statuses([
                running.put(report(1, "t")), running.put(report(2, "SANDBOX_t"), in: .sandbox),
                running.put(report(3, "t"), in: .sandbox), running.put("nonsense"),
            ]) == [200, 200, 400, 400]
        )
        #expect(try running.admin("GET", "/reports")["count"]?.integer == 2)
        #expect(try running.admin("GET", "/requests")["count"]?.integer == 4)
        let unknown = try running.admin("GET", "/nothing")
        #expect(unknown["error"] != nil)
    }

    @Test func `S15: resets lose the answer before or after the deed`() throws {
        let running = try RunningSimulator { options in
            for text in ["reset-before:times=1", "reset-after:times=1", "torn:times=1"] {
                do { options.faults.append(try FaultRule(text)) } catch {
                    Issue.record("\(error)")
                }
            }
        }
        running.register("t")
        #expect(running.statuses([running.put(report(1, "t"))]) == [0])
        #expect(try running.admin("GET", "/reports")["count"]?.integer == 0)
        #expect(running.statuses([running.put(report(1, "t"))]) == [0])
        #expect(try running.admin("GET", "/reports")["count"]?.integer == 1)
        #expect(running.statuses([running.put(report(1, "t"))]) == [0])
        #expect(running.statuses([running.put(report(1, "t"))]) == [400])
        let counts = try running.admin("GET", "/requests")["counts"]
        #expect(counts?["production report accepted reset-after"]?.integer == 1)
        #expect(counts?["production report fault reset-before"]?.integer == 1)
    }

    @Test func `S11 and S15: while a slow answer is out, the token is busy`() throws {
        let running = try RunningSimulator()
        running.register("t", "u")
        _ = try running.admin("POST", "/faults", #"{"faults":["slow:for=400ms,times=1"]}"#)
        let outcomes = running.send([
            running.put(report(1, "t")), running.put(report(2, "t")), running.put(report(3, "u")),
        ])
        let answers = outcomes.compactMap { outcome in
            if case .answered(let answer) = outcome { answer } else { nil }
        }
        #expect(answers.map(\.status) == [200, 400, 200])
        #expect(String(decoding: answers[1].body, as: UTF8.self).contains("\"errorCode\":26,"))
        #expect(running.statuses([running.put(report(2, "t"))]) == [200])
    }

    @Test func `S18: notifications reach a server, as often as asked`() throws {
        let running = try RunningSimulator()
        running.register("t")
        let server = try HTTPServer(listen: ListenAddress(host: "127.0.0.1", port: 0))
        defer { server.close() }
        let order =
            #"{"subtype":"UNREPORTED","externalPurchaseId":"t","times":3,"#
            + #""url":"http://127.0.0.1:\#(server.port)/v1/notifications"}"#
        let made = try running.admin("POST", "/notifications", order)
        let payload = try #require(
            made["notifications"]?.elements?.first?["signedPayload"]?.text
        )
        var bodies: [[UInt8]] = []
        var wait = DescriptorWait([server.wakeDescriptor])
        while bodies.count < 3 {
            _ = wait.wait(milliseconds: server.millisecondsUntilTimeout ?? 1000)
            server.run()
            for request in server.takeRequests() {
                #expect(request.path == "/v1/notifications")
                bodies.append(request.body)
                server.respond(to: request.id, status: 200)
            }
            server.run()
        }
        #expect(Set(bodies).count == 1)
        #expect(try JSONValue(reading: bodies[0])["signedPayload"]?.text == payload)
    }

    /// The world's clock stands still, and is moved to each attempt: 157 h in an instant.
    @Test(arguments: [
        (StoreEnvironment.production, [0, 1, 13, 37, 85, 157]), (.sandbox, [0]),
    ])
    func `S18: failed deliveries come again by Apple's schedule on the world's clock`(
        environment: StoreEnvironment,
        hours: [Int64]
    ) throws {
        let running = try RunningSimulator()
        let id = environment == .sandbox ? "SANDBOX_t" : "t"
        running.register(id)
        let server = try HTTPServer(listen: ListenAddress(host: "127.0.0.1", port: 0))
        defer { server.close() }
        let start: Int64 = 1_800_000_000_000
        _ = try running.admin("PUT", "/clock", #"{"now":\#(start),"rate":0}"#)
        _ = try running.admin(
            "POST",
            "/notifications",
            #"{"subtype":"UNREPORTED","externalPurchaseId":"\#(id)","#
                + #""url":"http://127.0.0.1:\#(server.port)/"}"#
        )
        var bodies: [[UInt8]] = []
        var attempts: [JSONValue] = []
        var wait = DescriptorWait([server.wakeDescriptor])
        for (index, hour) in hours.enumerated() {
            if index > 0 {
                let due = running.simulator.withWorld(\.nextNotificationDue)
                #expect(due == start + hour * 3_600_000)
                _ = try running.admin("PUT", "/clock", #"{"now":\#(start + hour * 3_600_000)}"#)
            }
            // The answer, and then the simulator's own note of it.
            while attempts.count <= index {
                _ = wait.wait(milliseconds: bodies.count > index ? 0 : 1_000)
                server.run()
                for request in server.takeRequests() {
                    bodies.append(request.body)
                    server.respond(to: request.id, status: bodies.count == 6 ? 206 : 503)
                }
                server.run()
                let made = try running.admin("GET", "/notifications")
                attempts = made["notifications"]?.elements?.first?["sendAttempts"]?.elements ?? []
            }
        }
        #expect(bodies.count == hours.count && Set(bodies).count == 1, "the same payload each time")
        let dates = attempts.compactMap { $0["attemptDate"]?.integer }
        #expect(dates == hours.map { start + $0 * 3_600_000 })
        let results = attempts.compactMap { $0["sendAttemptResult"]?.text }
        let last = environment == .production ? ["SUCCESS"] : []
        let failed = Array(
            repeating: "UNSUCCESSFUL_HTTP_RESPONSE_CODE",
            count: hours.count - last.count
        )
        #expect(results == failed + last)
        _ = try running.admin("PUT", "/clock", #"{"advance":"30d"}"#)
        #expect(running.simulator.withWorld(\.nextNotificationDue) == nil)
    }

    @Test(arguments: [
        #"{"now":9223372036854775807}"#, #"{"now":-1}"#,
        #"{"now":253402300799999,"advance":"10d"}"#, #"{"rate":1e300}"#,
    ])
    func `a clock that nobody means is refused`(order: String) throws {
        let running = try RunningSimulator()
        #expect(try running.admin("PUT", "/clock", order)["error"]?.text != nil)
    }

    @Test func `dates at the end of time end nothing`() throws {
        let running = try RunningSimulator {
            $0.notificationURLs[.production] = "http://127.0.0.1:1/"
        }
        let answer = try running.admin(
            "POST",
            "/tokens",
            #"{"notify":true,"register":[{"externalPurchaseId":"x","appAppleId":1,"bundleId":"b","#
                + #""tokenType":"SERVICES","tokenCreationDate":253402300799999,"#
                + #""tokenExpirationDate":9223372036854775807}]}"#
        )
        #expect(answer["error"] == nil)
        #expect(try running.admin("GET", "/clock", "")["now"]?.integer != nil)
    }

    @Test func `a clock that hardly moves waits for nothing`() {
        var clock = WorldClock()
        clock.set(now: 0, rate: 1e-10, real: 0)
        #expect(clock.realDelay(until: WorldClock.settable.upperBound, real: 0) == nil)
        #expect(clock.realDelay(until: 1, real: 0) == 10_000_000_000)
    }

    @Test func `a port that is taken is refused with its address`() throws {
        let server = try HTTPServer(listen: ListenAddress(host: "127.0.0.1", port: 0))
        defer { server.close() }
        var options = AppleSimulator.Options()
        options.port = server.port
        let fault = #expect(throws: SimulatorFault.self) { try AppleSimulator(options: options) }
        #expect(fault?.description.contains("127.0.0.1:\(server.port)") == true)
    }

    @Test func `an address of IPv6 stands in brackets`() throws {
        var options = AppleSimulator.Options()
        (options.host, options.port) = ("::1", 0)
        let simulator = try AppleSimulator(options: options)
        defer { simulator.stop() }
        #expect(simulator.adminURL == "http://[::1]:\(simulator.ports.admin)")
        #expect(simulator.baseURL(.sandbox) == "http://[::1]:\(simulator.ports.sandbox)")
    }
}
