internal import Foundation
internal import Kafka
internal import StageRuntime

/// The partitions whose end a search did not see, since a transaction was open there.
///
/// A worker has one open for less than a second at a time. One that nobody ends, as KAFKA-9144 leaves it,
/// hides all that was committed behind it.
struct OpenTransactions {
    /// A worker's transaction ends within this unless something is wrong.
    private static let waitMax = 5.0
    private static let interval = 0.2

    private(set) var partitions: [TopicPartition] = []
    /// One was open at the first look: what it hid may not have been read.
    private(set) var wereThere = false

    /// Looks whether all of what lies in partitions now can be read.
    ///
    /// - Throws: exit 6 where Kafka is away.
    init(
        in partitions: Set<TopicPartition>,
        _ configuration: Configuration
    ) throws(CommandFailure) {
        self = try KafkaQuestion.ask(configuration) { admin throws(LogFault) in
            try OpenTransactions(in: partitions, admin)
        }
    }

    /// The same of a cluster that is asked already.
    init(in partitions: Set<TopicPartition>, _ admin: KafkaAdmin) throws(LogFault) {
        let ends = try Self.offsets(partitions) { topic throws(LogFault) in
            try admin.endOffsets(ofTopic: topic)
        }
        let giveUpAt = Date() + Self.waitMax
        var open = partitions
        while true {
            let stable = try Self.offsets(open) { topic throws(LogFault) in
                try admin.lastStableOffsets(ofTopic: topic)
            }
            open = open.filter { (stable[$0] ?? 0) < (ends[$0] ?? 0) }
            wereThere = wereThere || !open.isEmpty
            guard !open.isEmpty, Date() < giveUpAt else {
                break
            }
            Thread.sleep(forTimeInterval: Self.interval)
        }
        self.partitions = open.sorted()
    }

    private static func offsets(
        _ partitions: Set<TopicPartition>,
        _ offsets: (_ topic: String) throws(LogFault) -> [Int64]
    ) throws(LogFault) -> [TopicPartition: Int64] {
        var found: [TopicPartition: Int64] = [:]
        for topic in Set(partitions.map(\.topic)) {
            for (partition, offset) in try offsets(topic).enumerated() {
                found[TopicPartition(topic: topic, partition: Int32(partition))] = offset
            }
        }
        return found
    }

    /// Nil where there are none.
    var sentence: String? {
        guard let first = partitions.first else {
            return nil
        }
        let more = partitions.count > 1 ? " and \(partitions.count - 1) more" : ""
        return "an open transaction holds back \(first)\(more): what was written there since it"
            + " began is not shown; see tollway transactions list"
    }
}
