internal import Kafka
internal import StageRuntime
internal import TokenDomain

/// Whether sales came in: where the topic that should have them does not, others may.
///
/// That must not look like no sales.
enum KnownSales {
    /// Whether a topic has had a record, also one that was removed; nil where it is not there.
    ///
    /// - Throws: exit 6 without Kafka, 1 where these credentials may not see the topic.
    static func hadRecords(
        _ topic: Topic,
        _ configuration: Configuration
    ) throws(CommandFailure) -> Bool? {
        let name = topic.name(prefix: configuration.topicPrefix)
        return try KafkaQuestion.ask(configuration) { admin throws(LogFault) -> Bool? in
            guard try admin.partitionCount(of: name) != nil else {
                return nil
            }
            return try admin.endOffsets(ofTopic: name).contains { $0 > 0 }
        }
    }

    /// Whether the other topic of sales has had a record, or the state of `purchases` has a sale.
    ///
    /// - Throws: exit 6 without Kafka.
    static func cameIn(
        besides topic: Topic,
        _ configuration: Configuration
    ) throws(CommandFailure) -> Bool {
        let other: Topic = topic == .purchasesReceived ? .purchasesOutcomes : .purchasesReceived
        if try hadRecords(other, configuration) == true {
            return true
        }
        return try areInState(configuration)
    }

    /// Reads the state up to the first sale; tokens alone are none.
    private static func areInState(
        _ configuration: Configuration
    ) throws(CommandFailure) -> Bool {
        guard try hadRecords(.purchasesState, configuration) == true else {
            return false
        }
        let scan = TopicScan(
            configuration: configuration,
            topics: [Topic.purchasesState.name(prefix: configuration.topicPrefix)],
            readAheadKilobytes: TopicScan.largeReadAheadKilobytes
        )
        let progress = ProgressLine("records of purchases' state")
        var isFound = false
        try scan.run(progress: progress) { batch throws(CommandFailure) in
            for record in batch.records where !record.key.isAbsent && !record.value.isAbsent {
                if TracedBookKey(Array(batch.arena[record.key.indices])) != nil {
                    isFound = true
                    return false
                }
            }
            return true
        }
        return isFound
    }
}
