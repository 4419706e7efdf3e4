/// A topic as the broker describes it.
package struct TopicDescription: Equatable, Sendable {
    package struct Partition: Equatable, Sendable {
        package var partition: Int32
        /// Node id; -1 while there is none.
        package var leader: Int32
        package var replicas: [Int32]
        package var inSyncReplicas: [Int32]
    }

    package var name: String
    package var partitions: [Partition]

    package var replicationFactor: Int { partitions.first?.replicas.count ?? 0 }
}

/// A topic to be made.
package struct TopicPlan: Equatable, Sendable {
    package var name: String
    package var partitionCount: Int
    /// -1 is the broker's default.
    package var replicationFactor: Int
    package var configuration: [String: String]

    package init(
        name: String,
        partitionCount: Int,
        replicationFactor: Int = -1,
        configuration: [String: String] = [:]
    ) {
        self.name = name
        self.partitionCount = partitionCount
        self.replicationFactor = replicationFactor
        self.configuration = configuration
    }
}

/// Questions and orders to a cluster, for the command and for checks at start. Every call blocks
/// until it is answered, at most for the deadline.
///
/// The embedded broker knows none of the orders and no configurations: those calls end as
/// `.unavailable`.
package final class KafkaAdmin {
    package init(settings: KafkaSettings, deadlineMilliseconds: Int = 10_000) throws(LogFault) {
        throw LogFault.unusable(message: "not built yet")
    }

    package func clusterID() throws(LogFault) -> String { "" }
    /// Every topic, Kafka's own left out, by name.
    package func topics() throws(LogFault) -> [TopicDescription] { [] }
    /// One topic; nil where there is none. Does not create it.
    package func topic(_ name: String) throws(LogFault) -> TopicDescription? { nil }
    /// Every setting of a topic, defaults included.
    package func configuration(ofTopic name: String) throws(LogFault) -> [String: String] { [:] }
    /// Makes topics; one that is there already is left as it is.
    package func create(_ plans: [TopicPlan]) throws(LogFault) {}
    /// Changes some settings of a topic and keeps its others.
    package func alterConfiguration(
        ofTopic name: String,
        _ changes: [String: String]
    ) throws(LogFault) {}
    /// Deletes topics; one that is not there is passed over.
    package func deleteTopics(_ names: [String]) throws(LogFault) {}
    /// First offsets still there, by partition number.
    package func startOffsets(ofTopic name: String) throws(LogFault) -> [Int64] { [] }
    /// Next offsets to be written (read uncommitted), by partition number.
    package func endOffsets(ofTopic name: String) throws(LogFault) -> [Int64] { [] }
    /// What a group has committed, by partition number; nil where it has nothing.
    package func committedOffsets(
        ofGroup group: String,
        topic: String
    ) throws(LogFault) -> [Int64?] { [] }
    package func close() {}
}
