internal import AppStoreAPI
internal import TokenDomain

extension AppleReply {
    /// Statuses that Apple documents or a proxy is known to give; any other is counted by its class,
    /// so that no answer makes series without end.
    private static let namedStatuses: Set<Int> = [
        200, 204, 302, 400, 401, 403, 404, 408, 409, 413, 415, 429, 500, 502, 503, 504,
    ]

    /// 0 where there was no answer.
    var httpStatus: Int {
        if case .answered(let status) = transport {
            return status
        }
        return 0
    }

    /// The label `status`: Apple's HTTP status, or why there is none.
    var statusLabel: String {
        switch transport {
        case .answered(let status):
            Self.namedStatuses.contains(status) ? String(status) : "\(status / 100)xx"
        case .notSent, .doubtful: failure?.kind.rawValue ?? "no_answer"
        case .noKey: "no_key"
        }
    }

    /// What a person reads: `HTTP 500`, `timeout`.
    func failureText(of endpoint: SendQueue.Endpoint) -> String {
        switch transport {
        case .answered(200) where endpoint == .accountTokens: "HTTP 200 with a page"
        case .answered(200): "HTTP 200 without a report"
        case .answered(let status): "HTTP \(status)"
        case .notSent, .doubtful, .noKey: statusLabel
        }
    }

    /// Whether Apple failed the request: the same request is sent again later, unchanged.
    var isFailure: Bool {
        switch transport {
        case .answered(let status): status >= 500 || status == 408 || status == 425
        case .notSent, .doubtful: true
        case .noKey: false
        }
    }
}

extension AppleRequest.Action {
    /// The label `method`.
    var method: String {
        switch self {
        case .sendReport, .setAccountToken: "PUT"
        case .retrieveReport: "GET"
        }
    }
}
