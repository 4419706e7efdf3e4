import Kafka
import LocalKafka
import StageRuntime
import Testing
import TokenDomain

@testable import tollway

/// A broker with the topics of a deployment, and what is written to them.
final class TraceWorld {
    let topics = Topic.all.map { $0.name(prefix: "t.") }
    let broker: MockBroker
    let producer: KafkaProducer
    private var outputs = OutputBatch()

    var environment: [String: String] {
        [
            "TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrapServers,
            "TOLLWAY_TOPIC_PREFIX": "t.", "TOLLWAY_DELIVERY": "at-least-once",
        ]
    }

    /// As the operator's program reads it.
    var configuration: Configuration {
        get throws { try Configuration(environment: environment, program: .tollway) }
    }

    init() throws {
        broker = try MockBroker(
            topics: Dictionary(topics.map { ($0, 3) }, uniquingKeysWith: { first, _ in first })
        )
        producer = try KafkaProducer(
            settings: KafkaSettings(
                bootstrapServers: broker.bootstrapServers,
                clientID: "test"
            ),
            targets: topics
        )
    }

    deinit {
        producer.close(deadlineMilliseconds: 1_000)
        broker.close()
    }

    func write(_ topic: Topic, key: [UInt8]?, _ value: [UInt8], partition: Int32? = nil) throws {
        let index = try #require(topics.firstIndex(of: topic.name(prefix: "t.")))
        var output = OutputBatch.Output(
            topic: index,
            key: key.map { outputs.place($0) } ?? .absent,
            value: outputs.place(value)
        )
        if let partition {
            output.partition = partition
        }
        outputs.outputs.append(output)
    }

    func write(_ topic: Topic, key: String, _ body: (inout [UInt8]) -> Void) throws {
        var value: [UInt8] = []
        body(&value)
        try write(topic, key: Array(key.utf8), value)
    }

    func flush() throws {
        try producer.produce(outputs, tags: outputs.outputs.indices.map { UInt64($0) })
        outputs = OutputBatch()
        #expect(producer.flush(deadlineMilliseconds: 5_000))
    }

    func trace(
        _ words: [String],
        _ settings: [String: String] = [:]
    ) throws -> TollwayProcess {
        try run(["purchase", "trace"] + words, settings)
    }

    func run(
        _ words: [String],
        _ settings: [String: String] = [:]
    ) throws -> TollwayProcess {
        try TollwayProcess.run(
            words,
            environment: environment.merging(settings) { $1 }
        )
    }
}
