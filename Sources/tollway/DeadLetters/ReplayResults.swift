internal import Kafka

/// How many of the dead letters that were sent back their stage has read, and how many failed again.
///
/// Of a transaction that is not read to its end it is not known how many of its records were read. So
/// the failure ratio takes all of it for read once one of its partitions is read, or one of its
/// records has failed: the ratio is never higher than that of all begun transactions will be.
struct ReplayResults {
    private struct Sent {
        var ends: [TopicPartition: Int64]
        var count: Int
        var isBegun = false
    }

    /// Transactions that are not read to their ends, oldest first.
    private var waiting: [Sent] = []
    /// Where the others end: what lies before that is of a transaction that is read, or has begun.
    private var readEnds: [TopicPartition: Int64] = [:]
    /// Of transactions that are read to their ends.
    private(set) var readCount = 0
    private(set) var failedCount = 0

    var isAllRead: Bool { waiting.isEmpty }

    /// Dead letters that the failure ratio is a share of.
    var sampleCount: Int {
        let begunCount = waiting.lazy.filter(\.isBegun).reduce(0) { $0 + $1.count }
        return max(readCount + begunCount, failedCount)
    }

    /// The share of what was read that failed again.
    var failureRatio: Double {
        Double(failedCount) / Double(max(sampleCount, 1))
    }

    /// The topics that have something to be read.
    var topics: Set<String> { Set(waiting.flatMap { $0.ends.keys.map(\.topic) }) }

    /// Dead letters of one transaction, and where they ended in the topics that their stage reads.
    mutating func sent(_ ends: [TopicPartition: Int64], count: Int) {
        waiting.append(Sent(ends: ends, count: count))
    }

    /// Takes in how far the stage has committed.
    mutating func committed(_ committed: [TopicPartition: Int64]) {
        for index in waiting.indices {
            waiting[index].isBegun =
                waiting[index].isBegun
                || waiting[index].ends.contains { $1 <= committed[$0] ?? -1 }
        }
        waiting.removeAll { sent in
            guard sent.ends.allSatisfy({ $1 <= committed[$0] ?? -1 }) else {
                return false
            }
            readCount += sent.count
            readEnds.merge(sent.ends, uniquingKeysWith: max)
            return true
        }
    }

    /// A dead letter that went back to a place has failed again.
    mutating func failed(at offset: Int64, of partition: TopicPartition) {
        failedCount += 1
        guard offset >= readEnds[partition] ?? 0 else {
            return
        }
        if let index = waiting.firstIndex(where: { offset < $0.ends[partition] ?? .min }) {
            waiting[index].isBegun = true
        }
    }

    /// All failures were counted anew.
    mutating func failed(count: Int) {
        failedCount = count
    }
}
