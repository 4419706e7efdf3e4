/// What `report` knows of one externalPurchaseId: its value in the state, and the whole of it.
///
/// Its changes are in the extensions beside: `+Absorb` (records come in), `+Advance` (what is owed
/// becomes an intent), `+Answer` (Apple answered). All are pure; time is a parameter.
package struct TokenAccount: Equatable, Sendable {
    /// Repeats of notices are known by so many; the newest by `signedDate` are kept.
    package static let noticeCountMax = 16
    /// Refused intents kept for a replay of their dead letter; the oldest is dropped.
    package static let parkedCountMax = 8
    /// Accepted reports kept to recognize a replay of them; the oldest is dropped.
    package static let acceptedCountMax = 32
    /// Other customers kept to tell them where Apple does not know the token; the oldest is dropped.
    package static let otherCustomerCountMax = 256

    /// A report that the token owes by itself.
    package struct Debt: Equatable, Sendable {
        package var dueAt: Timestamp
        package var reason: ReportReason
        package var origin: RecordOrigin

        package init(dueAt: Timestamp, reason: ReportReason, origin: RecordOrigin) {
            self.dueAt = dueAt
            self.reason = reason
            self.origin = origin
        }
    }

    /// Apple asked for a token that no device and no link brought (yet).
    package struct WaitingNotice: Equatable, Sendable {
        /// When the first such notice was received.
        package var receivedAt: Timestamp
        /// The end of its grace time: not before this may the guard begin.
        ///
        /// Kept, because a setting that changes must not move what stands in the due table. Nil: it
        /// is only remembered, and the guard does not look at it.
        package var guardedFrom: Timestamp?
        package var origin: RecordOrigin

        package init(receivedAt: Timestamp, guardedFrom: Timestamp?, origin: RecordOrigin) {
            self.receivedAt = receivedAt
            self.guardedFrom = guardedFrom
            self.origin = origin
        }
    }

    /// One notice absorbed.
    package struct Notice: Hashable, Comparable, Sendable {
        package var signedDate: Timestamp
        package var uuid: String

        package init(signedDate: Timestamp, uuid: String) {
            self.signedDate = signedDate
            self.uuid = uuid
        }

        package static func < (left: Notice, right: Notice) -> Bool {
            (left.signedDate, left.uuid) < (right.signedDate, right.uuid)
        }
    }

    package var externalPurchaseID: TokenID

    // What the token says, as far as known: the first role's word, gaps filled by Apple's notices.
    package var appAppleID: Int64?
    package var bundleID: String?
    package var tokenType: TokenType?
    package var tokenCreationDate: Timestamp?
    package var tokenExpirationDate: Timestamp?

    /// Nil: no device and no link brought it.
    package var role: TokenRole?
    package var customer: CustomerID?
    /// How many records named another customer than ``customer``.
    package var ownerConflictCount = 0
    /// The newest of those customers, until Apple has said that it knows the token.
    package var otherCustomers: [CustomerID] = []

    /// When Apple said that it does not know the token; nil where it never did, or knows it now.
    package var refusedAt: Timestamp?
    package var lastAccepted: ReportStatus?
    package var lastAcceptedAt: Timestamp?
    /// Numbers given to intents so far.
    package var intentCount = 0
    /// The report under way; one at a time for a token (Apple's error 26).
    package var current: ReportIntent?
    /// Asked for, behind ``current``, numbered already.
    package var line = RequestLine()
    /// Refused by Apple: in the dead letters, where a replay finds them by identifier.
    package var parked: [ReportIntent] = []
    package var debt: Debt?
    /// UNREPORTED for a token not known.
    package var waitingNotice: WaitingNotice?
    /// ACTIVE_TOKEN_REMINDER for a token not known.
    ///
    /// Apart from ``waitingNotice``, because the token that comes after all owes by it what it owes
    /// by a reminder.
    package var waitingReminder: WaitingNotice?
    /// In their order; see ``noticeCountMax``.
    package var notices: [Notice] = []
    /// In the order of acceptance: those with line items, and those under a foreign identifier.
    ///
    /// What the others said follows from their number.
    package var accepted: [AcceptedReport] = []
    /// Offset of the last record of `reports.requested` absorbed: under at-least-once one may come
    /// twice, and without identifier it would be another report.
    package var lastRequestOffset: Int64?
    /// The newest time of such records, by which one is no repeat where the topic was made anew.
    ///
    /// Nil where none had a time, or an earlier version has absorbed them.
    package var lastRequestAt: Timestamp?
    /// That of the record that last changed what is owed; kept while something is.
    package var trace: TraceParent?
    /// The newest time that any record or answer about it carried.
    package var touchedAt: Timestamp

    package init(externalPurchaseID: TokenID, touchedAt: Timestamp) {
        self.externalPurchaseID = externalPurchaseID
        self.touchedAt = touchedAt
    }

    /// Whether a device or a link brought it.
    ///
    /// A `seen` token is neither known nor unknown.
    package var isKnown: Bool {
        switch role {
        case .primary, .duplicate: true
        case .seen, nil: false
        }
    }

    /// Whose key and rate its reports use; nil where its app is not known.
    package var lane: Lane? {
        appAppleID.map { Lane(appAppleID: $0, environment: externalPurchaseID.environment) }
    }

    /// Whether Apple said that it knows no such token of its app: its customer may have written another one
    /// into it.
    package var mayBeOfAnotherApp: Bool { refusedAt != nil && lastAccepted == nil && !isBusy }

    /// Whether a debt of its own was refused: a person has it, and Apple's asking changes nothing.
    package var hasParkedDebt: Bool {
        parked.contains(where: isOwed)
    }

    /// The last month that it stands for: any, where Apple has no report of the token; nil where there is
    /// none.
    package var parkedUntil: CalendarMonth? {
        parked.filter(isOwed).map { lastAccepted == nil ? .last : $0.lastMonth }.max()
    }

    /// The same of what a reminder asks for in a month: its first report, or that month's.
    func hasParkedDebt(for month: CalendarMonth) -> Bool {
        parkedUntil.map { month <= $0 } ?? false
    }

    private func isOwed(_ intent: ReportIntent) -> Bool {
        intent.reason != .request && !isOutdated(intent)
    }

    /// Whether a report is under way, or asked for and waits its turn.
    var isBusy: Bool { current != nil || !line.isEmpty }

    /// Whether a report is under way or to come.
    package var owesReport: Bool {
        isBusy || debt != nil || waitingNotice != nil || waitingReminder != nil
    }

    /// Whether it came in and waits: neither reported nor refused yet.
    package var isHeld: Bool { isKnown && lastAccepted == nil && !hasParkedDebt }

    /// Whether anything is known that must be kept.
    ///
    /// CREATED alone, for example, leaves nothing.
    package var hasSubstance: Bool {
        role != nil || lastAccepted != nil || intentCount > 0 || !notices.isEmpty
    }

    /// Whether a report of its own is owed no more: it says what the token is no more (a duplicate, or
    /// unknown), or Apple has accepted what it may not follow, or it is the first and Apple has one.
    ///
    /// A token among our dead letters is not unknown.
    package func isOutdated(_ intent: ReportIntent) -> Bool {
        intent.reason != .request
            && (isOutdated(intent.status)
                || !NextStatus.mayFollow(lastAccepted: lastAccepted, requested: intent.status)
                || lastAccepted != nil && intent.reason.isOfFirstReport)
    }

    /// Whether a replay of a refused report is answered as reported already, by what Apple accepted since.
    ///
    /// `isOurs`: the identifier is one that the account has given.
    package func hasEnded(_ identifier: String, _ status: ReportStatus, isOurs: Bool) -> Bool {
        lastAccepted != nil && status != .lineItem && line.isEmpty
            && current?.identifier != identifier
            && parked.first { $0.identifier == identifier }.map(isOutdated) ?? isOurs
    }

    func isOutdated(_ status: ReportStatus) -> Bool {
        switch status {
        case .duplicateToken: role == .primary
        case .unrecognizedToken: role != nil
        case .noLineItem, .lineItem: false
        }
    }

    /// Whether it shares a period with others: it expires, and Apple knows duplicates of its type.
    var hasPeriod: Bool { tokenExpirationDate != nil && tokenType?.hasDuplicates == true }

    /// What its own debt is, by its role: DUPLICATE_TOKEN exists only within a period, and follows
    /// nothing else.
    var dueEvent: DueEvent {
        switch role {
        case .duplicate where hasPeriod && (lastAccepted ?? .duplicateToken) == .duplicateToken:
            .duplicateDue
        case .primary, .duplicate, .seen, nil:
            lastAccepted == nil ? .primaryDue : .monthDue
        }
    }
}

