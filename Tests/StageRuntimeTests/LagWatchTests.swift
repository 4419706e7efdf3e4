import Kafka
import StageRuntime
import Testing
import TokenDomain

@Suite struct `The lag of a worker` {
    private let first = TopicPartition(topic: "in", partition: 0)
    private let second = TopicPartition(topic: "in", partition: 1)

    private func time(_ seconds: Int64) -> Timestamp { Timestamp(milliseconds: seconds * 1_000) }

    private func marks(_ end: Int64, stable: Int64? = nil) -> ConsumerStatistics.Marks {
        ConsumerStatistics.Marks(end: end, lastStable: stable ?? end)
    }

    private func watch(_ partitions: [TopicPartition]) -> LagWatch {
        var watch = LagWatch()
        watch.assigned(partitions, now: time(0))
        return watch
    }

    @Test func `grows while records wait and falls to nothing when idle`() {
        var watch = watch([first])
        watch.judged(first, next: 5, time: time(10))
        watch.look(committed: [first: 5], marks: [first: marks(9)], now: time(40))
        #expect(watch.partitions[first]?.records == 4)
        #expect(watch.partitions[first]?.seconds == 30)
        watch.look(committed: [first: 9], marks: [first: marks(9)], now: time(50))
        #expect(watch.partitions[first]?.records == 0)
        #expect(watch.partitions[first]?.seconds == 0)
        // What came after an idle hour has not waited for an hour.
        watch.look(committed: [first: 9], marks: [first: marks(9)], now: time(3_650))
        watch.look(committed: [first: 9], marks: [first: marks(10)], now: time(3_655))
        #expect(watch.partitions[first]?.seconds == 5)
    }

    @Test func `counts a record once it is committed, and not when it is judged`() {
        var watch = watch([first])
        func seconds(committed: Int64) -> Double? {
            watch.look(committed: [first: committed], marks: [first: marks(9)], now: time(610))
            return watch.partitions[first]?.seconds
        }
        watch.judged(first, next: 1, time: time(10))
        watch.aborted()
        watch.judged(first, next: 1, time: time(10))
        watch.judged(first, next: 3, time: time(400))
        watch.judged(first, next: 8, time: time(600))
        #expect(seconds(committed: 0) == 610)
        #expect(seconds(committed: 1) == 600)
        #expect(seconds(committed: 2) == 600)
        #expect(seconds(committed: 3) == 210)
        watch.aborted()
        #expect(seconds(committed: 8) == 210)
        watch.judged(first, next: 8, time: time(600))
        #expect(seconds(committed: 8) == 10)
    }

    @Test func `is never negative`() {
        var watch = watch([first])
        watch.judged(first, next: 12, time: time(100))
        // Marks are those of the last fetch, and clocks differ.
        watch.look(committed: [first: 12], marks: [first: marks(9, stable: 3)], now: time(40))
        #expect(watch.partitions[first]?.records == 0)
        #expect(watch.partitions[first]?.seconds == 0)
        watch.judged(first, next: 12, time: time(100))
        watch.look(committed: [first: 12], marks: [first: marks(19, stable: 3)], now: time(39))
        #expect(watch.partitions[first]?.seconds == 0)
        #expect(watch.partitions[first]?.stuckSeconds == 0)
    }

    @Test func `is forgotten with the partition`() {
        var watch = watch([first, second])
        watch.look(
            committed: [first: 0, second: 0],
            marks: [first: marks(3), second: marks(4)],
            now: time(9)
        )
        watch.assigned([second], now: time(10))
        #expect(Set(watch.partitions.keys) == [second])
        // Statistics of a partition that is not ours are ignored.
        watch.look(committed: [first: 0], marks: [first: marks(3)], now: time(11))
        #expect(watch.partitions[first] == nil)
        watch.assigned([first, second], now: time(20))
        watch.look(committed: [first: 0], marks: [first: marks(3)], now: time(21))
        #expect(watch.partitions[first]?.seconds == 1)
    }

    @Test func `tells for how long a transaction has held the reader back`() {
        var watch = watch([first])
        let rows: [(done: Int64, end: Int64, stable: Int64, now: Int64, stuck: Double)] = [
            (5, 5, 5, 1, 0), (7, 9, 7, 2, 0), (7, 9, 7, 12, 10), (7, 20, 7, 20, 18),
            (8, 20, 8, 21, 0), (8, 20, 8, 31, 10), (20, 20, 20, 32, 0),
            // What lies before it is not done yet: then that is what takes its time.
            (20, 30, 25, 40, 0), (20, 30, 25, 50, 0), (25, 30, 25, 51, 1), (25, 30, 25, 55, 5),
        ]
        for row in rows {
            watch.look(
                committed: [first: row.done],
                marks: [first: marks(row.end, stable: row.stable)],
                now: time(row.now)
            )
            #expect(watch.partitions[first]?.stuckSeconds == row.stuck, "\(row)")
        }
    }

