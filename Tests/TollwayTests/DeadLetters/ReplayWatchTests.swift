import Dispatch
import Foundation
import Kafka
import LocalKafka
import StageRuntime
import Testing
import TokenDomain

@testable import tollway

@Suite struct `The watch of a replay` {
    private static let prefix = "t."
    private static let topic = Topic.deadLetters(.decode).name(prefix: prefix)

    /// Dead letters of others, one each 2 ms, until it is told to end or its time is over.
    private final class Flood: Sendable {
        private static let milliseconds = 15_000

        private let settings: KafkaSettings
        private let topic: String
        private let stop = DispatchSemaphore(value: 0)
        private let ended = DispatchSemaphore(value: 0)

        init(_ settings: KafkaSettings, topic: String) {
            self.settings = settings
            self.topic = topic
            let begun = DispatchSemaphore(value: 0)
            Thread { [self] in
                defer { ended.signal() }
                do {
                    try write { begun.signal() }
                } catch {
                    Issue.record(error)
                    begun.signal()
                }
            }.start()
            begun.wait()
        }

        private func write(_ begun: () -> Void) throws {
            let producer = try KafkaProducer(settings: settings, targets: [topic])
            defer { producer.close(deadlineMilliseconds: 1_000) }
            let end = ContinuousClock.now + .milliseconds(Self.milliseconds)
            var isBegun = false
            repeat {
                var outputs = OutputBatch()
                let value = outputs.place(Array("{}".utf8))
                outputs.outputs.append(.init(topic: 0, partition: 0, key: .absent, value: value))
                try producer.produce(outputs, tags: [0])
                let isStored = try !producer.takeReceipts().isEmpty
                if isStored, !isBegun {
                    begun()
                    isBegun = true
                }
            } while stop.wait(timeout: .now() + .milliseconds(2)) == .timedOut
                && ContinuousClock.now < end
            #expect(producer.flush(deadlineMilliseconds: 5_000))
        }

        func close() {
            stop.signal()
            ended.wait()
        }
    }

    /// The embedded broker says that a partition is at its end between any two records.
    @Test(.enabled(if: DeadLetterWorld.isKafkaThere, DeadLetterWorld.skipped))
    func `looks at what is there and comes back, though dead letters never cease to come`() throws {
        let world = try DeadLetterWorld(partitionCount: 1)
        let watch = try ReplayWatch(
            try Configuration(
                environment: world.environment.filter { $0.key.hasPrefix("TOLLWAY_") },
                program: .tollway
            ),
            runID: "replay-1",
            stage: .decode
        )
        let flood = Flood(
            world.settings,
            topic: Topic.deadLetters(.decode).name(prefix: world.prefix)
        )
        defer { flood.close() }
        var longest = Duration.zero
        for _ in 0..<10 {
            let start = ContinuousClock.now
            try watch.look()
            longest = max(longest, ContinuousClock.now - start)
        }
        #expect(longest < .seconds(4))
        #expect(watch.results.failedCount == 0, "they are of others")
    }

    @Test func `finds its own among the dead letters that came since it began`() throws {
        let broker = try MockBroker(topics: [Self.topic: 2])
        defer { broker.close() }
        let settings = KafkaSettings(bootstrapServers: broker.bootstrapServers, clientID: "test")
        let configuration = try Configuration(
            environment: [
                "TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrapServers,
                "TOLLWAY_TOPIC_PREFIX": Self.prefix,
            ],
            program: .tollway
        )
        func write(_ runIDs: [String]) throws {
            var maker = DeadLetterMaker(prefix: Self.prefix, seed: 1)
            for runID in runIDs {
                maker.history.replayID = runID
                try maker.write([.unknownApp], each: 3, to: settings)
            }
        }
        try write(["replay-1"])
        let watch = try ReplayWatch(configuration, runID: "replay-1", stage: .decode)
        try watch.look()
        #expect(watch.results.failedCount == 0, "of an earlier run of that name")
        try write(["replay-1", "replay-2"])
        try watch.look()
        #expect(watch.results.failedCount == 3)
        try write(["replay-2", "replay-1"])
        try watch.look()
        #expect(watch.results.failedCount == 6)
    }
}
