internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// How far back the results of dead letters are known.
///
/// `dlq.<prefix>replays.v1` is compacted, and its records go away when no dead letter of their time
/// can lie there any more (``Topic/Retention/newestOfKeyOutlivingDeadLetters``). Where dead letters
/// are retained for longer, the oldest may have been replayed already, and are not replayed again.
///
/// Raising that retention brings nothing back that is gone. So `topics apply` first writes down from
/// when on the results are known: ``noteLoss(under:_:runID:)``.
enum ReplayMemory {
    /// The settings that take records away.
    static let settings: Set<String> = ["retention.ms", "retention.bytes"]
    /// The retention with which the topic is made, in milliseconds.
    ///
    /// It has its own once what was lost is written down: until then all is forgotten, so nothing is
    /// replayed. An hour, in which what is written down stays; and a millisecond, which nobody sets.
    private static let unfinishedRetention = "3600001"
    /// Begins the key of what is written down, which is no dead letter's position.
    static let keyPrefix = Array("memory/".utf8)

    /// Results of dead letters that some settings may have taken away.
    private enum Loss {
        case nothing
        /// UNIX milliseconds.
        case before(Int64)
        case anything
    }

    /// The clocks of the worker that wrote the dead letter and of the replay may differ by less.
    private static let clockSkewMilliseconds: Int64 = 86_400_000

    /// Older dead letters are skipped; UNIX milliseconds, nil where nothing is forgotten.
    ///
    /// - Throws: exit 5 where a bound in bytes may take any record at any time.
    static func forgottenBefore(
        _ configuration: Configuration,
        now: Timestamp
    ) throws(CommandFailure) -> Int64? {
        let topic = Topic.deadLetterReplays
        let present = try KafkaQuestion.ask(configuration) {
            admin throws(LogFault) -> [String: TopicReview.Present] in
            // The embedded broker has no settings; nothing is replayed on it.
            EmbeddedBroker.isClusterID(try admin.clusterID())
                ? [:] : try admin.present([topic], prefix: configuration.topicPrefix)
        }
        let settings = present[topic.name(prefix: configuration.topicPrefix)]?.configuration ?? [:]
        switch loss(under: settings, now: now.milliseconds) {
        case .nothing: return nil
        case .before(let time): return time
        case .anything:
            throw CommandFailure(
                .refusedBySafetyRule,
                code: "dlq.bounded_memory",
                "\(topic.name(prefix: configuration.topicPrefix)) has a retention.bytes, so what"
                    + " went back may be forgotten at any time: see tollway topics plan"
            )
        }
    }

    private static func loss(under settings: [String: String], now: Int64) -> Loss {
        guard settings["cleanup.policy"]?.split(separator: ",").contains("delete") == true else {
            return .nothing
        }
        guard settings["retention.bytes"] == "-1" else {
            return .anything
        }
        guard let retention = settings["retention.ms"].flatMap({ Int64($0) }), retention >= 0 else {
            return .nothing
        }
        let kept = max(0, retention - clockSkewMilliseconds)
        return .before(max(0, now - min(kept, now)))
    }

    /// Writes down what the settings of the topic may have taken away; before they are changed, as
    /// after that nothing tells of it.
    ///
    /// The record outlives its use: it goes away with the new retention, and what that forgets is
    /// younger by then. A topic that still has its first records has lost none.
    ///
    /// - Throws: exit 6 where Kafka is away, and what else it answers.
    static func noteLoss(
        under settings: [String: String],
        _ configuration: Configuration,
        runID: String
    ) throws(CommandFailure) {
        let now = WallClock.nowMilliseconds()
        let loss = loss(under: settings, now: now)
        if case .nothing = loss {
            return
        }
        let topic = Topic.deadLetterReplays.name(prefix: configuration.topicPrefix)
        let starts = try KafkaQuestion.ask(configuration) { admin throws(LogFault) in
            try admin.startOffsets(ofTopic: topic)
        }
        let losing = starts.enumerated().filter { $0.element > 0 }.map {
            TopicPartition(topic: topic, partition: Int32($0.offset))
        }
        guard !losing.isEmpty else {
            return
        }
        if case .before(let time) = loss {
            return try write(knownSince: time, configuration, runID: runID)
        }
        let times = try TopicScan(configuration: configuration, topics: [topic])
            .firstTimes(
                at: losing.reduce(into: [:]) { $0[$1] = .offset(starts[Int($1.partition)]) }
            )
        let knownSince = Self.knownSince(
            firstTimes: Array(times.values),
            losingCount: losing.count,
            now: now
        )
        try write(knownSince: knownSince, configuration, runID: runID)
    }

    /// From when on results are known where a bound in bytes took some away.
    ///
    /// Kafka removes whole segments of a partition, the oldest first. So what lay before its first
    /// record is older than that, and a partition without a record tells nothing.
    ///
    /// - Parameters:
    ///   - firstTimes: of the first records of partitions that have lost some, UNIX milliseconds.
    ///   - losingCount: how many partitions have lost some.
    ///   - now: UNIX milliseconds.
    /// - Returns: UNIX milliseconds, at most `now`.
    static func knownSince(firstTimes: [Int64], losingCount: Int, now: Int64) -> Int64 {
        guard firstTimes.count == losingCount, let latest = firstTimes.max() else {
            return now
        }
        return min(latest + clockSkewMilliseconds, now)
    }

    /// Whether the topic, with these settings, was made, and what was lost with one before it may not be
    /// written down.
    static func isUnfinished(_ settings: [String: String]) -> Bool {
        settings["retention.ms"] == unfinishedRetention
    }

    /// The plan of the topic as it is made first.
    static func unfinished(_ plan: TopicPlan) -> TopicPlan {
        var plan = plan
        plan.configuration["retention.ms"] = unfinishedRetention
        return plan
    }

    /// Notes that the topic was made anew while there are dead letters: what was done with them until now
    /// is not known.
    static func noteMadeAnew(
        _ configuration: Configuration,
        runID: String
    ) throws(CommandFailure) {
        let isLoss = try KafkaQuestion.ask(configuration) { admin throws(LogFault) in
            let names = Set(
                Worker.allCases.map {
                    Topic.deadLetters($0).name(prefix: configuration.topicPrefix)
                }
            )
            for topic in try admin.topics() where names.contains(topic.name) {
                if try admin.endOffsets(ofTopic: topic.name).contains(where: { $0 > 0 }) {
                    return true
                }
            }
            return false
        }
        if isLoss {
            try write(knownSince: WallClock.nowMilliseconds(), configuration, runID: runID)
        }
    }

    private static func write(
        knownSince: Int64,
        _ configuration: Configuration,
        runID: String
    ) throws(CommandFailure) {
        let record = LoneRecord(
            topic: .deadLetterReplays,
            key: keyPrefix + runID.utf8,
            transactionalName: "topics.apply"
        )
        try record.store(configuration) { arena in
            JSONWriter.append(to: &arena) { writer in
                writer.beginObject()
                writer.field("knownSince", knownSince)
                writer.endObject()
            }
        }
    }

    /// Reads what ``noteLoss(under:_:runID:)`` wrote: from when on results are known, UNIX
    /// milliseconds.
    static func knownSince(_ value: Span<UInt8>) throws(WireFault) -> Int64 {
        var knownSince: Int64?
        try JSONScanner.scanObject(value) { (key, scanner) throws(WireFault) in
            switch key {
            case "knownSince": try scanner.fill(&knownSince)
            default: try scanner.skip()
            }
        }
        return try JSONScanner.require(knownSince, "knownSince")
    }
}
