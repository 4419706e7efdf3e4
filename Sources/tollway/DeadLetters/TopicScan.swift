internal import Kafka
internal import StageRuntime
internal import Telemetry

/// Reads topics from somewhere to the ends that they have now, batch by batch, in bounded memory.
struct TopicScan {
    static let batchRecordCountMax = 10_000
    /// For topics that are read whole, in a verb whose memory is bounded by more than this.
    static let largeReadAheadKilobytes = 32_768
    private static let partitionReadAheadKilobytesMin = 1_024
    /// Without a record for so long, Kafka is given up; above a transaction's 40 s.
    private static let stallMilliseconds: Int64 = 60_000
    private static let waitMilliseconds = 200

    let configuration: Configuration
    let topics: [String]
    /// Also what lies behind transactions that are open now: waits until they have ended.
    var isToHighWatermark = false
    /// Reads this much ahead, in all partitions together: a queue that is full puts the client library
    /// to sleep for up to a second.
    var readAheadKilobytes: Int?

    /// Reads all of it, from some places or from the beginning of every partition.
    ///
    /// The body gets each batch, empty ones too; false ends the reading. `progress` shows how far it
    /// is of the whole; `begins` gets how many records there are at most, with the markers among them.
    func run(
        from places: [TopicPartition: LogBrowser.Start]? = nil,
        progress: ProgressLine? = nil,
        begins: (_ recordCount: Int64) -> Void = { _ in },
        _ body: (RecordBatch) throws(CommandFailure) -> Bool
    ) throws(CommandFailure) {
        var marks: [TopicPartition: Int64] = [:]
        let browser = try KafkaQuestion.failing(configuration) { () throws(LogFault) in
            if isToHighWatermark {
                marks = try highWatermarks().filter { places?[$0.key] != nil || places == nil }
            }
            return try LogBrowser(
                settings: settings(
                    partitionCount: places?.count ?? topics.count * TopicShape.partitionCountDefault
                ),
                topics: topics
            )
        }
        defer { browser.close() }
        try KafkaQuestion.failing(configuration) { () throws(LogFault) in
            if let places {
                try browser.start(at: places)
            } else {
                try browser.start()
            }
        }
        let goal = browser.remainingCount
        begins(goal)
        var batch = RecordBatch()
        var lastAt = WallClock.monotonicMilliseconds()
        var isDone = places?.isEmpty ?? false
        while !isDone || !marks.isEmpty {
            batch.removeAll()
            isDone = try KafkaQuestion.failing(configuration) { () throws(LogFault) in
                try browser.read(
                    into: &batch,
                    recordCountMax: Self.batchRecordCountMax,
                    waitMilliseconds: Self.waitMilliseconds
                )
            }
            let hasMoved = advance(&marks, past: batch)
            progress?.show(Int(goal - browser.remainingCount), of: Int(goal))
            guard try body(batch) else {
                return
            }
            let now = WallClock.monotonicMilliseconds()
            if hasMoved {
                lastAt = now
            }
            guard now - lastAt < Self.stallMilliseconds else {
                throw stalled(behindTransaction: isDone)
            }
        }
    }

    private func settings(partitionCount: Int) -> KafkaSettings {
        var settings = configuration.kafka
        if let readAheadKilobytes {
            // Each partition has a queue of its own.
            let share = max(
                readAheadKilobytes / max(partitionCount, 1),
                Self.partitionReadAheadKilobytesMin
            )
            let wanted = [
                "queued.max.messages.kbytes": "\(share)",
                "queued.min.messages": "100000", "fetch.message.max.bytes": "1048576",
            ]
            settings.extra.merge(wanted) { own, _ in own }
        }
        return settings
    }

    /// One place in every partition of a topic.
    ///
    /// - Throws: exit 3 where the topic is not there, 1 where these credentials may not see it.
    static func places(
        of topic: String,
        from start: LogBrowser.Start,
        _ configuration: Configuration
    ) throws(CommandFailure) -> [TopicPartition: LogBrowser.Start] {
        let count = try KafkaQuestion.ask(configuration) { admin throws(LogFault) -> Int? in
            try admin.partitionCount(of: topic)
        }
        guard let count else {
            throw CommandFailure(
                .nothingMatched,
                code: "kafka.no_topic",
                "Kafka shows no topic \(topic): see tollway topics plan"
            )
        }
        return (0..<Int32(count)).reduce(into: [:]) {
            $0[TopicPartition(topic: topic, partition: $1)] = start
        }
    }

    /// The time of the first record from each place on, UNIX milliseconds; none where there is no
    /// record.
    func firstTimes(
        at places: [TopicPartition: LogBrowser.Start],
        isCounted: (Span<UInt8>) -> Bool = { _ in true }
    ) throws(CommandFailure) -> [TopicPartition: Int64] {
        var times: [TopicPartition: Int64] = [:]
        try run(from: places) { batch throws(CommandFailure) in
            for record in batch.records {
                let place = TopicPartition(
                    topic: topics[record.topic],
                    partition: record.partition
                )
                let value = batch.arena.span.extracting(
                    record.value.isAbsent ? 0..<0 : record.value.indices
                )
                if times[place] == nil, isCounted(value) {
                    times[place] = record.timestampMilliseconds
                }
            }
            return times.count < places.count
        }
        return times
    }

    private func highWatermarks() throws(LogFault) -> [TopicPartition: Int64] {
        let admin = try KafkaAdmin(settings: configuration.kafka)
        defer { admin.close() }
        var marks: [TopicPartition: Int64] = [:]
        for topic in topics {
            let starts = try admin.startOffsets(ofTopic: topic)
            for (number, end) in try admin.endOffsets(ofTopic: topic).enumerated()
            where end > starts[number] {
                marks[TopicPartition(topic: topic, partition: Int32(number))] = end
            }
        }
        return marks
    }

    /// A record, or the end of a partition with its transaction markers, may reach an end offset.
    ///
    /// - Returns: whether anything came, where end offsets are waited for of a partition that is not
    ///   there yet: others may be written for ever, while a transaction holds one back.
    func advance(_ marks: inout [TopicPartition: Int64], past batch: RecordBatch) -> Bool {
        guard !marks.isEmpty else {
            return !batch.records.isEmpty || !batch.ends.isEmpty
        }
        let markCount = marks.count
        var reached: [TopicPartition: Int64] = [:]
        var hasMoved = false
        batch.forEachRunEnd { record in
            let partition = TopicPartition(
                topic: topics[record.topic],
                partition: record.partition
            )
            hasMoved = hasMoved || marks[partition] != nil
            reached[partition] = record.offset + 1
        }
        for end in batch.ends {
            let partition = TopicPartition(topic: topics[end.topic], partition: end.partition)
            reached[partition] = max(end.offset, reached[partition] ?? 0)
        }
        for (partition, offset) in reached where offset >= marks[partition] ?? .max {
            marks[partition] = nil
        }
        return hasMoved || marks.count < markCount
    }

    private func stalled(behindTransaction: Bool) -> CommandFailure {
        guard behindTransaction else {
            return CommandFailure(
                .noKafka,
                code: "kafka.unavailable",
                "nothing more of \(topics.joined(separator: ", ")) could be read for 60 s"
            )
        }
        return CommandFailure(
            .tryAgain,
            code: "kafka.open_transaction",
            "a transaction in \(topics.joined(separator: ", ")) does not end; see \"last stable"
                + " offset\" in the runbook"
        )
    }
}
