import Kafka
import LocalKafka
import RecordLogContract
import Synchronization

/// Logs on a broker: the embedded one or a real Kafka.
final class KafkaWorld: RecordLogWorld {
    let settings: KafkaSettings
    let delivery: KafkaDelivery
    let mock: MockBroker?
    /// A machine that runs several Kafkas at once on two cores was seen to take half a minute.
    let patienceMilliseconds = 120_000

    var isTransactional: Bool { delivery == .exactlyOnce }

    private static let topicNumber = Atomic(0)

    /// On an embedded broker of its own.
    init(mock: MockBroker, delivery: KafkaDelivery = .atLeastOnce) {
        self.mock = mock
        self.delivery = delivery
        var settings = KafkaSettings(
            bootstrapServers: mock.bootstrapServers,
            clientID: "test",
            extra: ["fetch.wait.max.ms": "10"]
        )
        // The embedded broker keeps a member that left until its session ends.
        settings.sessionMilliseconds = 6_000
        self.settings = settings
    }

    /// On an embedded broker, with settings of the test's own.
    init(mock: MockBroker, delivery: KafkaDelivery, settings: KafkaSettings) {
        self.mock = mock
        self.delivery = delivery
        self.settings = settings
    }

    /// On a real Kafka.
    init(
        bootstrapServers: String,
        delivery: KafkaDelivery,
        sessionMilliseconds: Int = 15_000
    ) {
        mock = nil
        self.delivery = delivery
        var settings = KafkaSettings(bootstrapServers: bootstrapServers, clientID: "test")
        settings.sessionMilliseconds = sessionMilliseconds
        self.settings = settings
    }

    /// On a real Kafka, exactly once, with settings of the test's own.
    init(bootstrapServers: String, settings: KafkaSettings) {
        mock = nil
        delivery = .exactlyOnce
        self.settings = settings
    }

    /// Orders and questions that are given as long as the world has patience.
    func openAdmin() throws -> KafkaAdmin {
        try KafkaAdmin(settings: settings, deadlineMilliseconds: patienceMilliseconds)
    }

    func makeTopic(partitionCount: Int) throws -> String {
        let number = Self.topicNumber.add(1, ordering: .relaxed).newValue
        let name = "contract.\(delivery == .exactlyOnce ? "eos" : "alo").\(number)"
        if let mock {
            try mock.createTopic(name, partitionCount: partitionCount)
        } else {
            let admin = try openAdmin()
            defer { admin.close() }
            try admin.create([TopicPlan(name: name, partitionCount: partitionCount)])
        }
        return name
    }

    func write(_ records: [OutsideRecord], to topic: String) throws {
        let producer = try KafkaProducer(settings: settings, targets: [topic])
        defer { producer.close(deadlineMilliseconds: 5000) }
        var outputs = OutputBatch()
        for record in records {
            outputs.append(record, topic: 0)
        }
        try producer.produce(outputs, tags: records.indices.map(UInt64.init))
        _ = producer.flush(deadlineMilliseconds: patienceMilliseconds)
        let receipts = try producer.takeReceipts()
        guard receipts.count == records.count, receipts.allSatisfy(\.isStored) else {
            throw BrokenPromise(
                "\(receipts.count) receipts, \(receipts.first { !$0.isStored } as Any)"
            )
        }
    }

    /// Writes more than the 5 MiB that an embedded broker keeps of a partition: it then begins
    /// behind 0.
    func overfill(_ partitions: [Int32], of topic: String) throws {
        // Xorshift: bytes that do not compress.
        var word: UInt64 = 88_172_645_463_325_252
        for _ in 0..<10 {
            let value = (0..<900_000).map { _ in
                word ^= word << 13
                word ^= word >> 7
                word ^= word << 17
                return UInt8(truncatingIfNeeded: word)
            }
            try write(
                partitions.map { OutsideRecord(partition: $0, key: nil, value: value) },
                to: topic
            )
        }
    }

    func contents(of topic: String) throws -> [OutsideRecord] {
        try awaitMarkers(topic)
        let browser = try LogBrowser(settings: settings, topics: [topic])
        defer { browser.close() }
        try browser.start()
        var batch = RecordBatch()
        _ = try until(self, "\(topic) has no end") {
            try browser.read(into: &batch, recordCountMax: 1000, waitMilliseconds: 50) ? true : nil
        }
        return batch.records
            .sorted { ($0.partition, $0.offset) < ($1.partition, $1.offset) }
            .map { OutsideRecord($0, in: batch.arena) }
    }

    /// A commit is known before its markers are written; until then no reader is let to its records.
    func awaitMarkers(_ topic: String) throws {
        guard mock == nil else {
            return
        }
        let admin = try openAdmin()
        defer { admin.close() }
        _ = try until(self, "a transaction stays open on \(topic)") {
            try admin.lastStableOffsets(ofTopic: topic) == admin.endOffsets(ofTopic: topic)
                ? true : nil
        }
    }

    func openLog(
        group: String,
        instance: String,
        sources: [String],
        targets: [String],
        changelog: String?
    ) throws -> any RecordLog {
        try KafkaLog(
            settings: settings,
            delivery: delivery,
            member: KafkaLog.Member(
                group: group,
                instance: instance,
                transactionalID: "\(group)-\(instance)"
            ),
            sources: sources,
            targets: targets,
            changelog: changelog
        )
    }
}
