import Foundation
import Testing

@testable import Kafka

/// What ends a transaction that hangs: nothing a storm does brings one about at will.
@Suite struct `A transaction that nobody ends` {
    private static let open = TransactionMarkers.Open(
        producerID: 0x0102_0304_0506_0708,
        producerEpoch: 9,
        coordinatorEpoch: 3
    )

    /// `__transaction_state` as Kafka 4.3 writes it, up to the status.
    private func value(status: UInt8, epoch: UInt8 = 9) -> [UInt8] {
        [0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 0, epoch, 0, 0, 0x9c, 0x40, status, 0]
    }

    @Test(arguments: [(0, false), (1, false), (2, true), (3, false), (4, true), (5, false)])
    func `was committed where its coordinator says so`(status: UInt8, isCommitted: Bool) {
        #expect(CoordinatorVerdict.isCommitted(value(status: status), Self.open) == isCommitted)
        #expect(
            CoordinatorVerdict.isCommitted(value(status: status, epoch: 8), Self.open) == nil
        )
        #expect(CoordinatorVerdict.isCommitted([], Self.open) == nil)
    }

    @Test(
        .enabled(
            if: LocalCluster.homeFromEnvironment != nil,
            "skipped: KAFKA_HOME names no Kafka, or there is no Java"
        ),
        arguments: [true, false]
    )
    func `is ended by the markers that its coordinator owes it`(isCommit: Bool) throws {
        let folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("tollway-markers-\(UUID().uuidString)")
        let kafka = try LocalCluster(
            home: LocalCluster.homeFromEnvironment ?? "",
            folder: folder.path
        )
        defer { kafka.wipe() }
        try kafka.start()
        let settings = KafkaSettings(bootstrapServers: kafka.bootstrapServers, clientID: "test")
        let admin = try KafkaAdmin(settings: settings, deadlineMilliseconds: 120_000)
        defer { admin.close() }
        try admin.create([
            TopicPlan(name: "held", partitionCount: 1),
            TopicPlan(
                name: "narrow",
                partitionCount: 1,
                configuration: ["max.message.bytes": "500"]
            ),
        ])
        let writer = try KafkaTransactor(
            settings: settings,
            transactionalID: "hangs",
            targets: ["held", "narrow"]
        )
        defer { writer.close() }
        try writer.takeOver()
        // The second record is refused, and the transaction stays open with the first one in it.
        var outputs = OutputBatch()
        var random = SystemRandomNumberGenerator()
        let value = outputs.place(
            (0..<900).map { _ in UInt8.random(in: .min ... .max, using: &random) }
        )
        for topic in 0..<2 {
            outputs.outputs.append(
                OutputBatch.Output(topic: topic, partition: 0, key: .absent, value: value)
            )
        }
        #expect(throws: LogFault.self) { try writer.commit(outputs) }
        try #require(try admin.endOffsets(ofTopic: "held") == [1])
        try #require(try admin.lastStableOffsets(ofTopic: "held") == [0])
        let transactions = try OpenTransactions(settings: settings, topics: ["held"])
        defer { transactions.close() }
        let held = try #require(try transactions.look().first)
        let open = try #require(try transactions.openTransactions(held).first)
        #expect(try !CoordinatorVerdict.read(open, settings: settings))
        try TransactionMarkers(open: open, isCommit: isCommit, partitions: ["held": [0]])
            .write(bootstrapServers: kafka.bootstrapServers)
        #expect(try transactions.look() == [])
        let browser = try LogBrowser(settings: settings, topics: ["held"])
        defer { browser.close() }
        try browser.start()
        var batch = RecordBatch()
        while try !browser.read(into: &batch, recordCountMax: 10, waitMilliseconds: 50) {}
        #expect(batch.records.count == (isCommit ? 1 : 0))
    }
}
