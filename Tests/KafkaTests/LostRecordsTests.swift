import CKafka
import CLibrdkafka
import LocalKafka
import RecordLogContract
import Testing

@testable import Kafka

/// Records that are removed before they were read: nothing of that may pass in silence.
@Suite(.enabled(if: RealKafka.isThere, RealKafka.skipped))
struct `Records lost before they were read` {
    /// Old enough for any retention.
    private static let longAgo: Int64 = 1_700_000_000_000

    /// A topic that keeps what is old until `age`: Kafka looks for it every few seconds.
    private func makeKeepingTopic(_ world: KafkaWorld) throws -> String {
        let topic = try world.makeTopic(partitionCount: 1)
        let admin = try world.openAdmin()
        defer { admin.close() }
        try admin.alterConfiguration(ofTopic: topic, ["retention.ms": "-1"])
        return topic
    }

    /// `time` in UNIX milliseconds; 0 is now.
    private func write(
        _ count: Int,
        byteCount: Int,
        at time: Int64 = Self.longAgo,
        to topic: String,
        _ world: KafkaWorld
    ) throws {
        let producer = try KafkaProducer(settings: world.settings, targets: [topic])
        defer { producer.close(deadlineMilliseconds: 1000) }
        var outputs = OutputBatch()
        var word: UInt64 = 88_172_645_463_325_252
        for _ in 0..<count {
            let value = outputs.place(
                (0..<byteCount).map { _ in
                    // Xorshift: bytes that do not compress.
                    word ^= word << 13
                    word ^= word >> 7
                    word ^= word << 17
                    return UInt8(truncatingIfNeeded: word)
                }
            )
            outputs.outputs.append(
                OutputBatch.Output(
                    topic: 0,
                    partition: 0,
                    timestampMilliseconds: time,
                    key: .absent,
                    value: value
                )
            )
        }
        try producer.produce(outputs, tags: (0..<count).map(UInt64.init))
        _ = producer.flush(deadlineMilliseconds: world.patienceMilliseconds)
        let receipts = try producer.takeReceipts()
        #expect(receipts.count == count && receipts.allSatisfy(\.isStored))
    }

    /// Lets retention take all that is there.
    private func age(_ topic: String, to start: Int64, _ world: KafkaWorld) throws {
        let admin = try world.openAdmin()
        defer { admin.close() }
        try admin.alterConfiguration(ofTopic: topic, ["retention.ms": "1000"])
        try until(world, "retention takes nothing") {
            try admin.startOffsets(ofTopic: topic) == [start] ? true : nil
        }
    }

    private func fault(_ work: () throws -> Void) -> LogFault? {
        #expect(throws: LogFault.self) { try work() }
    }

    @Test func `stop a worker that was away, with what it lost`() async throws {
        try await onThread {
            let world = try RealKafka.shared.world(.exactlyOnce)
            let source = try makeKeepingTopic(world)
            let target = try world.makeTopic(partitionCount: 1)
            let place = TopicPartition(topic: source, partition: 0)
            try write(10, byteCount: 10, to: source, world)
            let first = try Member(world, group: "lost", sources: [source], targets: [target])
            _ = try first.commit(OutputBatch(), positions: [place: 4])
            first.close()
            try age(source, to: 10, world)
            let seen = fault {
                _ = try Member(world, group: "lost", sources: [source], targets: [target]).close()
            }
            #expect(seen == .recordsLost(place, position: 4, start: 10, end: 10))
            // A group that never committed has lost nothing.
            let other = try Member(world, group: "new", sources: [source], targets: [target])
            #expect(other.positions == [place: 10])
            other.close()
        }
    }

