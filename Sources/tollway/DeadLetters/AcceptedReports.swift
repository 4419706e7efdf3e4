internal import TokenDomain
internal import TokenWire

/// What Apple has accepted of the tokens that are asked about, by the ledger.
struct AcceptedReports {
    /// The last status accepted, by token; nil where nothing was.
    private var tokens: [UInt64: ReportStatus?] = [:]
    private var identifiers: Set<UInt64> = []
    /// Nil: all of the ledger.
    private(set) var since: Int64? = .max

    var isEmpty: Bool { tokens.isEmpty }

    mutating func ask(_ question: LedgerQuestion.Report) {
        tokens[question.token] = .some(nil)
        if let known = since {
            since = question.since.map { min(known, $0) }
        }
    }

    func skipReason(_ question: LedgerQuestion.Report) -> SkipReason? {
        if let identifier = question.identifier, identifiers.contains(identifier) {
            return .alreadyAccepted
        }
        guard let last = tokens[question.token] ?? nil else {
            return nil
        }
        return NextStatus.mayFollow(lastAccepted: last, requested: question.status)
            ? nil : .orderRules
    }

    func contains(_ token: UInt64) -> Bool { tokens.keys.contains(token) }

    mutating func absorb(_ value: Span<UInt8>, of token: UInt64) throws(WireFault) {
        let outcome = try ReportOutcome(reading: value)
        guard outcome.outcome != .rejected else {
            return
        }
        tokens[token] = outcome.status
        identifiers.insert(TextDigest.of(outcome.requestIdentifier.lowercased()))
    }
}
