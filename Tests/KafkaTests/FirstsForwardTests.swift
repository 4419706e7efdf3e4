import CKafka
import Testing

@testable import Kafka

@Suite struct `The order in which a transaction is handed over` {
    /// Of an output.
    struct Row {
        var topic: Int32
        var partition: Int32
        var number: Int64

        init(_ topic: Int32, _ partition: Int32, _ number: Int64) {
            (self.topic, self.partition, self.number) = (topic, partition, number)
        }
    }

    static let cases: [([Row], [Int64])] = [
        ([], []),
        // By key: the library chooses the partition.
        ([Row(0, -1, 1), Row(0, -1, 2)], [1, 2]),
        ([Row(1, 0, 1), Row(1, 1, 2), Row(1, 0, 3)], [1, 2, 3]),
        (
            [Row(0, -1, 1), Row(0, -1, 2), Row(1, 4, 3), Row(1, 4, 4), Row(1, 2, 5)],
            [3, 5, 1, 2, 4]
        ),
        // A partition that comes again, and one number in two topics.
        (
            [Row(0, -1, 1), Row(1, 4, 2), Row(1, 2, 3), Row(1, 4, 4), Row(0, 4, 5)],
            [2, 3, 5, 1, 4]
        ),
        // The first is where it is to be.
        ([Row(1, 7, 1), Row(0, -1, 2), Row(1, 7, 3), Row(1, 8, 4)], [1, 4, 2, 3]),
    ]

    @Test(arguments: cases)
    func `begins with one record of each partition, and keeps the order within it`(
        rows: [Row],
        numbers: [Int64]
    ) {
        var outputs = rows.map { row in
            var output = ckafka_output()
            (output.topic, output.partition) = (row.topic, row.partition)
            output.timestamp_ms = row.number
            return output
        }
        outputs.moveFirstsForward()
        #expect(outputs.map(\.timestamp_ms) == numbers)
    }
}
