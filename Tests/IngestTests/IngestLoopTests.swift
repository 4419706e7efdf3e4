import Glibc
import HTTPClient
import HTTPServer
import MessageExamples
import Synchronization
import Telemetry
import Testing
import TokenDomain

@testable import ingest

/// `ingest` with sockets and without a broker, its clock in the test's hand.
final class IngestBench {
    let sink = MemorySink()
    let server: HTTPServer
    let client: HTTPClient
    let health = Health()
    let metrics = Metrics()
    private(set) var loop: IngestLoop
    private(set) var answers: [UInt64: HTTPClientResponse.Answer] = [:]
    private let clock: TestClock

    final class TestClock {
        var milliseconds: Int64 = 1_000
    }

    private final class Lines: Sendable {
        let list = Mutex<[String]>([])
    }

    private let lines = Lines()
    /// What the loop has logged.
    var logLines: [String] { lines.list.withLock { $0 } }

    /// Signs what the door takes for Apple's.
    let apple: SignedPayloads

    /// `isOpen`: whether the topics are known to be there.
    init(keys: [String] = [], isOpen: @escaping () -> Bool = { true }) throws {
        apple = try SignedPayloads()
        server = try HTTPServer(
            listen: ListenAddress(host: "127.0.0.1", port: 0),
            limits: IngestRun.serverLimits
        )
        client = try HTTPClient(userAgent: "test")
        let clock = TestClock()
        self.clock = clock
        let lines = lines
        health.setStarted()
        health.setReady()
        loop = IngestLoop(
            server: server,
            sink: sink,
            door: Door(
                keys: keys.isEmpty ? nil : BearerKeys(keys.map { Array($0.utf8) }),
                pseudonyms: nil,
                notifications: NotificationGate(roots: apple.roots, sources: nil, now: 0)
            ),
            clocks: IngestLoop.Clocks(
                now: { Timestamp(milliseconds: 1_700_000_000_000) },
                monotonic: { clock.milliseconds }
            ),
            measures: IngestMeasures(metrics, topics: ["t", "n", "a", "p"]),
            log: Log(
                worker: "ingest",
                write: { line in lines.list.withLock { $0.append(line) } }
            ),
            health: health,
            isOpen: isOpen
        )
    }

    func advance(milliseconds: Int64) {
        clock.milliseconds += milliseconds
    }

    func post(
        _ path: String,
        _ body: String,
        type: String = "application/json",
        tag: UInt64 = 0,
        key: String? = nil
    ) {
        _ = client.submit(
            HTTPClientRequest(
                method: "POST",
                url: "http://127.0.0.1:\(server.port)\(path)",
                headers: [("Content-Type", type)]
                    + (key.map { [("Authorization", "Bearer \($0)")] } ?? []),
                body: Array(body.utf8),
                tag: tag
            )
        )
    }

    func turn(seconds: Int = 10, until condition: () -> Bool) -> Bool {
        let end = ContinuousClock.now + .seconds(seconds)
        while !condition() {
            guard ContinuousClock.now < end else {
                return false
            }
            var descriptors = [server.wakeDescriptor, client.wakeDescriptor].map {
                pollfd(fd: $0, events: Int16(POLLIN), revents: 0)
            }
            _ = unsafe poll(&descriptors, 2, Int32(min(10, loop.waitMilliseconds())))
            do {
                try loop.turn()
            } catch {
                return false
            }
            client.run()
            for response in client.takeResponses() {
                if case .answered(let answer) = response.outcome {
                    answers[response.tag] = answer
                }
            }
        }
        return true
    }

    /// A request for a route that stores nothing from now on, and the time until that is noticed.
    func stall(_ route: Route) throws {
        sink.stuckTopics = [route.topic]
        let count = sink.records.count
        let body = route == .purchases ? Self.sale : "{\"token\":\"a\"}"
        post(route.rawValue, body, tag: .max)
        try #require(turn { sink.records.count == count + 1 })
        advance(milliseconds: TargetTopics.stalledAfterMilliseconds + 1)
        try loop.turn()
    }

