import Foundation
import Kafka
import LocalKafka
import StageRuntime
import Testing
import TokenDomain

@testable import tollway

@Suite struct `A run of a replay` {
    /// Somebody who pressed Ctrl-C then was told that what is done was stopped.
    @Test(arguments: [AuditState.finished, .interrupted, .stopped])
    func `waits for nothing after its last commit`(state: AuditState) throws {
        let order = try DeadLetterOrder(
            .replay,
            Invocation(verb: ReplayCommand.replay, output: .table, operands: [], values: [:]),
            try Configuration(environment: [:], program: .tollway),
            now: Timestamp(milliseconds: 1_760_000_000_000)
        )
        let run = ReplayRun(order, plan: ReplayPlan(groups: DeadLetterGroups(deadlineDays: 10)))
        let duration = try ContinuousClock().measure {
            let end = try run.committed(3, [:], state: state, pauseMilliseconds: 5_000)
            #expect(end == nil)
        }
        #expect(run.sentCount == 3 && duration < .seconds(5), "\(duration)")
    }
}

@Suite struct `A session of a replay` {
    private static let prefix = "t."
    /// Kafka's INVALID_TXN_STATE: not asked again.
    private static let invalidState: Int32 = 48

    private func broker() throws -> MockBroker {
        let topics: [Topic] = [
            .deadLetters(.decode), .deadLetterReplays, .audit, .tokensReceived,
        ]
        return try MockBroker(
            topics: Dictionary(
                uniqueKeysWithValues: topics.map { ($0.name(prefix: Self.prefix), 1) }
            )
        )
    }

    private func settings(_ broker: MockBroker) -> KafkaSettings {
        KafkaSettings(bootstrapServers: broker.bootstrapServers, clientID: "test")
    }

    /// Writes so many dead letters, for a replay at this rate.
    private func makeOrder(
        _ count: Int,
        rate: String,
        _ broker: MockBroker
    ) throws -> (DeadLetterOrder, PositionSet) {
        var maker = DeadLetterMaker(prefix: Self.prefix, seed: 1)
        try maker.write([.unknownApp], each: count, to: settings(broker))
        let order = try DeadLetterOrder(
            .replay,
            Invocation(
                verb: ReplayCommand.replay,
                output: .table,
                operands: [],
                values: ["--rate": [rate]]
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
        let positions = (0..<count).map {
            DeadLetterPosition(stage: .decode, partition: 0, offset: Int64($0))
        }
        return (order, PositionSet(positions))
    }

    /// Somebody who pressed Ctrl-C in the pause after all was sent was told that it was stopped.
    @Test(arguments: [AuditState.finished, .running])
    func `ends with its last dead letter, though that fills a transaction`(
        state: AuditState
    ) throws {
        let broker = try broker()
        defer { broker.close() }
        // At a rate below 10 each goes alone.
        let (order, positions) = try makeOrder(3, rate: "5", broker)
        let session = try ReplaySession(
            order,
            stage: .decode,
            positions: positions,
            recordByteCountMax: [:]
        )
        defer { session.close() }
        session.lastState = state
        var counts: [Int] = []
        var states: [AuditState?] = []
        session.committed = { [unowned session] count, _ in
            counts.append(count)
            states.append(session.auditedState)
            return nil
        }
        #expect(try session.run() == .finished)
        session.committed = { _, _ in nil }
        #expect(counts == [1, 1, 1])
        #expect(states == [.running, .running, state])
    }

    /// The embedded broker isolates no transaction: what it has of one whose commit fails is there,
    /// as after a commit whose answer was lost.
    @Test func `counts what an earlier one sent whose commit has an unknown result`() throws {
        let broker = try broker()
        defer { broker.close() }
        let (order, positions) = try makeOrder(20, rate: "100000", broker)
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
        #expect(tally.ended(lost, unsendableCount: 0, partCount: 1) == .again)
        broker.clearErrors(for: .endTransaction)
        #expect(try run() == .finished)
        let admin = try KafkaAdmin(settings: settings(broker))
        defer { admin.close() }
        let target = Topic.tokensReceived.name(prefix: Self.prefix)
        #expect(try admin.endOffsets(ofTopic: target) == [20], "each went once")
        #expect(tally.sentCount == 20)
    }
}
