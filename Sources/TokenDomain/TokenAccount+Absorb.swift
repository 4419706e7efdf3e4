/// What an account did with a record that it absorbed: the fixed words that metrics count by.
package enum Absorption: Equatable, Sendable {
    /// A debt was made; it is due now or later.
    case owed
    /// Said before: nothing changed but what was missing.
    case repeated
    /// Another customer claims a token that has one: counted, never reported again.
    case ownerConflict
    /// Known by its dead letter only.
    case seen
    /// A duplicate became the first of its period: what it owes is turned.
    case promoted
    /// The same, and Apple has it as a duplicate already, which nothing may follow. Alarms.
    case promotedLate
    /// A notice about a token known by its dead letter only: a person must replay it. Alarms.
    case noticeForSeen
    /// Apple asks for what it has already accepted.
    case alreadyReported
    /// Apple asks for what it has refused; the dead letter waits for a person.
    case parked
    /// Apple asks for what is under way.
    case underWay
    /// Unknown so far: waits for the guard.
    case guarded
    /// Nothing follows from it, as for CREATED.
    case noted
    /// A subtype that nobody knows yet; nil: none, where there should be one.
    case unknownSubtype(String?)
    /// The record's own fault.
    case refused(Fault)
    /// Apple has accepted other content under the identifier that the record names. Alarms.
    case conflict(Fault)

    /// Why nothing is made of the record; nil where something is.
    package var fault: Fault? {
        switch self {
        case .refused(let fault), .conflict(let fault): fault
        default: nil
        }
    }
}

extension TokenAccount {
    /// Absorbs a record of `tokens.distinct.v1`.
    ///
    /// The first role absorbed stays, except that the token itself replaces `seen`.
    package mutating func absorb(
        _ distinct: TokenDistinct,
        origin: RecordOrigin,
        now: Timestamp,
        policy: ReportPolicy
    ) -> Absorption {
        touch(distinct.receivedAt)
        if case .seen = distinct.role {
            guard role == nil else {
                return .repeated
            }
            role = .seen
            doubtOutdated()
            let isAskedFor =
                waitingNotice != nil || waitingReminder != nil || (current.map(isOutdated) ?? false)
                || parked.contains(where: isOutdated)
            return isAskedFor ? .noticeForSeen : .seen
        }
        if isKnown {
            let repeated = absorbRepeat(distinct)
            return distinct.promotedFrom == nil
                ? repeated
                : promote(distinct, origin: origin, now: now, policy: policy)
        }
        guard (distinct.appAppleID ?? appAppleID) != nil, (distinct.bundleID ?? bundleID) != nil
        else {
            return .refused(
                Fault(
                    code: "report.missing_field",
                    message: "a token without app cannot be reported",
                    externalPurchaseID: externalPurchaseID
                )
            )
        }
        role = distinct.role
        adopt(distinct)
        learnDeadline(policy)
        guard lastAccepted == nil else {
            waitingNotice = nil
            waitingReminder = nil
            return .alreadyReported
        }
        debt = firstDebt(receivedAt: distinct.receivedAt, origin: origin, now: now, policy: policy)
        if let notice = waitingNotice {
            askFor(notice, .unreported, now: now, policy: policy)
        }
        if let reminder = waitingReminder {
            askFor(reminder, .reminder, now: now, policy: policy)
        }
        waitingNotice = nil
        waitingReminder = nil
        takeBackUnknown(at: distinct.receivedAt, now: now, policy: policy)
        return .owed
    }

    /// Absorbs a record of `notifications.verified.v1`.
    package mutating func absorb(
        _ notice: NotificationVerified,
        origin: RecordOrigin,
        now: Timestamp,
        policy: ReportPolicy
    ) -> Absorption {
        let isUnreported = notice.subtype == "UNREPORTED"
        guard isUnreported || notice.subtype == "ACTIVE_TOKEN_REMINDER" else {
            // CREATED proves nothing: it is no sign that the token reached us.
            return notice.subtype == "CREATED" ? .noted : .unknownSubtype(notice.subtype)
        }
        touch(notice.receivedAt)
        guard remember(Notice(signedDate: notice.signedDate, uuid: notice.notificationUUID)) else {
            return .repeated
        }
        take(appleWord: notice.token)
        learnDeadline(policy)
        let isGuarded = isUnreported || policy.reportsUnknownReminders
        let waiting = WaitingNotice(
            receivedAt: notice.receivedAt,
            guardedFrom: isGuarded ? notice.receivedAt + policy.unrecognizedGrace : nil,
            origin: origin
        )
        return isUnreported
            ? absorbUnreported(waiting, now: now, policy: policy)
            : absorbReminder(waiting, signedDate: notice.signedDate, now: now, policy: policy)
    }

