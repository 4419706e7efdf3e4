/// One answer of Apple to one request for one intent, with its meaning.
package struct AnsweredReport: Equatable, Sendable {
    /// The intent it was sent for, and the requests that had ended for it before: an answer that an
    /// account has already taken in is known by them.
    package var number: Int
    package var requestCount: Int
    package var request: ReportRequest
    package var meaning: ReportAnswer
    /// 0: there was no answer.
    package var httpStatus: Int
    package var errors: [AppleError]
    package var sentAt: Timestamp
    package var answeredAt: Timestamp
    /// When to try again, if it means that: chosen by ``Backoff``.
    package var retryAt: Timestamp

    package init(
        number: Int,
        requestCount: Int,
        request: ReportRequest,
        meaning: ReportAnswer,
        httpStatus: Int,
        errors: [AppleError],
        sentAt: Timestamp,
        answeredAt: Timestamp,
        retryAt: Timestamp
    ) {
        self.number = number
        self.requestCount = requestCount
        self.request = request
        self.meaning = meaning
        self.httpStatus = httpStatus
        self.errors = errors
        self.sentAt = sentAt
        self.answeredAt = answeredAt
        self.retryAt = retryAt
    }
}

extension TokenAccount {
    /// What the next request for the report under way is.
    package var nextRequest: ReportRequest? {
        current.map { intent in
            guard intent.search == nil else {
                return .search
            }
            return isDoubtful(intent) ? .retrieve : .send
        }
    }

    /// Whether a GET goes first: a send may have landed.
    ///
    /// Of what is outdated it shows whether Apple has it; if not, it is withdrawn.
    private func isDoubtful(_ intent: ReportIntent) -> Bool {
        intent.phase == .doubtful || isToBeWithdrawn(intent)
    }

    /// Whether it is outdated, and Apple never said that its identifier is taken.
    private func isToBeWithdrawn(_ intent: ReportIntent) -> Bool {
        isOutdated(intent) && intent.takenSince == nil
    }

    /// Whether an answer to such a request is awaited: the report may have become outdated while its
    /// PUT was in flight.
    private func expects(_ request: ReportRequest) -> Bool {
        nextRequest == request || request == .send && nextRequest == .retrieve
    }

    /// Takes in an answer.
    ///
    /// One that belongs to no request under way changes nothing: it was taken in before, or the
    /// account moved on without it.
    package mutating func absorb(
        _ answer: AnsweredReport,
        policy: ReportPolicy
    ) -> [ReportEffect] {
        guard var intent = current, intent.number == answer.number,
            intent.requestCount == answer.requestCount, expects(answer.request)
        else {
            return []
        }
        if case .lane(.noKey, _) = answer.meaning {
            // There was no request.
            return []
        }
        if answer.request == .send {
            intent.attempts += 1
            if answer.meaning.wasSent {
                intent.firstSentAt = intent.firstSentAt ?? answer.sentAt
            }
        } else {
            intent.inquiries += 1
        }
        intent.note(
            ReportExchange(
                request: answer.request,
                sentAt: answer.sentAt,
                answeredAt: answer.answeredAt,
                httpStatus: answer.httpStatus,
                errorCode: answer.errors.first?.code
            )
        )
        intent.nextAttemptAt = nil
        touch(answer.answeredAt)
        switch answer.meaning {
        case .accepted:
            return settle(intent, .accepted, answer, policy: policy)
        case .verified:
            return settle(intent, .verified, answer, policy: policy)
        case .found(let held):
            return search(held, in: intent, answer, policy: policy)
        case .notHeld where intent.search != nil:
            return search([:], in: intent, answer, policy: policy)
        case .nothingSaid where isToBeWithdrawn(intent) && intent.firstSentAt != nil:
            // No PUT of it may go again: for a day only a word of Apple's says that it has it not.
            let since = min(intent.firstSentAt ?? answer.answeredAt, answer.answeredAt)
            guard answer.answeredAt - since < ReportPolicy.unverifiableAfter else {
                return refuse(intent, .unverifiable, answer, policy: policy)
            }
            intent.nextAttemptAt = answer.retryAt
        case .notHeld where isToBeWithdrawn(intent), .nothingSaid where isToBeWithdrawn(intent):
            current = nil
            oweInstead(of: intent, at: answer.answeredAt)
            // A duplicate first asks whether its primary was heard.
            return [.cancelled(intent)]
                + advance(now: answer.answeredAt, mayTellDuplicate: false, policy: policy)
        case .rejected(let kind):
            return refuse(intent, kind, answer, policy: policy)
        case .verify(let isTaken, let isRefused):
            intent.phase = .doubtful
            intent.takenSince = isTaken ? intent.takenSince ?? answer.answeredAt : intent.takenSince
            intent.keep(isRefused ? answer.errors : [])
        case .notHeld, .nothingSaid:
            guard intent.refusal.isEmpty else {
                return refuse(intent, .refused, answer, policy: policy)
            }
            if let stated = intent.takenSince {
                // A clock that was set back since must not prolong it.
                let takenSince = min(stated, answer.answeredAt)
                intent.takenSince = takenSince
                guard answer.answeredAt - takenSince < ReportPolicy.unverifiableAfter else {
                    return refuse(intent, .unverifiable, answer, policy: policy)
                }
                intent.nextAttemptAt = answer.retryAt
            } else if intent.inquiries > 1 {
                // The last send left as little behind: PUT and GET must not alternate at once.
                intent.nextAttemptAt = answer.retryAt
            }
            intent.phase = .planned
        case .again(let isDoubtful, let notBefore):
            intent.phase = isDoubtful ? .doubtful : intent.phase
            intent.nextAttemptAt = max(answer.retryAt, notBefore ?? answer.retryAt)
        case .serialise:
            intent.nextAttemptAt = answer.retryAt
        case .futureDate:
            intent.nextAttemptAt = answer.answeredAt + ReportPolicy.clockSkew
        case .lane(.misdirected, _):
            // It may be this request alone: the next probe of the lane is another one's.
            intent.nextAttemptAt = answer.retryAt
        case .lane:
            // The lane waits, not the report: it keeps its place.
            break
        }
        current = intent
        return []
    }

