import Foundation
import Glibc
import HTTPClient
import HTTPServer
import Kafka
import LocalKafka
import Telemetry
import Testing
import TokenDomain
import TokenWire

@testable import ingest

/// `ingest` between a client and the embedded broker, all in one thread.
private final class BrokerBench {
    static let topics = Worker.ingest.targets.map { $0.name(prefix: "test.") }

    let broker: MockBroker
    let producer: KafkaProducer
    let server: HTTPServer
    let client: HTTPClient
    let loop: IngestLoop
    private(set) var answers: [UInt64: HTTPClientResponse.Answer] = [:]

    init() throws {
        broker = try MockBroker(
            topics: Dictionary(uniqueKeysWithValues: Self.topics.map { ($0, 4) })
        )
        producer = try KafkaProducer(
            settings: KafkaSettings(
                bootstrapServers: broker.bootstrapServers,
                clientID: "ingest-test"
            ),
            targets: Self.topics
        )
        server = try HTTPServer(
            listen: ListenAddress(host: "127.0.0.1", port: 0),
            limits: IngestRun.serverLimits
        )
        client = try HTTPClient(
            limits: HTTPClient.Limits(totalTimeoutMilliseconds: 20_000),
            userAgent: "test"
        )
        loop = IngestLoop(
            server: server,
            sink: producer,
            door: Door(
                keys: nil,
                pseudonyms: CustomerPseudonyms(key: Array("customer-key-16b".utf8)),
                notifications: nil
            ),
            clocks: IngestLoop.Clocks(
                now: { Timestamp(milliseconds: WallClock.nowMilliseconds()) },
                monotonic: { WallClock.monotonicMilliseconds() }
            ),
            measures: IngestMeasures(Metrics(), topics: Self.topics),
            log: Log(worker: "ingest", write: { _ in }),
            health: Health()
        )
    }

    func post(_ body: String, type: String = "application/json", tag: UInt64) {
        _ = client.submit(
            HTTPClientRequest(
                method: "POST",
                url: "http://127.0.0.1:\(server.port)/v1/tokens",
                headers: [("Content-Type", type)],
                body: Array(body.utf8),
                tag: tag
            )
        )
    }

    func turn(seconds: Int = 30, until condition: () -> Bool) throws -> Bool {
        let end = ContinuousClock.now + .seconds(seconds)
        while !condition() {
            guard ContinuousClock.now < end else {
                return false
            }
            var entries = [server.wakeDescriptor, client.wakeDescriptor].map {
                pollfd(fd: $0, events: Int16(POLLIN), revents: 0)
            }
            _ = unsafe poll(
                &entries,
                nfds_t(entries.count),
                Int32(min(100, loop.waitMilliseconds()))
            )
            try loop.turn()
            client.run()
            for response in client.takeResponses() {
                if case .answered(let answer) = response.outcome {
                    answers[response.tag] = answer
                }
            }
        }
        return true
    }

    /// Every value of `tokens.received`, with its key.
    func stored() throws -> [(key: String?, token: TokenReceived)] {
        let browser = try LogBrowser(
            settings: KafkaSettings(
                bootstrapServers: broker.bootstrapServers,
                clientID: "browser"
            ),
            topics: [Self.topics[0]]
        )
        try browser.start()
        var batch = RecordBatch()
        while try !browser.read(into: &batch, recordCountMax: 10_000, waitMilliseconds: 100) {}
        return try batch.records.map { record in
            (
                record.key.isAbsent
                    ? nil : String(decoding: batch.arena[record.key.indices], as: UTF8.self),
                try readToken(Array(batch.arena[record.value.indices]))
            )
        }
    }
}

@Suite(.serialized) struct `ingest on the embedded broker` {
    @Test func `stores what it accepts, once`() throws {
        let bench = try BrokerBench()
        for tag in 0..<50 {
            bench.post("{\"token\":\"single-\(tag)\"}", tag: UInt64(tag))
        }
        for tag in 50..<60 {
            let lines = (0..<100).map {
                "{\"token\":\"batch-\(tag)-\($0)\",\"customer\":\"customer-\($0)\"}\n"
            }
            bench.post(lines.joined(), type: "application/x-ndjson", tag: UInt64(tag))
        }
        #expect(try bench.turn { bench.answers.count == 60 })
        #expect(bench.answers.values.allSatisfy { $0.status == 202 })
        let stored = try bench.stored()
        #expect(stored.count == 1_050)
        #expect(Set(stored.map(\.token.token)).count == 1_050)
        #expect(stored.allSatisfy { $0.key == $0.token.customer?.text })
        #expect(Set(stored.compactMap(\.key)).count == 100)
    }

    @Test
    func `says 503 within ten seconds when the broker goes, and 202 when it is back`() throws {
        let bench = try BrokerBench()
        bench.post("{\"token\":\"before\"}", tag: 1)
        #expect(try bench.turn { bench.answers[1] != nil })
        #expect(bench.answers[1]?.status == 202)
        bench.broker.setAway(true)
        let start = ContinuousClock.now
        bench.post("{\"token\":\"during\"}", tag: 2)
        #expect(try bench.turn { bench.answers[2] != nil })
        #expect(bench.answers[2]?.status == 503)
        #expect(bench.answers[2]?.header("retry-after") != nil)
        #expect(ContinuousClock.now - start < .seconds(10))
        bench.broker.setAway(false)
        #expect(try bench.turn(seconds: 60) { !bench.producer.isBrokerAway })
        bench.post("{\"token\":\"after\"}", tag: 3)
        #expect(try bench.turn { bench.answers[3] != nil })
        #expect(bench.answers[3]?.status == 202)
        // What got 503 may be stored, once; what got 202 is.
        let tokens = try bench.stored().map(\.token.token)
        #expect(Set(tokens).count == tokens.count)
        #expect(Set(tokens).isSuperset(of: ["before", "after"]))
    }

    /// Goal: a partition without a leader keeps out only what it would store.
    @Test func `takes in what other partitions store while one stores nothing`() throws {
        let bench = try BrokerBench()
        func post(_ customer: Int, tag: Int) {
            bench.post(
                "{\"token\":\"\(tag)\",\"customer\":\"customer-\(customer)\"}",
                tag: UInt64(tag)
            )
        }
        try bench.broker.removeLeader(
            of: TopicPartition(topic: BrokerBench.topics[0], partition: 0)
        )
        let customers = 0..<40
        for customer in customers {
            post(customer, tag: customer)
        }
        #expect(try bench.turn { bench.answers.count == customers.count })
        func answered(_ status: Int) -> [Int] {
            customers.filter { bench.answers[UInt64($0)]?.status == status }
        }
        let stored = answered(202)
        #expect(stored.count + answered(503).count == customers.count)
        #expect(stored.count < customers.count)
        // Nothing has been stored for longer than the door waits: the first opens it for the rest.
        let first = try #require(stored.first)
        post(first, tag: 100)
        #expect(try bench.turn { bench.answers[100] != nil })
        for tag in 101..<110 {
            post(first, tag: tag)
        }
        #expect(try bench.turn { bench.answers.count == customers.count + 10 })
        for tag in 100..<110 {
            #expect(bench.answers[UInt64(tag)]?.status == 202)
        }
    }
}
