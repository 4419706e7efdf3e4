import Kafka
import LocalKafka
import Testing
import TokenDomain

@testable import tollway

@Suite struct `The open dead letters of tollway top` {
    private static let prefix = "tollway."

    private static func write(
        _ records: [(key: String, value: String)],
        to topic: String,
        _ settings: KafkaSettings
    ) throws {
        let producer = try KafkaProducer(settings: settings, targets: [topic])
        defer { producer.close(deadlineMilliseconds: 1_000) }
        var outputs = OutputBatch()
        for record in records {
            let key = outputs.place(Array(record.key.utf8))
            let value = outputs.place(Array(record.value.utf8))
            outputs.outputs.append(OutputBatch.Output(topic: 0, key: key, value: value))
        }
        try producer.produce(outputs, tags: outputs.outputs.map { _ in 0 })
        try #require(producer.flush(deadlineMilliseconds: 20_000))
    }

    @Test func `never count as all after a record about a replay that cannot be read`() throws {
        let topic = Topic.deadLetters(.decode).name(prefix: Self.prefix)
        let replays = Topic.deadLetterReplays.name(prefix: Self.prefix)
        let broker = try MockBroker(topics: [topic: 1, replays: 1])
        defer { broker.close() }
        let settings = KafkaSettings(
            bootstrapServers: broker.bootstrapServers,
            clientID: "test"
        )
        try Self.write([("a", "x"), ("b", "x"), ("c", "x")], to: topic, settings)
        let deadLetters = try TopDeadLetters(
            settings: settings,
            prefix: Self.prefix,
            stages: [.decode],
            hasReplays: true
        )
        defer { deadLetters.close() }
        for _ in 0..<400 where !deadLetters.isRead {
            try deadLetters.look()
        }
        #expect(deadLetters.isComplete && deadLetters.total == 3)
        let value = #"{"state":"replayed","letterTimestamp":1}"#
        try Self.write(
            [("\(topic)/0/0", "nonsense"), ("\(topic)/0/1", value)],
            to: replays,
            settings
        )
        for _ in 0..<400 where deadLetters.total == 3 {
            try deadLetters.look()
        }
        // What lies behind it is taken in all the same.
        #expect(deadLetters.total == 2)
        try deadLetters.look()
        #expect(deadLetters.failure?.code == "dlq.bad_replay_record" && !deadLetters.isComplete)
    }
}
