/// One changelog partition, read committed, up to the high watermark that stood at its making.
///
/// What a hanging transaction holds back is waited for, and then the worker ends with 75:
/// `tollway transactions repair` writes the markers that are owed.
final class KafkaChangelogReader: ChangelogReader {
    /// How long the loop may wait for the watermarks.
    static let questionMilliseconds = 1000
    /// Twice the transaction timeout: by then whatever was open has been ended by somebody, and an
    /// end that is still out of sight is an error, not an end.
    static let stallSeconds = 80
    /// A reader that gets nothing asks whether Kafka is there at all; time without it is no stall.
    static let probeSeconds = 10
    /// The first record is asked for for 5 s, and then by who asks again.
    private static let firstReadCountMax = 50
    private static let firstReadMilliseconds = 100

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

    init(
        partition: TopicPartition,
        from offset: Int64,
        startOffset: Int64,
        endOffset: Int64,
        committed: LogClient,
        uncommitted: LogClient
    ) {
        self.committed = committed
        self.uncommitted = uncommitted
        self.partition = partition
        self.startOffset = startOffset
        self.endOffset = endOffset
        // Librdkafka 2.0.2 asks for metadata in a version that carries no topic ids, and it has no
        // DescribeTopics, so a changelog made anew under its old name is recognized only by what
        // differs: the cluster (its id is in the store's path), an end before the store's offset,
        // a start behind it. One made anew and grown beyond that offset is not noticed; who deletes
        // a changelog deletes the state with it (runbook).
        topicIdentity = partition.topic
        position = max(offset, startOffset)
    }

    func firstRecordTime() throws(LogFault) -> Int64? {
        guard startOffset == 0, endOffset > 0 else {
            return nil
        }
        let reader = LogReader(client: uncommitted, topics: [partition.topic])
        defer { reader.close() }
        try reader.start(topic: 0, partition: partition.partition, offset: 0)
        var batch = RecordBatch()
        for _ in 0..<Self.firstReadCountMax {
            try reader.read(
                into: &batch,
                recordCountMax: 1,
                waitMilliseconds: Self.firstReadMilliseconds
            )
            if let first = batch.records.first {
                return first.offset == 0 ? first.timestampMilliseconds : nil
            }
            guard batch.ends.isEmpty else {
                return nil
            }
        }
        throw .unavailable(
            code: "_TIMED_OUT",
            message: "the first record of \(partition) was not handed out"
        )
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
        // The end of a read_committed partition comes with the position after the markers.
        for end in batch.ends[endStart...] {
            next = max(next, end.offset)
        }
        if next > position {
            position = next
            movedAt = ContinuousClock.now
        } else if try isStalled() {
            throw LogFault.unusable(
                message: "\(partition) ends at \(endOffset), but a hanging transaction"
                    + " holds readers at \(position): `tollway transactions list` shows it, and"
                    + " repair ends it"
            )
        }
        return position >= endOffset
    }

    func close() {
        reader?.close()
        reader = nil
        position = endOffset
    }

    private func isStalled() throws(LogFault) -> Bool {
        let now = ContinuousClock.now
        guard now - max(movedAt, probedAt) > .seconds(Self.probeSeconds) else {
            return false
        }
        probedAt = now
        do throws(LogFault) {
            _ = try uncommitted.watermarks(partition)
        } catch {
            movedAt = now
            throw error
        }
        return now - movedAt > .seconds(Self.stallSeconds)
    }

    /// Started with the first read: many readers are only asked for their watermarks.
    private func started() throws(LogFault) -> LogReader {
        if let reader {
            return reader
        }
        let reader = LogReader(client: committed, topics: [partition.topic])
        try reader.start(topic: 0, partition: partition.partition, offset: position)
        self.reader = reader
        movedAt = .now
        return reader
    }
}
