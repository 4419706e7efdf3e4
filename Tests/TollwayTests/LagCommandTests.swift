import Foundation
import Kafka
import LocalKafka
import Testing
import TokenDomain

@testable import tollway

@Suite struct `tollway lag without a leader` {
    @Test func `shows what it knows where one partition has no leader, and names that one`() throws
    {
        let topic = Topic.tokensReceived.name(prefix: "tollway.")
        let broker = try MockBroker(topics: [topic: 3])
        defer { broker.close() }
        try broker.removeLeader(of: TopicPartition(topic: topic, partition: 1))
        let environment = [
            "TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrapServers,
            "TOLLWAY_DELIVERY": "at-least-once",
        ]
        let run = try TollwayProcess.run(
            ["lag", "--worker", "decode", "-o", "ndjson"],
            environment: environment
        )
        #expect(run.exitCode == 6)
        #expect(run.talk.contains("\(topic)/1"), "\(run.talk)")
        let row = try #require(try run.objects().first)
        #expect(row["lag"] is NSNull)
        let partitions = try #require(row["partitions"] as? [[String: Any]])
        #expect(partitions.map { $0["lag"] as? Int } == [0, nil, 0])
        let table = try TollwayProcess.run(["lag", "--worker", "decode"], environment: environment)
        #expect(table.output.contains("at least 0"), "\(table.output)")
    }
}
