import Kafka
import Testing

@testable import tollway

@Suite struct `An open transaction` {
    @Test(
        arguments: [
            ([], [], []), ([0, 7, 9], [0, 7, 12], []), ([5, 7, 9], [5, 6, 0], [1, 2]),
        ] as [([Int64], [Int64], [Int32])]
    )
    func `hides what was there before the reading and is not stable after it`(
        ends: [Int64],
        stable: [Int64],
        partitions: [Int32]
    ) {
        let found = OpenTransactions.heldBack("t", ends: ends, stable: stable)
        #expect(found == partitions.map { TopicPartition(topic: "t", partition: $0) })
    }
}
