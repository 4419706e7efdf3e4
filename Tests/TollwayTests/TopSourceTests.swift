import Kafka
import LocalKafka
import StageRuntime
import Testing
import TokenDomain

@testable import tollway

@Suite struct `A look of tollway top` {
    private static let prefix = "tollway."

    private static func source(_ broker: MockBroker) throws -> TopSource {
        let configuration = try Configuration(
            environment: [
                "TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrapServers,
                "TOLLWAY_DELIVERY": "at-least-once",
            ],
            program: .tollway
        )
        return try TopSource(configuration, addresses: ["127.0.0.1:1"])
    }

    @Test func `leaves out nothing else where a partition has no leader`() throws {
        let topic = Topic.tokensReceived.name(prefix: Self.prefix)
        let deadLetters = Topic.deadLetters(.decode).name(prefix: Self.prefix)
        let ledger = Topic.reportsOutcomes.name(prefix: Self.prefix)
        let distinct = Topic.tokensDistinct.name(prefix: Self.prefix)
        let broker = try MockBroker(topics: [topic: 2, distinct: 1, deadLetters: 2, ledger: 1])
        defer { broker.close() }
        let away = TopicPartition(topic: topic, partition: 1)
        try broker.removeLeader(of: away)
        let source = try Self.source(broker)
        defer { source.close() }
        var snapshot = source.look()
        #expect(snapshot.deadLetterTotal == 0 && snapshot.reported == [])
        #expect(snapshot.stages.first { $0.topic == "tokens.distinct.v1" }?.lag == 0)
        let stage = try #require(snapshot.stages.first { $0.topic == "tokens.received.v1" })
        #expect(stage.lag == nil && stage.partitionCount == 2)
        let trouble = snapshot.troubles.filter { $0.hasPrefix("Kafka: ") }
        #expect(trouble.count == 1 && trouble[0].contains("\(away)"), "\(snapshot.troubles)")
        let advice = TopAdvice.all(snapshot).filter { $0.what == trouble.first }
        #expect(advice.map(\.section) == ["Kafka is away"])

        try broker.removeLeader(of: TopicPartition(topic: deadLetters, partition: 0))
        let other = try Self.source(broker)
        defer { other.close() }
        snapshot = other.look()
        #expect(snapshot.deadLetterTotal == nil && !snapshot.areDeadLettersAll)
        #expect(snapshot.reported == [] && snapshot.clusterID != nil)
        #expect(snapshot.json.contains(#""deadLetterTotal":null,"areDeadLettersAll":false"#))
        let screen = TopScreen(snapshot: snapshot, width: nil, height: nil).lines
        #expect(screen.contains("DEAD LETTERS, open: not known"))
        #expect(screen.contains { $0.contains("tokens.received.v1") && $0.contains("not known") })
    }

    @Test func `finds dead letters in a topic that was made since the first one`() throws {
        let first = Topic.deadLetters(.decode).name(prefix: Self.prefix)
        let second = Topic.deadLetters(.dedupe).name(prefix: Self.prefix)
        let broker = try MockBroker(topics: [first: 1])
        defer { broker.close() }
        let source = try Self.source(broker)
        defer { source.close() }
        #expect(source.look().deadLetterTotal == 0)
        try broker.createTopic(second, partitionCount: 1)
        let settings = KafkaSettings(bootstrapServers: broker.bootstrapServers, clientID: "test")
        let producer = try KafkaProducer(settings: settings, targets: [second])
        defer { producer.close(deadlineMilliseconds: 1_000) }
        var outputs = OutputBatch()
        let value = outputs.place([UInt8(ascii: "x")])
        outputs.outputs.append(OutputBatch.Output(topic: 0, key: .absent, value: value))
        try producer.produce(outputs, tags: [0])
        try #require(producer.flush(deadlineMilliseconds: 20_000))
        var snapshot = source.look()
        for _ in 0..<100 where snapshot.deadLetterTotal == 0 {
            snapshot = source.look()
        }
        #expect(snapshot.deadLetterTotal == 1)
    }

    @Test func `counts as reported what Apple took, and not what it rejected`() throws {
        let broker = try MockBroker(
            topics: [Topic.reportsOutcomes.name(prefix: Self.prefix): 12]
        )
        defer { broker.close() }
        try LedgerMaker.write(
            [
                LedgerMaker.outcome(1, outcome: .rejected), LedgerMaker.outcome(2),
                LedgerMaker.outcome(3, outcome: .verified),
            ],
            prefix: Self.prefix,
            KafkaSettings(bootstrapServers: broker.bootstrapServers, clientID: "test")
        )
        let source = try Self.source(broker)
        defer { source.close() }
        // The ends of partitions without records, which come first, are not the end.
        let snapshot = source.look()
        #expect(snapshot.reported?.map(\.count) == [2])
        #expect(snapshot.isReportedAll)
    }
}
