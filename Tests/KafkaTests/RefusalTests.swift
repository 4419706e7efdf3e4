import Kafka
import LocalKafka
import RecordLogContract
import Testing

/// A right that was taken away, or a topic that was deleted, while a worker runs: Kafka is there, and
/// waiting alone mends nothing.
@Suite struct `What Kafka refuses a running worker` {
    /// TOPIC_AUTHORIZATION_FAILED.
    private static let noRight: Int32 = 29

    @Test func `ends it with the topic that it may not read any more`() async throws {
        try await onThread {
            let mock = try MockBroker(topics: ["source": 1, "target": 1])
            defer { mock.close() }
            let world = Self.world(mock)
            let member = try Member(world, group: "g", sources: ["source"], targets: ["target"])
            defer { member.close() }
            mock.pushErrors(Array(repeating: Self.noRight, count: 5_000), for: .fetch)
            let fault = #expect(throws: LogFault.self) {
                var batch = RecordBatch()
                try until(world, "it goes on for ever") {
                    _ = try member.log.poll(into: &batch, recordCountMax: 10, waitMilliseconds: 50)
                    return nil as Bool?
                }
            }
            try Self.expectEnd(fault, naming: ["the topic source", "TOPIC_AUTHORIZATION_FAILED"])
        }
    }

    /// Kafka refuses the records themselves, or to take their partition into the transaction.
    @Test(arguments: [MockBroker.API.produce, .addPartitionsToTransaction])
    func `ends it where it may not write any more`(api: MockBroker.API) async throws {
        try await onThread {
            let mock = try MockBroker(topics: ["source": 1, "target": 1])
            defer { mock.close() }
            let world = Self.world(mock)
            let member = try Member(world, group: "g", sources: ["source"], targets: ["target"])
            defer { member.close() }
            mock.pushErrors(Array(repeating: Self.noRight, count: 5_000), for: api)
            let place = TopicPartition(topic: "source", partition: 0)
            let fault = #expect(throws: LogFault.self) {
                try until(world, "it goes on for ever") {
                    var outputs = OutputBatch()
                    outputs.append(OutsideRecord(partition: 0, key: nil, value: [1]), topic: 0)
                    try member.log.submit(outputs, positions: [place: 0])
                    try until(world, "no outcome") {
                        try member.log.takeOutcome(waitMilliseconds: 50)
                    }
                    return nil as Bool?
                }
            }
            let what = api == .produce ? "target" : "a topic that it writes"
            try Self.expectEnd(fault, naming: [what, "TOPIC_AUTHORIZATION_FAILED"])
        }
    }

    @Test(.enabled(if: RealKafka.isThere, RealKafka.skipped))
    func `ends it with the topic that was deleted`() async throws {
        try await onThread {
            var settings = try RealKafka.shared.world(.exactlyOnce).settings
            settings.extra["topic.metadata.refresh.interval.ms"] = "500"
            settings.watchdogMilliseconds = 3_000
            let world = KafkaWorld(
                bootstrapServers: settings.bootstrapServers,
                settings: settings
            )
            let source = try world.makeTopic(partitionCount: 1)
            let target = try world.makeTopic(partitionCount: 1)
            let member = try Member(world, group: "g", sources: [source], targets: [target])
            defer { member.close() }
            let admin = try world.openAdmin()
            defer { admin.close() }
            try admin.deleteTopics([source])
            let log = try #require(member.log as? KafkaLog)
            var seen: String?
            let fault = #expect(throws: LogFault.self) {
                var batch = RecordBatch()
                try until(world, "it goes on for ever") {
                    let event = try log.poll(
                        into: &batch,
                        recordCountMax: 10,
                        waitMilliseconds: 50
                    )
                    seen = seen ?? log.refusal
                    switch event {
                    case .revoking, .lost: try log.completeRevocation()
                    case .assigning: _ = try log.completeAssignment()
                    case nil: break
                    }
                    return nil as Bool?
                }
            }
            #expect(seen?.contains(source) == true)
            try Self.expectEnd(fault, naming: [source, "is not there any more"])
        }
    }

    private static func world(_ mock: MockBroker) -> KafkaWorld {
        var settings = KafkaWorld(mock: mock).settings
        settings.watchdogMilliseconds = 1_500
        return KafkaWorld(mock: mock, delivery: .exactlyOnce, settings: settings)
    }

    private static func expectEnd(_ fault: LogFault?, naming words: [String]) throws {
        guard case .misconfigured(let message) = fault else {
            Issue.record("\(String(describing: fault))")
            return
        }
        for word in words {
            #expect(message.contains(word), "\(message)")
        }
    }
}
