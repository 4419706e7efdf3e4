internal import AppStoreAPI
internal import TokenDomain
internal import TokenWire

/// What Apple has accepted of the tokens that are asked about, by the ledger.
///
/// It grows with the questions, not with the ledger.
struct AcceptedReports {
    /// A report as far as it distinguishes two under one identifier.
    struct Content: Equatable {
        var status: ReportStatus
        /// Of what the line items say; 0 without any.
        var hash: UInt64
    }

    /// The last status accepted, by token; nil where nothing was.
    private var tokens: [UInt64: ReportStatus?] = [:]
    /// The last report accepted, by identifier; nil where none was.
    private var identifiers: [UInt64: Content?] = [:]
    /// Identifiers of refused reports that were the first of their tokens.
    private var firstDebts: Set<UInt64> = []
    /// Nil: all of the ledger.
    private(set) var since: Int64? = .max

    var isEmpty: Bool { tokens.isEmpty }

    mutating func ask(_ question: LedgerQuestion.Report) {
        tokens[question.token] = .some(nil)
        for identifier in question.identifiers {
            identifiers[identifier] = .some(nil)
        }
        if let known = since {
            since = question.since.map { min(known, $0) }
        }
    }

    func skipReason(_ question: LedgerQuestion.Report) -> SkipReason? {
        // Under the identifier that it failed with too: one whose identifier a patch takes away would
        // be told to Apple twice.
        if question.identifiers.contains(where: { identifiers[$0] == question.content }) {
            return .alreadyAccepted
        }
        let last = tokens[question.token] ?? nil
        if last != nil, question.content.status != .lineItem,
            !firstDebts.isDisjoint(with: question.identifiers)
        {
            return .alreadyAccepted
        }
        if let last, !NextStatus.mayFollow(lastAccepted: last, requested: question.content.status) {
            return .orderRules
        }
        guard let identifier = question.identifier, identifiers[identifier] ?? nil != nil else {
            return nil
        }
        return .identifierConflict
    }

    func contains(_ token: UInt64) -> Bool { tokens.keys.contains(token) }

    mutating func absorb(_ value: Span<UInt8>, of token: UInt64) throws(WireFault) {
        let outcome = try ReportOutcome(reading: value)
        let identifier = TextDigest.of(outcome.requestIdentifier.lowercased())
        guard outcome.outcome != .rejected else {
            if identifiers.keys.contains(identifier),
                ReportReason(rawValue: outcome.reason)?.isOfFirstReport == true
            {
                firstDebts.insert(identifier)
            }
            return
        }
        tokens[token] = outcome.status
        if identifiers.keys.contains(identifier) {
            identifiers[identifier] = Content(
                status: outcome.status,
                hash: outcome.details.lineItems.map(ReportPolicy.lineItemsHash) ?? 0
            )
        }
    }
}
