internal import AppStoreAPI
internal import TokenDomain

/// One request in flight to Apple.
struct Flight {
    var place: AccountPlace
    var queue: SendQueue
    var purpose: Purpose
    /// `PUT` or `GET`.
    var method: String
    var sentAt: Timestamp
    /// It probes a lane that the circuit breaker of its key, or of its endpoint, had stopped.
    var isKeyProbe: Bool
    var isEndpointProbe: Bool

    /// What the request is about, to know its answer by.
    enum Purpose {
        case report(number: Int, requestCount: Int, ReportRequest, of: SentReport)
        case accountToken(String, attempts: Int)

        /// Requests that failed before it.
        var failureCount: Int {
            switch self {
            case .report(_, _, _, let report): report.failureCount
            case .accountToken(_, let attempts): attempts
            }
        }
    }

    /// A report as far as the meaning of an answer depends on it.
    struct SentReport {
        var identifier: String
        /// Of its line items.
        var newestDate: Timestamp?
        var failureCount: Int
    }
}

/// An answer of Apple's, and the account it is for.
struct PlacedAnswer {
    var place: AccountPlace
    var answer: Answer

    mutating func moveRetry(by setBack: Milliseconds, now: Timestamp) {
        switch answer {
        case .report(var report):
            report.retryAt = report.retryAt.movedRetry(by: setBack, now: now)
            answer = .report(report)
        case .accountToken(var token):
            token.retryAt = token.retryAt.movedRetry(by: setBack, now: now)
            answer = .accountToken(token)
        }
    }

    enum Answer {
        case report(AnsweredReport)
        case accountToken(AnsweredAccountToken)

        /// Apple has no report under the identifier that was looked up.
        var isNotHeld: Bool {
            switch self {
            case .report(let answer): answer.meaning == .notHeld
            case .accountToken: false
            }
        }
    }
}
