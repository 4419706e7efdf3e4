internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// Asks Kafka whether a gap that a worker finds in its own partitions is one of all of them.
///
/// Notifications have no key: of a few a week, other workers may have read all that came in between.
enum GapInLog {
    private static let questionMilliseconds = 2_000
    private static let readMillisecondsMax: Int64 = 3_000
    private static let waitMilliseconds = 200
    private static let recordCountMax = 10_000

    /// Waits for Kafka.
    ///
    /// Mostly a fraction of a second. At most some 30 s, for two looks: in each, four questions take 2 s
    /// each, or 4 s where leaders move, then the records 3 s, and closing 2 s.
    ///
    /// - Returns: the gap in the whole log, nil where there is none; `gap` itself where Kafka does
    ///   not say in time, or has nothing of the time before.
    static func ask(
        _ gap: GapWatch.Gap,
        _ configuration: Configuration,
        isOurs: NotificationsStage.IsOurs
    ) -> GapWatch.Gap? {
        guard let start = gap.lookFrom else {
            return gap
        }
        // Where one came in then, neither side of it is a gap: of a busy topic the first record says so.
        let middle = gap.to + -GapWatch.retrySpan...start + GapWatch.retrySpan
        do throws(LogFault) {
            let near = try times(
                from: middle.lowerBound,
                until: middle,
                configuration,
                isOurs: isOurs
            )
            guard near?.contains(where: middle.contains) != true else {
                return nil
            }
            let all = try times(from: start, until: nil, configuration, isOurs: isOurs)
            guard let times = all else {
                return gap
            }
            return gap.left(by: times)
        } catch {
            // Too often is better than not at all.
            return gap
        }
    }

    /// When others of ours came in; nil where they are too many for the time.
    ///
    /// Where `enough` is given, one of those ends the look.
    private static func times(
        from start: Timestamp,
        until enough: ClosedRange<Timestamp>?,
        _ configuration: Configuration,
        isOurs: NotificationsStage.IsOurs
    ) throws(LogFault) -> [Timestamp]? {
        let topic = Topic.notificationsReceived.name(prefix: configuration.topicPrefix)
        let browser = try LogBrowser(
            settings: configuration.kafka,
            topics: [topic],
            deadlineMilliseconds: questionMilliseconds
        )
        defer { browser.close() }
        try browser.start(from: .timestamp(start.milliseconds))
        let until = WallClock.monotonicMilliseconds() + readMillisecondsMax
        var times: [Timestamp] = []
        var batch = RecordBatch()
        var isEnd = browser.remainingCount == 0
        while !isEnd {
            guard times.count < recordCountMax, WallClock.monotonicMilliseconds() < until else {
                return nil
            }
            batch.removeAll()
            isEnd = try browser.read(
                into: &batch,
                recordCountMax: 1_000,
                waitMilliseconds: waitMilliseconds
            )
            for record in batch.records {
                guard let time = LastNotice.time(of: record, batch, isOurs: isOurs) else {
                    continue
                }
                times.append(time)
                if enough?.contains(time) == true {
                    return times
                }
            }
        }
        return times
    }
}
