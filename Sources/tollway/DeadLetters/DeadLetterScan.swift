internal import Kafka
internal import StageRuntime
internal import TokenDomain

/// Goes through the dead letters that a filter means, in the order in which Kafka gives them.
struct DeadLetterScan {
    let configuration: Configuration
    var filter: DeadLetterFilter
    /// Also those that were replayed or discarded.
    var includesSettled = false
    /// Whether `body` wants to know what each is about.
    var readsSubjects = false
    /// Fewer, where a plan names positions; nil: all partitions of the filter.
    var places: [TopicPartition: LogBrowser.Start]?

    private var prefix: String { configuration.topicPrefix }

    /// The dead-letter topics that are there.
    ///
    /// - Throws: exit 3 where none is, 1 where these credentials may not see one of the filter's.
    func stages() throws(CommandFailure) -> [Worker] {
        let stages = try KafkaQuestion.ask(configuration) { admin throws(LogFault) -> [Worker] in
            var stages: [Worker] = []
            for stage in filter.stages
            where try admin.partitionCount(of: Topic.deadLetters(stage).name(prefix: prefix)) != nil
            {
                stages.append(stage)
            }
            return stages
        }
        guard !stages.isEmpty else {
            throw CommandFailure(
                .nothingMatched,
                code: "dlq.no_topics",
                "Kafka has no dead-letter topics under the prefix \"\(prefix)\":"
                    + " see tollway topics plan"
            )
        }
        return stages
    }

    /// The replays and discards of dead letters so far, as far as they are committed.
    ///
    /// Exactly: waits for transactions that are open now. Else what an open replay is about to
    /// commit is not seen. `since`: only of dead letters that were written then or later, for a
    /// dead letter is older than its replay. `of`: only of these, which lie in few partitions.
    /// `countingRun`: also counts those of a run.
    func settled(
        isExact: Bool = false,
        since: Int64? = nil,
        of positions: [DeadLetterPosition]? = nil,
        countingRun runID: String? = nil,
        progress: ProgressLine? = nil
    ) throws(CommandFailure) -> SettledDeadLetters {
        var settled = SettledDeadLetters(countingRun: runID)
        let topic = Topic.deadLetterReplays.name(prefix: prefix)
        let isThere = try KafkaQuestion.ask(configuration) { admin throws(LogFault) -> Bool in
            try admin.partitionCount(of: topic) != nil
        }
        guard isThere else {
            return settled
        }
        let scan = TopicScan(
            configuration: configuration,
            topics: [topic],
            isToHighWatermark: isExact,
            readAheadKilobytes: TopicScan.largeReadAheadKilobytes
        )
        var from = try (since ?? filter.since).map { (time) throws(CommandFailure) in
            try TopicScan.places(
                of: topic,
                from: .timestamp(max(0, time - Self.clockSkewMilliseconds)),
                configuration
            )
        }
        if let positions, let places = from {
            let partitions = Set(
                positions.map { position in
                    TopicReader.partition(
                        ofKey: Array(position.settledKey(prefix: prefix).utf8),
                        partitionCount: places.count
                    )
                }
            )
            from = places.filter { partitions.contains($0.key.partition) }
        }
        try scan.run(from: from) { batch throws(CommandFailure) in
            try settled.absorb(batch, prefix: prefix)
            progress?.add(batch.records.count)
            return true
        }
        return settled
    }

    /// Shows every dead letter that matches: with the batch that its bytes lie in and, where asked
    /// for, its subject; false ends the scan.
    ///
    /// What is settled is left out, or marked where settled ones are included.
    ///
    /// - Returns: how many more may match, see ``DeadLetterFilter/mayMatch(_:)``.
    @discardableResult
    func run(
        settled: SettledDeadLetters,
        progress: ProgressLine? = nil,
        _ body: (DeadLetterRecord, RecordBatch, DeadLetterSubject) throws(CommandFailure) -> Bool
    ) throws(CommandFailure) -> Int {
        let stages = try stages()
        let scan = TopicScan(
            configuration: configuration,
            topics: stages.map { Topic.deadLetters($0).name(prefix: prefix) },
            readAheadKilobytes: TopicScan.largeReadAheadKilobytes
        )
        let last = filter.until.map { $0 + Self.clockSkewMilliseconds }
        var passed: Set<TopicPartition> = []
        var otherNameCount = 0
        let subjects = SubjectReader()
        let needsSubject = readsSubjects || filter.needsSubject
        var from = places
        if from == nil {
            from = try narrowed(stages)
        }
        try scan.run(from: from) { batch throws(CommandFailure) in
            progress?.add(batch.records.count)
            if last != nil, let from, passed.count == from.count {
                return false
            }
            for record in batch.records {
                if let last, record.timestampMilliseconds > last {
                    // All after it in its partition failed later still, but for the clocks.
                    passed.insert(
                        TopicPartition(
                            topic: scan.topics[record.topic],
                            partition: record.partition
                        )
                    )
                    continue
                }
                var deadLetter = DeadLetterRecord(
                    record,
                    stage: stages[record.topic],
                    in: batch.arena.span
                )
                guard filter.matches(deadLetter, in: batch) else {
                    continue
                }
                deadLetter.settled = settled.state(
                    of: deadLetter.position,
                    timestamp: record.timestampMilliseconds
                )
                guard deadLetter.settled == nil || includesSettled else {
                    continue
                }
                var subject = DeadLetterSubject()
                if needsSubject {
                    // Without value it is of no app, token or environment that is known.
                    if !record.value.isAbsent {
                        subject = subjects.read(batch.arena.span.extracting(record.value.indices))
                    }
                    guard filter.matches(subject) else {
                        otherNameCount += filter.mayMatch(subject) ? 1 : 0
                        continue
                    }
                }
                guard try body(deadLetter, batch, subject) else {
                    return false
                }
            }
            return true
        }
        return otherNameCount
    }

