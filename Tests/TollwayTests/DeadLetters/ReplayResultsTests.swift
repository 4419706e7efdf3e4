import Kafka
import Testing

@testable import tollway

@Suite struct `The results of a replay` {
    private static let partitions = (0..<2).map {
        TopicPartition(topic: "tollway.tokens.received.v1", partition: $0)
    }

    /// Each transaction has as many records in either partition.
    private func sent(_ counts: [Int]) -> ReplayResults {
        var results = ReplayResults()
        var end: Int64 = 0
        for count in counts {
            end += Int64(count / 2)
            results.sent([Self.partitions[0]: end, Self.partitions[1]: end], count: count)
        }
        return results
    }

    @Test(arguments: [
        // Partition 1 stands still; partition 0 is read to its end, or in the midst of a transaction.
        ([200, 200, 200, 200, 200], 500, 25, 1_000), ([1_000], 500, 25, 1_000),
        ([1_000], 200, 25, 1_000), ([200, 200, 200, 200, 200], 250, 25, 600),
    ])
    func `have no failures alone while one partition is behind`(
        counts: [Int],
        committed: Int64,
        failedCount: Int,
        sampleCount: Int
    ) {
        var results = sent(counts)
        results.committed([Self.partitions[0]: committed])
        for number in 0..<failedCount {
            results.failed(
                at: committed * Int64(number) / Int64(failedCount),
                of: Self.partitions[0]
            )
        }
        // In the last case one failed that lies beyond what was committed when that was asked for.
        results.failed(at: committed, of: Self.partitions[0])
        #expect(results.readCount == 0 && !results.isAllRead)
        #expect(results.failedCount == failedCount + 1)
        #expect(results.sampleCount == sampleCount)
        #expect(results.failureRatio <= 0.05)
    }

    @Test func `tell a replay that fails from one that does well`() {
        var results = sent([200, 200])
        results.committed([Self.partitions[0]: 100])
        #expect(results.sampleCount == 200 && results.failureRatio == 0)
        for offset in 0..<Int64(100) {
            results.failed(at: offset, of: Self.partitions[0])
        }
        #expect(results.failureRatio == 0.5, "no more is known to have failed")
        results.committed([Self.partitions[0]: 100, Self.partitions[1]: 100])
        for offset in 0..<Int64(100) {
            results.failed(at: offset, of: Self.partitions[1])
        }
        #expect(results.readCount == 200 && results.failureRatio == 1)
        // The second transaction has not begun.
        #expect(results.sampleCount == 200 && !results.isAllRead)
        results.committed([Self.partitions[0]: 200, Self.partitions[1]: 200])
        #expect(results.isAllRead && results.failureRatio == 0.5)
        results.failed(count: 100)
        #expect(results.failureRatio == 0.25)
    }
}
