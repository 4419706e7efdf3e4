/// What a change of an account asks of the worker, in the transaction that stores the account.
package enum ReportEffect: Equatable, Sendable {
    /// One record of the ledger.
    case outcome(ReportOutcome)
    /// A refused debt: a dead letter that resumes it when replayed. Or a queued report that may not
    /// follow what was accepted before it.
    case deadLetter(ReportRequested, Fault, origin: RecordOrigin, history: ReplayHistory?)
    /// A report that was queued and has lost its meaning, as NO_LINE_ITEM after LINE_ITEM.
    case cancelled(ReportIntent)
    /// A report that carries sales has ended.
    case answered(PurchaseAnswer)
    /// Apple does not know the token.
    case refusedToken(TokenRefused)
    /// Apple has the token as a duplicate, and it is the first of its period by now.
    case promotedLate
}

/// The outcome of a report that carries sales: ``PurchaseAnswered`` before its line items are read.
package struct PurchaseAnswer: Equatable, Sendable {
    package var purchaseKey: PurchaseKey
    package var requestIdentifier: String
    /// As they were sent, or would have been.
    package var lineItems: String?
    package var outcome: ReportOutcome.Outcome
    package var errors: [AppleError]
    /// The code of a rejection.
    package var reason: String?
    /// Ids of line items of a rejected report that Apple holds already, as they were sent.
    package var verified: [String]
    /// The identifiers of the reports that it holds them by, one for each of ``verified``.
    package var holders: [String] = []
    /// Of a duplicate that no sale is reported under: the token to take instead.
    package var primary: TokenID?
    /// As the request has it.
    package var askedAt: Timestamp?
}

extension TokenAccount {
    /// Does what time asks for: ends a wait before a retry, and makes the next intent if nothing is
    /// under way and something is due.
    ///
    /// What waits in line goes first. Where its record was not read yet, nothing follows: the
    /// account is due again at once.
    /// Unless `mayTellDuplicate`, a duplicate's report that is due is put off: its primary may not have
    /// been heard. `endsRefused`: what was accepted just now stands for those of the token's own that
    /// were refused, and are asked for again.
    package mutating func advance(
        now: Timestamp,
        mayTellDuplicate: Bool = true,
        endsRefused: Bool = false,
        policy: ReportPolicy
    ) -> [ReportEffect] {
        var effects: [ReportEffect] = []
        if let nextAttemptAt = current?.nextAttemptAt, nextAttemptAt <= now {
            current?.nextAttemptAt = nil
        }
        while current == nil, let next = line.takeNext() {
            guard !endsRefused || next.reason == .request else {
                effects.append(.cancelled(next))
                continue
            }
            effects += takeTurn(next, now: now, policy: policy)
        }
        guard !isBusy, let debt, debt.dueAt <= now else {
            return effects
        }
        guard mayTellDuplicate || duplicateDue(by: now) == nil else {
            putOffDuplicate(now: now, policy: policy)
            return effects
        }
        self.debt = nil
        // A month's that was owed before the setting changed is owed no more.
        let isOwed = lastAccepted == nil || debt.month == nil || policy.repeatsMonthly
        if isOwed, let status = NextStatus.owed(lastAccepted: lastAccepted, event: dueEvent) {
            plan(status, for: debt, policy: policy)
        }
        return effects
    }

    /// Since when DUPLICATE_TOKEN is due, where it is what is planned next.
    package func duplicateDue(by now: Timestamp) -> Timestamp? {
        guard current == nil, lastAccepted == nil, dueEvent == .duplicateDue, let debt,
            debt.dueAt <= now
        else {
            return nil
        }
        return debt.dueAt
    }

    /// Whether less than the margin is left before the deadline.
    package func isDuplicateLate(now: Timestamp, policy: ReportPolicy) -> Bool {
        latestDue(policy).map { $0 <= now } ?? false
    }

    /// Puts a duplicate's report off for an hour; for minutes near its deadline and for a day after; and
    /// for a hold at most.
    private mutating func putOffDuplicate(now: Timestamp, policy: ReportPolicy) {
        let isNear =
            ownDeadline(policy).map {
                now + -ReportPolicy.soonAfterDeadline < $0 && $0 < now + ReportPolicy.nearDeadline
            } ?? false
        let span = isNear ? ReportPolicy.putOffNear : ReportPolicy.putOff
        debt?.dueAt = now + min(span, policy.hold)
    }

    /// Whether DUPLICATE_TOKEN is planned for after its deadline.
    ///
    /// It came late or was put off, maybe by a clock that was ahead. Every duplicate has an expiry.
    package var isDuplicateOverdue: Bool {
        guard current == nil, lastAccepted == nil, dueEvent == .duplicateDue, let debt,
            let tokenExpirationDate
        else {
            return false
        }
        return debt.dueAt > tokenExpirationDate + ReportPolicy.deadlineAfterExpiry
    }