    /// A customer who is new to a token that Apple does not know: it was not reported for them.
    ///
    /// - Parameters:
    ///   - distinct: what was absorbed.
    ///   - before: the account as it was; nil where there was none.
    /// - Returns: nil where there is no such customer.
    package func refusal(
        toTell distinct: TokenDistinct,
        before: TokenAccount?
    ) -> TokenRefused? {
        guard let refusedAt, let other = distinct.customer, other != before?.customer else {
            return nil
        }
        return TokenRefused(
            externalPurchaseID: externalPurchaseID,
            customer: other,
            refusedAt: refusedAt
        )
    }

    // MARK: Tokens

    /// Apple does not know the token that this one was a duplicate of: it takes its place.
    private mutating func promote(
        _ distinct: TokenDistinct,
        origin: RecordOrigin,
        now: Timestamp,
        policy: ReportPolicy
    ) -> Absorption {
        guard case .duplicate = role else {
            // Told before.
            return .promoted
        }
        let wasDuplicate = dueEvent == .duplicateDue
        role = .primary
        guard wasDuplicate, lastAccepted != .duplicateToken else {
            return wasDuplicate ? .promotedLate : .promoted
        }
        doubtOutdated()
        // What Apple refused to hear is owed no more, but what a primary owes is.
        parked.removeAll(where: isOutdated)
        let isUnderWay = current.map { $0.reason != .request } ?? false
        if debt?.reason == .duplicate || debt == nil && lastAccepted == nil && !isUnderWay {
            debt = firstDebt(
                receivedAt: distinct.receivedAt,
                origin: debt?.origin ?? origin,
                now: now,
                policy: policy
            )
        } else if let debt, debt.reason == .unreported {
            // Apple waits for it, and it is behind nothing now.
            self.debt?.dueAt = min(debt.dueAt, now)
        }
        return .promoted
    }

    /// It came in after it was proven unknown: what says so is withdrawn, unless Apple has it, and
    /// Apple has asked for what it owes instead.
    private mutating func takeBackUnknown(
        at time: Timestamp,
        now: Timestamp,
        policy: ReportPolicy
    ) {
        doubtOutdated()
        for intent in [current].compactMap({ $0 }) + parked
        where lastAccepted == nil && isOutdated(intent) {
            let notice = WaitingNotice(
                receivedAt: min(intent.deadline, time),
                guardedFrom: nil,
                origin: intent.origin
            )
            askFor(notice, .unreported, now: now, policy: policy)
        }
        parked.removeAll(where: isOutdated)
    }

    /// A GET goes first for what is outdated, whatever the state says: it says so for the version before
    /// this one, which may have the partition next.
    private mutating func doubtOutdated() {
        if let current, isOutdated(current) {
            self.current?.phase = .doubtful
        }
    }

    private mutating func absorbRepeat(_ distinct: TokenDistinct) -> Absorption {
        guard let another = distinct.customer else {
            return .repeated
        }
        guard let customer else {
            self.customer = another
            return .repeated
        }
        guard customer != another else {
            return .repeated
        }
        ownerConflictCount += 1
        if lastAccepted == nil || refusedAt != nil {
            note(otherCustomer: another)
        }
        return .ownerConflict
    }

