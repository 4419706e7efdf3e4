internal import Kafka

/// What transactions that stay open hide from a verb that reads to the last stable offsets.
///
/// A transaction that ends while the verb reads hides nothing that is not as good as new.
final class OpenTransactions {
    /// The ends of topics before they were read, by partition number.
    private var ends: [String: [Int64]] = [:]
    private(set) var heldBack: [TopicPartition] = []

    /// Notes where topics end, before they are read.
    func note(_ topics: some Sequence<String>, _ admin: KafkaAdmin) throws(LogFault) {
        for topic in topics where ends[topic] == nil {
            ends[topic] = try admin.endOffsets(ofTopic: topic)
        }
    }

    /// Looks which of them were not shown to their end, after they were read.
    func look(_ admin: KafkaAdmin) throws(LogFault) {
        heldBack = []
        for (topic, ends) in ends where ends.contains(where: { $0 > 0 }) {
            heldBack += Self.heldBack(
                topic,
                ends: ends,
                stable: try admin.lastStableOffsets(ofTopic: topic)
            )
        }
        heldBack.sort()
    }

    static func heldBack(_ topic: String, ends: [Int64], stable: [Int64]) -> [TopicPartition] {
        zip(ends, stable).enumerated().filter { $0.element.1 < $0.element.0 }.map {
            TopicPartition(topic: topic, partition: Int32($0.offset))
        }
    }

    /// Nil where everything was shown.
    var sentence: String? {
        guard let first = heldBack.first else {
            return nil
        }
        let more = heldBack.count > 1 ? " and \(heldBack.count - 1) more" : ""
        return "an open transaction holds back \(first)\(more): what was written there since it"
            + " began is not shown; see tollway transactions list"
    }
}