    /// The clock was set back: a retry keeps what was left of its wait.
    ///
    /// A duplicate that was put off beyond its deadline is due just before it: when twice its hold
    /// ended is not known any more, and its primary is to be heard first.
    package mutating func moveRetry(by setBack: Milliseconds, now: Timestamp) {
        if let nextAttemptAt = current?.nextAttemptAt {
            current?.nextAttemptAt = nextAttemptAt.movedRetry(by: setBack, now: now)
        } else if isDuplicateOverdue, let dueAt = debt?.dueAt, let tokenExpirationDate {
            debt?.dueAt = max(
                dueAt.movedRetry(by: setBack, now: now),
                ReportPolicy.latestDue(expiration: tokenExpirationDate)
            )
        }
    }

    /// Decides on a report that is due: others have ended since it was asked for.
    private mutating func takeTurn(
        _ intent: ReportIntent,
        now: Timestamp,
        policy: ReportPolicy
    ) -> [ReportEffect] {
        if let purchaseKey = intent.purchaseKey {
            if let fault = duplicateFault {
                return [.answered(answer(to: intent, of: purchaseKey, fault))]
            }
            if let holder = holder(of: intent, policy) {
                return [.answered(answer(to: intent, of: purchaseKey, heldBy: holder, policy))]
            }
        }
        let known = known(intent.identifier, number: intent.number)
        if let outdated = takeOutdated(intent, known) {
            oweInstead(of: outdated, at: now)
            return [.cancelled(intent)]
        }
        if let ending = ending(of: intent, known, policy) {
            switch ending {
            case .alreadyReported: return [.cancelled(intent)]
            case .refused(let fault): return [dropped(intent, fault, policy: policy)]
            }
        }
        guard NextStatus.mayFollow(lastAccepted: lastAccepted, requested: intent.status) else {
            return intent.status == .noLineItem && lastAccepted == .lineItem
                ? [.cancelled(intent)]
                : [dropped(intent, statusOrder(intent.status), policy: policy)]
        }
        if case .parked(let index) = known {
            current = parked.remove(at: index).resumed(
                lineItems: intent.lineItems,
                history: intent.history
            )
        } else {
            current = intent
        }
        return []
    }

    /// Takes a report that was refused, and is outdated since it was asked for again.
    private mutating func takeOutdated(_ intent: ReportIntent, _ known: Known?) -> ReportIntent? {
        if case .parked(let index) = known, intent.status == parked[index].status,
            isOutdated(parked[index])
        {
            return parked.remove(at: index)
        }
        return isOutdated(intent) ? intent : nil
    }

    private func dropped(
        _ intent: ReportIntent,
        _ fault: Fault,
        policy: ReportPolicy
    ) -> ReportEffect {
        if let purchaseKey = intent.purchaseKey {
            return .answered(answer(to: intent, of: purchaseKey, fault))
        }
        // It was never sent, so its replay is a report of its own: no identifier of ours goes along,
        // unless whoever asked for it named it.
        let ours = policy.requestIdentifier(externalPurchaseID, intent.number)
        let isNamed = intent.isRepeat || intent.identifier != ours
        return .deadLetter(
            deadLetter(of: intent, under: isNamed ? intent.identifier : nil, policy: policy),
            fault,
            origin: intent.origin,
            history: intent.history
        )
    }

    /// A report that carries sales and is not sent.
    private func answer(
        to intent: ReportIntent,
        of purchaseKey: PurchaseKey,
        _ fault: Fault
    ) -> PurchaseAnswer {
        PurchaseAnswer(
            purchaseKey: purchaseKey,
            requestIdentifier: intent.identifier,
            lineItems: intent.lineItems,
            outcome: .rejected,
            errors: [],
            reason: fault.code,
            verified: [],
            primary: primary(after: fault),
            askedAt: intent.askedAt
        )
    }

    /// The guard has proven that everything received before its round was absorbed, and this token
    /// was not among it.
    package mutating func proveUnknown(policy: ReportPolicy) {
        let notices = [waitingNotice, waitingReminder].compactMap { $0 }
            .filter { $0.guardedFrom != nil }
        guard
            let first = notices.min(by: { ($0.receivedAt, $0.origin) < ($1.receivedAt, $1.origin) }
            ),
            role == nil, !isBusy
        else {
            return
        }
        let urgency = waitingNotice == nil ? ReportReason.reminder : .unknown
        waitingNotice = nil
        waitingReminder = nil
        guard !hasParkedDebt,
            let status = NextStatus.owed(lastAccepted: lastAccepted, event: .provenUnknown)
        else {
            return
        }
        plan(
            status,
            for: Debt(dueAt: first.receivedAt, reason: .unknown, origin: first.origin),
            urgency: urgency,
            policy: policy
        )
    }