    // MARK: Ends

    mutating func settle(
        _ intent: ReportIntent,
        _ outcome: ReportOutcome.Outcome,
        _ answer: AnsweredReport,
        policy: ReportPolicy
    ) -> [ReportEffect] {
        var effects: [ReportEffect] = [.outcome(ledger(intent, outcome, answer, policy: policy))]
        if let purchaseKey = intent.purchaseKey {
            effects.append(
                .answered(self.answer(to: intent, of: purchaseKey, outcome, errors: []))
            )
        }
        if intent.status == .duplicateToken, isOutdated(intent.status) {
            effects.append(.promotedLate)
        }
        current = nil
        let isFirst = lastAccepted == nil
        lastAccepted = intent.status
        lastAcceptedAt = answer.answeredAt
        keepAccepted(intent, policy: policy)
        // Any accepted report ends the token's own debt; so an accepted LINE_ITEM cancels NO_LINE_ITEM.
        // The first, and one that was asked for, also ends what was refused: it stands for that.
        let endsRefused = isFirst || intent.reason == .request
        if endsRefused {
            parked.removeAll { $0.reason != .request }
        }
        let held = debt
        debt = nil
        waitingNotice = nil
        waitingReminder = nil
        effects += tellKnown(at: answer.answeredAt)
        otherCustomers = []
        oweNextMonth(
            after: intent,
            isFirst: isFirst,
            instead: held,
            at: answer.answeredAt,
            policy: policy
        )
        return effects
            + advance(now: answer.answeredAt, endsRefused: endsRefused, policy: policy)
    }

    mutating func refuse(
        _ intent: ReportIntent,
        _ kind: Rejection,
        _ answer: AnsweredReport,
        policy: ReportPolicy
    ) -> [ReportEffect] {
        if kind == .refused, let searching = searching(intent, answer) {
            current = searching
            return []
        }
        let errors = intent.refusal.isEmpty ? answer.errors : intent.refusal
        let fault = kind.fault(
            httpStatus: answer.httpStatus,
            errors: errors,
            externalPurchaseID: externalPurchaseID
        )
        var effects: [ReportEffect] = [.outcome(ledger(intent, .rejected, answer, policy: policy))]
        if let purchaseKey = intent.purchaseKey {
            // Whoever asked for the report gets this answer and asks anew: nothing of it is kept.
            effects.append(
                .answered(
                    self.answer(
                        to: intent,
                        of: purchaseKey,
                        .rejected,
                        errors: errors,
                        reason: fault.code
                    )
                )
            )
        } else {
            effects.append(
                .deadLetter(
                    deadLetter(of: intent, under: intent.identifier, policy: policy),
                    fault,
                    origin: intent.origin,
                    history: intent.history
                )
            )
            park(intent, isTaken: kind == .unverifiable, policy: policy)
        }
        if errors.contains(where: \.isUnknownToken) {
            effects += tellUnknown(of: intent, at: answer.answeredAt)
        }
        current = nil
        if isOutdated(intent) {
            oweInstead(of: intent, at: answer.answeredAt)
        } else if intent.reason != .request {
            let held = debt
            debt = nil
            waitingNotice = nil
            waitingReminder = nil
            // The next month is owed all the same, and none that was told since.
            oweNextMonth(
                after: intent,
                isFirst: false,
                instead: held,
                at: answer.answeredAt,
                policy: policy
            )
        }
        return effects
            + advance(now: answer.answeredAt, mayTellDuplicate: false, policy: policy)
    }

