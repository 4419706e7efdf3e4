/// The log of one worker on a real Kafka: its group's consumer, its producer, its commit thread.
package final class KafkaLog: RecordLog {
    /// Who this worker is to Kafka.
    package struct Member: Sendable, Equatable {
        /// Consumer group, such as `tollway.decode`.
        package var group: String
        /// Stable over restarts: names the static member.
        package var instance: String
        /// Stable over restarts, such as `tollway.decode-0`: fences the predecessor's transaction.
        package var transactionalID: String

        package init(group: String, instance: String, transactionalID: String) {
            self.group = group
            self.instance = instance
            self.transactionalID = transactionalID
        }
    }

    package let sources: [String]
    package let targets: [String]

    /// Makes the clients and starts their threads. Asks the broker nothing: it may be away.
    ///
    /// - Parameters:
    ///   - changelog: the member of `targets` that holds the state; under at-least-once it is
    ///     written after the other outputs are stored.
    ///   - recordByteCountMax: `max.message.bytes` of targets that differ from Kafka's default.
    package init(
        settings: KafkaSettings,
        delivery: KafkaDelivery,
        member: Member,
        sources: [String],
        targets: [String],
        changelog: String? = nil,
        recordByteCountMax: [String: Int] = [:]
    ) throws(LogFault) {
        self.sources = sources
        self.targets = targets
        throw LogFault.unusable(message: "not built yet")
    }

    package var wakeDescriptor: Int32 { -1 }

    package func poll(
        into batch: inout RecordBatch,
        recordCountMax: Int,
        waitMilliseconds: Int
    ) throws(LogFault) -> GroupEvent? { nil }

    package func completeAssignment() throws(LogFault) -> [TopicPartition: Int64] { [:] }

    package func completeRevocation() throws(LogFault) {}

    package func submit(
        _ outputs: consuming OutputBatch,
        positions: [TopicPartition: Int64]
    ) throws(LogFault) {}

    package func takeOutcome(waitMilliseconds: Int) throws(LogFault) -> CommitOutcome? { nil }

    package func endOffsets(ofTopic topic: String) throws(LogFault) -> [Int64]? { nil }

    package func committedOffsets(
        ofGroup group: String,
        topic: String
    ) throws(LogFault) -> [Int64?]? { nil }

    package func changelogReader(
        _ partition: TopicPartition,
        from offset: Int64
    ) throws(LogFault) -> any ChangelogReader {
        throw LogFault.unusable(message: "not built yet")
    }

    /// What the client library said since the last call, oldest first; at most 64 are kept.
    package func takeNotes() -> [KafkaNote] { [] }

    /// True from the moment no broker answers until one does.
    package var isBrokerAway: Bool { false }

    package func close(deadlineMilliseconds: Int) {}
}