    /// Where the filter lets less than everything be read; nil where it does not.
    ///
    /// A dead letter is written after the failure, so none that failed since a time is older in
    /// Kafka; the clocks of workers and brokers may differ by a little.
    private func narrowed(
        _ stages: [Worker]
    ) throws(CommandFailure) -> [TopicPartition: LogBrowser.Start]? {
        guard filter.since != nil || !filter.partitions.isEmpty || filter.offsetMin > 0 else {
            return nil
        }
        let start: LogBrowser.Start =
            filter.offsetMin > 0
            ? .offset(filter.offsetMin)
            : filter.since.map { .timestamp($0 - Self.clockSkewMilliseconds) } ?? .earliest
        return try partitions(stages).reduce(into: [:]) { $0[$1] = start }
    }

    /// Those that the filter means.
    private func partitions(
        _ stages: [Worker]
    ) throws(CommandFailure) -> Set<TopicPartition> {
        let counts = try KafkaQuestion.ask(configuration) { admin throws(LogFault) in
            try admin.partitionCounts()
        }
        var found: Set<TopicPartition> = []
        for stage in stages {
            let name = Topic.deadLetters(stage).name(prefix: prefix)
            for partition in 0..<(counts[name] ?? 0)
            where filter.partitions.isEmpty
                || filter.partitions.contains(where: { $0.contains(Int64(partition)) })
            {
                found.insert(TopicPartition(topic: name, partition: Int32(partition)))
            }
        }
        return found
    }

    /// What keeps dead letters from being seen, in words; nil where all are: one that was written behind
    /// a transaction that does not end is in no scan.
    ///
    /// `isAny`: also of one that has ended since the scan.
    func hindrance(isAny: Bool = false) throws(CommandFailure) -> String? {
        // Positions that somebody names were seen before.
        guard filter.offsets.isEmpty || filter.offsets.contains(where: { $0.upperBound == .max })
        else {
            return nil
        }
        let open = try OpenTransactions(in: partitions(filter.stages), configuration)
        return open.sentence
            ?? (isAny && open.wereThere ? "a transaction has ended just now: look again" : nil)
    }

    private static let clockSkewMilliseconds: Int64 = 600_000

    /// Where the last `depth` offsets of every partition of the filter's stages begin, of those
    /// that are not younger than the filter, and which partitions have more before them.
    func newestPlaces(
        depth: Int64
    ) throws(CommandFailure) -> (
        places: [TopicPartition: LogBrowser.Start], unread: Set<TopicPartition>
    ) {
        let names = try stages().map { Topic.deadLetters($0).name(prefix: prefix) }
        let last = filter.until.map { $0 + Self.clockSkewMilliseconds }
        return try KafkaQuestion.ask(configuration) {
            admin throws(LogFault) -> ([TopicPartition: LogBrowser.Start], Set<TopicPartition>) in
            var places: [TopicPartition: LogBrowser.Start] = [:]
            var unread: Set<TopicPartition> = []
            for name in names {
                let starts = try admin.startOffsets(ofTopic: name)
                let ends =
                    if let last {
                        try admin.offsets(ofTopic: name, notOlderThan: last)
                    } else {
                        try admin.endOffsets(ofTopic: name)
                    }
                for (number, end) in ends.enumerated() where end > starts[number] {
                    let from = max(starts[number], end - depth)
                    let partition = TopicPartition(topic: name, partition: Int32(number))
                    places[partition] = .offset(from)
                    if from > starts[number] {
                        unread.insert(partition)
                    }
                }
            }
            return (places, unread)
        }
    }

    /// When the first dead letter from each place on was written, UNIX milliseconds; none where there
    /// is none.
    func firstTimes(
        from places: [TopicPartition: LogBrowser.Start]
    ) throws(CommandFailure) -> [TopicPartition: Int64] {
        try TopicScan(
            configuration: configuration,
            topics: Set(places.keys.map(\.topic)).sorted()
        )
        .firstTimes(at: places)
    }
}
