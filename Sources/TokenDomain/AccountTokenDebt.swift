/// What `report` owes one transaction: its app account token, set at Apple's.
///
/// One request at a time for a transaction, and the newest request wins: setting replaces, so an older
/// request that is not yet sent has lost its meaning.
package struct AccountTokenDebt: Equatable, Sendable {
    /// One value that somebody wants set.
    package struct Request: Equatable, Sendable {
        package var appAccountToken: String
        package var requestedAt: Timestamp
        package var requestID: String
        package var origin: RecordOrigin
        package var trace: TraceParent?
        /// Of the dead letter whose replay asks for it; nil where none does.
        package var history: ReplayHistory?

        package init(
            appAccountToken: String,
            requestedAt: Timestamp,
            requestID: String,
            origin: RecordOrigin,
            trace: TraceParent? = nil,
            history: ReplayHistory? = nil
        ) {
            self.appAccountToken = appAccountToken
            self.requestedAt = requestedAt
            self.requestID = requestID
            self.origin = origin
            self.trace = trace
            self.history = history
        }

        /// In the order of the log.
        ///
        /// The clocks of two doors differ, and one may be set back. Only a replay comes later than
        /// it was asked for: there the time decides.
        func isOlder(than other: Request) -> Bool {
            other.history == nil
                ? origin < other.origin || requestedAt < other.requestedAt
                : (requestedAt, origin) < (other.requestedAt, other.origin)
        }
    }

    package enum Absorption: Equatable, Sendable {
        case owed
        /// This very request, or one asked for earlier than the newest.
        case outdated
    }

    package enum Effect: Equatable, Sendable {
        case outcome(AccountTokenOutcome)
        case deadLetter(
            AccountTokenRequested,
            Fault,
            origin: RecordOrigin,
            history: ReplayHistory?
        )
    }

    /// Of ``AccountTokenAnswer/fewTimesCodes``: some 20 hours, two and a half minutes between two.
    ///
    /// Each of them goes before what was asked for later, and no alarm tells of one.
    static let failedCountMax = 500

    package var originalTransactionID: String
    package var lane: Lane
    package var bundleID: String
    /// Under way, or waiting for its turn.
    package var current: Request?
    /// Came while ``current`` may be under way.
    package var next: Request?
    /// The newest request that was ever absorbed: what is not newer is outdated.
    package var newest: Request?
    /// Requests ended for ``current``.
    package var attempts = 0
    /// Of these, what Apple answered with one of ``AccountTokenAnswer/fewTimesCodes``.
    package var failedCount = 0
    package var nextAttemptAt: Timestamp?
    package var touchedAt: Timestamp

    package init(
        originalTransactionID: String,
        lane: Lane,
        bundleID: String,
        touchedAt: Timestamp
    ) {
        self.originalTransactionID = originalTransactionID
        self.lane = lane
        self.bundleID = bundleID
        self.touchedAt = touchedAt
    }

    package mutating func absorb(_ request: Request) -> Absorption {
        touchedAt = max(touchedAt, request.requestedAt)
        if let newest, !newest.isOlder(than: request), !isReplayed(request, of: newest) {
            return .outdated
        }
        newest = request
        if current == nil || nextAttemptAt != nil {
            // Nothing of it is under way while it waits for another try.
            take(request)
        } else {
            next = request
        }
        return .owed
    }

    /// Whether the newest request has ended and is asked for again, at an offset that may be any: its topic
    /// may have been made anew since.
    private func isReplayed(_ request: Request, of newest: Request) -> Bool {
        current == nil && next == nil && request.history != nil
            && request.origin != newest.origin && request.requestedAt == newest.requestedAt
            && request.requestID == newest.requestID
            && request.appAccountToken == newest.appAccountToken
    }

    /// Ends a wait before a retry.
    package mutating func advance(now: Timestamp) {
        if let nextAttemptAt, nextAttemptAt <= now {
            self.nextAttemptAt = nil
        }
    }

    /// The clock was set back: a retry keeps what was left of its wait.
    package mutating func moveRetry(by setBack: Milliseconds, now: Timestamp) {
        nextAttemptAt = nextAttemptAt?.movedRetry(by: setBack, now: now)
    }

    /// Takes in an answer.
    ///
    /// One that belongs to no request under way changes nothing.
    package mutating func absorb(_ answer: AnsweredAccountToken) -> [Effect] {
        let now = answer.answeredAt
        guard let request = current, request.appAccountToken == answer.appAccountToken,
            attempts == answer.attempts
        else {
            return []
        }
        if next == nil, case .lane(.noKey, _) = answer.meaning {
            // There was no request.
            return []
        }
        attempts += 1
        touchedAt = max(touchedAt, now)
        func outcome(_ outcome: AccountTokenOutcome.Outcome) -> Effect {
            .outcome(
                AccountTokenOutcome(
                    originalTransactionID: originalTransactionID,
                    appAccountToken: answer.appAccountToken,
                    outcome: outcome,
                    httpStatus: answer.httpStatus,
                    errorCode: answer.errorCode,
                    attempts: attempts,
                    settledAt: now
                )
            )
        }
        if answer.errorCode.map(AccountTokenAnswer.fewTimesCodes.contains) == true {
            failedCount += 1
        }
        let isGivenUp = next == nil && failedCount >= Self.failedCountMax
        switch answer.meaning {
        case .accepted:
            let effect = outcome(.accepted)
            takeNext()
            return [effect]
        case .rejected,
            .again where isGivenUp:
            let effects = [
                outcome(.rejected), deadLetter(request, answer.httpStatus, answer.errorCode),
            ]
            takeNext()
            return effects
        case .again(let notBefore):
            if next == nil {
                nextAttemptAt = max(answer.retryAt, notBefore ?? answer.retryAt)
            } else {
                takeNext()
            }
        case .lane(let trouble, _):
            // The lane waits, not the request; a newer one takes its place.
            if next != nil {
                takeNext()
            } else if trouble == .misdirected {
                // It may be this request alone: the next probe of the lane is another one's.
                nextAttemptAt = answer.retryAt
            }
        }
        return []
    }

    private mutating func take(_ request: Request) {
        current = request
        attempts = 0
        failedCount = 0
        nextAttemptAt = nil
    }

    private mutating func takeNext() {
        current = next
        next = nil
        attempts = 0
        failedCount = 0
        nextAttemptAt = nil
    }

    private func deadLetter(_ request: Request, _ httpStatus: Int, _ errorCode: Int64?) -> Effect {
        let detail = errorCode.map { "code \($0)" } ?? "HTTP \(httpStatus)"
        return .deadLetter(
            AccountTokenRequested(
                appAccountToken: request.appAccountToken,
                subject: .original(
                    transactionID: originalTransactionID,
                    bundleID: bundleID,
                    environment: lane.environment
                ),
                requestedAt: request.requestedAt,
                requestID: request.requestID
            ),
            Fault(
                code: "report.account_token_rejected",
                message: "Apple refuses the app account token: \(detail)"
            ),
            origin: request.origin,
            history: request.history
        )
    }

    /// When it wants attention next.
    package var attention: TokenAccount.Attention {
        guard let current else {
            return .forgotten(at: touchedAt + ReportPolicy.memory)
        }
        return nextAttemptAt.map { .waiting(until: $0) }
            ?? .ready(lane: lane, deadline: current.requestedAt)
    }
}