    static let sale = "{\"externalPurchaseId\":\"a\",\(`The door of sales`.sale)}"

    /// The answer to one request.
    func answer(_ path: String, _ body: String, type: String = "application/json") throws
        -> HTTPClientResponse.Answer
    {
        answers[0] = nil
        post(path, body, type: type)
        try #require(turn { answers[0] != nil })
        return try #require(answers[0])
    }

    var rendered: String { String(decoding: metrics.render(), as: UTF8.self) }
}

@Suite struct `The loop of ingest` {
    private static let batchType = "application/x-ndjson"

    @Test(arguments: [
        ("/v1/tokens", "{\"token\":\"a\"}", "application/json", 202, "{\"accepted\":1}"),
        (
            "/v1/tokens", "{\"token\":\"a\"}\n{\"token\":\"b\"}\n", batchType, 202,
            "{\"accepted\":2}"
        ),
        (
            "/v1/account-tokens",
            "{\"appAccountToken\":\"\(`The door of ingest`.uuid)\",\"signedTransaction\":"
                + "\"\(signedText())\"}", "application/json", 202, "{\"accepted\":1}"
        ),
    ])
    func `says yes once everything is stored`(
        path: String,
        body: String,
        type: String,
        status: Int,
        text: String
    ) throws {
        let bench = try IngestBench()
        bench.sink.storesAtOnce = false
        bench.post(path, body, type: type)
        #expect(bench.turn { !bench.sink.records.isEmpty })
        let count = bench.sink.records.count
        bench.sink.settle(0..<count - 1)
        try bench.loop.turn()
        try bench.loop.turn()
        #expect(bench.server.heldRequestCount == 1)
        bench.sink.settle(count - 1..<count)
        #expect(bench.turn { bench.answers[0] != nil })
        let answer = try #require(bench.answers[0])
        #expect(answer.status == status)
        #expect(String(decoding: answer.body, as: UTF8.self) == text)
        #expect(answer.header("content-type") == "application/json")
        #expect(answer.header("x-request-id")?.count == 36)
    }

    @Test func `says no when one of many records was not stored, and only after the last`() throws {
        let bench = try IngestBench()
        bench.sink.storesAtOnce = false
        bench.post("/v1/tokens", "{\"token\":\"a\"}\n{\"token\":\"b\"}\n", type: Self.batchType)
        #expect(bench.turn { bench.sink.records.count == 2 })
        bench.sink.settle(0..<1, failure: "_MSG_TIMED_OUT")
        try bench.loop.turn()
        #expect(bench.server.heldRequestCount == 1)
        bench.sink.settle(1..<2)
        #expect(bench.turn { bench.answers[0] != nil })
        #expect(bench.answers[0]?.status == 503)
        #expect(bench.answers[0]?.header("x-request-id")?.count == 36)
        #expect(bench.answers[0]?.header("retry-after") == "5")
        #expect(bench.answers[0]?.header("content-type") == "application/problem+json")
        #expect(bench.rendered.contains("tollway_ingest_records_stored_total{topic=\"t\"} 1"))
        #expect(bench.rendered.contains("tollway_ingest_records_failed_total{topic=\"t\"} 1"))
    }

    @Test func `says which right it lacks, until a record is stored again`() throws {
        let bench = try IngestBench()
        bench.sink.storesAtOnce = false
        func store(_ index: Int, failure: String?) throws {
            bench.post("/v1/tokens", "{\"token\":\"a\"}", tag: UInt64(index))
            #expect(bench.turn { bench.sink.records.count == index + 1 })
            bench.sink.settle(index..<index + 1, failure: failure)
            #expect(bench.turn { bench.answers.count == index + 1 })
        }
        func complaint() -> String? { bench.health.ready.lines.first { $0.hasPrefix("rights: ") } }
        try store(0, failure: "TOPIC_AUTHORIZATION_FAILED")
        #expect(complaint()?.contains("tokens.received.v1: give this worker's user") == true)
        try store(1, failure: "_MSG_TIMED_OUT")
        #expect(complaint() != nil)
        try store(2, failure: nil)
        #expect(complaint() == nil)
        bench.sink.isBrokerAway = true
        bench.sink.loginRefusal = "not these credentials"
        try bench.loop.turn()
        #expect(bench.health.ready.lines.contains("kafka: not these credentials"))
    }

