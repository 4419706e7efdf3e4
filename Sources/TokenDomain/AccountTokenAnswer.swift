/// What an answer to Set App Account Token means: apple-api 5.2 as a table.
package enum AccountTokenAnswer: Equatable, Sendable {
    case accepted
    /// Back off and try again: setting the same value twice does no harm.
    case again(notBefore: Timestamp?)
    case lane(LaneTrouble, until: Timestamp?)
    case rejected
}

extension AccountTokenAnswer {
    /// The codes of the "errors to retry": an answer about this moment, not about the transaction.
    private static let retryableCodes: Set<Int64> = [4_040_002, 4_040_004, 4_040_006, 5_000_001]

    /// Retried as well, but not for ever: Apple may mean the transaction.
    static let fewTimesCodes = retryableCodes.union([5_000_000])

    /// Judges a reply; `errors` holds the one object of the body, if it has one.
    package init(_ reply: AppleReply) {
        let code = reply.errors?.first?.code
        switch reply.transport {
        case .notSent, .doubtful:
            self = .again(notBefore: nil)
        case .noKey:
            self = .lane(.noKey, until: nil)
        case .answered(let status):
            switch status {
            case 200...299:
                // Apple's has no body, and its library ignores one (apple-api 5.1); but no page is
                // Apple's, and what names an error is no yes.
                self = reply.isPage || code != nil ? .again(notBefore: nil) : .accepted
            case 401:
                self = .lane(.unauthorized, until: nil)
            case 429:
                self = .lane(.rateLimited, until: reply.retryAfter)
            case 408, 409, 425:
                self = .again(notBefore: nil)
            case 300...399, 402, 403, 405, 407, 410, 421, 426, 451:
                self = .lane(.misdirected, until: nil)
            case 400...499:
                // A 404 too, with a code or without: it is about one transaction. Anything that names no
                // reason and that Apple does not document is a proxy's.
                let isApples = code != nil || [400, 404, 413, 415].contains(status)
                self =
                    reply.isPage || !isApples
                    ? .lane(.misdirected, until: nil)
                    : code.map(Self.retryableCodes.contains) == true
                        ? .again(notBefore: nil) : .rejected
            case 503:
                self = .again(notBefore: reply.retryAfter)
            default:
                self = .again(notBefore: nil)
            }
        }
    }
}

extension CircuitBreaker.Outcome {
    /// What the meaning of an account token's answer says about its lane.
    package init(_ answer: AccountTokenAnswer) {
        switch answer {
        case .lane(let trouble, let until): self = .trouble(trouble, until: until)
        case .again: self = .inconclusive
        case .accepted, .rejected: self = .fine
        }
    }
}