extension TokenAccount {
    /// When an account wants attention next, and of which kind: one place each in the due table.
    package enum Attention: Equatable, Sendable {
        /// Sendable: the lane's turn decides, the earliest deadline first.
        case ready(lane: Lane, deadline: Timestamp)
        /// A debt falls due, or a retry.
        case waiting(until: Timestamp)
        /// The guard must prove first that the token is unknown; not before this.
        case guarded(from: Timestamp)
        /// Nothing is owed; to be forgotten then.
        case forgotten(at: Timestamp)
    }

    package var attention: Attention {
        if let current {
            guard let nextAttemptAt = current.nextAttemptAt else {
                // An intent is made only where the app is known.
                guard let lane else {
                    return .forgotten(at: forgottenAt)
                }
                return .ready(lane: lane, deadline: current.deadline)
            }
            return .waiting(until: nextAttemptAt)
        }
        if !line.isEmpty {
            // Its turn has come, and its record is to be read.
            return .waiting(until: Timestamp(milliseconds: 0))
        }
        if let debt {
            return .waiting(until: debt.dueAt)
        }
        if role == nil, let guardedFrom {
            return .guarded(from: guardedFrom)
        }
        return .forgotten(at: forgottenAt)
    }

    private var guardedFrom: Timestamp? {
        .earlier(of: waitingNotice?.guardedFrom, waitingReminder?.guardedFrom)
    }

    /// 400 days after expiry or creation, and never within 400 days of the last word about it: an
    /// old token that comes again must still be known.
    private var forgottenAt: Timestamp {
        let tokenEnd = tokenExpirationDate ?? tokenCreationDate ?? touchedAt
        return max(tokenEnd, touchedAt) + ReportPolicy.memory
    }
}