    @Test func `answers within its time although the broker is silent`() throws {
        let bench = try IngestBench()
        bench.sink.storesAtOnce = false
        bench.post("/v1/tokens", "{\"token\":\"a\"}")
        #expect(bench.turn { bench.sink.records.count == 1 })
        bench.advance(milliseconds: IngestLimits.answerTimeoutMilliseconds - 1)
        try bench.loop.turn()
        #expect(bench.server.heldRequestCount == 1)
        bench.advance(milliseconds: 1)
        #expect(bench.turn { bench.answers[0] != nil })
        #expect(bench.answers[0]?.status == 503)
        #expect(bench.answers[0]?.header("x-request-id")?.count == 36)
        // The receipt that comes after all is counted and answers nothing.
        bench.sink.settle(0..<1)
        try bench.loop.turn()
        #expect(bench.rendered.contains("tollway_ingest_records_stored_total{topic=\"t\"} 1"))
        #expect(try bench.answer("/v1/none", "").status == 404)
    }

    @Test func `closes the door when the queue is half full, and opens it again`() throws {
        let bench = try IngestBench()
        bench.sink.fillLevel = 0.5
        let refused = try bench.answer("/v1/tokens", "{\"token\":\"a\"}")
        #expect(refused.status == 503)
        #expect(refused.header("retry-after") == "1")
        #expect(bench.sink.records.isEmpty)
        bench.sink.fillLevel = 0.49
        #expect(try bench.answer("/v1/tokens", "{\"token\":\"a\"}").status == 202)
    }

    @Test func `closes the door while the broker is away, and is not ready`() throws {
        let bench = try IngestBench()
        bench.sink.isBrokerAway = true
        #expect(try bench.answer("/v1/tokens", "{\"token\":\"a\"}").status == 503)
        #expect(!bench.health.ready.isGood)
        #expect(bench.health.live.isGood)
        // What is wrong with a request is said all the same.
        #expect(try bench.answer("/v1/nothing", "").status == 404)
        bench.sink.isBrokerAway = false
        #expect(try bench.answer("/v1/tokens", "{\"token\":\"a\"}").status == 202)
        #expect(bench.health.ready.isGood)
    }

