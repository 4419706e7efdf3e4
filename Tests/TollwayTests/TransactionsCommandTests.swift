import Kafka
import LocalKafka
import Testing
import TokenDomain

@testable import tollway

@Suite struct `tollway transactions without a leader` {
    @Test(arguments: [["list"], ["repair", "--yes"]])
    func `says of which partition it knows nothing, and not that none hangs`(
        words: [String]
    ) throws {
        let topic = Topic.tokensReceived.name(prefix: "tollway.")
        let broker = try MockBroker(topics: [topic: 2])
        defer { broker.close() }
        try broker.removeLeader(of: TopicPartition(topic: topic, partition: 1))
        let run = try TollwayProcess.run(
            ["transactions"] + words,
            environment: [
                "TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrapServers,
                "TOLLWAY_DELIVERY": "at-least-once",
            ]
        )
        #expect(run.exitCode == 6)
        #expect(run.talk.contains("not known: \(topic)/1:"), "\(run.talk)")
    }
}
