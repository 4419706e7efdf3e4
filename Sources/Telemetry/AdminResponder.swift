/// What the admin port answers, without its sockets.
package struct AdminResponder: Sendable {
    package struct Answer: Equatable, Sendable {
        package var status: Int
        package var contentType: String
        package var body: [UInt8]
        /// The methods allowed, where another was used.
        package var allow: String?
    }

    /// Where the `Host` header is a name that is not ours.
    static let misdirected = Answer(
        status: 421,
        contentType: "application/problem+json",
        body: Array(
            (#"{"type":"about:blank","title":"Misdirected Request","status":421,"#
                + #""code":"admin.misdirected","detail":"The Host header is no address, and no "#
                + #"name in TOLLWAY_ADMIN_HOSTS."}"# + "\n").utf8
        )
    )

    private let metrics: Metrics
    private let health: Health
    private let status: @Sendable () -> [UInt8]

    package init(
        metrics: Metrics,
        health: Health,
        status: @escaping @Sendable () -> [UInt8]
    ) {
        self.metrics = metrics
        self.health = health
        self.status = status
    }

    package func answer(method: String, path: String, query: String) -> Answer {
        let isVerbose = query.split(separator: "&").contains {
            $0 == "verbose" || $0.hasPrefix("verbose=")
        }
        let answer: Answer
        switch path {
        case "/livez": answer = probe(health.live, isVerbose: isVerbose)
        case "/readyz": answer = probe(health.ready, isVerbose: isVerbose)
        case "/startupz": answer = probe(health.started, isVerbose: isVerbose)
        case "/metrics":
            answer = Answer(
                status: 200,
                contentType: "text/plain; version=0.0.4; charset=utf-8",
                body: metrics.render()
            )
        case "/debug/status":
            answer = Answer(status: 200, contentType: "application/json", body: status())
        default:
            return plain(
                404,
                "no such page; there are /livez /readyz /startupz /metrics /debug/status\n"
            )
        }
        guard method == "GET" || method == "HEAD" else {
            var refusal = plain(405, "only GET and HEAD\n")
            refusal.allow = "GET, HEAD"
            return refusal
        }
        return answer
    }

    private func probe(_ answer: Health.Answer, isVerbose: Bool) -> Answer {
        let lines = isVerbose || !answer.isGood ? answer.lines : ["ok"]
        return plain(answer.isGood ? 200 : 503, lines.joined(separator: "\n") + "\n")
    }

    private func plain(_ status: Int, _ text: String) -> Answer {
        Answer(status: status, contentType: "text/plain; charset=utf-8", body: Array(text.utf8))
    }
}
