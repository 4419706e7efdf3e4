import Kafka
import Testing

@testable import StageRuntime

@Suite struct `A place that is gone` {
    private static let partition = TopicPartition(topic: "t", partition: 3)

    @Test(
        arguments: [
            (nil, 0, 0, false), (0, 0, 0, false), (5, 5, 9, false), (9, 5, 9, false),
            (4, 5, 9, true), (10, 5, 9, true), (0, 5, 5, true), (6, 5, 5, true),
        ] as [(Int64?, Int64, Int64, Bool)]
    )
    func `is one before the first record or beyond the end`(
        committed: Int64?,
        start: Int64,
        end: Int64,
        isLost: Bool
    ) {
        let lost = LostRecords(Self.partition, committed: committed, start: start, end: end)
        #expect((lost != nil) == isLost)
    }

    @Test(
        arguments: [
            (4, 9, 20, "begins at 9: 5 offsets are gone"), (30, 9, 20, "ends at 20"),
            (4, -1, -1, "not there any more"),
        ] as [(Int64, Int64, Int64, String)]
    )
    func `is named with what was lost and the way on, and ends the worker with 75`(
        position: Int64,
        start: Int64,
        end: Int64,
        part: String
    ) {
        let end = WorkerRun.end(
            for: LogFault.recordsLost(Self.partition, position: position, start: start, end: end)
        )
        #expect(end.exitCode == 75)
        #expect(end.sentence.contains("t partition 3 is to be read from offset \(position)"))
        #expect(end.sentence.contains(part))
        #expect(end.sentence.contains("tollway offsets reset --yes"))
    }
}