    @Test func `stop a worker that reads too slowly, behind what it has`() async throws {
        try await onThread {
            let world = try RealKafka.shared.world(.exactlyOnce)
            let source = try makeKeepingTopic(world)
            let target = try world.makeTopic(partitionCount: 1)
            // More than a consumer fetches ahead.
            try write(150, byteCount: 100_000, to: source, world)
            let member = try Member(world, group: "slow", sources: [source], targets: [target])
            defer { member.close() }
            try age(source, to: 150, world)
            var batch = RecordBatch()
            let seen = fault {
                try until(world, "the loss is not told") { () throws -> Bool? in
                    _ = try member.log.poll(
                        into: &batch,
                        recordCountMax: 10,
                        waitMilliseconds: 50
                    )
                    // Skipped without an event: nothing more will be reported.
                    return batch.ends.contains { $0.offset == 150 } ? true : nil
                }
            }
            let place = TopicPartition(topic: source, partition: 0)
            let count = Int64(batch.records.count)
            #expect(batch.records.map(\.offset) == Array(0..<count))
            #expect(count < 150)
            #expect(seen == .recordsLost(place, position: count, start: 150, end: 150))
        }
    }

    /// Goal: who has read a topic to its end loses nothing by retention.
    ///
    /// Method: a transaction's marker lies behind the last record. Reading begins anew, as it does
    /// where a right was refused for a time.
    @Test func `are none where only a marker lay behind what was read`() async throws {
        try await onThread {
            let world = try RealKafka.shared.world(.exactlyOnce)
            let other = try world.makeTopic(partitionCount: 1)
            let source = try makeKeepingTopic(world)
            let target = try world.makeTopic(partitionCount: 1)
            let writer = try Member(world, group: "writer", sources: [other], targets: [source])
            defer { writer.close() }
            var outputs = OutputBatch()
            outputs.append(OutsideRecord(partition: 0, key: nil, value: [1]), topic: 0)
            let place = TopicPartition(topic: other, partition: 0)
            _ = try writer.commit(outputs, positions: [place: 0])
            let member = try Member(world, group: "idle", sources: [source], targets: [target])
            defer { member.close() }
            let log = try #require(member.log as? KafkaLog)
            func readEnd() throws {
                var batch = RecordBatch()
                try until(world, "no end came behind the marker") {
                    _ = try log.poll(into: &batch, recordCountMax: 10, waitMilliseconds: 50)
                    return batch.ends.contains { $0.offset == 2 } ? true : nil
                }
            }
            try readEnd()
            try age(source, to: 2, world)
            try log.handle.rewind(to: [])
            try readEnd()
        }
    }

    @Test func `stop a worker whose topic is shorter than its place`() async throws {
        try await onThread {
            let world = try RealKafka.shared.world(.exactlyOnce)
            let source = try world.makeTopic(partitionCount: 1)
            let target = try world.makeTopic(partitionCount: 1)
            let place = TopicPartition(topic: source, partition: 0)
            try write(10, byteCount: 10, at: 0, to: source, world)
            let admin = try world.openAdmin()
            defer { admin.close() }
            let first = try Member(world, group: "cut", sources: [source], targets: [target])
            let early = fault { try admin.commit([0: 3], ofGroup: first.group, topic: source) }
            guard case .fenced = early else {
                Issue.record("\(String(describing: early)) while the group has a member")
                return
            }
            _ = try first.commit(OutputBatch(), positions: [place: 5])
            first.close()
            // A static member stays until its session ends.
            try until(world, "the group keeps its member") {
                do throws(LogFault) {
                    try admin.commit([0: 99], ofGroup: first.group, topic: source)
                    return true
                } catch {
                    guard case .fenced = error else {
                        throw error
                    }
                    return nil
                }
            }
            let seen = fault {
                _ = try Member(world, group: "cut", sources: [source], targets: [target]).close()
            }
            #expect(seen == .recordsLost(place, position: 99, start: 0, end: 10))
        }
    }
}

