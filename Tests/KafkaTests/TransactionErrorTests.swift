import Kafka
import LocalKafka
import RecordLogContract
import Testing

/// How a transaction ends when the broker answers one of its requests with an error: the classes
/// as they were measured on librdkafka 2.0.2.
@Suite struct `An error in a transaction` {
    enum Ending {
        /// Tried again inside of the client library.
        case committed
        case aborted
        /// The producer is beyond use; a new one finds that nothing was committed.
        case abortedByNewProducer
    }

    struct Row {
        var api: MockBroker.API
        var code: Int32
        var ending: Ending

        init(_ api: MockBroker.API, _ code: Int32, _ ending: Ending) {
            self.api = api
            self.code = code
            self.ending = ending
        }
    }

    /// One log goes through all rows of a table: each must leave it able to go on.
    static let tables: [[Row]] = [
        [
            Row(.produce, 19, .committed),  // NOT_ENOUGH_REPLICAS
            Row(.produce, 6, .committed),  // NOT_LEADER_FOR_PARTITION
            Row(.produce, 56, .committed),  // KAFKA_STORAGE_ERROR
            Row(.produce, 10, .aborted),  // MSG_SIZE_TOO_LARGE
            Row(.produce, 29, .aborted),  // TOPIC_AUTHORIZATION_FAILED
            Row(.produce, 2, .aborted),  // INVALID_MSG
            Row(.produce, 87, .aborted),  // INVALID_RECORD
            Row(.produce, 48, .aborted),  // INVALID_TXN_STATE
            Row(.produce, 59, .aborted),  // UNKNOWN_PRODUCER_ID
            Row(.produce, 90, .aborted),  // PRODUCER_FENCED
            Row(.produce, 120, .aborted),  // TRANSACTION_ABORTABLE
        ],
        [
            Row(.produce, 45, .abortedByNewProducer),  // OUT_OF_ORDER_SEQUENCE_NUMBER
            Row(.produce, 47, .abortedByNewProducer),  // INVALID_PRODUCER_EPOCH
        ],
        [
            Row(.addPartitionsToTransaction, 51, .committed),  // CONCURRENT_TRANSACTIONS
            Row(.addPartitionsToTransaction, 14, .committed),  // COORDINATOR_LOAD_IN_PROGRESS
            Row(.addPartitionsToTransaction, 49, .aborted),  // INVALID_PRODUCER_ID_MAPPING
            Row(.addPartitionsToTransaction, 47, .abortedByNewProducer),
            Row(.addPartitionsToTransaction, 48, .abortedByNewProducer),
            Row(.addPartitionsToTransaction, 53, .abortedByNewProducer),  // TXNID_AUTHORIZATION
        ],
        [
            Row(.addOffsetsToTransaction, 51, .committed),
            Row(.addOffsetsToTransaction, 14, .committed),
            Row(.addOffsetsToTransaction, 49, .aborted),
            Row(.addOffsetsToTransaction, 30, .aborted),  // GROUP_AUTHORIZATION_FAILED
            Row(.addOffsetsToTransaction, 47, .abortedByNewProducer),
            Row(.addOffsetsToTransaction, 48, .abortedByNewProducer),
        ],
        [
            Row(.transactionalOffsetCommit, 16, .committed),  // NOT_COORDINATOR
            Row(.transactionalOffsetCommit, 22, .aborted),  // ILLEGAL_GENERATION
            Row(.transactionalOffsetCommit, 25, .aborted),  // UNKNOWN_MEMBER_ID
            Row(.transactionalOffsetCommit, 82, .aborted),  // FENCED_INSTANCE_ID
            Row(.transactionalOffsetCommit, 27, .aborted),  // REBALANCE_IN_PROGRESS
            Row(.transactionalOffsetCommit, 12, .aborted),  // OFFSET_METADATA_TOO_LARGE
            Row(.transactionalOffsetCommit, 120, .aborted),
            Row(.transactionalOffsetCommit, 47, .abortedByNewProducer),
        ],
        [
            Row(.endTransaction, 15, .committed),  // COORDINATOR_NOT_AVAILABLE
            Row(.endTransaction, 51, .committed),
            Row(.endTransaction, 49, .aborted),
            Row(.endTransaction, 120, .aborted),
            Row(.endTransaction, 47, .abortedByNewProducer),
            Row(.endTransaction, 48, .abortedByNewProducer),
            // The connection is cut. Last, because an idle producer is made anew after it.
            Row(.endTransaction, -195, .committed),
        ],
    ]

    @Test(arguments: tables.indices)
    func `ends as its class says, and the log goes on`(table: Int) async throws {
        try await onThread {
            let mock = try MockBroker(topics: ["source": 1, "target": 1])
            defer { mock.close() }
            let world = KafkaWorld(mock: mock, delivery: .exactlyOnce)
            let member = try Member(world, group: "g", sources: ["source"], targets: ["target"])
            defer { member.close() }
            let log = try #require(member.log as? KafkaLog)
            for row in Self.tables[table] {
                try Self.check(row, mock: mock, world: world, log: log)
            }
        }
    }

    private static func check(
        _ row: Row,
        mock: MockBroker,
        world: KafkaWorld,
        log: KafkaLog
    ) throws {
        let place = TopicPartition(topic: "source", partition: 0)
        let producerCount = log.producerCount
        mock.pushErrors([row.code], for: row.api)
        defer { mock.clearErrors(for: row.api) }
        var outputs = OutputBatch()
        outputs.append(OutsideRecord(partition: 0, key: nil, value: [1]), topic: 0)
        try log.submit(outputs, positions: [place: 0])
        let outcome = try until(world, "\(row): no outcome") {
            try log.takeCommitResult(waitMilliseconds: 50)
        }
        let notes = log.takeNotes().map { "\($0.facility) \($0.text)" }
        switch (row.ending, outcome) {
        case (.committed, .committed): break
        case (.aborted, .aborted(_, let resumedAt)):
            #expect(log.producerCount == producerCount, "\(row) needed a new producer \(notes)")
            #expect(resumedAt == [place: 0], "\(row)")
        case (.abortedByNewProducer, .aborted(_, let resumedAt)):
            #expect(log.producerCount > producerCount, "\(row) \(notes)")
            #expect(resumedAt == [place: 0], "\(row)")
        default:
            Issue.record("\(row) ended as \(outcome): \(notes)")
        }
    }
}
