import Kafka
import LocalKafka
import RecordLogContract
import Testing

/// A worker has 10 s to stop, and Kafka may be in any state meanwhile.
@Suite(.enabled(if: RealKafka.isThere, RealKafka.skipped))
struct `Closing keeps its deadline` {
    enum Broker: CaseIterable {
        case paused
        case dead
    }

    private static let deadline = Duration.seconds(2)
    /// For threads to be ended and a busy machine.
    private static let margin = Duration.milliseconds(700)

    @Test(arguments: Broker.allCases)
    func `whatever the broker does`(broker: Broker) async throws {
        try await onThread {
            let cluster = try RealKafka.cluster(nodeCount: 1)
            defer { cluster.wipe() }
            try cluster.start()
            let world = KafkaWorld(
                bootstrapServers: cluster.bootstrapServers,
                delivery: .exactlyOnce
            )
            let source = try world.makeTopic(partitionCount: 1)
            let target = try world.makeTopic(partitionCount: 1)
            let member = try Member(
                world,
                group: "closing",
                sources: [source],
                targets: [target],
                changelog: target
            )
            let log = try #require(member.log as? KafkaLog)
            let place = TopicPartition(topic: source, partition: 0)
            // The clients of a restore, which stay open.
            let reader = try log.changelogReader(
                TopicPartition(topic: target, partition: 0),
                from: 0
            )
            reader.close()
            let door = try KafkaProducer(settings: world.settings, targets: [source])
            switch broker {
            case .paused: try cluster.pause(node: 0)
            case .dead: try cluster.kill(node: 0)
            }
            // Something is under way everywhere.
            var outputs = OutputBatch()
            outputs.append(OutsideRecord(partition: 0, key: nil, value: [1]), topic: 0)
            try door.produce(outputs, tags: [1])
            try log.submit(outputs, positions: [place: 0])
            _ = try log.endOffsets(ofTopic: source)
            _ = try log.committedOffsets(ofGroup: "another", topic: source)
            let start = ContinuousClock.now
            log.close(deadlineMilliseconds: 2_000)
            let logTime = ContinuousClock.now - start
            #expect(logTime < Self.deadline + Self.margin, "the log took \(logTime)")
            let doorStart = ContinuousClock.now
            door.close(deadlineMilliseconds: 2_000)
            let doorTime = ContinuousClock.now - doorStart
            #expect(doorTime < Self.deadline + Self.margin, "the door's producer took \(doorTime)")
        }
    }
}