/// Kafka forgets the positions of a group that was away for long.
@Suite struct `A partition without a committed offset` {
    @Test func `is told of where its first records were removed, and else not`() async throws {
        try await onThread {
            let mock = try MockBroker(topics: ["source": 3, "target": 1])
            defer { mock.close() }
            let world = KafkaWorld(mock: mock)
            try world.overfill([0, 1], of: "source")
            let places = (0..<3).map { TopicPartition(topic: "source", partition: $0) }
            func join() throws -> ([Int64?], [String]) {
                let member = try Member(world, group: "g", sources: ["source"], targets: ["target"])
                defer { member.close() }
                let log = try #require(member.log as? KafkaLog)
                let said = log.takeNotes().filter { $0.facility == "UNREAD" }
                #expect(said.allSatisfy { $0.level == 4 })
                let start = try #require(member.positions[places[0]])
                _ = try member.commit(OutputBatch(), positions: [places[0]: start])
                return (places.map { member.positions[$0] }, said.map(\.text))
            }
            let (positions, said) = try join()
            let start = try #require(positions[0])
            #expect(start > 0 && positions == [start, start, 0])
            let end =
                ", not at 0: what lay before was removed, and no offset says whether it was read"
            #expect(said == ["source/0 begins at \(start), source/1 begins at \(start)" + end])
            // The first is committed now.
            #expect(try join() == (positions, ["source/1 begins at \(start)" + end]))
        }
    }
}

/// What lies before such a position may never have been read.
@Suite(.enabled(if: RealKafka.isThere, RealKafka.skipped))
struct `A position that another program has set` {
    /// As a group tool does it, or a consumer that is in the group by mistake.
    private func set(_ places: [TopicPartition: Int64], group: String, _ world: KafkaWorld) throws {
        let settings = unsafe rd_kafka_conf_new()
        for (name, value) in [
            ("bootstrap.servers", world.settings.bootstrapServers), ("group.id", group),
        ] {
            let result = unsafe rd_kafka_conf_set(settings, name, value, nil, 0)
            #expect(result == RD_KAFKA_CONF_OK)
        }
        let client = try unsafe #require(rd_kafka_new(RD_KAFKA_CONSUMER, settings, nil, 0))
        defer { unsafe rd_kafka_destroy(client) }
        let list = unsafe PartitionList.make(places.map { ($0.key, $0.value) })
        defer { unsafe rd_kafka_topic_partition_list_destroy(list) }
        try until(world, "the coordinator takes no position") {
            let code = unsafe rd_kafka_commit(client, list, 0)
            return code == RD_KAFKA_RESP_ERR_NO_ERROR ? true : nil
        }
    }

    @Test func `is told of until a worker has set it, and one that an operator sets is not`()
        async throws
    {
        try await onThread {
            let world = try RealKafka.shared.world(.exactlyOnce)
            let source = try world.makeTopic(partitionCount: 3)
            let target = try world.makeTopic(partitionCount: 1)
            let places = (0..<3).map { TopicPartition(topic: source, partition: $0) }
            let admin = try world.openAdmin()
            defer { admin.close() }
            try admin.commit([2: 0], ofGroup: "elsewhere-\(source)", topic: source)
            try set([places[0]: 0], group: "elsewhere-\(source)", world)
            func join(committing places: [TopicPartition]) throws -> ([String], Int) {
                let member = try Member(
                    world,
                    group: "elsewhere",
                    sources: [source],
                    targets: [target]
                )
                defer { member.close() }
                let log = try #require(member.log as? KafkaLog)
                let said = log.takeNotes().filter { $0.facility == "SET_ELSEWHERE" }
                #expect(said.allSatisfy { $0.level == 4 })
                let count = log.positionsSetElsewhere
                let starts = places.map { ($0, member.positions[$0] ?? 0) }
                _ = try member.commit(
                    OutputBatch(),
                    positions: Dictionary(uniqueKeysWithValues: starts)
                )
                return (said.map(\.text), count)
            }
            let why =
                "which no worker of ours has set: what lies before and was not read is passed by"
            let told = try join(committing: [places[1]])
            #expect(told == (["\(places[0]) goes on at 0, \(why)"], 1))
            // Nobody has committed the first one since.
            #expect(try join(committing: places) == told)
            #expect(try join(committing: places) == ([], 0))
        }
    }
}
