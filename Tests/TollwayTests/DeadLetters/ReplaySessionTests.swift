import Foundation
import Kafka
import LocalKafka
import StageRuntime
import Testing
import TokenDomain

@testable import tollway

@Suite struct `A session of a replay` {
    private static let prefix = "t."
    /// Kafka's INVALID_TXN_STATE: not asked again.
    private static let invalidState: Int32 = 48

    /// The embedded broker isolates no transaction: what it has of one whose commit fails is there,
    /// as after a commit whose answer was lost.
    @Test func `counts what an earlier one sent whose commit has an unknown result`() throws {
        let topics: [Topic] = [
            .deadLetters(.decode), .deadLetterReplays, .audit, .tokensReceived,
        ]
        let broker = try MockBroker(
            topics: Dictionary(
                uniqueKeysWithValues: topics.map { ($0.name(prefix: Self.prefix), 1) }
            )
        )
        defer { broker.close() }
        let settings = KafkaSettings(bootstrapServers: broker.bootstrapServers, clientID: "test")
        var maker = DeadLetterMaker(prefix: Self.prefix, seed: 1)
        try maker.write([.unknownApp], each: 20, to: settings)
        let order = try DeadLetterOrder(
            .replay,
            Invocation(
                verb: ReplayCommand.replay,
                output: .table,
                operands: [],
                values: ["--rate": ["100000"]]
            ),
            try Configuration(
                environment: [
                    "TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrapServers,
                    "TOLLWAY_TOPIC_PREFIX": Self.prefix,
                ],
                program: .tollway
            ),
            now: Timestamp(milliseconds: 1_760_000_000_000)
        )
        let positions = PositionSet(
            (0..<20).map { DeadLetterPosition(stage: .decode, partition: 0, offset: $0) }
        )
        var tally = ReplayTally()
        tally.beginStage()
        func run() throws -> ReplaySession.Ending {
            let session = try ReplaySession(
                order,
                stage: .decode,
                positions: positions,
                recordByteCountMax: [:]
            )
            defer { session.close() }
            session.runCount = tally.sentCount
            session.counted = tally.followsLoss ? { tally.counted($0) } : nil
            session.committed = { count, _ in
                tally.committed(count)
                return nil
            }
            let ending = try session.run()
            session.committed = { _, _ in nil }
            session.counted = nil
            return ending
        }
        broker.pushErrors([Self.invalidState], for: .endTransaction)
        let lost = try run()
        guard case .lost = lost else {
            Issue.record("the commit succeeded: \(lost)")
            return
        }
        #expect(tally.sentCount == 0)
        #expect(tally.ended(lost, tooLargeCount: 0, partCount: 1) == .again)
        broker.clearErrors(for: .endTransaction)
        #expect(try run() == .finished)
        let admin = try KafkaAdmin(settings: settings)
        defer { admin.close() }
        let target = Topic.tokensReceived.name(prefix: Self.prefix)
        #expect(try admin.endOffsets(ofTopic: target) == [20], "each went once")
        #expect(tally.sentCount == 20)
    }
}
