internal import Kafka
internal import StageRuntime
internal import TokenDomain

/// Where a record lies in its topic.
struct RecordPlace: Hashable {
    var partition: Int32
    var offset: Int64

    init(_ record: RecordBatch.Record) {
        partition = record.partition
        offset = record.offset
    }

    /// Where the record of a dead letter came in.
    init(origin deadLetter: DeadLetterRecord, in arena: Span<UInt8>) {
        partition = Int32(clamping: deadLetter.headers.number(.partition, in: arena))
        offset = deadLetter.headers.number(.offset, in: arena)
    }
}

/// Reads a topic, or some of its partitions, for a count of the account.
enum AccountScan {
    private static func partitionCount(
        _ topic: Topic,
        _ configuration: Configuration
    ) throws(CommandFailure) -> Int {
        let name = topic.name(prefix: configuration.topicPrefix)
        return try KafkaQuestion.ask(configuration) { admin throws(LogFault) -> Int in
            try admin.topic(name)?.partitions.count ?? 0
        }
    }

    /// Shows each record, removals too, to the body; a topic that is not there has none.
    ///
    /// - Throws: exit 75 where an open transaction hides the last of them and does not end.
    static func run(
        _ topic: Topic,
        _ partitions: Range<Int32>?,
        from start: LogBrowser.Start = .earliest,
        _ what: String,
        _ configuration: Configuration,
        _ body: (RecordBatch.Record, RecordBatch) -> Void
    ) throws(CommandFailure) {
        let count = Int32(try partitionCount(topic, configuration))
        let numbers = partitions ?? 0..<count
        guard numbers.upperBound <= count else {
            return
        }
        try read(topic, Array(numbers), from: start, what, configuration, body)
    }

    /// Shows each record of a ledger whose key lies in some partitions of the topic that it follows
    /// from: a ledger may have any number of partitions.
    ///
    /// - Throws: as ``run(_:_:from:_:_:_:)``.
    static func run(
        ledger: Topic,
        of source: Topic,
        _ partitions: Range<Int32>,
        from start: LogBrowser.Start,
        _ what: String,
        _ configuration: Configuration,
        _ body: (RecordBatch.Record, RecordBatch) -> Void
    ) throws(CommandFailure) {
        let count = Int32(try partitionCount(ledger, configuration))
        let sourceCount = Int32(try partitionCount(source, configuration))
        guard count > 0, sourceCount > 0 else {
            return
        }
        // A key's partition is its hash modulo their count. Modulo what divides both counts, the key
        // has the same partition in both.
        var (divisor, rest) = (count, sourceCount)
        while rest > 0 {
            (divisor, rest) = (rest, divisor % rest)
        }
        let wanted = Set(partitions.map { $0 % divisor })
        let numbers = (0..<count).filter { wanted.contains($0 % divisor) }
        try read(ledger, numbers, from: start, what, configuration) { record, batch in
            let key = batch.arena.span.extracting(record.key.indices)
            if partitions.contains(Partitioner.partition(ofKey: key, partitionCount: sourceCount)) {
                body(record, batch)
            }
        }
    }

    private static func read(
        _ topic: Topic,
        _ numbers: [Int32],
        from start: LogBrowser.Start,
        _ what: String,
        _ configuration: Configuration,
        _ body: (RecordBatch.Record, RecordBatch) -> Void
    ) throws(CommandFailure) {
        guard !numbers.isEmpty else {
            return
        }
        let name = topic.name(prefix: configuration.topicPrefix)
        let places = numbers.reduce(into: [:]) {
            $0[TopicPartition(topic: name, partition: $1)] = start
        }
        try TopicScan(
            configuration: configuration,
            topics: [name],
            isToHighWatermark: true,
            readAheadKilobytes: TopicScan.largeReadAheadKilobytes
        ).run(
            from: places,
            progress: ProgressLine(what)
        ) {
            batch throws(CommandFailure) in
            for record in batch.records {
                body(record, batch)
            }
            return true
        }
    }
}
