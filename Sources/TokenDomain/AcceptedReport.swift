/// What Apple accepted under one identifier: as much as is needed to distinguish a later request
/// for the same identifier from another report.
package struct AcceptedReport: Equatable, Sendable {
    /// Of the intent.
    package var number: Int
    /// Only where it is not of our making.
    package var identifier: String?
    package var status: ReportStatus
    /// Of the line items as they came, byte for byte; 0 without any.
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

    /// To detect mistakes, not forgeries.
    package static func contentHash(of lineItems: String?) -> UInt64 {
        lineItems.map { FNV1a.hash(of: $0.utf8) } ?? 0
    }

    func says(_ status: ReportStatus, _ lineItems: String?) -> Bool {
        self.status == status && contentHash == Self.contentHash(of: lineItems)
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
