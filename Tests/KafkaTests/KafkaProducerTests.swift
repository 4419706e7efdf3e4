import Foundation
import LocalKafka
import RecordLogContract
import Testing

@testable import Kafka

@Suite struct `The producer of ingest` {
    private static func outputs(_ values: [UInt8]) -> OutputBatch {
        var outputs = OutputBatch()
        for value in values {
            outputs.append(OutsideRecord(partition: 0, key: nil, value: [value]), topic: 0)
        }
        return outputs
    }

    /// Of a broker in memory with the topic `t`.
    private static func withProducer(
        queueByteCountMax: Int = 32 << 20,
        _ work: @escaping @Sendable (MockBroker, KafkaWorld, KafkaProducer) throws -> Void
    ) async throws {
        try await onThread {
            let mock = try MockBroker(topics: ["t": 1])
            defer { mock.close() }
            let world = KafkaWorld(mock: mock)
            let producer = try KafkaProducer(
                settings: world.settings,
                targets: ["t"],
                queueByteCountMax: queueByteCountMax
            )
            defer { producer.close(deadlineMilliseconds: 1000) }
            try work(mock, world, producer)
        }
    }

    /// Takes receipts until there are so many.
    private static func receipts(
        of producer: KafkaProducer,
        count: Int,
        world: KafkaWorld
    ) throws -> [KafkaProducer.Receipt] {
        var receipts: [KafkaProducer.Receipt] = []
        try until(world, "\(receipts.count) of \(count) receipts") {
            var wakes = pollfd(fd: producer.wakeDescriptor, events: Int16(POLLIN), revents: 0)
            _ = unsafe poll(&wakes, 1, 100)
            receipts += try producer.takeReceipts()
            return receipts.count >= count ? true : nil
        }
        return receipts
    }

    @Test func `gives each output one receipt with its tag`() async throws {
        try await Self.withProducer { _, world, producer in
            try producer.produce(Self.outputs([1, 2, 3]), tags: [7, UInt64.max, 9])
            #expect(producer.waitingCount == 3)
            let receipts = try Self.receipts(of: producer, count: 3, world: world)
            #expect(receipts.map(\.tag) == [7, UInt64.max, 9])
            #expect(receipts.map(\.failure) == [nil, nil, nil])
            #expect(producer.waitingCount == 0 && producer.fillLevel == 0)
        }
    }

    @Test func `puts the deliveries of neighbours with one tag into one receipt`() async throws {
        try await Self.withProducer(queueByteCountMax: 4) { _, world, producer in
            // The last two find no room: known at once, before what is stored.
            try producer.produce(Self.outputs([1, 2, 3, 4, 5, 6]), tags: [7, 7, 8, 7, 7, 7])
            #expect(producer.flush(deadlineMilliseconds: world.patienceMilliseconds))
            let receipts = try producer.takeReceipts()
            #expect(receipts.map(\.tag) == [7, 7, 8, 7])
            #expect(receipts.map(\.outputCount) == [2, 2, 1, 1])
            #expect(receipts.map(\.failure) == ["_QUEUE_FULL", nil, nil, nil])
            // A receipt that was returned does not come again, and is not added to.
            try producer.produce(Self.outputs([7]), tags: [7])
            #expect(producer.flush(deadlineMilliseconds: world.patienceMilliseconds))
            #expect(try producer.takeReceipts().map(\.outputCount) == [1])
        }
    }

    /// Records of one letter: tag, value and, in one place of the arena for each letter, their header.
    private static func lettered(_ letters: String) -> (outputs: OutputBatch, tags: [UInt64]) {
        var outputs = OutputBatch()
        var places: [Character: ByteRange] = [:]
        for letter in letters {
            var place = places[letter]
            if place == nil, letter != "-" {
                let start = outputs.arena.count
                HeaderList.append(name: "h".utf8, value: "\(letter)".utf8, to: &outputs.arena)
                place = outputs.placed(from: start)
                places[letter] = place
            }
            outputs.append(OutsideRecord(partition: 0, key: nil, value: []), topic: 0)
            outputs.outputs[outputs.outputs.count - 1].headers =
                place ?? ByteRange(start: 0, count: 0)
        }
        return (outputs, letters.utf8.map { UInt64($0) })
    }

    @Test func `writes to each record its headers, also where several have the same`() async throws
    {
        try await Self.withProducer { _, world, producer in
            let letters = "aaab--baac"
            let (outputs, tags) = Self.lettered(letters)
            try producer.produce(outputs, tags: tags)
            try producer.produce(outputs, tags: [UInt64](repeating: 7, count: tags.count))
            #expect(producer.flush(deadlineMilliseconds: world.patienceMilliseconds))
            let written = try world.contents(of: "t").map { record in
                record.headers.map { String(decoding: $0.value ?? [], as: UTF8.self) }.joined()
            }
            let wanted = letters.map { $0 == "-" ? "" : "\($0)" }
            #expect(written == wanted + wanted)
            let counts = try producer.takeReceipts().map(\.outputCount)
            #expect(counts == [3, 1, 2, 1, 2, 1, 10])
        }
    }

