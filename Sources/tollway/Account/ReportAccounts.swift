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
        // Small fields lie behind optional ones, in what those leave of their words.
        var app: Int64
        var created: Timestamp?
        var environment: AppleEnvironment
        var fate: Fate?
        var expires: Timestamp?
        /// See ``TokenDomain/TokenAccount/openSince``.
        var openSince: CalendarMonth?
        /// See ``TokenDomain/TokenAccount/parkedUntil``; before all months where there is none.
        var parkedUntil: CalendarMonth
    }

    private(set) var tokens: [UInt64: Token] = [:]
    private(set) var unreadableCount = 0

    /// Reads the partitions.
    init(_ partitions: Range<Int32>, _ configuration: Configuration) throws(CommandFailure) {
        var found: [UInt64: Token] = [:]
        var unreadable = 0
        try AccountScan.run(
            .reportState,
            partitions,
            "tokens of report's state",
            configuration
        ) { record, batch in
            guard !record.key.isAbsent else {
                return
            }
            let digest = TextDigest.of(batch.arena.span.extracting(record.key.indices))
            guard !record.value.isAbsent else {
                found[digest] = nil
                return
            }
            do throws(WireFault) {
                let value = batch.arena.span.extracting(record.value.indices)
                found[digest] = Self.token(try TokenAccount(reading: value))
            } catch {
                // Of an app account token, whose key is a transaction; or none of ours.
                unreadable += 1
            }
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
            created: account.tokenCreationDate,
            environment: account.externalPurchaseID.environment,
            fate: fate,
            expires: account.tokenExpirationDate,
            openSince: account.openSince,
            parkedUntil: account.parkedUntil ?? CalendarMonth(number: .min)
        )
    }
}