    @Test func `calls a transaction hanging past every time-out, and no earlier`() {
        var watch = watch([first])
        let last = Int64(LagWatch.stuckSecondsMax)
        for second in 0...last {
            watch.look(
                committed: [first: 3],
                marks: [first: marks(9, stable: 3)],
                now: time(second)
            )
            #expect(watch.hanging.isEmpty)
        }
        watch.look(
            committed: [first: 3],
            marks: [first: marks(9, stable: 3)],
            now: time(last + 1)
        )
        #expect(watch.hanging == [first])
    }

    /// Kafka away, no record taken, a stopped process, a clock that was set: old watermarks prove nothing.
    @Test func `calls nothing hanging that it has not watched`() {
        var watch = watch([first])
        var now: Int64 = 0
        for (step, isReading) in [(1, true), (100_000, true), (1, false), (1, true)]
            as [(Int64, Bool)]
        {
            for _ in 0..<2 {
                now += step
                watch.look(
                    committed: [first: 3],
                    marks: [first: marks(9, stable: 3)],
                    isReading: isReading,
                    now: time(now)
                )
            }
            #expect(watch.hanging.isEmpty, "\(step) \(isReading)")
        }
        // What was watched before is not forgotten: a busy worker takes nothing most of the time.
        #expect(watch.partitions[first]?.stuckSeconds == 23)
    }

    /// Goal: a partition without a leader is not taken for one that a transaction holds back.
    ///
    /// Method: the library's own text; nothing is fetched there, and it goes on with the last watermarks.
    @Test func `calls nothing hanging where a partition has no leader`() throws {
        let last = Int64(LagWatch.stuckSecondsMax)
        for (leader, hanging) in [(-1, []), (2, [first])] {
            let text = """
                {"topics":{"in":{"partitions":
                {"0":{"leader":\(leader),"hi_offset":1000,"ls_offset":990}}}}}
                """
            let marks = try ConsumerStatistics(reading: Array(text.utf8).span).marks
            var watch = watch([first])
            for second in 0...(last + 1) {
                watch.look(committed: [first: 990], marks: marks, now: time(second))
            }
            #expect(watch.hanging == hanging, "leader \(leader)")
        }
    }
}

@Suite struct `What the client library tells` {
    @Test func `is read for its marks`() throws {
        let text = """
            {"name":"x","ts":1,"brokers":{"a":{"rtt":{"avg":1.5}}},"topics":{"in":{"topic":"in",
            "partitions":{"0":{"partition":0,"hi_offset":12,"ls_offset":10,"lo_offset":-1},
            "1":{"hi_offset":-1001,"ls_offset":-1001},"2":{"hi_offset":3,"ls_offset":-1001},
            "-1":{"hi_offset":-1001}}},"b\\"":{"partitions":{}}},"cgrp":{"state":"up"}}
            """
        let statistics = try ConsumerStatistics(reading: Array(text.utf8).span)
        #expect(
            statistics.marks == [
                TopicPartition(topic: "in", partition: 0): .init(end: 12, lastStable: 10),
                TopicPartition(topic: "in", partition: 2): .init(end: 3, lastStable: 3),
            ]
        )
        #expect(statistics.partitionCounts == ["in": 3])
    }
}

@Suite struct `Useful replicas` {
    @Test(
        arguments: [
            // partitions, mine, lagging, busy, bound, wanted
            (12, 12, 0, 0.01, nil, 1), (12, 12, 12, 1, nil, 12), (12, 4, 1, 1, nil, 5),
            (12, 4, 4, 1, nil, 12), (12, 4, 0, 0.35, nil, 2), (12, 12, 3, 1, nil, 3),
            (12, 0, 0, 0, nil, 0), (12, 12, 12, 1, 1, 1), (12, 6, 6, 1, 3, 3), (2, 2, 2, 1, 9, 2),
        ] as [(Int, Int, Int, Double, Int?, Int)]
    )
    func `are bounded by partitions and by who is waited for`(
        partitionCount: Int,
        assignedCount: Int,
        laggingCount: Int,
        busyShare: Double,
        bound: Int?,
        count: Int
    ) {
        let replicas = UsefulReplicas(
            partitionCount: partitionCount,
            assignedCount: assignedCount,
            laggingCount: laggingCount,
            busyShare: busyShare,
            bound: bound
        )
        #expect(replicas.count == count)
    }

    /// Goal: where Apple answers slowly, and its instance has all its requests under way, more are wanted,
    /// though nothing lags.
    @Test(arguments: [(false, 8, 1), (true, 8, 8), (true, 1, 1), (true, 40, 12)])
    func `are as many as those outside keep busy, once one is full`(
        isFull: Bool,
        bound: Int,
        count: Int
    ) {
        let replicas = UsefulReplicas(
            partitionCount: 12,
            assignedCount: 6,
            laggingCount: 0,
            busyShare: 0.1,
            bound: bound,
            isFull: isFull
        )
        #expect(replicas.count == count)
    }
}
