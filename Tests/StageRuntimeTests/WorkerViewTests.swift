import Kafka
import Simulation
import Telemetry
import Testing
import TokenDomain

@testable import StageRuntime

/// Only its partitions matter.
private final class IdleStage: Stage {
    func judge(_ batch: RecordBatch, into plan: inout BatchPlan) {
        for _ in batch.records {
            plan.conclude(.settled("idle"))
        }
    }
}

@Suite struct `What a worker shows of itself` {
    private let metrics = Metrics()
    private let partition = TopicPartition(topic: "in", partition: 0)

    private func time(_ seconds: Int64) -> Timestamp { Timestamp(milliseconds: seconds * 1_000) }

    private func view() -> WorkerView {
        WorkerView(
            WorkerView.Subject(
                worker: .decode,
                instance: "decode-0",
                group: "g",
                clusterID: "c",
                delivery: "exactly-once"
            ),
            board: StatusBoard(),
            metrics: metrics,
            health: Health(),
            now: time(0)
        )
    }

    private func series(_ name: String) -> [Substring] {
        String(decoding: metrics.render(), as: UTF8.self).split(separator: "\n")
            .filter { $0.hasPrefix("tollway_\(name){") }
    }

    /// With its partition, of which nothing is done.
    private func loop() throws -> WorkerLoop {
        let cluster = MemoryCluster(seed: 1)
        let targets = WorkerLoop.targets(of: .decode).map { $0.name(prefix: "") }
        for topic in ["in"] + targets {
            cluster.createTopic(topic, partitionCount: 1)
        }
        let loop = WorkerLoop(
            worker: .decode,
            group: "g",
            log: MemoryLog(
                cluster: cluster,
                group: "g",
                transactionalID: "t",
                sources: ["in"],
                targets: targets,
                clock: { 0 }
            ),
            stage: IdleStage(),
            provider: nil,
            telemetry: SilentTelemetry(),
            clock: { Timestamp(milliseconds: 0) }
        )
        for _ in 0..<20 where loop.assigned.isEmpty {
            _ = try loop.step(waitMilliseconds: 0)
        }
        try #require(loop.done == [partition: 0])
        return loop
    }

    private func batch(offset: Int64, seconds: Int64) -> RecordBatch {
        var batch = RecordBatch()
        batch.records = [
            RecordBatch.Record(
                topic: 0,
                partition: 0,
                offset: offset,
                timestampMilliseconds: seconds * 1_000,
                key: .absent,
                value: .absent,
                headers: .absent
            )
        ]
        return batch
    }

    /// The alert on lag is all that tells of a stage that reads and commits nothing.
    @Test func `is behind by all that it judged and could not commit`() throws {
        let (view, loop) = (view(), try loop())
        view.assigned(loop.assigned, now: time(0))
        for (offset, seconds) in [(0, 10), (1, 600)] as [(Int64, Int64)] {
            view.received(batch(offset: offset, seconds: seconds), sources: ["in"])
            view.aborted(code: "NOT_ENOUGH_REPLICAS", now: time(seconds))
        }
        let statistics = """
            {"topics":{"in":{"partitions":{"0":{"hi_offset":2,"ls_offset":2}}}}}
            """
        view.look(
            at: loop,
            stage: IdleStage(),
            statistics: Array(statistics.utf8),
            producerCount: 1,
            now: time(610)
        )
        let labels = #"{stage="decode",topic="in",partition="0"}"#
        #expect(series("consumer_lag_records") == ["tollway_consumer_lag_records\(labels) 2"])
        #expect(series("consumer_lag_seconds") == ["tollway_consumer_lag_seconds\(labels) 610"])
    }

    @Test func `begins at zero what alarms compare with something that does`() {
        _ = WorkerTelemetry(
            worker: .decode,
            sources: ["in"],
            log: Log(worker: "decode", format: .json, write: { _ in }),
            metrics: metrics,
            health: Health(),
            view: view()
        )
        let expected = ["aborted", "committed"].map {
            #"tollway_transactions_total{stage="decode",result="\#($0)"} 0"#
        }
        #expect(series("transactions_total").sorted().map(String.init) == expected)
        let received = #"tollway_records_received_total{stage="decode",topic="in"} 0"#
        #expect(series("records_received_total").map(String.init) == [received])
        let forwarded = #"tollway_records_completed_total{stage="decode",outcome="forwarded"} 0"#
        #expect(series("records_completed_total").map(String.init) == [forwarded])
    }

    @Test func `tells how far the clock is behind what is read from a topic`() {
        let telemetry = WorkerTelemetry(
            worker: .report,
            sources: ["ahead", "behind"],
            log: Log(worker: "report", format: .json, write: { _ in }),
            metrics: metrics,
            health: Health(),
            view: view()
        )
        let now = WallClock.nowMilliseconds()
        var batch = RecordBatch()
        for (topic, milliseconds) in [(0, now), (0, now + 7_200_000), (1, now - 60_000), (0, -1)] {
            batch.records.append(
                RecordBatch.Record(
                    topic: topic,
                    partition: 0,
                    offset: Int64(batch.records.count),
                    timestampMilliseconds: milliseconds,
                    key: .absent,
                    value: .absent,
                    headers: .absent
                )
            )
        }
        telemetry.received(batch)
        let shown = series("clock_behind_seconds")
        #expect(shown.count == 2)
        #expect(shown.contains { $0.hasSuffix(#"topic="behind"} 0"#) }, "\(shown)")
        let ahead = shown.compactMap {
            $0.hasPrefix(
                #"tollway_clock_behind_seconds{stage="report",topic="ahead"} "#
            ) ? Double($0.split(separator: " ").last ?? "") : nil
        }
        #expect(ahead.count == 1 && ahead.allSatisfy { (7_190...7_200).contains($0) }, "\(shown)")

        batch.records.removeAll { $0.timestampMilliseconds > now }
        telemetry.received(batch)
        #expect(series("clock_behind_seconds").allSatisfy { $0.hasSuffix(" 0") })
    }
}
