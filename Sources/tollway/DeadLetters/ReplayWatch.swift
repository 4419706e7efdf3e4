internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// Counts dead letters that were sent back: how many their stage has read, and how many failed
/// again.
///
/// A stage commits what it has read and its new dead letters in one transaction, so what it has read
/// and is not in the dead letters went well there. What a later stage, or Apple, makes of it is not
/// seen here.
final class ReplayWatch {
    /// For one look.
    private static let readMilliseconds: Int64 = 1_000

    private let configuration: Configuration
    private let group: String
    private let runID: [UInt8]
    private let topic: String
    /// Where it started to read.
    private let places: [TopicPartition: LogBrowser.Start]
    private let admin: KafkaAdmin
    private let browser: LogBrowser
    private var batch = RecordBatch()
    /// Where it reads next, by partition number.
    private var nexts: [Int64]
    private(set) var results = ReplayResults()

    convenience init(_ order: DeadLetterOrder, stage: Worker) throws(CommandFailure) {
        try self.init(order.configuration, runID: order.runID, stage: stage)
    }

    /// Starts at the end that the stage's dead letters have now.
    init(
        _ configuration: Configuration,
        runID: String,
        stage: Worker
    ) throws(CommandFailure) {
        self.configuration = configuration
        group = stage.group(prefix: configuration.topicPrefix)
        self.runID = Array(runID.utf8)
        let topic = Topic.deadLetters(stage).name(prefix: configuration.topicPrefix)
        self.topic = topic
        do throws(LogFault) {
            admin = try KafkaAdmin(settings: configuration.kafka)
            browser = try LogBrowser(settings: configuration.kafka, topics: [topic])
            let ends = try admin.endOffsets(ofTopic: topic)
            nexts = ends
            places = Dictionary(
                uniqueKeysWithValues: ends.enumerated().map { number, end in
                    (TopicPartition(topic: topic, partition: Int32(number)), .offset(end))
                }
            )
            try browser.start(at: places)
        } catch {
            throw KafkaQuestion.failure(error, configuration)
        }
    }

    deinit {
        browser.close()
        admin.close()
    }

    /// Dead letters of one transaction, and where they ended in the topics that their stage reads.
    func sent(_ ends: [TopicPartition: Int64], count: Int) {
        results.sent(ends, count: count)
    }

    /// Reads the results of the replayed records since the last look.
    func look() throws(CommandFailure) {
        try KafkaQuestion.failing(configuration) { () throws(LogFault) in
            // What is committed first: its dead letters are there then.
            var committed: [TopicPartition: Int64] = [:]
            for topic in results.topics {
                let offsets = try admin.committedOffsets(ofGroup: group, topic: topic)
                for (number, offset) in offsets.enumerated() {
                    committed[TopicPartition(topic: topic, partition: Int32(number))] = offset
                }
            }
            results.committed(committed)
            try countFailures()
        }
    }

    /// Reads to the ends that the dead letters have now, and no further: in a flood others never
    /// cease to come, and the run must go on and look for Ctrl-C.
    private func countFailures() throws(LogFault) {
        let ends = try admin.lastStableOffsets(ofTopic: topic)
        let until = WallClock.monotonicMilliseconds() + Self.readMilliseconds
        // What is not read in time counts at the next look.
        while zip(nexts, ends).contains(where: <), WallClock.monotonicMilliseconds() < until {
            batch.removeAll()
            _ = try browser.read(
                into: &batch,
                recordCountMax: TopicScan.batchRecordCountMax,
                waitMilliseconds: 100
            )
            for record in batch.records {
                nexts[Int(record.partition)] = record.offset + 1
            }
            // Also past the marker of a transaction, which is no record.
            for end in batch.ends {
                nexts[Int(end.partition)] = max(nexts[Int(end.partition)], end.offset)
            }
            forEachFailure(in: batch) { offset, partition in
                results.failed(at: offset, of: partition)
            }
        }
    }

    /// Counts anew, up to the ends that the dead letters have now: once all is read, all failures lie
    /// before them, and ``look()`` sees none behind a transaction that is open.
    func countAllFailures() throws(CommandFailure) {
        let scan = TopicScan(
            configuration: configuration,
            topics: [topic],
            isToHighWatermark: true
        )
        var count = 0
        try scan.run(from: places) { batch throws(CommandFailure) in
            forEachFailure(in: batch) { _, _ in count += 1 }
            return true
        }
        results.failed(count: count)
    }

    /// Shows where each dead letter lay that this run had sent back.
    private func forEachFailure(in batch: RecordBatch, _ body: (Int64, TopicPartition) -> Void) {
        let arena = batch.arena.span
        for record in batch.records {
            let headers = DeadLetterHeaders(record.headers, in: arena)
            guard arena.extracting(headers[.replayID].indices).isEqual(to: runID) else {
                continue
            }
            let partition = TopicPartition(
                topic: headers.text(.topic, of: batch.arena),
                partition: Int32(clamping: headers.number(.partition, in: arena))
            )
            body(headers.number(.offset, in: arena), partition)
        }
    }
}