    /// `urgency` is the reason that the deadline goes by, where it is not the debt's own.
    private mutating func plan(
        _ status: ReportStatus,
        for debt: Debt,
        urgency: ReportReason? = nil,
        policy: ReportPolicy
    ) {
        precondition(lane != nil && bundleID != nil, "a debt is made only where the app is known")
        // A token that Apple has a report of has met its own.
        let own = lastAccepted == nil ? ownDeadline(policy) : nil
        let asked = Self.deadline(by: urgency ?? debt.reason, dueAt: debt.dueAt)
        intentCount += 1
        current = ReportIntent(
            number: intentCount,
            identifier: policy.requestIdentifier(externalPurchaseID, intentCount),
            status: status,
            lineItems: nil,
            reason: debt.reason,
            origin: debt.origin,
            deadline: .earlier(of: own, asked) ?? debt.dueAt
        )
    }

    /// What the reason of a debt says of the time left, whatever the token's own deadline.
    private static func deadline(by reason: ReportReason, dueAt: Timestamp) -> Timestamp? {
        if let month = Debt.month(of: reason, dueAt: dueAt) {
            return month.adding(1).start + ReportPolicy.deadlineAfterMonth
        }
        return switch reason {
        // Apple asks only when the time is over.
        case .unreported, .unknown: dueAt
        case .hold, .deadline, .duplicate, .request, .month, .reminder: nil
        }
    }

    /// The next month's debt of a token that stays active, once a month's report is accepted.
    ///
    /// One that is accepted after the expiry is the last. `held` is the debt that stood until then: a
    /// month that is over stays owed where another report was accepted meanwhile, and what was told
    /// since is not told again after a replay of an older month. `isFirst`: Apple had none before.
    mutating func oweNextMonth(
        after intent: ReportIntent,
        isFirst: Bool,
        instead held: Debt?,
        at time: Timestamp,
        policy: ReportPolicy
    ) {
        guard policy.repeatsMonthly, lastAccepted == .noLineItem, isKnown,
            let expiration = tokenExpirationDate
        else {
            return
        }
        if let month = held?.month, month < CalendarMonth(of: time) {
            debt = held
            return
        }
        guard time < expiration else {
            return
        }
        let following = monthAfter(intent, isFirst: isFirst, at: time, policy: policy)
        let next = max(following, held?.month ?? following)
        guard next.start < expiration else {
            return
        }
        // A month is reported when it is over, or the token has expired.
        debt = Debt(
            dueAt: min(next.adding(1).start, ReportPolicy.latestDue(expiration: expiration)),
            reason: .month,
            origin: intent.origin
        )
    }

    /// The month that follows the one that an accepted report is for.
    private func monthAfter(
        _ intent: ReportIntent,
        isFirst: Bool,
        at time: Timestamp,
        policy: ReportPolicy
    ) -> CalendarMonth {
        let own = ownDeadline(policy)
        switch intent.reason {
        case _ where isFirst:
            // It is for the month before, where the token was there and Apple still takes that
            // month's reports.
            let earliest = CalendarMonth(of: time + -ReportPolicy.deadlineAfterMonth)
            return max(CalendarMonth(of: tokenCreationDate ?? time), earliest).adding(1)
        case .month:
            // Its deadline lies in the one that follows, be it the month's or the token's own.
            return CalendarMonth(of: intent.deadline)
        case .reminder:
            // Its deadline lies in the one that follows, but where it is the token's own, or was
            // brought forward.
            let month = CalendarMonth(of: intent.deadline)
            return intent.deadline == month.start + ReportPolicy.deadlineAfterMonth
                && intent.deadline != own
                ? month : CalendarMonth(of: min(time, intent.deadline)).adding(1)
        case .request, .hold, .deadline, .duplicate, .unreported, .unknown:
            return CalendarMonth(of: time).adding(1)
        }
    }

    /// Whether a month is not reported yet: the last one with an accepted report is before it.
    func owesMonth(_ month: CalendarMonth, lastAcceptedAt: Timestamp) -> Bool {
        debt?.month.map { $0 <= month } ?? (CalendarMonth(of: lastAcceptedAt) < month)
    }
}

extension TokenAccount.Debt {
    /// The calendar month that a repeated report is owed for; nil for a token's first.
    package var month: CalendarMonth? { Self.month(of: reason, dueAt: dueAt) }

    fileprivate static func month(of reason: ReportReason, dueAt: Timestamp) -> CalendarMonth? {
        switch reason {
        // It is due when its month is over, at that very time, or when the token is.
        case .month: CalendarMonth(of: dueAt + Milliseconds(-1))
        case .reminder: CalendarMonth(of: dueAt)
        case .hold, .deadline, .duplicate, .unreported, .unknown, .request: nil
        }
    }
}
