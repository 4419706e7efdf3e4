import CLibrdkafka
import Foundation
import LocalKafka
import RecordLogContract
import Synchronization
import Testing

@testable import Kafka

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
            // One that reads by hand.
            let browser = try LogBrowser(settings: world.settings, topics: [source])
            try browser.start()
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
            let browserStart = ContinuousClock.now
            browser.close()
            let browserTime = ContinuousClock.now - browserStart
            #expect(browserTime < Self.deadline + Self.margin, "the browser took \(browserTime)")
        }
    }
}

/// librdkafka's own thread, which stops the partitions of a reader, hangs: made so by a callback that it
/// runs when statistics are due.
@Suite struct `Closing a reader` {
    private enum Gate {
        static let isReached = Atomic(false)
        static let isOpen = Atomic(false)
    }

    @Test func `keeps its deadline when the client library hangs`() async throws {
        try await onThread {
            // Without a broker no other thread comes by the callback.
            let settings = CText.list([
                "statistics.interval.ms", "10",
                "enabled_events", "\(RD_KAFKA_EVENT_STATS)",
            ])
            let client = try LogClient(settings: settings, deadlineMilliseconds: 1_000)
            let reader = LogReader(client: client, topics: ["t"])
            try reader.start(topic: 0, partition: 0, offset: 0)
            let queue = unsafe rd_kafka_queue_get_main(client.library)
            unsafe rd_kafka_queue_cb_event_enable(
                queue,
                { _, _ in
                    Gate.isReached.store(true, ordering: .releasing)
                    while !Gate.isOpen.load(ordering: .acquiring) {
                        _ = poll(nil, 0, 5)
                    }
                },
                nil
            )
            let patience = ContinuousClock.now + .seconds(60)
            while !Gate.isReached.load(ordering: .acquiring), ContinuousClock.now < patience {
                _ = poll(nil, 0, 5)
            }
            let isReached = Gate.isReached.load(ordering: .acquiring)
            #expect(isReached)
            let start = ContinuousClock.now
            reader.close(deadlineMilliseconds: 200)
            client.close(deadlineMilliseconds: 200)
            let time = ContinuousClock.now - start
            Gate.isOpen.store(true, ordering: .releasing)
            #expect(time > .milliseconds(390) && time < .milliseconds(1_400), "\(time)")
            unsafe rd_kafka_queue_destroy(queue)
        }
    }
}

@Suite struct `A reader` {
    /// Goal: an error that comes behind records in one read is thrown by the next one; the client
    /// library says it once.
    ///
    /// Method: two batches, so that no end is reported with the first; the answer to the second fetch
    /// takes the right to read.
    @Test func `throws what comes behind records once they are read`() async throws {
        try await onThread {
            let mock = try MockBroker(topics: ["t": 1])
            defer { mock.close() }
            let world = KafkaWorld(mock: mock)
            for value: UInt8 in [1, 2] {
                try world.write([OutsideRecord(partition: 0, key: nil, value: [value])], to: "t")
            }
            let noRight: Int32 = 29
            mock.pushErrors([0] + Array(repeating: noRight, count: 5_000), for: .fetch)
            let client = try LogClient(
                settings: world.settings.reader(isolation: .readCommitted),
                deadlineMilliseconds: 5_000
            )
            defer { client.close() }
            let reader = LogReader(client: client, topics: ["t"])
            defer { reader.close() }
            try reader.start(topic: 0, partition: 0, offset: 0)
            let queue = unsafe rd_kafka_queue_get_partition(client.library, "t", 0)
            defer { unsafe rd_kafka_queue_destroy(queue) }
            // The library's mark of a start, the record and the error.
            _ = try until(world, "nothing comes") {
                unsafe rd_kafka_queue_length(queue) == 3 ? true : nil
            }
            var batch = RecordBatch()
            try reader.read(into: &batch, recordCountMax: 100, waitMilliseconds: 0)
            #expect(batch.records.count == 1)
            let fault = #expect(throws: LogFault.self) {
                try reader.read(into: &batch, recordCountMax: 100, waitMilliseconds: 0)
            }
            guard case .misconfigured = fault else {
                Issue.record("\(String(describing: fault))")
                return
            }
        }
    }
}

/// A worker whose disk has failed closes its log, and lives on for longer than a session: what is left of
/// it would keep its partitions from others.
@Suite struct `Closing a worker` {
    /// Goal: the consumer ends, also where a transaction waits for Kafka at that moment.
    ///
    /// Method: nothing is left to the process's end, so the deadline is not used up.
    @Test(arguments: [KafkaDelivery.atLeastOnce, .exactlyOnce])
    func `ends all of it while records cannot be stored`(delivery: KafkaDelivery) async throws {
        try await onThread {
            let mock = try MockBroker(topics: ["source": 1, "target": 1])
            defer { mock.close() }
            let world = KafkaWorld(mock: mock, delivery: delivery)
            let member = try Member(world, group: "g", sources: ["source"], targets: ["target"])
            try mock.removeLeader(of: TopicPartition(topic: "target", partition: 0))
            var outputs = OutputBatch()
            outputs.append(OutsideRecord(partition: 0, key: nil, value: [1]), topic: 0)
            try member.log.submit(
                outputs,
                positions: [TopicPartition(topic: "source", partition: 0): 0]
            )
            let outcome = try member.log.takeCommitResult(waitMilliseconds: 500)
            #expect(outcome == nil)
            let start = ContinuousClock.now
            member.log.close(deadlineMilliseconds: 25_000)
            let time = ContinuousClock.now - start
            #expect(time < .seconds(12), "\(time)")
        }
    }
}
