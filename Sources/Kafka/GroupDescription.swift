internal import CKafka

/// A consumer group as its coordinator sees it.
package struct GroupDescription: Equatable, Sendable {
    package struct Member: Equatable, Sendable {
        /// `group.instance.id`, else the client's id.
        package var name: String
        package var partitions: [TopicPartition]
    }

    /// Kafka's name of it: `Stable`, `Empty`, `Dead`, `PreparingRebalance`, `CompletingRebalance`.
    package var state: String
    package var members: [Member]
}

extension LogClient {
    func group(
        _ name: String,
        deadlineMilliseconds: Int
    ) throws(LogFault) -> GroupDescription {
        var fault = ckafka_fault()
        var shown = unsafe ckafka_group()
        let deadline = Int32(clamping: deadlineMilliseconds)
        guard unsafe ckafka_client_group(handle, name, deadline, &shown, &fault) == 0 else {
            throw LogFault(fault)
        }
        let names = unsafe CText.texts(of: shown.names)
        let memberCount = unsafe shown.member_count
        var group = GroupDescription(
            state: unsafe String(cString: shown.state),
            members: names[..<memberCount].map { .init(name: $0, partitions: []) }
        )
        let held = unsafe Array(
            UnsafeBufferPointer(start: shown.held, count: shown.held_count)
        )
        for (topic, held) in zip(names[memberCount...], held) {
            group.members[Int(held.member)].partitions.append(
                TopicPartition(topic: topic, partition: held.partition)
            )
        }
        return group
    }
}