    private func firstDebt(
        receivedAt: Timestamp,
        origin: RecordOrigin,
        now: Timestamp,
        policy: ReportPolicy
    ) -> Debt {
        let isDuplicate = dueEvent == .duplicateDue
        let held = receivedAt + (isDuplicate ? policy.duplicateHold : policy.hold)
        // Its primary is to be heard first, for Apple may refuse that: it may have come this far only now.
        let lead = Self.primaryLead(policy)
        let late = min(now, held + ReportPolicy.primaryLagMax)
        let latest = latestDue(policy)
        guard let latest, latest < held else {
            // What came late waits for one hold, as far as its deadline lets it.
            let heard =
                latest.map { min(late + policy.hold, max($0, late) + lead) } ?? late + policy.hold
            return isDuplicate
                ? Debt(dueAt: max(held, heard), reason: .duplicate, origin: origin)
                : Debt(dueAt: held, reason: .hold, origin: origin)
        }
        // Long past is due now; earlier than it came in cannot be.
        let dueAt = max(latest, receivedAt)
        // The primary is due then, too.
        return isDuplicate
            ? Debt(dueAt: max(dueAt, late) + lead, reason: .duplicate, origin: origin)
            : Debt(dueAt: dueAt, reason: .deadline, origin: origin)
    }

    /// Until when Apple wants the token's report; nil where its dates are not known.
    func ownDeadline(_ policy: ReportPolicy) -> Timestamp? {
        policy.deadline(creation: tokenCreationDate, expiration: tokenExpirationDate)
    }

    /// When a report is due for its deadline; nil where its dates are not known.
    func latestDue(_ policy: ReportPolicy) -> Timestamp? {
        ownDeadline(policy)
            .map { $0 + -ReportPolicy.deadlineMargin }
    }

    /// What a short hold leaves of ``ReportPolicy/primaryLead``.
    private static func primaryLead(_ policy: ReportPolicy) -> Milliseconds {
        min(ReportPolicy.primaryLead, policy.hold)
    }

    /// A sale may come to be reported before anybody has said of what date its token is.
    private mutating func learnDeadline(_ policy: ReportPolicy) {
        guard lastAccepted == nil, let intent = current, intent.purchaseKey != nil,
            let own = ownDeadline(policy)
        else {
            return
        }
        current?.deadline = min(intent.deadline, own)
    }

    /// Its customer can write what a token says: of what Apple's notices said, only gaps are filled.
    private mutating func adopt(_ distinct: TokenDistinct) {
        let isAppleWord = !notices.isEmpty && refusedAt == nil
        func chosen<V>(_ old: V?, _ new: V?) -> V? { isAppleWord ? old ?? new : new ?? old }
        appAppleID = chosen(appAppleID, distinct.appAppleID)
        bundleID = chosen(bundleID, distinct.bundleID)
        tokenType = chosen(tokenType, distinct.tokenType)
        tokenCreationDate = chosen(tokenCreationDate, distinct.tokenCreationDate)
        tokenExpirationDate = chosen(tokenExpirationDate, distinct.tokenExpirationDate)
        customer = distinct.customer ?? customer
    }

    // MARK: Notices

    private mutating func absorbUnreported(
        _ notice: WaitingNotice,
        now: Timestamp,
        policy: ReportPolicy
    ) -> Absorption {
        guard lastAccepted == nil else {
            return .alreadyReported
        }
        guard !hasParkedDebt else {
            return .parked
        }
        if let deadline = current?.deadline {
            // Apple waits for it: first in its lane. Its own debt is then what is under way, unless
            // that was asked for by hand and may yet be refused.
            current?.deadline = min(deadline, notice.receivedAt)
            guard current?.reason == .request else {
                return .underWay
            }
        }
        switch role {
        case .primary, .duplicate:
            askFor(notice, .unreported, now: now, policy: policy)
        case .seen:
            waitingNotice = Self.earlier(waitingNotice, notice)
            return .noticeForSeen
        case nil:
            waitingNotice = Self.earlier(waitingNotice, notice)
        }
        guard !isBusy else {
            return .underWay
        }
        return isKnown ? .owed : .guarded
    }

