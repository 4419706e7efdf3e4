internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// The span of time whose tokens are counted, by when they came in, and what cannot be known.
struct AccountWindow {
    /// Left after the oldest record of a topic: a token is a moment older than its record, and the
    /// clocks of workers differ.
    static let margin = Milliseconds.hours(1)

    /// In.
    var from: Timestamp
    /// Out.
    var to: Timestamp
    /// Why it does not reach back as far as it was asked for; nil where it does.
    var shortened: String?

    func contains(_ time: Timestamp) -> Bool { from <= time && time < to }

    /// Where every topic still has all records, no earlier than `wanted`.
    ///
    /// - Parameters:
    ///   - topics: those that are counted against one another; one that is not there is left out.
    ///   - outcomes: what the records of some of them came to.
    ///   - wanted: from when on; nil: as far back as Kafka has it.
    ///   - to: up to when; what came in later is left out.
    ///   - now: when it is asked.
    ///   - configuration: which Kafka.
    /// - Returns: the span; empty where nothing of it can be counted.
    /// - Throws: exit 6 without Kafka.
    static func open(
        _ topics: [Topic],
        outcomes: [Topic: Topic],
        from wanted: Timestamp?,
        to: Timestamp,
        now: Timestamp,
        _ configuration: Configuration
    ) throws(CommandFailure) -> AccountWindow {
        var oldest = Timestamp(milliseconds: 0)
        var oldestTopic = ""
        for topic in topics {
            let name = topic.name(prefix: configuration.topicPrefix)
            let kept = try completeFrom(name, now: now, configuration)
            // Where records were removed, those of the outcomes may be there for longer.
            let outcome = kept == nil ? outcomes[topic] : nil
            let made = try outcome.flatMap { (outcome) throws(CommandFailure) in
                try madeAnew(
                    firstTime(name, emptyAt: now, configuration),
                    outcomes: firstTime(
                        outcome.name(prefix: configuration.topicPrefix),
                        configuration
                    )
                )
            }
            guard let start = [kept, made].compactMap(\.self).max(), start > oldest else {
                continue
            }
            oldest = start
            oldestTopic = name
        }
        let known = oldest.milliseconds == 0 ? oldest : oldest + margin
        let from = max(known, wanted ?? known)
        var window = AccountWindow(from: min(from, to), to: to)
        if known > wanted ?? known || wanted == nil && known.milliseconds > 0 {
            window.shortened =
                "what came in before \(WallClock.rfc3339(milliseconds: window.from.milliseconds))"
                + " cannot be counted: \(oldestTopic) does not have it any more"
        }
        return window
    }

    /// Says so where sales came in, and their topic is not there, or was made anew and is empty.
    ///
    /// Then nothing of the span can be counted, whenever they came in.
    ///
    /// - Throws: exit 6 without Kafka.
    mutating func noteLostSales(_ configuration: Configuration) throws(CommandFailure) {
        let had = try KnownSales.hadRecords(.purchasesReceived, configuration)
        guard shortened == nil, had != true,
            try KnownSales.cameIn(besides: .purchasesReceived, configuration)
        else {
            return
        }
        from = to
        let name = Topic.purchasesReceived.name(prefix: configuration.topicPrefix)
        shortened =
            "what came in before \(WallClock.rfc3339(milliseconds: to.milliseconds))"
            + " cannot be counted, and sales did come in: "
            + (had == nil ? "Kafka shows no topic \(name)" : "\(name) was made anew and is empty")
    }

    /// When a topic was made anew, by when its first record and the first of what they came to were
    /// written; nil where it was not.
    ///
    /// Nothing removed the records before that, so no partition says that they are missing.
    static func madeAnew(_ first: Timestamp?, outcomes: Timestamp?) -> Timestamp? {
        guard let first, let outcomes, outcomes + margin < first else {
            return nil
        }
        return first
    }

    /// When the oldest record of a topic was written; nil where there is none, `emptyAt` where there
    /// never was one.
    private static func firstTime(
        _ topic: String,
        emptyAt: Timestamp? = nil,
        _ configuration: Configuration
    ) throws(CommandFailure) -> Timestamp? {
        let bounds = try bounds(topic, configuration)
        guard bounds.contains(where: { $0.end > 0 }) else {
            return bounds.isEmpty ? nil : emptyAt
        }
        let places = bounds.enumerated().reduce(into: [:]) {
            (places: inout [TopicPartition: LogBrowser.Start], bound) in
            // Nothing comes from an empty one; waiting for it would read all of the others.
            if bound.element.end > bound.element.start {
                let partition = TopicPartition(topic: topic, partition: Int32(bound.offset))
                places[partition] = .offset(bound.element.start)
            }
        }
        let times =
            try places.isEmpty
            ? [:]
            : TopicScan(configuration: configuration, topics: [topic])
                .firstTimes(at: places, isCounted: isOutcome)
        return times.values.min().map { Timestamp(milliseconds: $0) }
    }

    /// decode writes what it has seen of a dead letter to `tokens.distinct`: that came of no other record.
    private static func isOutcome(_ value: Span<UInt8>) -> Bool {
        do throws(WireFault) {
            return try TokenDistinct(reading: value).role != .seen
        } catch {
            return true
        }
    }

