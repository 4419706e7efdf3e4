import Kafka
import StageRuntime
import Testing

@testable import tollway

@Suite struct `A reading to the ends of topics` {
    private func batch(_ places: [(partition: Int32, offset: Int64)]) -> RecordBatch {
        var batch = RecordBatch()
        batch.records = places.map { place in
            RecordBatch.Record(
                topic: 0,
                partition: place.partition,
                offset: place.offset,
                timestampMilliseconds: 0,
                key: .absent,
                value: .absent,
                headers: ByteRange(start: 0, count: 0)
            )
        }
        batch.ends = places.map { place in
            RecordBatch.PartitionEnd(topic: 0, partition: place.partition, offset: place.offset + 1)
        }
        return batch
    }

    /// A transaction that hangs holds partition 1 back, and partition 0 is written for ever.
    @Test func `stands still though partitions that are there go on`() throws {
        let scan = TopicScan(
            configuration: try Configuration(environment: [:], program: .tollway),
            topics: ["t"]
        )
        func place(_ partition: Int32) -> TopicPartition {
            TopicPartition(topic: "t", partition: partition)
        }
        var marks: [TopicPartition: Int64] = [place(0): 2, place(1): 5]
        #expect(scan.advance(&marks, past: batch([(0, 1), (1, 2)])))
        #expect(marks == [place(1): 5])
        for offset in 2..<10 as Range<Int64> {
            #expect(!scan.advance(&marks, past: batch([(0, offset)])))
        }
        #expect(scan.advance(&marks, past: batch([(1, 3)])))
        #expect(scan.advance(&marks, past: batch([(1, 4)])))
        #expect(marks.isEmpty)
        #expect(scan.advance(&marks, past: batch([(0, 10)])))
        #expect(!scan.advance(&marks, past: batch([])))
    }
}
