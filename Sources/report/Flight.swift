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
        answer.retry(at: answer.retryAt.movedRetry(by: setBack, now: now))
    }

    enum Answer {
        case report(AnsweredReport)
        case accountToken(AnsweredAccountToken)

        var retryAt: Timestamp {
            switch self {
            case .report(let answer): answer.retryAt
            case .accountToken(let answer): answer.retryAt
            }
        }

        mutating func retry(at time: Timestamp) {
            switch self {
            case .report(var answer):
                answer.retryAt = time
                self = .report(answer)
            case .accountToken(var answer):
                answer.retryAt = time
                self = .accountToken(answer)
            }
        }

        /// The same request is sent again later: Apple has not answered it, whatever the status.
        var isAgain: Bool {
            switch self {
            case .report(let answer):
                if case .again = answer.meaning { true } else { false }
            case .accountToken(let answer):
                if case .again = answer.meaning { true } else { false }
            }
        }

        /// Nothing in it says that Apple has answered: the same again, or a look-up first.
        var isUnanswered: Bool {
            if case .report(let answer) = self, case .verify = answer.meaning {
                return true
            }
            return isAgain
        }

        /// A look-up that shows no report: so begins each try after a failure, and it is no recovery.
        var findsNothing: Bool {
            switch self {
            case .report(let answer): [.notHeld, .nothingSaid].contains(answer.meaning)
            case .accountToken: false
            }
        }

        /// Apple has no report under the identifier that was looked up.
        var isNotHeld: Bool {
            switch self {
            case .report(let answer): answer.meaning == .notHeld
            case .accountToken: false
            }
        }
    }
}
