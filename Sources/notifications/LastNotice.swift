internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// Asks Kafka, once at the start, when the last notification came in that this worker's group has
/// read.
enum LastNotice {
    /// Records looked at before the group's position; transaction markers take offsets, too.
    private static let recordCountMax: Int64 = 10
    private static let waitMilliseconds = 200
    private static let readCountMax = 25

    /// Kafka being away is no reason not to start: then nothing is known.
    static func ask(_ configuration: Configuration) -> GapWatch.Before {
        do throws(LogFault) {
            return try read(configuration)
        } catch {
            return .unknown
        }
    }

    private static func read(_ configuration: Configuration) throws(LogFault) -> GapWatch.Before {
        let topic = Topic.notificationsReceived.name(prefix: configuration.topicPrefix)
        let group = "\(configuration.topicPrefix)\(Worker.notifications.rawValue)"
        let admin = try KafkaAdmin(settings: configuration.kafka)
        defer { admin.close() }
        let starts = try admin.startOffsets(ofTopic: topic)
        let committed = try admin.committedOffsets(ofGroup: group, topic: topic)
        let read = zip(starts, committed).map { start, committed in
            (start: start, committed: committed ?? 0)
        }
        if let before = before(starts: starts, committed: committed) {
            return before
        }
        var places: [TopicPartition: LogBrowser.Start] = [:]
        for (number, partition) in read.enumerated() where partition.committed > partition.start {
            places[TopicPartition(topic: topic, partition: Int32(number))] =
                .offset(max(partition.start, partition.committed - recordCountMax))
        }
        let browser = try LogBrowser(settings: configuration.kafka, topics: [topic])
        defer { browser.close() }
        try browser.start(at: places)
        var newest: Timestamp?
        var batch = RecordBatch()
        for _ in 0..<readCountMax {
            batch.removeAll()
            let isEnd = try browser.read(
                into: &batch,
                recordCountMax: 1_000,
                waitMilliseconds: waitMilliseconds
            )
            for record in batch.records
            where record.offset < read[Int(record.partition)].committed {
                newest = max(newest ?? .distant, time(of: record, batch))
            }
            if isEnd {
                break
            }
        }
        // A clock that was ahead must hide no gap until then.
        let now = Timestamp(milliseconds: WallClock.nowMilliseconds())
        return newest.map { .last(min($0, now)) } ?? .unknown
    }

    /// What is known without a look at a record; nil where the last one that was read is there.
    ///
    /// Kafka forgets the offsets of a group that is away for `offsets.retention.minutes`, seven days unless set
    /// otherwise; where the topic has lost records, then, what was read is older than it keeps.
    static func before(starts: [Int64], committed: [Int64?]) -> GapWatch.Before? {
        guard committed.contains(where: { $0 ?? 0 > 0 }) else {
            return starts.contains { $0 > 0 } ? .removed : .unknown
        }
        return zip(starts, committed).contains { $1 ?? 0 > $0 } ? nil : .removed
    }

    /// When ingest took it in; Kafka's own time for what cannot be read.
    static func time(of record: RecordBatch.Record, _ batch: RecordBatch) -> Timestamp {
        let value = batch.arena.span.extracting(
            record.value.isAbsent ? 0..<0 : record.value.indices
        )
        do throws(WireFault) {
            return try NotificationReceived(reading: value).receivedAt
        } catch {
            return Timestamp(milliseconds: record.timestampMilliseconds)
        }
    }
}

extension Timestamp {
    static let distant = Timestamp(milliseconds: .min)
}
