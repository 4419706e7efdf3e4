internal import Kafka
internal import StageRuntime
internal import TokenDomain
internal import TokenWire

/// What is asked of Apple's answers, or of the ledger of sales, before a dead letter goes back.
enum LedgerQuestion {
    struct Report {
        /// Of the externalPurchaseId.
        var token: UInt64
        /// Of the requestIdentifier, where one goes along.
        var identifier: UInt64?
        /// Of the requestIdentifier that it failed with, where a patch changes that.
        var failedIdentifier: UInt64?
        var content: AcceptedReports.Content
        /// When the token was made, where that is known: Apple has accepted nothing for it before.
        var since: Int64?

        var identifiers: [UInt64] { [identifier, failedIdentifier].compactMap(\.self) }
    }

    struct AccountToken {
        /// Of the originalTransactionId.
        var transaction: UInt64
        /// Of the app account token.
        var value: UInt64
        /// When Apple refused it last; UNIX milliseconds.
        var failedAt: Int64
        /// When it was asked for, where that is known: it was not accepted before.
        var since: Int64?
    }

    /// A restatement or a retraction of a sale.
    struct Change {
        /// Of the record's key.
        var purchaseKey: UInt64
        /// Of the lineItemId.
        var lineItemID: UInt64
        /// Nil where the event leaves it out, or states one that nobody knows.
        var environment: AppleEnvironment?
        var appAppleID: Int64?
        var bundleID: String?
        /// When it came in; UNIX milliseconds, from 0.
        var receivedAt: Int64

        /// Whether it may be of the sale of such a record: what either leaves out may be any.
        func mayBe(of lane: Lane?, _ apps: AppsFile?) -> Bool {
            let app = appAppleID ?? bundleID.flatMap { apps?.app(bundleID: $0)?.appAppleID }
            return (app ?? lane?.appAppleID) == (lane?.appAppleID ?? app)
                && (environment ?? lane?.environment) == (lane?.environment ?? environment)
        }
    }

    case report(Report)
    case accountToken(AccountToken)
    case change(Change)
}

/// The ledgers, read once for all dead letters of a plan: each from the time of the oldest one on.
struct Ledger {
    /// Others' clocks and ours may differ by this before an answer is missed.
    private static let clockSkewMilliseconds: Int64 = 3_600_000

    private var reports = AcceptedReports()
    private var accountTokens = AcceptedAccountTokens()
    private var changes = SettledChanges()

    /// Asks, before the ledgers are read.
    mutating func ask(_ question: LedgerQuestion) {
        switch question {
        case .report(let question): reports.ask(question)
        case .accountToken(let question): accountTokens.ask(question)
        case .change(let question): changes.ask(question)
        }
    }

    func skipReason(_ question: LedgerQuestion) -> SkipReason? {
        switch question {
        case .report(let question): reports.skipReason(question)
        case .accountToken(let question): accountTokens.skipReason(question)
        case .change(let question): changes.skipReason(question)
        }
    }

    mutating func read(_ configuration: Configuration) throws(CommandFailure) {
        if !reports.isEmpty {
            try Self.read(.reportsOutcomes, since: reports.since, configuration) {
                key,
                value throws(WireFault) in
                if reports.contains(key) {
                    try reports.absorb(value, of: key)
                }
            }
        }
        if !accountTokens.isEmpty {
            try Self.read(
                .accountTokensOutcomes,
                since: accountTokens.since,
                configuration
            ) { key, value throws(WireFault) in
                if accountTokens.contains(key) {
                    try accountTokens.absorb(value, of: key)
                }
            }
        }
        if !changes.isEmpty {
            changes.apps = changes.namesBundles ? Self.apps(configuration) : nil
            try Self.read(.purchasesOutcomes, since: changes.since, configuration) {
                key,
                value throws(WireFault) in
                if changes.contains(key) {
                    try changes.absorb(value, of: key)
                }
            }
        }
    }

    /// The apps file; nil where it cannot be read: more is held back then, and the rest goes.
    private static func apps(_ configuration: Configuration) -> AppsFile? {
        do throws(CommandFailure) {
            return try AppName.file(configuration)
        } catch {
            Console.say("a bundle id may name any app: \(error.message)")
            return nil
        }
    }

    /// Shows every record's key, as a digest, and its value.
    private static func read(
        _ ledger: Topic,
        since: Int64?,
        _ configuration: Configuration,
        _ absorb: (UInt64, Span<UInt8>) throws(WireFault) -> Void
    ) throws(CommandFailure) {
        let topic = ledger.name(prefix: configuration.topicPrefix)
        let partitionCount = try KafkaQuestion.ask(configuration) {
            admin throws(LogFault) -> Int? in
            try admin.partitionCount(of: topic)
        }
        guard let partitionCount else {
            throw CommandFailure(
                .failed,
                code: "kafka.no_topic",
                "Kafka shows no topic \(topic), so it is unknown which reports Apple has accepted:"
                    + " see tollway topics plan"
            )
        }
        let start: LogBrowser.Start =
            since.map { .timestamp(max(0, $0 - clockSkewMilliseconds)) } ?? .earliest
        let places = (0..<partitionCount).map { number in
            (TopicPartition(topic: topic, partition: Int32(number)), start)
        }
        // What an open transaction hides may be what keeps a dead letter from going.
        let scan = TopicScan(configuration: configuration, topics: [topic], isToHighWatermark: true)
        let progress = ProgressLine("records of the ledger")
        try scan.run(from: Dictionary(uniqueKeysWithValues: places)) {
            batch throws(CommandFailure) in
            progress?.add(batch.records.count)
            for record in batch.records where !record.key.isAbsent && !record.value.isAbsent {
                let key = TextDigest.of(batch.arena.span.extracting(record.key.indices))
                do throws(WireFault) {
                    try absorb(key, batch.arena.span.extracting(record.value.indices))
                } catch {
                    throw CommandFailure(
                        .failed,
                        code: "dlq.bad_ledger_record",
                        "the record at \(record.partition)/\(record.offset) of \(topic) cannot be"
                            + " read: \(error.message)"
                    )
                }
            }
            return true
        }
    }
}
