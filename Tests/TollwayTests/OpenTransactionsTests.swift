import CLibrdkafka
import Kafka
import Testing
import TokenDomain

@testable import tollway

@Suite(.enabled(if: DeadLetterWorld.isKafkaThere, DeadLetterWorld.skipped))
struct `An open transaction` {
    private static let id = "fc8badf8-e5ff-4f57-8194-ee4bcf33a574"

    @Test func `may hide what a trace looks for, which the trace says`() throws {
        let world = try DeadLetterWorld()
        func trace(_ id: String) throws -> TollwayProcess {
            try TollwayProcess.run(["token", "trace", id], environment: world.environment)
        }
        #expect(try trace(Self.id).exitCode == 3)
        let topic = Topic.deadLetters(.decode).name(prefix: world.prefix)
        let transaction = try unsafe OpenTransaction(on: topic, world.settings.bootstrapServers)
        let held = try trace(Self.id)
        #expect(held.exitCode == 75)
        #expect(held.talk.contains("an open transaction holds back \(topic)/0"), "\(held.talk)")
        try unsafe transaction.abort()
        #expect(try trace(Self.id).exitCode == 3)
    }

    @Test func `may hide dead letters, which every look at them says`() throws {
        let world = try DeadLetterWorld()
        var maker = DeadLetterMaker(prefix: world.prefix, seed: 21)
        let topic = Topic.deadLetters(.decode).name(prefix: world.prefix)
        let transaction = try unsafe OpenTransaction(on: topic, world.settings.bootstrapServers)
        try maker.write(.unknownApp, 1, to: 0..<1, world)
        let sentence = "an open transaction holds back \(topic)/0"
        for verb in ["groups", "ls", "count", "export", "plan", "replay"] {
            let look = try world.dlq(verb)
            #expect(look.exitCode == 75, "\(verb)")
            #expect(look.talk.contains(sentence), "\(verb): \(look.talk)")
        }
        #expect(try world.dlq("show", "decode/0/1").exitCode == 75)
        #expect(try world.dlq("show", "decode/1/0").exitCode == 3)
        // Who names positions has seen them.
        #expect(try world.dlq("count", "--partition", "0", "--offset", "1").exitCode == 3)
        try maker.write(.unknownApp, 1, to: 1..<2, world)
        let count = try world.dlq("count")
        #expect(count.exitCode == 0 && count.output == "1\n")
        #expect(count.talk.contains(sentence), "\(count.talk)")
        try unsafe transaction.abort()
        let all = try world.dlq("count")
        #expect(all.output == "2\n" && !all.talk.contains("transaction"), "\(all.talk)")
    }

    /// Kafka aborts it within two of its own intervals of ten seconds.
    @Test func `is waited for where what it hides keeps a dead letter from going`() throws {
        let world = try DeadLetterWorld(partitionCount: 1)
        let transaction = try unsafe OpenTransaction(
            on: Topic.purchasesOutcomes.name(prefix: world.prefix),
            world.settings.bootstrapServers,
            timeoutMilliseconds: 10_000
        )
        try world.change(of: "c1.a", settledAfter: 1)
        let plan = try world.dlq("plan", "-o", "json").object()
        let skipped = try #require(plan["skipReasons"] as? [[String: Any]])
        #expect(skipped.map { $0["why"] as? String } == ["order_rules"])
        unsafe withExtendedLifetime(transaction) {}
    }

    @Test func `cannot be asked for where the ledger is not there`() throws {
        let world = try DeadLetterWorld(partitionCount: 1)
        try world.change(of: "c1.a", settledAfter: nil)
        let admin = try world.openAdmin()
        defer { admin.close() }
        try admin.deleteTopics([Topic.purchasesOutcomes.name(prefix: world.prefix)])
        let plan = try world.dlq("plan")
        #expect(plan.exitCode == 1 && plan.talk.contains("Kafka shows no topic"), "\(plan.talk)")
    }
}

/// A transaction with one record in it that stays open until it is aborted.
@unsafe private final class OpenTransaction {
    private struct Refused: Error {
        var step: String
    }

    private static let waitMilliseconds: Int32 = 60_000

    private let handle: OpaquePointer

    init(
        on topic: String,
        _ bootstrapServers: String,
        timeoutMilliseconds: Int = 60_000
    ) throws {
        let settings = unsafe rd_kafka_conf_new()
        let values = [
            "bootstrap.servers": bootstrapServers, "transactional.id": "\(topic).open",
            "transaction.timeout.ms": "\(timeoutMilliseconds)",
        ]
        for (name, value) in values {
            unsafe rd_kafka_conf_set(settings, name, value, nil, 0)
        }
        guard let handle = unsafe rd_kafka_new(RD_KAFKA_PRODUCER, settings, nil, 0) else {
            throw Refused(step: "new")
        }
        unsafe self.handle = handle
        try unsafe expect("init", unsafe rd_kafka_init_transactions(handle, Self.waitMilliseconds))
        try unsafe expect("begin", unsafe rd_kafka_begin_transaction(handle))
        let name = unsafe rd_kafka_topic_new(handle, topic, nil)
        defer { unsafe rd_kafka_topic_destroy(name) }
        var value: [UInt8] = [1]
        guard
            unsafe rd_kafka_produce(name, 0, RD_KAFKA_MSG_F_COPY, &value, 1, nil, 0, nil) == 0,
            unsafe rd_kafka_flush(handle, Self.waitMilliseconds) == RD_KAFKA_RESP_ERR_NO_ERROR
        else {
            throw Refused(step: "produce")
        }
    }

    func abort() throws {
        try unsafe expect("abort", unsafe rd_kafka_abort_transaction(handle, Self.waitMilliseconds))
    }

    private func expect(_ step: String, _ fault: OpaquePointer?) throws {
        guard unsafe fault == nil else {
            throw Refused(step: step)
        }
    }

    deinit {
        unsafe rd_kafka_destroy(handle)
    }
}
