/// Reads partitions from given places to their ends, without a group: for the command and tests.
package final class LogBrowser {
    package enum Isolation: Sendable {
        case readCommitted
        case readUncommitted
    }

    package enum Start: Equatable, Sendable {
        case earliest
        case offset(Int64)
        /// The first record not older than this, UNIX milliseconds; on the embedded broker, which
        /// finds nothing by time, the earliest. Older ones may follow: the reader skips them.
        case timestamp(Int64)
        /// So many offsets before the end; transaction markers and what was compacted away count.
        case last(Int64)
    }

    private static let batchRecordCountMax = 10_000
    private static let waitMilliseconds = 200
    private static let silentMillisecondsMax = 60_000

    /// Full names of the topics; `Record.topic` is an index into it.
    package let topics: [String]
    private let client: LogClient
    private let reader: LogReader
    /// What is still to be read, by partition: the next offset and the end at the start.
    private var open: [TopicPartition: (next: Int64, end: Int64)] = [:]
    /// Whether a partition that was started a number of offsets before its end has records before
    /// that.
    package private(set) var hasEarlierRecords = false

    /// The deadline is for each question asked at the start.
    package init(
        settings: KafkaSettings,
        topics: [String],
        isolation: Isolation = .readCommitted,
        deadlineMilliseconds: Int = 10_000
    ) throws(LogFault) {
        try settings.check()
        self.topics = topics
        client = try LogClient(
            settings: settings.reader(isolation: isolation),
            deadlineMilliseconds: deadlineMilliseconds
        )
        reader = LogReader(client: client, topics: topics)
    }

    /// Starts on every partition of every topic at one place.
    ///
    /// Their ends are what they are now.
    ///
    /// Read committed, an end is the last stable offset: what an open transaction holds back is
    /// not waited for.
    package func start(from place: Start = .earliest) throws(LogFault) {
        for topic in topics {
            let ends = try client.offsets(ofTopic: topic, at: -1)
            var asked: [String: [Int64]] = [:]
            let starts = try self.starts(of: topic, from: place, ends: ends, &asked)
            for partition in ends.indices {
                try start(
                    TopicPartition(topic: topic, partition: Int32(partition)),
                    at: starts[partition],
                    end: ends[partition]
                )
            }
        }
    }

    /// Starts on the partitions given.
    package func start(at places: [TopicPartition: Start]) throws(LogFault) {
        var asked: [String: [Int64]] = [:]
        for (partition, place) in places.sorted(by: { $0.key < $1.key }) {
            let number = Int(partition.partition)
            let ends = try offsets(of: partition.topic, at: -1, &asked)
            guard ends.indices.contains(number) else {
                throw LogFault.misconfigured(message: "there is no partition \(partition)")
            }
            let starts = try self.starts(of: partition.topic, from: place, ends: ends, &asked)
            try start(partition, at: starts[number], end: ends[number])
        }
    }

    /// Appends what is there.
    ///
    /// - Returns: true once every partition was read to the end that it had at the start; more may
    ///   be read after that.
    package func read(
        into batch: inout RecordBatch,
        recordCountMax: Int,
        waitMilliseconds: Int
    ) throws(LogFault) -> Bool {
        let recordStart = batch.records.count
        let endStart = batch.ends.count
        try reader.read(
            into: &batch,
            recordCountMax: recordCountMax,
            waitMilliseconds: waitMilliseconds
        )
        for record in batch.records[recordStart...] {
            advance(record.topic, record.partition, to: record.offset + 1)
        }
        for end in batch.ends[endStart...] {
            advance(end.topic, end.partition, to: end.offset)
        }
        return open.isEmpty
    }

    /// Reads to the ends that every partition had at the start, and shows each batch.
    ///
    /// - Throws: what `body` throws; ``LogFault/unavailable(code:message:)`` where nothing more comes
    ///   for a minute.
    package func readToEnd(_ body: (RecordBatch) throws -> Void) throws {
        let clock = ContinuousClock()
        var batch = RecordBatch()
        var lastAt = clock.now
        while true {
            batch.removeAll()
            let isAtEnd = try read(
                into: &batch,
                recordCountMax: Self.batchRecordCountMax,
                waitMilliseconds: Self.waitMilliseconds
            )
            try body(batch)
            if isAtEnd {
                return
            }
            if !batch.records.isEmpty || !batch.ends.isEmpty {
                lastAt = clock.now
            }
            guard clock.now - lastAt < .milliseconds(Self.silentMillisecondsMax) else {
                throw LogFault.unavailable(
                    code: "_TIMED_OUT",
                    message: "nothing more of \(topics.joined(separator: ", ")) came for a minute"
                )
            }
        }
    }

    /// Records, and markers among them, before the ends that the partitions had at the start.
    package var remainingCount: Int64 { open.values.reduce(0) { $0 + $1.end - $1.next } }

    /// Returns within 2 s, whatever the broker does.
    package func close() {
        let end = ContinuousClock.now + .milliseconds(LogClient.closeMilliseconds)
        reader.close()
        client.close(deadlineMilliseconds: LogClient.milliseconds(until: end))
    }

    private func start(
        _ partition: TopicPartition,
        at offset: Int64,
        end: Int64
    ) throws(LogFault) {
        guard let topic = topics.firstIndex(of: partition.topic) else {
            throw LogFault.misconfigured(
                message: "\(partition.topic) is not a topic of this browser"
            )
        }
        if offset < end {
            open[partition] = (offset, end)
        }
        try reader.start(topic: topic, partition: partition.partition, offset: offset)
    }

    private func starts(
        of topic: String,
        from place: Start,
        ends: [Int64],
        _ asked: inout [String: [Int64]]
    ) throws(LogFault) -> [Int64] {
        switch place {
        case .earliest:
            return try offsets(of: topic, at: -2, &asked)
        case .offset(let offset):
            let earliest = try offsets(of: topic, at: -2, &asked)
            // An offset behind the end has the library begin anew, at the first record.
            return zip(earliest, ends).map { min(max($0, offset), $1) }
        case .timestamp(let milliseconds):
            let found = try offsets(of: topic, at: max(milliseconds, 0), &asked)
            // Kafka answers -1 where nothing is as young, and the embedded broker always does.
            if found.contains(where: { $0 < 0 }), try isEmbedded() {
                return try offsets(of: topic, at: -2, &asked)
            }
            return zip(found, ends).map { $0 < 0 ? $1 : $0 }
        case .last(let count):
            let earliest = try offsets(of: topic, at: -2, &asked)
            hasEarlierRecords =
                hasEarlierRecords || zip(earliest, ends).contains { $0 < $1 - count }
            return zip(earliest, ends).map { max($0, $1 - count) }
        }
    }

    private func isEmbedded() throws(LogFault) -> Bool {
        EmbeddedBroker.isClusterID(try client.clusterID())
    }

    /// Asked once for all partitions of a topic.
    private func offsets(
        of topic: String,
        at time: Int64,
        _ asked: inout [String: [Int64]]
    ) throws(LogFault) -> [Int64] {
        let question = "\(time) \(topic)"
        if let known = asked[question] {
            return known
        }
        let answer = try client.offsets(ofTopic: topic, at: time)
        asked[question] = answer
        return answer
    }

    private func advance(_ topic: Int, _ number: Int32, to offset: Int64) {
        let partition = TopicPartition(topic: topics[topic], partition: number)
        guard let place = open[partition] else {
            return
        }
        open[partition] = offset < place.end ? (offset, place.end) : nil
    }
}