    /// Goal: what they share is freed once, whatever their results are.
    @Test func `gives up records that share their headers when it is closed`() async throws {
        try await Self.withProducer { mock, world, producer in
            let (outputs, tags) = Self.lettered(String(repeating: "aab-", count: 50))
            try producer.produce(outputs, tags: tags)
            _ = try Self.receipts(of: producer, count: 150, world: world)
            // In the queue, and on the way.
            mock.setAway(true)
            try producer.produce(outputs, tags: tags)
            #expect(!producer.flush(deadlineMilliseconds: 100))
            producer.close(deadlineMilliseconds: 0)
        }
    }

    @Test func `says that the broker is away, refuses what has no room, and stores it later`()
        async throws
    {
        try await Self.withProducer(queueByteCountMax: 10) { mock, world, producer in
            try producer.produce(Self.outputs([1]), tags: [1])
            _ = try Self.receipts(of: producer, count: 1, world: world)
            mock.setAway(true)
            try producer.produce(Self.outputs(Array(0..<11)), tags: (0..<11).map { $0 })
            let refused = try Self.receipts(of: producer, count: 1, world: world)
            #expect(refused.map(\.tag) == [10] && refused[0].failure == "_QUEUE_FULL")
            #expect(producer.fillLevel == 1)
            let lost = ContinuousClock.now
            try until(world, "nobody said that the broker is away") {
                _ = try producer.takeReceipts()
                return producer.isBrokerAway ? true : nil
            }
            #expect(ContinuousClock.now - lost < .seconds(10), "too late for the caller")
            mock.setAway(false)
            let stored = try Self.receipts(of: producer, count: 10, world: world)
            #expect(stored.map(\.tag).sorted() == Array(0..<10))
            #expect(stored.map(\.failure) == Array(repeating: nil, count: 10))
            #expect(!producer.isBrokerAway)
        }
    }

    @Test func `takes a new client after an error that ends the first`() async throws {
        try await Self.withProducer { mock, world, producer in
            mock.pushErrors([45], for: .produce)  // OUT_OF_ORDER_SEQUENCE_NUMBER
            try producer.produce(Self.outputs([1]), tags: [1])
            let failed = try Self.receipts(of: producer, count: 1, world: world)
            #expect(failed.map(\.isStored) == [false])
            mock.clearErrors(for: .produce)
            _ = try producer.takeReceipts()
            try producer.produce(Self.outputs([2]), tags: [2])
            let stored = try Self.receipts(of: producer, count: 1, world: world)
            #expect(stored.map(\.tag) == [2] && stored[0].isStored)
        }
    }

    /// Goal: a topic that takes little at once refuses no record for the size of its batch.
    @Test(arguments: [
        (1_048_588, "262144"), (262_144, "262144"), (262_143, "262143"), (20_000, "20000"),
    ])
    func `keeps its batches within what the targets take`(limit: Int, batchSize: String) {
        #expect(Self.setting("batch.size", topicByteCountMax: limit) == batchSize)
    }

    /// Goal: stored is what a failure of one broker keeps, in order, and where other clients look.
    @Test(arguments: [
        ("acks", "all"), ("enable.idempotence", "true"), ("partitioner", "murmur2_random"),
        ("message.timeout.ms", "300000"),
    ])
    func `has the settings that its promises need`(name: String, value: String) {
        #expect(Self.setting(name) == value)
    }

    /// What the client gets under a name.
    private static func setting(_ name: String, topicByteCountMax: Int = 1 << 20) -> String? {
        let settings = KafkaSettings(bootstrapServers: "127.0.0.1:1", clientID: "test")
        let texts = settings.ingestProducer(
            queueByteCountMax: 1 << 20,
            topicByteCountMax: topicByteCountMax
        )
        .split(separator: 0)
        .map { String(decoding: $0.map { UInt8(bitPattern: $0) }, as: UTF8.self) }
        // What is given later wins.
        return texts.lastIndex(of: name).map { texts[$0 + 1] }
    }

    @Test func `stores with a new client after its batches were limited`() async throws {
        try await Self.withProducer { _, world, producer in
            try producer.limitBatches(topicByteCountMax: 20_000, settings: world.settings)
            #expect(!producer.isBrokerAway)
            producer.nameTargets()
            try producer.produce(Self.outputs([1]), tags: [1])
            let stored = try Self.receipts(of: producer, count: 1, world: world)
            #expect(stored.map(\.tag) == [1] && stored[0].isStored)
        }
    }

    @Test func `takes nothing of a batch with a record that is too large`() throws {
        let settings = KafkaSettings(bootstrapServers: "127.0.0.1:1", clientID: "test")
        let producer = try KafkaProducer(settings: settings, targets: ["t"])
        defer { producer.close(deadlineMilliseconds: 0) }
        var outputs = Self.outputs([1])
        let value = [UInt8](repeating: 0, count: KafkaProducer.recordByteCountMax + 1)
        outputs.append(OutsideRecord(partition: 0, key: nil, value: value), topic: 0)
        #expect(
            throws: LogFault.recordTooLarge(
                outputIndex: 1,
                byteCount: KafkaProducer.recordByteCountMax + 1,
                byteCountMax: KafkaProducer.recordByteCountMax
            )
        ) { try producer.produce(outputs, tags: [1, 2]) }
        #expect(producer.waitingCount == 0)
    }
}
