/// What Apple accepted under one identifier: as much as is needed to distinguish a later request
/// for the same identifier from another report.
package struct AcceptedReport: Equatable, Sendable {
    /// Of the intent.
    package var number: Int
    /// Only where it is not of our making.
    package var identifier: String?
    package var status: ReportStatus
    /// Of what the line items say, as ``ReportPolicy/contentHash`` has it; 0 without any.
    ///
    /// Of their bytes where an earlier version accepted it.
    package var contentHash: UInt64

    package init(
        number: Int,
        identifier: String?,
        status: ReportStatus,
        contentHash: UInt64
    ) {
        self.number = number
        self.identifier = identifier
        self.status = status
        self.contentHash = contentHash
    }

    func says(_ status: ReportStatus, _ lineItems: String?, _ policy: ReportPolicy) -> Bool {
        guard self.status == status else {
            return false
        }
        return contentHash == policy.hash(of: lineItems)
            || lineItems.map { contentHash == FNV1a.hash(of: $0.utf8) } ?? false
    }
}

/// What is known of a report under an identifier that a request names.
extension TokenAccount {
    /// What the account has under an identifier.
    enum Known: Equatable {
        /// Index into ``parked``.
        case parked(Int)
        case accepted(AcceptedReport)
    }

    /// How a request ends that needs no report.
    enum Ending: Equatable {
        case alreadyReported
        case refused(Fault)
    }

    /// The number is that of an identifier of ours.
    func known(_ identifier: String, number: Int?) -> Known? {
        if let index = parked.firstIndex(where: { $0.identifier == identifier }) {
            return .parked(index)
        }
        return accepted.first {
            $0.identifier == identifier || ($0.identifier == nil && $0.number == number)
        }.map { .accepted($0) }
    }

    /// Nil where a report is to be made of it, or taken up again.
    func ending(of intent: ReportIntent, _ known: Known?, _ policy: ReportPolicy) -> Ending? {
        switch known {
        case .parked(let index):
            return refusal(of: parked[index], intent.status, intent.lineItems, policy).map {
                .refused($0)
            }
        case .accepted(let report):
            return report.says(intent.status, intent.lineItems, policy)
                ? .alreadyReported : .refused(heldOtherwise)
        case nil where intent.isRepeat && isOutdated(intent.status):
            // What the token owes instead is reported by itself.
            return .alreadyReported
        case nil where intent.isRepeat && lastAccepted != nil:
            // Not kept: it had no line items, or others gave way to it.
            return intent.status != .lineItem || hasForgotten(intent.number)
                ? .alreadyReported : .refused(statusChanged)
        case nil:
            return nil
        }
    }

    /// Whether the report of a number may have been one with line items that gave way to others.
    private func hasForgotten(_ number: Int) -> Bool {
        lastAccepted == .lineItem && accepted.count >= Self.acceptedCountMax
            && accepted.allSatisfy { number < $0.number }
    }
}

extension ReportIntent {
    /// Whether a request for it asks for what it reports.
    func says(_ status: ReportStatus, _ lineItems: String?, _ policy: ReportPolicy) -> Bool {
        self.status == status
            && (self.lineItems == lineItems
                || policy.hash(of: self.lineItems) == policy.hash(of: lineItems))
    }
}

extension ReportPolicy {
    /// 0 without line items.
    func hash(of lineItems: String?) -> UInt64 {
        lineItems.map { contentHash($0) } ?? 0
    }
}

/// The earlier failures of a request that is a dead letter's replay: it goes on in the next dead
/// letter, if there is one.
package struct ReplayHistory: Equatable, Sendable {
    /// RFC 3339.
    package var firstFailedAt: String?
    package var attempts: Int
    package var replayCount: Int
    package var replayID: String?

    package init(firstFailedAt: String?, attempts: Int, replayCount: Int, replayID: String?) {
        self.firstFailedAt = firstFailedAt
        self.attempts = attempts
        self.replayCount = replayCount
        self.replayID = replayID
    }
}
