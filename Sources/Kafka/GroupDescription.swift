/// A consumer group as its coordinator sees it.
package struct GroupDescription: Equatable, Sendable {
    package struct Member: Equatable, Sendable {
        /// `group.instance.id`, else the client's id.
        package var name: String
        /// By which the group knows it until it comes anew.
        package var id: String
        package var partitions: [TopicPartition]
    }

    /// Kafka's name of it: `Stable`, `Empty`, `Dead`, `PreparingRebalance`, `CompletingRebalance`.
    package var state: String
    package var members: [Member]
}
