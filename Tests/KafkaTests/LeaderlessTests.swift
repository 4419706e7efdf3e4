import Kafka
import LocalKafka
import RecordLogContract
import Testing

/// A partition whose replicas are all away: the others of the same worker are there.
@Suite struct `A partition without a leader` {
    private static let led = TopicPartition(topic: "source", partition: 0)
    private static let headless = TopicPartition(topic: "source", partition: 1)

    /// `committed` are the positions of the group when its worker begins; `start` is that of the
    /// partition without a leader.
    private func readOn(from committed: [TopicPartition: Int64], start: Int64) throws {
        let mock = try MockBroker(topics: ["source": 2, "target": 1])
        defer { mock.close() }
        let world = KafkaWorld(mock: mock)
        try world.write(
            [(0, 1), (0, 2), (1, 3)].map { OutsideRecord(partition: $0, key: nil, value: [$1]) },
            to: "source"
        )
        let first = try Member(world, group: "g", sources: ["source"], targets: ["target"])
        _ = try first.commit(OutputBatch(), positions: committed)
        first.close()
        try mock.removeLeader(of: Self.headless)
        // Where the starts cannot be told, this ends with the fault of that.
        let member = try Member(world, group: "g", sources: ["source"], targets: ["target"])
        defer { member.close() }
        #expect(member.positions == [Self.led: 1, Self.headless: start])
        let led = try member.read(count: 1)
        #expect(led.arena[led.records[0].value.indices] == [2])
        try mock.setLeader(of: Self.headless, to: 1)
        let late = try member.read(count: 1)
        #expect(late.arena[late.records[0].value.indices] == [3])
    }

    @Test func `keeps no worker from the others, and is read on once it has one`() async throws {
        try await onThread { try readOn(from: [Self.led: 1, Self.headless: 0], start: 0) }
    }

    /// Many partitions of a topic that has few records are such.
    ///
    /// The start is unknown: a 0 would be
    /// committed, and were records removed from there, no later start could begin.
    @Test func `keeps no worker from the others where nothing was ever read of it`() async throws {
        try await onThread { try readOn(from: [Self.led: 1], start: -1) }
    }

    @Test func `is begun with what there is by a restart, where its first records are gone`()
        async throws
    {
        try await onThread {
            let mock = try MockBroker(topics: ["source": 2, "target": 1])
            defer { mock.close() }
            let world = KafkaWorld(mock: mock)
            try world.overfill([Self.headless.partition], of: "source")
            try mock.removeLeader(of: Self.headless)
            func join() throws -> Member {
                try Member(world, group: "g", sources: ["source"], targets: ["target"])
            }
            let first = try join()
            #expect(first.positions == [Self.led: 0, Self.headless: -1])
            try mock.setLeader(of: Self.headless, to: 1)
            let fault = #expect(throws: LogFault.self) { _ = try first.read(count: 1) }
            first.close()
            guard case .unusable(let message)? = fault else {
                Issue.record("\(String(describing: fault))")
                return
            }
            #expect(message.contains("nothing of it is committed, and a restart begins"))
            let second = try join()
            defer { second.close() }
            #expect(try #require(second.positions[Self.headless]) > 0)
        }
    }
}
