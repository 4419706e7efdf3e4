package import Kafka

/// A worker's place in a topic that has no record behind it any more.
package struct LostRecords: Equatable, Sendable {
    package var partition: TopicPartition
    /// What was to be read next.
    package var position: Int64
    /// The first offset there is and the next to be written; -1 where unknown.
    package var start: Int64
    package var end: Int64

    package init(_ partition: TopicPartition, position: Int64, start: Int64, end: Int64) {
        self.partition = partition
        self.position = position
        self.start = start
        self.end = end
    }

    /// Nil where the place is still there.
    package init?(_ partition: TopicPartition, committed: Int64?, start: Int64, end: Int64) {
        guard let committed, !(start...max(start, end)).contains(committed) else {
            return nil
        }
        self.init(partition, position: committed, start: start, end: end)
    }

    /// How many offsets are gone; nil where that cannot be said.
    package var lostCount: Int64? { position < start ? start - position : nil }

    /// What happened to them, as far as the offsets show.
    package var because: String {
        switch (start, lostCount) {
        case (..<0, _): "it is not there any more"
        case (_, let lostCount?):
            "what there is begins at \(start): \(lostCount) offsets are gone, by retention or by hand"
        default:
            "what there is ends at \(end): the topic was cut off or made anew, and what it lost is"
                + " not known"
        }
    }

    package var sentence: String {
        "\(partition.topic) partition \(partition.partition) is to be read from offset \(position),"
            + " and \(because); to go on with what is there, stop this worker and run"
            + " `tollway offsets reset --yes`"
    }
}
