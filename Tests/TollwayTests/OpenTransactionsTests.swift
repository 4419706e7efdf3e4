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
}

/// A transaction with one record in it that stays open until it is aborted.
@unsafe private final class OpenTransaction {
    private struct Refused: Error {
        var step: String
    }

    private static let waitMilliseconds: Int32 = 60_000

    private let handle: OpaquePointer

    init(on topic: String, _ bootstrapServers: String) throws {
        let settings = unsafe rd_kafka_conf_new()
        let values = ["bootstrap.servers": bootstrapServers, "transactional.id": "\(topic).open"]
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