    /// Where each partition begins and ends; none where the topic is not there.
    private static func bounds(
        _ topic: String,
        _ configuration: Configuration
    ) throws(CommandFailure) -> [(start: Int64, end: Int64)] {
        try KafkaQuestion.ask(configuration) {
            admin throws(LogFault) -> [(start: Int64, end: Int64)] in
            guard try admin.topic(topic)?.partitions.isEmpty == false else {
                return []
            }
            let starts = try admin.startOffsets(ofTopic: topic)
            let ends = try admin.endOffsets(ofTopic: topic)
            return zip(starts, ends).map { (start: $0, end: $1) }
        }
    }

    /// Since when every partition of a topic has all records; nil where nothing was removed.
    static func completeFrom(
        _ topic: String,
        now: Timestamp,
        _ configuration: Configuration
    ) throws(CommandFailure) -> Timestamp? {
        let losing = try bounds(topic, configuration).enumerated().filter { $0.element.start > 0 }
        guard !losing.isEmpty else {
            return nil
        }
        var places: [TopicPartition: LogBrowser.Start] = [:]
        // Elsewhere nothing is left to be read; waiting for it would read all of the others.
        for (number, bound) in losing where bound.end > bound.start {
            places[TopicPartition(topic: topic, partition: Int32(number))] = .offset(bound.start)
        }
        let times =
            try places.isEmpty
            ? [:]
            : TopicScan(configuration: configuration, topics: [topic]).firstTimes(at: places)
        guard times.count < losing.count else {
            return completeFrom(times.values, emptySince: nil)
        }
        let settings = try KafkaQuestion.ask(configuration) {
            admin throws(LogFault) -> [String: String] in
            try admin.configuration(ofTopic: topic)
        }
        return completeFrom(
            times.values,
            emptySince: emptySince(settings["retention.ms"].flatMap { Int64($0) }, now: now)
        )
    }

    /// The latest of the times of the oldest records that partitions with lost records still have, and
    /// of `emptySince`, where one of them has none.
    static func completeFrom(
        _ firstTimes: some Sequence<Int64>,
        emptySince: Timestamp?
    ) -> Timestamp? {
        (firstTimes.map { Timestamp(milliseconds: $0) } + [emptySince].compactMap { $0 }).max()
    }

    /// Since when a partition has had no record that is gone now.
    ///
    /// Retention leaves what is younger than it; what was removed by hand may have been of any time.
    static func emptySince(_ retention: Int64?, now: Timestamp) -> Timestamp {
        guard let retention, retention >= 0 else {
            return now
        }
        return Timestamp(milliseconds: max(0, now.milliseconds - min(retention, now.milliseconds)))
    }
}

/// What the groups had read when the count began.
struct AccountPositions {
    private var committed: [Topic: [Int64]] = [:]

    static let pairs: [(Worker, Topic)] = [
        (.decode, .tokensReceived), (.dedupe, .tokensDecoded), (.report, .tokensDistinct),
        (.purchases, .purchasesReceived),
    ]

    init(_ configuration: Configuration) throws(CommandFailure) {
        let prefix = configuration.topicPrefix
        committed = try KafkaQuestion.ask(configuration) {
            admin throws(LogFault) -> [Topic: [Int64]] in
            var found: [Topic: [Int64]] = [:]
            let there = try admin.partitionCounts()
            // A deployment without sales has no topic of them.
            for (worker, topic) in Self.pairs where there[topic.name(prefix: prefix)] != nil {
                let offsets = try admin.committedOffsets(
                    ofGroup: worker.group(prefix: prefix),
                    topic: topic.name(prefix: prefix)
                )
                found[topic] = offsets.map { $0 ?? 0 }
            }
            return found
        }
    }

    func isUnread(_ topic: Topic, _ record: RecordBatch.Record) -> Bool {
        guard let offsets = committed[topic], offsets.indices.contains(Int(record.partition)) else {
            return true
        }
        return record.offset >= offsets[Int(record.partition)]
    }
}

/// Up to where the topics of tokens are counted.
///
/// A stage's output is fixed before its input: of all that came out by then, what it came from is
/// in the input, however much the stage reads while it is counted.
struct AccountEnds {
    static let topics: [Topic] = [
        .deadLetters(.report), .tokensDistinct, .deadLetters(.dedupe), .tokensDecoded,
        .deadLetters(.decode), .tokensReceived,
    ]

    private var ends: [Topic: [Int64]] = [:]

    init(_ configuration: Configuration) throws(CommandFailure) {
        ends = try KafkaQuestion.ask(configuration) {
            admin throws(LogFault) -> [Topic: [Int64]] in
            let there = try admin.partitionCounts()
            var found: [Topic: [Int64]] = [:]
            for topic in Self.topics {
                let name = topic.name(prefix: configuration.topicPrefix)
                if there[name] != nil {
                    found[topic] = try admin.endOffsets(ofTopic: name)
                }
            }
            return found
        }
    }

    /// By partition number; nil of a state, which is read to its end.
    func offsets(of topic: Topic) -> [Int64]? {
        Self.topics.contains(topic) ? ends[topic] ?? [] : nil
    }
}
