import LocalKafka
import StageRuntime
import Testing
import TokenDomain

@testable import tollway

@Suite struct `The topics of an account` {
    private static let topics: [Topic] = [
        .tokensReceived, .tokensDecoded, .dedupeState, .tokensDistinct, .reportState,
        .reportsOutcomes,
    ]

    /// Without tokens.decoded it named a loss that nothing shows, without a state no month's token.
    @Test(arguments: topics)
    func `must all be there`(missing: Topic) throws {
        let there = Self.topics.filter { $0 != missing }.map { $0.name(prefix: "t.") }
        let broker = try MockBroker(topics: there.reduce(into: [:]) { $0[$1] = 1 })
        defer { broker.close() }
        let run = try TollwayProcess.run(
            ["account", "-o", "json", "--month", "2025-01"],
            environment: [
                "TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrapServers,
                "TOLLWAY_TOPIC_PREFIX": "t.", "TOLLWAY_DELIVERY": "at-least-once",
            ]
        )
        #expect(run.exitCode == 3, "\(run.talk)\(run.output)")
        #expect(try run.errorCode() == "kafka.no_topic")
        #expect(run.output.contains("no topic \(missing.name(prefix: "t."))"), "\(run.output)")
    }
}
