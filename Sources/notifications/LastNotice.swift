internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// Asks Kafka, once at the start, when the last notification of ours came in that this worker's
/// group has read.
enum LastNotice {
    /// Records looked at before the group's position; what Apple sent to others, and transaction
    /// markers, take offsets, too.
    private static let recordCountMax: Int64 = 100
    private static let waitMilliseconds = 200
    private static let readCountMax = 25

    /// Kafka being away is no reason not to start: then nothing is known.
    static func ask(
        _ configuration: Configuration,
        isOurs: NotificationsStage.IsOurs
    ) -> GapWatch.Before {
        do throws(LogFault) {
            return try read(configuration, isOurs: isOurs)
        } catch {
            return .unknown
        }
    }

    private static func read(
        _ configuration: Configuration,
        isOurs: NotificationsStage.IsOurs
    ) throws(LogFault) -> GapWatch.Before {
        let topic = Topic.notificationsReceived.name(prefix: configuration.topicPrefix)
        let group = Worker.notifications.group(prefix: configuration.topicPrefix)
        let admin = try KafkaAdmin(settings: configuration.kafka)
        defer { admin.close() }
        let starts = try admin.startOffsets(ofTopic: topic)
        let committed = try admin.committedOffsets(ofGroup: group, topic: topic)
        return try last(starts: starts, committed: committed, configuration, isOurs: isOurs)
    }

    /// The last of what lies before the group's positions.
    static func last(
        starts: [Int64],
        committed: [Int64?],
        _ configuration: Configuration,
        isOurs: NotificationsStage.IsOurs
    ) throws(LogFault) -> GapWatch.Before {
        if let before = before(starts: starts, committed: committed) {
            return before
        }
        let topic = Topic.notificationsReceived.name(prefix: configuration.topicPrefix)
        let read = zip(starts, committed).map { start, committed in
            (start: start, committed: committed ?? 0)
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
        var isEnd = false
        var batch = RecordBatch()
        for _ in 0..<readCountMax where !isEnd {
            batch.removeAll()
            isEnd = try browser.read(
                into: &batch,
                recordCountMax: 1_000,
                waitMilliseconds: waitMilliseconds
            )
            for record in batch.records
            where record.offset < read[Int(record.partition)].committed {
                if let time = time(of: record, batch, isOurs: isOurs) {
                    newest = max(newest ?? time, time)
                }
            }
        }
        guard let newest else {
            // As where nothing is left of what was read, if all that is left was looked at.
            let isAll = isEnd && read.allSatisfy { $0.committed <= $0.start + recordCountMax }
            return isAll && starts.contains { $0 > 0 } ? .removed : .unknown
        }
        // A clock that was ahead must hide no gap until then.
        return .last(min(newest, Timestamp(milliseconds: WallClock.nowMilliseconds())))
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

    /// When ingest took one of ours in; nil for anything else, which shows nothing.
    static func time(
        of record: RecordBatch.Record,
        _ batch: RecordBatch,
        isOurs: NotificationsStage.IsOurs
    ) -> Timestamp? {
        let value = batch.arena.span.extracting(
            record.value.isAbsent ? 0..<0 : record.value.indices
        )
        do throws(WireFault) {
            let received = try NotificationReceived(reading: value)
            return isOurs(received) ? received.receivedAt : nil
        } catch {
            // Its own verdict says so.
            return nil
        }
    }
}
