internal import TokenDomain
internal import TokenWire

/// What Apple has accepted for the transactions that are asked about, by their ledger.
struct AcceptedAccountTokens {
    private struct Accepted {
        /// Of the app account token.
        var value: UInt64
        /// UNIX milliseconds.
        var at: Int64
    }

    /// The last one accepted, by transaction; nil where none was.
    private var transactions: [UInt64: Accepted?] = [:]
    /// Nil: all of the ledger.
    private(set) var since: Int64? = .max

    var isEmpty: Bool { transactions.isEmpty }

    mutating func ask(_ question: LedgerQuestion.AccountToken) {
        transactions[question.transaction] = .some(nil)
        if let known = since {
            since = question.since.map { min(known, $0) }
        }
    }

    func skipReason(_ question: LedgerQuestion.AccountToken) -> SkipReason? {
        guard let last = transactions[question.transaction] ?? nil else {
            return nil
        }
        guard last.value != question.value else {
            return .alreadyAccepted
        }
        // Requests of a transaction go one after the other: what Apple took after this one had
        // failed was asked for later, and the newest wins.
        return last.at > question.failedAt ? .orderRules : nil
    }

    func contains(_ transaction: UInt64) -> Bool { transactions.keys.contains(transaction) }

    mutating func absorb(_ value: Span<UInt8>, of transaction: UInt64) throws(WireFault) {
        let outcome = try AccountTokenOutcome(reading: value)
        guard outcome.outcome == .accepted else {
            return
        }
        transactions[transaction] = Accepted(
            value: TextDigest.of(outcome.appAccountToken.lowercased()),
            at: outcome.settledAt.milliseconds
        )
    }
}