    /// A report that is outdated was withdrawn, or refused: the token's own is due, or waits for a
    /// person to replay the dead letter that has the token.
    mutating func oweInstead(of intent: ReportIntent, at time: Timestamp) {
        guard lastAccepted == nil else {
            return
        }
        guard isKnown else {
            waitingNotice =
                waitingNotice
                ?? WaitingNotice(
                    receivedAt: min(intent.deadline, time),
                    guardedFrom: nil,
                    origin: intent.origin
                )
            return
        }
        debt = debt ?? Debt(dueAt: time, reason: .hold, origin: intent.origin)
    }

    /// `isTaken`: Apple may have it all the same, so no other body may go under its identifier.
    private mutating func park(_ intent: ReportIntent, isTaken: Bool, policy: ReportPolicy) {
        guard !isOutdated(intent) else {
            return
        }
        var refused = intent
        // Its dead letter has them, and a replay brings them again.
        refused.frozenHash = isTaken ? refused.lineItems.map { policy.contentHash($0) } : nil
        refused.lineItems = nil
        refused.keep([])
        parked.append(refused)
        while parked.count > Self.parkedCountMax {
            // The token's own debt keeps its place.
            parked.remove(at: parked.firstIndex { $0.reason == .request } ?? 0)
        }
    }

    private mutating func keepAccepted(_ intent: ReportIntent, policy: ReportPolicy) {
        let ours = policy.requestIdentifier(externalPurchaseID, intent.number)
        let isForeign = intent.identifier != ours
        guard isForeign || intent.status == .lineItem else {
            return
        }
        accepted.append(
            AcceptedReport(
                number: intent.number,
                identifier: isForeign ? intent.identifier : nil,
                status: intent.status,
                contentHash: policy.hash(of: intent.lineItems)
            )
        )
        accepted.removeFirst(max(accepted.count - Self.acceptedCountMax, 0))
    }

    /// An intent as somebody would ask for it.
    ///
    /// Its deadline is Apple's, as in the ledger; the intent's own orders what is sent, no more.
    func deadLetter(
        of intent: ReportIntent,
        under identifier: String?,
        policy: ReportPolicy
    ) -> ReportRequested {
        guard let appAppleID, let bundleID else {
            preconditionFailure("an intent is made only where the app is known")
        }
        return ReportRequested(
            externalPurchaseID: externalPurchaseID,
            appAppleID: appAppleID,
            bundleID: bundleID,
            status: intent.status,
            requestIdentifier: identifier,
            lineItems: intent.lineItems,
            deadline: deadline(of: intent, policy: policy)
        )
    }

    private func ledger(
        _ intent: ReportIntent,
        _ outcome: ReportOutcome.Outcome,
        _ answer: AnsweredReport,
        policy: ReportPolicy
    ) -> ReportOutcome {
        guard let appAppleID else {
            preconditionFailure("an intent is made only where the app is known")
        }
        var details = ReportOutcome.Details(
            lineItems: intent.lineItems,
            tokenCreationDate: tokenCreationDate,
            tokenExpirationDate: tokenExpirationDate,
            lateBySeconds: 0,
            purchaseKey: intent.purchaseKey
        )
        if let deadline = deadline(of: intent, policy: policy) {
            details.bringForward(deadline: deadline, settledAt: answer.answeredAt)
        }
        return ReportOutcome(
            requestIdentifier: intent.identifier,
            externalPurchaseID: externalPurchaseID,
            appAppleID: appAppleID,
            status: intent.status,
            outcome: outcome,
            httpStatus: answer.httpStatus,
            errors: intent.refusal.isEmpty ? answer.errors : intent.refusal,
            attempts: intent.attempts,
            reason: intent.reason.rawValue,
            firstSentAt: intent.firstSentAt ?? answer.sentAt,
            settledAt: answer.answeredAt,
            exchanges: intent.exchanges,
            details: details
        )
    }

    /// Until when Apple wanted it, whatever made it urgent; nil where nothing says so: a report asked
    /// for of a token that has one has the deadline of its sales alone.
    private func deadline(of intent: ReportIntent, policy: ReportPolicy) -> Timestamp? {
        let own = ownDeadline(policy)
        switch intent.reason {
        case .month:
            return intent.deadline
        case .reminder:
            // UNREPORTED may have brought it forward to its own time, which is no deadline: the first one
            // after that is, for the reminder may be of the month before.
            let month = CalendarMonth(of: intent.deadline)
            let next = intent.deadline <= month.deadline ? month.deadline : month.adding(1).deadline
            return lastAccepted == nil ? min(own ?? next, next) : next
        case .request where lastAccepted != nil:
            return nil
        case .hold, .deadline, .duplicate, .unreported, .unknown, .request:
            return own
        }
    }
}

extension CalendarMonth {
    /// Until when Apple takes the report of the month before.
    fileprivate var deadline: Timestamp { start + ReportPolicy.deadlineAfterMonth }
}
