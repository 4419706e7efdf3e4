import LocalKafka
import RecordLogContract
import Synchronization
import Testing

@testable import Kafka

/// A coordinator that takes a request and does not answer: librdkafka 2.0.2 waits beyond any timeout
/// that it is given.
@Suite struct `A coordinator that hangs` {
    private static func world(_ mock: MockBroker) -> KafkaWorld {
        var settings = KafkaWorld(mock: mock).settings
        settings.watchdogMilliseconds = 1_500
        return KafkaWorld(mock: mock, delivery: .exactlyOnce, settings: settings)
    }

    private func expectUnusable(_ fault: LogFault?, _ words: String) {
        guard case .unusable(let message) = fault else {
            Issue.record("\(String(describing: fault))")
            return
        }
        #expect(message.contains(words), "\(message)")
    }

    @Test(arguments: [MockBroker.API.addOffsetsToTransaction, .endTransaction])
    func `makes the log unusable after the watchdog's time`(api: MockBroker.API) async throws {
        try await onThread {
            let mock = try MockBroker(topics: ["source": 1, "target": 1])
            defer { mock.close() }
            let world = Self.world(mock)
            let member = try Member(world, group: "g", sources: ["source"], targets: ["target"])
            defer { member.close() }
            // Answered with "try again" for as long as the test lasts.
            mock.pushErrors(Array(repeating: 14, count: 2_000), for: api)
            let place = TopicPartition(topic: "source", partition: 0)
            var outputs = OutputBatch()
            outputs.append(OutsideRecord(partition: 0, key: nil, value: [1]), topic: 0)
            try member.log.submit(outputs, positions: [place: 0])
            let start = ContinuousClock.now
            let fault = #expect(throws: LogFault.self) {
                try until(world, "nobody barks") {
                    try member.log.takeCommitResult(waitMilliseconds: 50)
                }
            }
            expectUnusable(fault, "hangs for more than 1500 ms")
            #expect(ContinuousClock.now - start > .milliseconds(1_400))
        }
    }

    /// Storing ends by itself after 30 s, unless the clock is set back meanwhile.
    ///
    /// No test waits so long: the time at which it began is moved.
    @Test func `makes the log unusable where storing records does not end`() async throws {
        try await onThread {
            let mock = try MockBroker(topics: ["source": 1, "target": 1])
            defer { mock.close() }
            let world = Self.world(mock)
            let member = try Member(world, group: "g", sources: ["source"], targets: ["target"])
            defer { member.close() }
            let log = try #require(member.log as? KafkaLog)
            try mock.removeLeader(of: TopicPartition(topic: "target", partition: 0))
            var outputs = OutputBatch()
            outputs.append(OutsideRecord(partition: 0, key: nil, value: [1]), topic: 0)
            let place = TopicPartition(topic: "source", partition: 0)
            try log.submit(outputs, positions: [place: 0])
            let committer = log.handle.committer
            try until(world, "nothing is stored") {
                _ = try log.takeCommitResult(waitMilliseconds: 10)
                return committer.state.withLock { $0.phase == .storing } ? true : nil
            }
            committer.state.withLock { $0.phaseSince = ContinuousClock.now - .seconds(31) }
            #expect(try log.takeCommitResult(waitMilliseconds: 0) == nil)
            committer.state.withLock { $0.phaseSince = ContinuousClock.now - .seconds(46) }
            let fault = #expect(throws: LogFault.self) {
                _ = try log.takeCommitResult(waitMilliseconds: 0)
            }
            expectUnusable(fault, "storing records hangs for more than 45000 ms")
        }
    }

    @Test func `makes the log unusable where nobody says which broker it is`() async throws {
        try await onThread {
            let mock = try MockBroker(topics: ["source": 1, "target": 1])
            defer { mock.close() }
            let world = Self.world(mock)
            // COORDINATOR_NOT_AVAILABLE, for as long as the test lasts.
            mock.pushErrors(Array(repeating: 15, count: 2_000), for: .findCoordinator)
            let log = try world.openLog(
                group: "g",
                instance: "a",
                sources: ["source"],
                targets: ["target"],
                changelog: nil
            )
            defer { log.close(deadlineMilliseconds: 5_000) }
            var batch = RecordBatch()
            let fault = #expect(throws: LogFault.self) {
                try until(world, "nobody barks") {
                    try log.poll(into: &batch, recordCountMax: 0, waitMilliseconds: 50)
                }
            }
            expectUnusable(fault, "transactional id over hangs for more than")
        }
    }
}
