internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// Follows one report that was asked for by hand: from report's state, the ledger and its dead
/// letters.
final class ReportFollower {
    /// How a report asked for ended.
    enum Ending {
        case settled(ReportOutcome)
        /// It is a dead letter: refused by our rules, or by Apple.
        case deadLetter(DeadLetterPosition, code: String, message: String)
        case timedOut
        case interrupted
        /// Kafka could not be read any more: why.
        case unread(CommandFailure)
    }

    private static let waitMilliseconds = 200
    private static let readCountMax = 10_000

    private let id: TokenID
    private let configuration: Configuration
    private let topics: [Topic] = [.reportState, .reportsOutcomes, .deadLetters(.report)]
    private let browser: LogBrowser
    private var outcomes: [ReportOutcome] = []
    /// Known once report has taken it in, or from the start where it was given.
    private(set) var identifier: String?
    private(set) var number: Int?

    /// Begins where the topics end now.
    init(
        _ id: TokenID,
        identifier: String?,
        _ configuration: Configuration
    ) throws(CommandFailure) {
        self.id = id
        self.identifier = identifier?.lowercased()
        self.configuration = configuration
        let names = topics.map { $0.name(prefix: configuration.topicPrefix) }
        let places = try KafkaQuestion.ask(configuration) {
            admin throws(LogFault) -> [TopicPartition: LogBrowser.Start] in
            var places: [TopicPartition: LogBrowser.Start] = [:]
            for name in names {
                let ends = try admin.endOffsets(ofTopic: name)
                let partition = TopicReader.partition(
                    ofKey: Array(id.text.utf8),
                    partitionCount: ends.count
                )
                places[TopicPartition(topic: name, partition: partition)] =
                    .offset(ends[Int(partition)])
            }
            return places
        }
        do throws(LogFault) {
            browser = try LogBrowser(settings: configuration.kafka, topics: names)
            try browser.start(at: places)
        } catch {
            throw KafkaQuestion.failure(error, configuration)
        }
    }

    deinit {
        browser.close()
    }

    /// Waits for the end of the report that the record at `origin` asked for.
    ///
    /// It was written: no fault of the reading is one of the order.
    func wait(
        for origin: RecordOrigin,
        atMost limit: Milliseconds,
        stop: StopSignal
    ) -> Ending {
        let until = WallClock.monotonicMilliseconds() + limit.count
        var batch = RecordBatch()
        while WallClock.monotonicMilliseconds() < until {
            guard stop.wait(milliseconds: 0) == nil else {
                return .interrupted
            }
            batch.removeAll()
            do throws(LogFault) {
                _ = try browser.read(
                    into: &batch,
                    recordCountMax: Self.readCountMax,
                    waitMilliseconds: Self.waitMilliseconds
                )
            } catch {
                return .unread(KafkaQuestion.failure(error, configuration))
            }
            for record in batch.records {
                if let ending = take(record, batch, origin) {
                    return ending
                }
            }
            if let outcome = outcomes.first(where: { $0.requestIdentifier == identifier }) {
                return .settled(outcome)
            }
        }
        return .timedOut
    }

    private func take(
        _ record: RecordBatch.Record,
        _ batch: RecordBatch,
        _ origin: RecordOrigin
    ) -> Ending? {
        guard !record.key.isAbsent, !record.value.isAbsent else {
            return nil
        }
        let key = batch.arena.span.extracting(record.key.indices)
        let isWaiting = WaitingReport.isKey(key, of: id)
        guard isWaiting || key.isEqual(to: Array(id.text.utf8)) else {
            return nil
        }
        let value = batch.arena.span.extracting(record.value.indices)
        do throws(WireFault) {
            switch topics[record.topic] {
            case .reportState:
                let held =
                    isWaiting
                    ? try WaitingReport.read(value) : try TokenAccount(reading: value).current
                if let held, held.origin == origin || held.identifier == identifier {
                    identifier = held.identifier
                    number = held.number
                }
            case .reportsOutcomes:
                let outcome = try ReportOutcome(reading: value)
                // The dead letter that comes with it says more.
                if outcome.outcome != .rejected {
                    outcomes.append(outcome)
                }
            default:
                return deadLetter(record, batch, origin)
            }
        } catch {
            // In no form of ours: it says nothing about this report.
            return nil
        }
        return nil
    }

    private func deadLetter(
        _ record: RecordBatch.Record,
        _ batch: RecordBatch,
        _ origin: RecordOrigin
    ) -> Ending? {
        let deadLetter = DeadLetterRecord(record, stage: .report, in: batch.arena.span)
        let subject = SubjectReader().read(batch.arena.span.extracting(record.value.indices))
        let topic = Topic.reportsRequested.name(prefix: configuration.topicPrefix)
        let isFromOurs =
            deadLetter.headers.text(.topic, of: batch.arena) == topic
            && deadLetter.headers.number(.partition, in: batch.arena.span)
                == Int64(origin.partition)
            && deadLetter.headers.number(.offset, in: batch.arena.span) == origin.offset
        let isOurs = identifier != nil && subject.requestIdentifier?.lowercased() == identifier
        guard isFromOurs || isOurs else {
            return nil
        }
        return .deadLetter(
            deadLetter.position,
            code: deadLetter.headers.text(.code, of: batch.arena),
            message: deadLetter.headers.text(.message, of: batch.arena)
        )
    }
}
