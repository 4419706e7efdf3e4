import Kafka
import Simulation
import Testing
import TokenDomain

@testable import StageRuntime

/// Concludes each record as its value says, for app 7; beside a dead letter that is none of its own
/// goes a `seen` record, and another that is too large.
private final class ToldStage: Stage {
    func outputsBesideDeadLetter(
        _ record: RecordBatch.Record,
        of batch: RecordBatch,
        into plan: inout BatchPlan
    ) -> Int {
        for value in [Array("seen".utf8), [UInt8](repeating: 1, count: 2_000)] {
            let placed = plan.outputs.place(value)
            plan.outputs.outputs.append(
                OutputBatch.Output(topic: 0, key: .absent, value: placed)
            )
        }
        return 2
    }

    func judge(_ batch: RecordBatch, into plan: inout BatchPlan) {
        for record in batch.records {
            switch String(decoding: batch.arena[record.value.indices], as: UTF8.self) {
            case "forward", "large":
                let size = record.value.count == 5 ? 2_000 : 1
                let value = plan.outputs.place([UInt8](repeating: 1, count: size))
                plan.outputs.outputs.append(
                    OutputBatch.Output(topic: 0, key: .absent, value: value)
                )
                plan.conclude(.forward(outputCount: 1), app: 7)
            case "repeat": plan.conclude(.settled("repeat"), app: 7)
            case "held": plan.conclude(.settled("owed"), app: 7)
            case "reported": plan.conclude(.settled("already_reported"), app: 7)
            case "notice": plan.conclude(.settled("repeat"))
            case "beside":
                let count = outputsBesideDeadLetter(record, of: batch, into: &plan)
                let fault = Fault(code: "decode.not_json", message: "no JSON")
                plan.conclude(.deadLetter(fault, outputCount: count), app: 7)
            default:
                let fault = Fault(code: "decode.not_json", message: "no JSON")
                plan.conclude(.deadLetter(fault), app: TokenTally.unknownApp)
            }
        }
    }
}

private final class Account: LoopTelemetry {
    var tally = TokenTally()
    /// Values that were forwarded, in order.
    var forwarded: [[UInt8]] = []
    var deadLetterCodes: [String] = []

    func instant() -> UInt64 { 0 }
    func judged(recordCount: Int, since instant: UInt64) {}
    func received(_ batch: RecordBatch) {}
    func completed(_ outcome: String, recordCount: Int) {}
    func wroteDeadLetter(_ deadLetter: WrittenDeadLetter) {
        deadLetterCodes.append(deadLetter.fault.code)
    }
    func committed(_ tally: TokenTally) { self.tally.merge(tally) }
    func aborted(code: String) {}
    func assigned(_ partitions: [TopicPartition]) {}
    func lost(partitionCount: Int) {}
    func wiped(partition: Int32, because reason: String) {}
    func locked(partition: Int32, because reason: String) {}
    func unwritten(partition: Int32, because reason: String) {}
    func restoring(partitionCount: Int) {}
    func restoring(partition: Int32, progress: (next: Int64, end: Int64)) {}
    func restored(partition: Int32, recordCount: Int) {}
}

@Suite struct `The outcomes of tokens` {
    static let values = [
        "forward", "repeat", "held", "reported", "notice", "large", "bad", "forward",
    ]

    private func account(
        _ worker: Worker,
        abortOneIn: Int,
        isReplay: Bool = false,
        refusing refused: [UInt8]? = nil,
        values: [String] = Self.values
    ) throws -> Account {
        let cluster = MemoryCluster(seed: 3)
        cluster.faults.abortOneIn = abortOneIn
        cluster.faults.refusedValue = refused
        cluster.createTopic("in", partitionCount: 1)
        for topic in WorkerLoop.targets(of: worker) {
            cluster.createTopic(topic.name(prefix: ""), partitionCount: 1)
        }
        var headers: [UInt8] = []
        HeaderList.append(name: "other".utf8, value: "x".utf8, to: &headers)
        if isReplay {
            HeaderList.append(name: "tollway.dlq.replay_id".utf8, value: "r".utf8, to: &headers)
        }
        for value in values {
            cluster.append(
                topic: "in",
                key: nil,
                value: Array(value.utf8),
                headers: headers,
                timestampMilliseconds: 0
            )
        }
        let log = MemoryLog(
            cluster: cluster,
            group: "g",
            transactionalID: "t",
            sources: ["in"],
            targets: WorkerLoop.targets(of: worker).map { $0.name(prefix: "") },
            clock: { 0 }
        )
        let account = Account()
        var limits = WorkerLoop.Limits()
        limits.outputRecordByteCountMax = 1_000
        var now = Timestamp(milliseconds: 0)
        let loop = WorkerLoop(
            worker: worker,
            group: "g",
            log: log,
            stage: ToldStage(),
            provider: nil,
            limits: limits,
            telemetry: account,
            clock: { now }
        )
        for _ in 0..<200 {
            now = now + .seconds(1)
            _ = try loop.step(waitMilliseconds: 0)
        }
        let target = WorkerLoop.targets(of: worker)[0].name(prefix: "")
        account.forwarded = cluster.committedRecords(of: target).map { $0.value ?? [] }
        return account
    }

    /// Each fate of app 7, then of the app that nobody knows.
    @Test(arguments: [
        (Worker.decode, [6, 1, 1, 1, 1, 0, 1, 0] as [Int64]),
        // Only decode counts what came in.
        (.notifications, [0, 1, 1, 1, 0, 0, 1, 0]),
    ])
    func `is counted by app, as it was committed`(worker: Worker, expected: [Int64]) throws {
        for abortOneIn in [0, 2] {
            let account = try account(worker, abortOneIn: abortOneIn)
            let tally = account.tally
            #expect(account.deadLetterCodes.count == 2, "aborts one in \(abortOneIn)")
            let counts = [7, TokenTally.unknownApp].flatMap { app in
                TokenTally.Fate.allCases.map { tally.count(of: $0, app: app) }
            }
            #expect(counts == expected, "aborts one in \(abortOneIn)")
        }
    }

    @Test func `has what Kafka refuses as dead letters that came in`() throws {
        let tally = try account(.decode, abortOneIn: 0, refusing: [1]).tally
        func count(_ fate: TokenTally.Fate) -> Int64 {
            tally.count(of: fate, app: 7) + tally.count(of: fate, app: TokenTally.unknownApp)
        }
        #expect(count(.accepted) == 7)
        #expect(count(.deadLetter) == 4)
    }

    @Test func `has a seen record where the output is too large for Kafka`() throws {
        let forwarded = try account(.decode, abortOneIn: 0).forwarded
        #expect(forwarded == [[1], [1], Array("seen".utf8)])
    }

    @Test func `has nothing beside a dead letter that is too large for Kafka`() throws {
        let account = try account(.decode, abortOneIn: 0, values: ["beside", "forward"])
        #expect(account.forwarded == [Array("seen".utf8), [1]])
        #expect(account.deadLetterCodes == ["decode.not_json"])
    }

    /// What was a dead letter was accepted before: it closes the account once more.
    @Test(arguments: [Worker.decode, .notifications])
    func `is accepted once more where it is replayed`(worker: Worker) throws {
        let tally = try account(worker, abortOneIn: 0, isReplay: true).tally
        #expect(tally.count(of: .accepted, app: 7) == 6)
        #expect(tally.count(of: .accepted, app: TokenTally.unknownApp) == 1)
        let first = try account(worker, abortOneIn: 0).tally
        #expect(first.count(of: .accepted, app: 7) == (worker == .decode ? 6 : 0))
    }
}
