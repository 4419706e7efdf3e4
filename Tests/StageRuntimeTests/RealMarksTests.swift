import Kafka
import LocalKafka
import StageRuntime
import Testing

@Suite struct `The client library's statistics` {
    @Test func `tell the ends of every partition that is read`() throws {
        let broker = try MockBroker(topics: ["in": 2, "out": 1])
        defer { broker.close() }
        var settings = KafkaSettings(
            bootstrapServers: broker.bootstrapServers,
            clientID: "test"
        )
        settings.statisticsMilliseconds = 100
        settings.extra = ["topic.metadata.refresh.interval.ms": "100"]
        let producer = try KafkaProducer(settings: settings, targets: ["in"])
        var outputs = OutputBatch()
        for _ in 0..<3 {
            let value = outputs.place([1])
            outputs.outputs.append(
                OutputBatch.Output(topic: 0, partition: 1, key: .absent, value: value)
            )
        }
        try producer.produce(outputs, tags: [1, 2, 3])
        #expect(producer.flush(deadlineMilliseconds: 10_000))
        producer.close(deadlineMilliseconds: 1_000)

        let log = try KafkaLog(
            settings: settings,
            delivery: .atLeastOnce,
            member: KafkaLog.Member(group: "g", instance: "i", transactionalID: "t"),
            sources: ["in"],
            targets: ["out"]
        )
        defer { log.close(deadlineMilliseconds: 2_000) }
        var wanted: [TopicPartition: ConsumerStatistics.Marks] = [
            TopicPartition(topic: "in", partition: 0): .init(end: 0, lastStable: 0),
            TopicPartition(topic: "in", partition: 1): .init(end: 3, lastStable: 3),
        ]
        var statistics = ConsumerStatistics()
        func look() throws {
            let deadline = ContinuousClock.now.advanced(by: .seconds(60))
            while statistics.marks != wanted, ContinuousClock.now < deadline {
                var batch = RecordBatch()
                let event = try log.poll(into: &batch, recordCountMax: 10, waitMilliseconds: 50)
                switch event {
                case .assigning: _ = try log.completeAssignment()
                case .revoking, .lost: try log.completeRevocation()
                case nil: break
                }
                let text = log.takeStatistics()
                if !text.isEmpty {
                    statistics = try ConsumerStatistics(reading: text.span)
                }
            }
            #expect(statistics.marks == wanted)
        }
        try look()
        #expect(statistics.partitionCounts["in"] == 2)
        // The ends of what has no leader stay as they were.
        let headless = TopicPartition(topic: "in", partition: 1)
        try broker.removeLeader(of: headless)
        wanted[headless]?.isLed = false
        try look()
        // Statistics that were taken do not come again.
        while !log.takeStatistics().isEmpty {}
    }
}
