/// One changelog partition, read committed, up to the high watermark that stood at its making.
///
/// Kafka may have left a transaction of the predecessor's without its markers that was committed: its
/// offsets are, and say up to where it has written here. Committed readers do not get beyond it before
/// the next commit in the partition, and there is none before the state is there. So what it holds back
/// is read uncommitted.
final class KafkaChangelogReader: ChangelogReader {
    /// How long the loop may wait for the watermarks.
    static let questionMilliseconds = 1000
    /// Twice the transaction timeout: by then whatever was open has been ended by somebody, and an
    /// end that is still out of sight is an error, not an end.
    static let stallSeconds = 80
    /// A reader that gets nothing asks whether Kafka is there at all; time without it is no stall.
    static let probeSeconds = 10

    let startOffset: Int64
    let endOffset: Int64
    let topicIdentity: String
    private let partition: TopicPartition
    private var position: Int64
    private var reader: LogReader?
    private var movedAt = ContinuousClock.now
    private var probedAt = ContinuousClock.now
    private let committed: LogClient
    private let uncommitted: LogClient
    /// Up to where what stands here is committed, whether or not Kafka shows it.
    private let committedEnd: Int64
    private var isReadingHeld = false
    /// Where readers were last told to have reached what there is for them.
    private var toldEnd: Int64?

    init(
        partition: TopicPartition,
        from offset: Int64,
        startOffset: Int64,
        endOffset: Int64,
        committed: LogClient,
        uncommitted: LogClient,
        committedEnd: Int64?
    ) {
        self.committed = committed
        self.uncommitted = uncommitted
        self.committedEnd = committedEnd ?? 0
        self.partition = partition
        self.startOffset = startOffset
        self.endOffset = endOffset
        // Librdkafka 2.0.2 asks for metadata in a version that carries no topic ids, and it has no
        // DescribeTopics, so a changelog made anew under its old name is told apart only by what
        // differs: the cluster (its id is in the store's path), an end before the store's offset,
        // a start behind it. One made anew and grown beyond that offset is not noticed; who deletes
        // a changelog deletes the state with it (runbook).
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
        if isReadingHeld {
            let new = batch.records[recordStart...]
            batch.records.removeLast(new.count { $0.offset >= committedEnd })
        }
        var next = position
        if batch.records.count > recordStart, let last = batch.records.last {
            next = max(next, last.offset + 1)
        }
        // The end of a read_committed partition is told with the position after the markers.
        for end in batch.ends[endStart...] {
            toldEnd = end.offset
            next = max(next, end.offset)
        }
        if isReadingHeld {
            next = min(next, committedEnd)
        }
        if next > position {
            position = next
            movedAt = ContinuousClock.now
            if isReadingHeld, position >= committedEnd {
                readOn(isHeld: false)
            }
        } else if !isReadingHeld, toldEnd == position, position < committedEnd {
            readOn(isHeld: true)
        } else if try isStalled() {
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

    private func readOn(isHeld: Bool) {
        reader?.close()
        reader = nil
        isReadingHeld = isHeld
        toldEnd = nil
    }

    private func isStalled() throws(LogFault) -> Bool {
        let now = ContinuousClock.now
        guard now - max(movedAt, probedAt) > .seconds(Self.probeSeconds) else {
            return false
        }
        probedAt = now
        do throws(LogFault) {
            _ = try uncommitted.watermarks(
                partition,
                deadlineMilliseconds: Self.questionMilliseconds
            )
        } catch {
            movedAt = now
            throw error
        }
        return now - movedAt > .seconds(Self.stallSeconds)
    }

    /// Started with the first read: many readers are only asked for their marks.
    private func started() throws(LogFault) -> LogReader {
        if let reader {
            return reader
        }
        let reader = try LogReader(
            client: isReadingHeld ? uncommitted : committed,
            topics: [partition.topic]
        )
        try reader.start(topic: 0, partition: partition.partition, offset: position)
        self.reader = reader
        return reader
    }
}
