/// One changelog partition, read committed, up to the high watermark that stood at its making.
final class KafkaChangelogReader: ChangelogReader {
    /// How long the loop may wait for the watermarks.
    static let questionMilliseconds = 1000
    /// Twice the transaction timeout: by then whatever was open has been ended by somebody, and an
    /// end that is still out of sight is an error, not an end.
    static let stallSeconds = 80

    let startOffset: Int64
    let endOffset: Int64
    let topicIdentity: String
    private let partition: TopicPartition
    private let client: LogClient
    private var position: Int64
    private var reader: LogReader?
    private var movedAt = ContinuousClock.now

    init(
        partition: TopicPartition,
        from offset: Int64,
        startOffset: Int64,
        endOffset: Int64,
        client: LogClient
    ) {
        self.partition = partition
        self.startOffset = startOffset
        self.endOffset = endOffset
        self.client = client
        // Metadata of this client library's age carries no topic ids.
        topicIdentity = partition.topic
        position = max(offset, startOffset)
    }

    func read(
        into batch: inout RecordBatch,
        recordCountMax: Int,
        waitMilliseconds: Int
    ) throws(LogFault) -> Bool {
        guard position < endOffset else {
            return true
        }
        let recordStart = batch.records.count
        let endStart = batch.ends.count
        try started().read(
            into: &batch,
            recordCountMax: recordCountMax,
            waitMilliseconds: waitMilliseconds
        )
        var next = position
        if batch.records.count > recordStart, let last = batch.records.last {
            next = max(next, last.offset + 1)
        }
        // The end of a read_committed partition is told with the position after the markers.
        for end in batch.ends[endStart...] {
            next = max(next, end.offset)
        }
        if next > position {
            position = next
            movedAt = ContinuousClock.now
        } else if ContinuousClock.now - movedAt > .seconds(Self.stallSeconds) {
            throw LogFault.unusable(
                message: "\(partition) ends at \(endOffset), but a transaction that nobody ends"
                    + " holds readers at \(position)"
            )
        }
        return position >= endOffset
    }

    func close() {
        reader?.close()
        reader = nil
        position = endOffset
    }

    /// Started with the first read: many readers are only asked for their marks.
    private func started() throws(LogFault) -> LogReader {
        if let reader {
            return reader
        }
        let reader = try LogReader(client: client, topics: [partition.topic])
        try reader.start(topic: 0, partition: partition.partition, offset: position)
        self.reader = reader
        return reader
    }
}
