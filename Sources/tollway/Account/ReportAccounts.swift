internal import Kafka
internal import StageRuntime
internal import TokenDomain
internal import TokenWire

/// The newest state of every token in some partitions of report's changelog.
struct ReportAccounts {
    enum Fate {
        /// Known before under the same id: from another customer.
        case repeated
        case reported
        case held
        case deadLetter
    }

    /// What is kept of a token.
    ///
    /// 64 bytes, and 8 of key. A dictionary has a power of two of buckets and fills three quarters of
    /// them: 96 to 192 bytes a token, and the old buckets as well while it grows.
    struct Token {
        var app: Int64
        var environment: AppleEnvironment
        var created: Timestamp?
        var expires: Timestamp?
        var fate: Fate?
        /// See ``TokenDomain/TokenAccount/openSince``.
        var openSince: CalendarMonth?
        var hasParkedDebt: Bool
    }

    private(set) var tokens: [UInt64: Token] = [:]
    private(set) var unreadableCount = 0

    /// Reads the partitions.
    init(_ partitions: Range<Int32>, _ configuration: Configuration) throws(CommandFailure) {
        let name = Topic.reportState.name(prefix: configuration.topicPrefix)
        let count = try KafkaQuestion.ask(configuration) { admin throws(LogFault) -> Int in
            try admin.topic(name)?.partitions.count ?? 0
        }
        guard partitions.upperBound <= count else {
            return
        }
        let places = partitions.reduce(into: [:]) {
            $0[TopicPartition(topic: name, partition: $1)] = LogBrowser.Start.earliest
        }
        let progress = ScanProgress("tokens of report's state")
        var found: [UInt64: Token] = [:]
        var unreadable = 0
        try TopicScan(
            configuration: configuration,
            topics: [name],
            isToHighWatermark: true,
            readAheadKilobytes: TopicScan.largeReadAheadKilobytes
        ).run(
            from: places,
            progress: progress
        ) {
            batch throws(CommandFailure) in
            for record in batch.records where !record.key.isAbsent {
                let digest = TextDigest.of(batch.arena.span.extracting(record.key.indices))
                guard !record.value.isAbsent else {
                    found[digest] = nil
                    continue
                }
                do throws(WireFault) {
                    let value = batch.arena.span.extracting(record.value.indices)
                    found[digest] = Self.token(try TokenAccount(reading: value))
                } catch {
                    // Of an app account token, whose key is a transaction; or none of ours.
                    unreadable += 1
                }
            }
            return true
        }
        tokens = found
        unreadableCount = unreadable
    }

    func fate(of digest: UInt64) -> Fate? { tokens[digest]?.fate }

    static func token(_ account: TokenAccount) -> Token {
        let fate: Fate? =
            if !account.isKnown {
                nil
            } else if account.lastAccepted != nil {
                .reported
            } else if account.hasParkedDebt {
                .deadLetter
            } else {
                .held
            }
        return Token(
            app: account.appAppleID ?? 0,
            environment: account.externalPurchaseID.environment,
            created: account.tokenCreationDate,
            expires: account.tokenExpirationDate,
            fate: fate,
            openSince: account.openSince,
            hasParkedDebt: account.hasParkedDebt
        )
    }
}
