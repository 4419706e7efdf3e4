import Kafka
import LocalKafka
import StageRuntime
import Testing
import TokenDomain

@testable import tollway

/// Goal: where the topic that should have the sales is gone, that never looks like no sales.
@Suite struct `Sales that came in` {
    private static let lane = String(repeating: "\0", count: 9)
    /// Keys of the state, as `purchases` writes them.
    private static let item = "i\0\u{1}k\(lane)order"
    private static let event = "e\0\u{1}k\(lane)order" + String(repeating: "\0", count: 8)
    private static let token = "t\0\u{1}kid-1"

    /// Topics on an embedded broker, by the keys of their records.
    private static func open(
        _ topics: [Topic: [String]]
    ) throws -> (broker: MockBroker, configuration: Configuration) {
        let names = topics.keys.map { $0.name(prefix: "t.") }
        let broker = try MockBroker(topics: names.reduce(into: [:]) { $0[$1] = 1 })
        let configuration = try Configuration(
            environment: [
                "TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrapServers,
                "TOLLWAY_TOPIC_PREFIX": "t.", "TOLLWAY_DELIVERY": "at-least-once",
            ],
            program: .tollway
        )
        for (topic, keys) in topics where !keys.isEmpty {
            let producer = try KafkaProducer(
                settings: configuration.kafka,
                targets: [topic.name(prefix: "t.")]
            )
            defer { producer.close(deadlineMilliseconds: 1_000) }
            var outputs = OutputBatch()
            for key in keys {
                let keyRange = outputs.place(key.utf8)
                outputs.append(topic: 0, key: keyRange) { $0.append(contentsOf: "{}".utf8) }
            }
            try producer.produce(outputs, tags: keys.indices.map(UInt64.init))
            try #require(producer.flush(deadlineMilliseconds: 20_000))
        }
        return (broker, configuration)
    }

    private static let isMissing = "Kafka shows no topic t.purchases.received.v1"
    private static let isEmpty = "t.purchases.received.v1 was made anew and is empty"

    @Test(
        arguments: [
            ([.purchasesOutcomes: ["k"]], isMissing), ([.purchasesState: [item]], isMissing),
            ([.purchasesReceived: [], .purchasesOutcomes: ["k"]], isEmpty),
            ([.purchasesReceived: [], .purchasesState: [token, event]], isEmpty),
            // None came in so far: the state has tokens alone.
            ([.purchasesReceived: [], .purchasesOutcomes: [], .purchasesState: [token]], nil),
            ([.purchasesState: [token]], nil), ([:], nil),
            ([.purchasesReceived: ["k"], .purchasesOutcomes: ["k"]], nil),
        ] as [([Topic: [String]], String?)]
    )
    func `cannot be counted where their topic is gone or was made anew`(
        topics: [Topic: [String]],
        sentence: String?
    ) throws {
        let (broker, configuration) = try Self.open(topics)
        defer { broker.close() }
        // Though all of it was a moment ago.
        let to = Timestamp(milliseconds: 2_000)
        var window = AccountWindow(from: Timestamp(milliseconds: 1_000), to: to, shortened: nil)
        try window.noteLostSales(configuration)
        #expect((window.from == to) == (sentence != nil))
        if let sentence {
            #expect(window.shortened?.hasSuffix(sentence) == true, "\(window)")
        } else {
            #expect(window.shortened == nil)
        }
    }

    @Test(
        arguments: [
            ([.purchasesReceived: ["k"]], true), ([.purchasesState: [item]], true),
            ([.purchasesReceived: [], .purchasesState: [token]], false), ([:], false),
            ([.purchasesReceived: ["k"], .purchasesOutcomes: []], false),
        ] as [([Topic: [String]], Bool)]
    )
    func `are missed where there is no ledger of them`(
        topics: [Topic: [String]],
        isMissed: Bool
    ) throws {
        let (broker, configuration) = try Self.open(topics)
        defer { broker.close() }
        let sentence = try LedgerReader(configuration, LedgerSelection()).missingSales()
        #expect((sentence != nil) == isMissed, "\(sentence ?? "")")
        if isMissed {
            #expect(sentence?.contains("no topic t.purchases.outcomes.v1") == true)
        }
    }
}
