import Kafka
import LocalKafka
import StageRuntime
import Testing
import TokenDomain

@testable import tollway

@Suite struct `Following a report by hand` {
    /// The record was written, and with it the report: who asks again has two.
    @Test func `takes no fault of the reading for one of the order`() throws {
        let topics: [Topic] = [.reportState, .reportsOutcomes, .deadLetters(.report)]
        let broker = try MockBroker(
            topics: topics.reduce(into: [:]) { $0[$1.name(prefix: "t.")] = 1 }
        )
        defer { broker.close() }
        let configuration = try Configuration(
            environment: [
                "TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrapServers,
                "TOLLWAY_TOPIC_PREFIX": "t.", "TOLLWAY_DELIVERY": "at-least-once",
            ],
            program: .tollway
        )
        let follower = try ReportFollower(TokenID("t-1"), identifier: nil, configuration)
        // TOPIC_AUTHORIZATION_FAILED: the right to read was taken away.
        broker.pushErrors(Array(repeating: 29, count: 1_000), for: .fetch)
        let ending = follower.wait(
            for: RecordOrigin(topic: 0, partition: 0, offset: 7),
            atMost: .seconds(60),
            stop: StopSignal()
        )
        guard case .unread(let failure) = ending else {
            Issue.record("ended with \(ending)")
            return
        }
        #expect(failure.code == "kafka.refused")
        let result = ReportResult(
            order: try HandOrder("request", why: "w", now: Timestamp(milliseconds: 1)),
            place: "t.reports.requested.v1/0/7",
            number: nil,
            identifier: nil,
            ending: ending
        )
        #expect(result.json.contains(#""isWritten":true"#))
        #expect(result.json.contains(#""position":"t.reports.requested.v1/0/7","state":"written""#))
    }
}
