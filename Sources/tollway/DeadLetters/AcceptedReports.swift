internal import Kafka
internal import StageRuntime
internal import TokenDomain
internal import TokenWire

/// What Apple has accepted of the tokens that are asked about, as the ledger tells.
struct AcceptedReports {
    /// A token's clock and ours may differ by this before an answer is missed.
    private static let clockSkewMilliseconds: Int64 = 3_600_000

    /// The last status accepted, by token; nil where nothing was.
    private var tokens: [UInt64: ReportStatus?] = [:]
    private var identifiers: Set<UInt64> = []
    /// Nil: all of the ledger.
    private var since: Int64? = .max

    var isEmpty: Bool { tokens.isEmpty }

    /// Asks about a token, before the ledger is read.
    mutating func ask(_ question: LedgerQuestion) {
        tokens[question.token] = .some(nil)
        if let known = since {
            since = question.since.map { min(known, $0) }
        }
    }

    func heldBack(_ question: LedgerQuestion) -> HeldBack? {
        if let identifier = question.identifier, identifiers.contains(identifier) {
            return .alreadyAccepted
        }
        guard let last = tokens[question.token] ?? nil else {
            return nil
        }
        guard let status = question.status else {
            return .alreadyAccepted
        }
        return NextStatus.mayFollow(lastAccepted: last, requested: status) ? nil : .orderRules
    }

    /// Reads the ledger, from the oldest token asked about on.
    mutating func read(
        _ configuration: Configuration,
        progress: ScanProgress?
    ) throws(CommandFailure) {
        let topic = Topic.reportsOutcomes.name(prefix: configuration.topicPrefix)
        let partitionCount = try KafkaQuestion.ask(configuration) { admin throws(LogFault) -> Int in
            try admin.topics().first { $0.name == topic }?.partitions.count ?? 0
        }
        guard partitionCount > 0 else {
            return
        }
        let start: LogBrowser.Start =
            since.map { .timestamp(max(0, $0 - Self.clockSkewMilliseconds)) } ?? .earliest
        let places = (0..<partitionCount).map { number in
            (TopicPartition(topic: topic, partition: Int32(number)), start)
        }
        let scan = TopicScan(configuration: configuration, topics: [topic])
        try scan.run(from: Dictionary(uniqueKeysWithValues: places)) {
            batch throws(CommandFailure) in
            progress?.add(batch.records.count)
            try absorb(batch, topic)
            return true
        }
    }

    private mutating func absorb(_ batch: RecordBatch, _ topic: String) throws(CommandFailure) {
        for record in batch.records where !record.key.isAbsent && !record.value.isAbsent {
            let token = TextDigest.of(batch.arena.span.extracting(record.key.indices))
            guard tokens.keys.contains(token) else {
                continue
            }
            do throws(WireFault) {
                absorb(
                    try ReportOutcome(
                        reading: batch.arena.span.extracting(record.value.indices)
                    ),
                    of: token
                )
            } catch {
                throw CommandFailure(
                    .failed,
                    code: "dlq.bad_ledger_record",
                    "the record at \(record.partition)/\(record.offset) of \(topic) cannot be"
                        + " read: \(error.message)"
                )
            }
        }
    }

    private mutating func absorb(_ outcome: ReportOutcome, of token: UInt64) {
        guard outcome.outcome != .rejected else {
            return
        }
        tokens[token] = outcome.status
        identifiers.insert(TextDigest.of(outcome.requestIdentifier.lowercased()))
    }
}