    private mutating func absorbReminder(
        _ notice: WaitingNotice,
        signedDate: Timestamp,
        now: Timestamp,
        policy: ReportPolicy
    ) -> Absorption {
        guard current == nil || current?.reason == .request else {
            return .underWay
        }
        let month = CalendarMonth(of: signedDate)
        guard !hasParkedDebt(for: month) else {
            return .parked
        }
        guard isKnown else {
            if let lastAccepted {
                // Apple has its sales, or has it as a duplicate: whatever its dead letter brings.
                let isEnded = lastAccepted == .lineItem || lastAccepted == .duplicateToken
                return role == nil || isEnded ? .alreadyReported : .noticeForSeen
            }
            waitingReminder = Self.earlier(waitingReminder, notice)
            guard role == nil else {
                return .noticeForSeen
            }
            guard !isBusy else {
                return .underWay
            }
            return notice.guardedFrom == nil ? .noted : .guarded
        }
        if let lastAcceptedAt {
            guard policy.repeatsMonthly, owesMonth(month, lastAcceptedAt: lastAcceptedAt),
                NextStatus.owed(lastAccepted: lastAccepted, event: .monthDue) != nil
            else {
                return .alreadyReported
            }
        }
        askFor(notice, .reminder, now: now, policy: policy)
        return isBusy ? .underWay : .owed
    }

    /// Apple asks for a token that is known: what it owes is due now, and the earliest cause is the one
    /// that is reported; but DUPLICATE_TOKEN is due once Apple has answered for the token's primary: 20 s after the
    /// end of that one's hold, or its deadline, where that is nearer than twice the hold.
    ///
    /// For nothing may follow it, and Apple never asks for a primary that is forged. A month's report has 15
    /// days: a reminder makes a duplicate no earlier.
    private mutating func askFor(
        _ notice: WaitingNotice,
        _ reason: ReportReason,
        now: Timestamp,
        policy: ReportPolicy
    ) {
        guard let debt else {
            self.debt = Debt(dueAt: notice.receivedAt, reason: reason, origin: notice.origin)
            return
        }
        guard lastAccepted == nil, dueEvent == .duplicateDue else {
            if (notice.receivedAt, notice.origin) < (debt.dueAt, debt.origin) {
                self.debt = Debt(dueAt: notice.receivedAt, reason: reason, origin: notice.origin)
            }
            return
        }
        guard reason == .unreported, debt.reason == .duplicate else {
            return
        }
        self.debt?.reason = .unreported
        // Near its deadline, or late, it is as close behind its primary as it may be.
        if let latest = latestDue(policy), debt.dueAt <= latest {
            let primaryDueAt = debt.dueAt + -policy.hold
            let heard = max(now, primaryDueAt) + Self.primaryLead(policy)
            self.debt?.dueAt = min(debt.dueAt, heard)
        }
    }

    private static func earlier(_ one: WaitingNotice?, _ other: WaitingNotice) -> WaitingNotice {
        guard let one else {
            return other
        }
        var first =
            (one.receivedAt, one.origin) < (other.receivedAt, other.origin) ? one : other
        // What was only remembered under another setting does not keep the guard from the other.
        first.guardedFrom = .earlier(of: one.guardedFrom, other.guardedFrom)
        return first
    }

    /// - Returns: false where it was there before.
    private mutating func remember(_ notice: Notice) -> Bool {
        guard !notices.contains(where: { $0.uuid == notice.uuid }) else {
            return false
        }
        let place = notices.firstIndex { notice < $0 } ?? notices.endIndex
        notices.insert(notice, at: place)
        if notices.count > Self.noticeCountMax {
            notices.removeFirst()
        }
        return true
    }

    /// Apple's word stands above the token's own until that is told; what was refused under another app is
    /// owed anew.
    private mutating func take(appleWord token: ExternalPurchaseToken) {
        let mayChange = lastAccepted == nil && !isBusy
        func chosen<V>(_ old: V?, _ new: V?) -> V? { mayChange ? new ?? old : old ?? new }
        if mayChange, appAppleID != token.appAppleID {
            parked.removeAll { $0.reason != .request }
        }
        appAppleID = chosen(appAppleID, token.appAppleID)
        bundleID = chosen(bundleID, token.bundleID)
        tokenType = chosen(tokenType, token.tokenType)
        tokenCreationDate = chosen(tokenCreationDate, token.tokenCreationDate)
        tokenExpirationDate = chosen(tokenExpirationDate, token.tokenExpirationDate)
    }

    mutating func touch(_ time: Timestamp) {
        touchedAt = max(touchedAt, time)
    }
}
