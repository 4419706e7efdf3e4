import Kafka
import Simulation
import Testing
import TokenDomain

@testable import StageRuntime

/// Makes much of each record.
private final class LargeStage: Stage {
    static let outputByteCount = 40_000

    func judge(_ batch: RecordBatch, into plan: inout BatchPlan) {
        for _ in batch.records {
            let value = plan.outputs.place([UInt8](repeating: 1, count: Self.outputByteCount))
            plan.outputs.outputs.append(OutputBatch.Output(topic: 0, key: .absent, value: value))
            plan.conclude(.forward(outputCount: 1))
        }
    }
}

@Suite struct `The next transaction` {
    @Test func `takes about as many records as it has room for what they become`() throws {
        let cluster = MemoryCluster(seed: 1)
        for topic in ["in"] + WorkerLoop.targets(of: .decode).map({ $0.name(prefix: "") }) {
            cluster.createTopic(topic, partitionCount: 1)
        }
        func append(_ count: Int) {
            for _ in 0..<count {
                cluster.append(
                    topic: "in",
                    partition: 0,
                    key: nil,
                    value: [1],
                    timestampMilliseconds: 0
                )
            }
        }
        let limits = WorkerLoop.Limits()
        let loop = WorkerLoop(
            worker: .decode,
            group: "g",
            log: MemoryLog(
                cluster: cluster,
                group: "g",
                transactionalID: "t",
                sources: ["in"],
                targets: WorkerLoop.targets(of: .decode).map { $0.name(prefix: "") },
                clock: { 0 }
            ),
            stage: LargeStage(),
            provider: nil,
            limits: limits,
            telemetry: SilentTelemetry(),
            clock: { Timestamp(milliseconds: 0) }
        )
        append(10)
        for _ in 0..<20 {
            _ = try loop.step(waitMilliseconds: 0)
        }
        let target = WorkerLoop.targets(of: .decode)[0].name(prefix: "")
        #expect(cluster.committedRecords(of: target).count == 10)
        append(1_000)
        var (count, largest) = (10, 0)
        for _ in 0..<400 where count < 1_010 {
            _ = try loop.step(waitMilliseconds: 0)
            let before = count
            count = cluster.committedRecords(of: target).count
            largest = max(largest, count - before)
        }
        #expect(count == 1_010)
        let fitting = limits.outputByteCountMax / LargeStage.outputByteCount
        #expect(largest > fitting / 2 && largest < fitting + 65)
    }
}
