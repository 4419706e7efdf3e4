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
    private struct Sent {
        var ends: [TopicPartition: Int64]
        var count: Int
    }

    private let configuration: Configuration
    private let group: String
    private let runID: [UInt8]
    private let topic: String
    /// Where it started to read.
    private let places: [TopicPartition: LogBrowser.Start]
    private let admin: KafkaAdmin
    private let browser: LogBrowser
    private var waiting: [Sent] = []
    private var batch = RecordBatch()
    private(set) var readCount = 0
    private(set) var failedCount = 0

    /// Starts at the end that the stage's dead letters have now.
    init(_ order: DeadLetterOrder, stage: Worker) throws(CommandFailure) {
        configuration = order.configuration
        group = "\(order.prefix)\(stage.rawValue)"
        runID = Array(order.runID.utf8)
        let topic = Topic.deadLetters(stage).name(prefix: order.prefix)
        self.topic = topic
        do throws(LogFault) {
            admin = try KafkaAdmin(settings: configuration.kafka)
            browser = try LogBrowser(settings: configuration.kafka, topics: [topic])
            let ends = try admin.endOffsets(ofTopic: topic)
            places = Dictionary(
                uniqueKeysWithValues: ends.enumerated().map { number, end in
                    (TopicPartition(topic: topic, partition: Int32(number)), .offset(end))
                }
            )
            try browser.start(at: places)
        } catch {
            throw KafkaQuestion.failure(error, order.configuration)
        }
    }

    deinit {
        browser.close()
        admin.close()
    }

    var isAllRead: Bool { waiting.isEmpty }

    /// The share of what was read that failed again.
    var failureRatio: Double {
        Double(failedCount) / Double(max(readCount, failedCount, 1))
    }

    /// Dead letters of one transaction, and where they ended in the topics that their stage reads.
    func sent(_ ends: [TopicPartition: Int64], count: Int) {
        waiting.append(Sent(ends: ends, count: count))
    }

    /// Reads the results of the replayed records since the last look.
    func look() throws(CommandFailure) {
        do throws(LogFault) {
            // What is committed first: its dead letters are there then.
            let topics = Set(waiting.flatMap { $0.ends.keys.map(\.topic) })
            var committed: [TopicPartition: Int64] = [:]
            for topic in topics {
                let offsets = try admin.committedOffsets(ofGroup: group, topic: topic)
                for (number, offset) in offsets.enumerated() {
                    committed[TopicPartition(topic: topic, partition: Int32(number))] = offset
                }
            }
            waiting.removeAll { sent in
                guard sent.ends.allSatisfy({ $1 <= committed[$0] ?? -1 }) else {
                    return false
                }
                readCount += sent.count
                return true
            }
            try countFailures()
        } catch {
            throw KafkaQuestion.failure(error, configuration)
        }
    }

    private func countFailures() throws(LogFault) {
        repeat {
            batch.removeAll()
            _ = try browser.read(
                into: &batch,
                recordCountMax: TopicScan.batchRecordCountMax,
                waitMilliseconds: 100
            )
            failedCount += failureCount(in: batch)
        } while !batch.records.isEmpty
    }

    /// Counts anew, up to the ends that the dead letters have now: once all is read, all failures lie
    /// before them, and ``look()`` stops where nothing comes for a moment.
    func countAllFailures() throws(CommandFailure) {
        let scan = TopicScan(
            configuration: configuration,
            topics: [topic],
            isToHighWatermark: true
        )
        var count = 0
        try scan.run(from: places) { batch throws(CommandFailure) in
            count += failureCount(in: batch)
            return true
        }
        failedCount = count
    }

    private func failureCount(in batch: RecordBatch) -> Int {
        batch.records.count { record in
            let headers = DeadLetterHeaders(record.headers, in: batch.arena.span)
            let id = batch.arena.span.extracting(headers[.replayID].indices)
            return id.isEqual(to: runID)
        }
    }
}