    /// Goal: a topic that stores nothing shuts no other's route, and its own not for ever.
    ///
    /// Method: whoever sends sales comes each time before the token that comes every 6 s.
    @Test func `lets one request a second in to a topic that stores nothing, and stays ready`()
        throws
    {
        let bench = try IngestBench()
        try bench.stall(.purchases)
        for round in 1...5 {
            bench.advance(milliseconds: round == 1 ? 0 : 6_000)
            for number in 0..<3 {
                let (count, tag) = (bench.sink.records.count, UInt64(round * 10 + number))
                bench.post("/v1/purchases", IngestBench.sale, tag: tag)
                #expect(
                    bench.turn { bench.answers[tag] != nil || bench.sink.records.count > count }
                )
                let body = String(decoding: bench.answers[tag]?.body ?? [], as: UTF8.self)
                // The others of the second; of the first round that which stalled it was its probe.
                #expect(body.contains("nothing for 5 s") == (number > 0))
                #expect(body.contains("ingest.broker_away") == (number > 0))
            }
            #expect(try bench.answer("/v1/tokens", "{\"token\":\"a\"}").status == 202)
            #expect(
                bench.health.ready.lines.contains(
                    "kafka: nothing was stored for 5 s in purchases.received.v1"
                )
            )
        }
        // Out of a balancer's list it would get no request that opens the route again.
        #expect(bench.health.ready.isGood)
        bench.sink.stuckTopics = []
        bench.sink.settle(bench.sink.records.count - 2..<bench.sink.records.count - 1)
        for _ in 0..<2 {
            #expect(try bench.answer("/v1/purchases", IngestBench.sale).status == 202)
        }
        #expect(bench.health.ready.lines == ["ready: ok"])
    }

    /// Goal: records that wait 300 s for a topic leave room for those of the others.
    @Test func `takes no more for a topic than its share of the queue`() throws {
        let bench = try IngestBench()
        bench.sink.stuckTopics = [Route.tokens.topic]
        let line = "{\"token\":\"\(String(repeating: "A", count: 9_000))\"}\n"
        let batch = String(repeating: line, count: 110)
        var answer: HTTPClientResponse.Answer?
        var count = 0
        while answer == nil, count < 20 {
            count += 1
            let before = bench.sink.records.count
            bench.post("/v1/tokens", batch, type: Self.batchType, tag: UInt64(count))
            #expect(
                bench.turn {
                    answer = bench.answers[UInt64(count)]
                    return answer != nil || bench.sink.records.count > before
                }
            )
            bench.sink.fillLevel = Double(count * batch.utf8.count) / Double(16 << 20)
        }
        #expect(answer?.status == 503)
        #expect(answer?.header("retry-after") == "1")
        // Six and a half of a megabyte, and the one that is refused.
        #expect(count == 8)
        #expect(try bench.answer("/v1/purchases", IngestBench.sale).status == 202)
        // What waits for one partition leaves the others' room.
        for index in 0..<bench.sink.records.count - 1 where index % 110 != 0 {
            bench.sink.settle(index..<index + 1)
        }
        bench.sink.stuckTopics = []
        #expect(try bench.answer("/v1/tokens", "{\"token\":\"a\"}").status == 202)
    }

    /// What was handed over before that may wait for a partition of its own.
    @Test func `is stalled only by what was handed over after the last that was stored`() throws {
        let bench = try IngestBench()
        bench.sink.stuckTopics = [Route.tokens.topic]
        bench.post("/v1/tokens", "{\"token\":\"a\"}", tag: 1)
        #expect(bench.turn { bench.sink.records.count == 1 })
        bench.sink.stuckTopics = []
        #expect(try bench.answer("/v1/tokens", "{\"token\":\"b\"}").status == 202)
        bench.advance(milliseconds: TargetTopics.stalledAfterMilliseconds + 1)
        #expect(!bench.loop.isStalled)
        bench.sink.settle(0..<1)
        try bench.stall(.tokens)
        #expect(bench.loop.isStalled)
    }

    @Test(arguments: [false, true])
    func `says when the broker answers again, also where it stores nothing yet`(isStalled: Bool)
        throws
    {
        let bench = try IngestBench()
        if isStalled {
            try bench.stall(.tokens)
        }
        bench.sink.isBrokerAway = true
        try bench.loop.turn()
        #expect(bench.logLines.contains { $0.contains("the broker does not answer") })
        bench.sink.isBrokerAway = false
        try bench.loop.turn()
        #expect(bench.logLines.contains { $0.contains("the broker answers") })
        bench.sink.settle(0..<bench.sink.records.count)
        try bench.loop.turn()
        try bench.loop.turn()
        #expect(bench.logLines.contains { $0.contains("records are stored again") } == isStalled)
        #expect(bench.health.ready.lines == ["ready: ok"])
    }

    /// As with SIGSTOP: the record was stored meanwhile.
    @Test func `hears what was stored before it calls a topic stalled`() throws {
        let bench = try IngestBench()
        bench.sink.stuckTopics = [Route.tokens.topic]
        bench.post("/v1/tokens", "{\"token\":\"a\"}", tag: 1)
        try #require(bench.turn { bench.sink.records.count == 1 })
        bench.advance(milliseconds: TargetTopics.stalledAfterMilliseconds + 1)
        bench.sink.settle(0..<1)
        bench.sink.stuckTopics = []
        #expect(try bench.answer("/v1/tokens", "{\"token\":\"b\"}").status == 202)
        #expect(!bench.logLines.contains { $0.contains("nothing was stored") })
    }

    @Test func `lets nothing in while no broker answers, stalled or not`() throws {
        let bench = try IngestBench()
        try bench.stall(.tokens)
        bench.sink.isBrokerAway = true
        let answer = try bench.answer("/v1/purchases", IngestBench.sale)
        #expect(answer.status == 503)
        #expect(String(decoding: answer.body, as: UTF8.self).contains("does not answer"))
        #expect(!bench.health.ready.isGood)
        bench.sink.isBrokerAway = false
        try bench.loop.turn()
        #expect(bench.health.ready.isGood)
    }

    @Test(arguments: ["_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_OR_PART"])
    func `says which topic is gone, until a record is stored again`(failure: String) throws {
        let bench = try IngestBench()
        bench.sink.stuckTopics = [Route.purchases.topic]
        bench.post("/v1/purchases", IngestBench.sale, tag: 1)
        #expect(bench.turn { bench.sink.records.count == 1 })
        bench.sink.settle(0..<1, failure: failure)
        #expect(bench.turn { bench.answers[1]?.status == 503 })
        let complaint = bench.health.ready.lines.first { $0.hasPrefix("topics: ") }
        #expect(complaint?.contains("purchases.received.v1") == true)
        #expect(complaint?.contains("tollway topics plan") == true)
        #expect(try bench.answer("/v1/tokens", "{\"token\":\"a\"}").status == 202)
        #expect(bench.health.ready.lines.contains { $0.hasPrefix("topics: ") })
        bench.sink.stuckTopics = []
        #expect(try bench.answer("/v1/purchases", IngestBench.sale).status == 202)
        #expect(bench.health.ready.lines == ["ready: ok"])
    }

    @Test func `hands nothing to a broker whose topics are not known, lest it make them`() throws {
        var isOpen = false
        let bench = try IngestBench(isOpen: { isOpen })
        #expect(try bench.answer("/v1/tokens", "{\"token\":\"a\"}").status == 503)
        #expect(bench.sink.records.isEmpty)
        isOpen = true
        #expect(try bench.answer("/v1/tokens", "{\"token\":\"a\"}").status == 202)
        #expect(bench.health.ready.isGood)
    }

    @Test func `does not fail the others for one that is wrong`() throws {
        let bench = try IngestBench()
        for tag in 0..<20 {
            bench.post(
                "/v1/tokens",
                tag % 2 == 0 ? "{\"token\":\"\(tag)\"}" : "nonsense",
                tag: UInt64(tag)
            )
        }
        #expect(bench.turn { bench.answers.count == 20 })
        for (tag, answer) in bench.answers {
            #expect(answer.status == (tag % 2 == 0 ? 202 : 400))
        }
        #expect(bench.sink.records.count == 10)
        #expect(
            bench.rendered.contains(
                "tollway_ingest_requests_total{route=\"/v1/tokens\",status=\"202\"} 10"
            )
        )
        #expect(
            bench.rendered.contains(
                "tollway_ingest_requests_total{route=\"/v1/tokens\",status=\"400\"} 10"
            )
        )
    }

    /// Goal: 413 says that nothing of the request is stored.
    @Test(arguments: [
        (65_500, ["MSG_SIZE_TOO_LARGE"], 413, "ingest.record_refused"),
        (65_500, ["MSG_SIZE_TOO_LARGE", "_MSG_SIZE_TOO_LARGE"], 413, "ingest.record_refused"),
        (65_500, ["MSG_SIZE_TOO_LARGE", nil], 503, "ingest.record_refused"),
        (65_500, [nil, "MSG_SIZE_TOO_LARGE"], 503, "ingest.record_refused"),
        (65_500, ["_MSG_TIMED_OUT", "MSG_SIZE_TOO_LARGE"], 503, "ingest.broker_away"),
        (65_500, ["MSG_SIZE_TOO_LARGE", "_QUEUE_FULL", nil], 503, "ingest.queue_full"),
        // The batch was too large in which they lay: a topic's limit was lowered under us.
        (1, ["MSG_SIZE_TOO_LARGE"], 503, "ingest.record_refused"),
        (1, ["MSG_SIZE_TOO_LARGE", "MSG_SIZE_TOO_LARGE"], 503, "ingest.record_refused"),
        // A topic that is compacted refuses a record without a key, whatever its size.
        (65_500, ["INVALID_RECORD"], 503, "ingest.broker_away"),
    ])
    func `refuses for their size only large records of which none is stored`(
        tokenByteCount: Int,
        failures: [String?],
        status: Int,
        code: String
    ) throws {
        let bench = try IngestBench()
        bench.sink.storesAtOnce = false
        // The largest that the door takes becomes more than 64 KiB in its envelope.
        let token = String(repeating: "a", count: tokenByteCount)
        let line = "{\"token\":\"\(token)\"}\n"
        bench.post(
            "/v1/tokens",
            String(repeating: line, count: failures.count),
            type: Self.batchType
        )
        #expect(bench.turn { bench.sink.records.count == failures.count })
        for (index, failure) in failures.enumerated() {
            bench.sink.settle(index..<index + 1, failure: failure)
        }
        #expect(bench.turn { bench.answers[0] != nil })
        let answer = try #require(bench.answers[0])
        #expect(answer.status == status)
        #expect(String(decoding: answer.body, as: UTF8.self).contains("\"\(code)\""))
        #expect((answer.header("retry-after") != nil) == (status == 503))
        #expect(answer.header("x-request-id")?.count == 36)
    }

    @Test func `answers what it holds before it stops, and takes nothing more`() throws {
        let bench = try IngestBench()
        bench.sink.storesAtOnce = false
        bench.post("/v1/tokens", "{\"token\":\"a\"}")
        #expect(bench.turn { bench.sink.records.count == 1 })
        try bench.loop.stop()
        #expect(!bench.loop.hasStopped)
        #expect(!bench.health.ready.isGood)
        bench.sink.settle(0..<1)
        #expect(bench.turn { bench.answers[0] != nil })
        #expect(bench.answers[0]?.status == 202)
        #expect(bench.answers[0]?.header("connection") == "close")
        #expect(bench.turn { bench.loop.hasStopped })
        bench.loop.end()
    }

    /// Goal: what a client has sent when SIGTERM comes is answered, and not reset.
    @Test func `takes in what lies in the socket of a kept connection when it stops`() throws {
        let bench = try IngestBench()
        #expect(try bench.answer("/v1/tokens", "{\"token\":\"a\"}").status == 202)
        bench.post("/v1/tokens", "{\"token\":\"b\"}", tag: 1)
        bench.client.run()
        #expect(bench.server.connectionCount == 1)
        try bench.loop.stop()
        #expect(bench.turn { bench.loop.hasStopped })
        bench.loop.end()
        #expect(bench.turn { bench.answers[1] != nil })
        #expect(bench.answers[1]?.status == 202)
        #expect(bench.sink.records.count == 2)
    }

    @Test func `stops in time although the broker is silent, and says so to who waits`() throws {
        let bench = try IngestBench()
        bench.sink.storesAtOnce = false
        bench.post("/v1/tokens", "{\"token\":\"a\"}")
        #expect(bench.turn { bench.sink.records.count == 1 })
        try bench.loop.stop()
        bench.advance(milliseconds: IngestLimits.stopTimeoutMilliseconds - 1)
        try bench.loop.turn()
        #expect(!bench.loop.hasStopped)
        bench.advance(milliseconds: 1)
        #expect(bench.loop.hasStopped)
        bench.loop.end()
        let end = ContinuousClock.now + .seconds(10)
        while bench.client.inFlightCount > 0, ContinuousClock.now < end {
            var entry = pollfd(fd: bench.client.wakeDescriptor, events: Int16(POLLIN), revents: 0)
            _ = unsafe poll(&entry, 1, 100)
            bench.client.run()
            for response in bench.client.takeResponses() {
                guard case .answered(let answer) = response.outcome else {
                    Issue.record("the connection was dropped instead")
                    return
                }
                #expect(answer.status == 503)
            }
        }
        #expect(bench.client.inFlightCount == 0)
    }
}
