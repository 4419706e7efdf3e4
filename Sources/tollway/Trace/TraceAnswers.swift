internal import TokenDomain
internal import TokenWire

/// What was reported to Apple, and what it answered.
enum TraceAnswers {
    /// Every request of a report that ended, and its end.
    static func events(of outcome: ReportOutcome, _ found: TopicReader.Found) -> [TraceEvent] {
        var text = "report \(outcome.outcome.rawValue): \(outcome.status.rawValue)"
        text += " because of \(outcome.reason)"
        for error in outcome.errors {
            text += ", error \(error.code)" + (error.fieldName.map { " (\($0))" } ?? "")
        }
        return events(of: outcome.exchanges, outcome.status, outcome.requestIdentifier, found) + [
            TraceEvent(
                found,
                stage: "report",
                at: outcome.settledAt,
                text,
                Fact.text("outcome", outcome.outcome.rawValue)
                    + Fact.text("status", outcome.status.rawValue)
                    + Fact.text("requestIdentifier", outcome.requestIdentifier)
                    + Fact.number("httpStatus", Int64(outcome.httpStatus))
                    + Fact.number("attempts", Int64(outcome.attempts))
                    + Fact.number("firstSentAt", outcome.firstSentAt.milliseconds)
            )
        ]
    }

    static func events(
        of exchanges: [ReportExchange],
        _ status: ReportStatus,
        _ identifier: String,
        _ found: TopicReader.Found
    ) -> [TraceEvent] {
        exchanges.map { exchange in
            let answer = exchange.httpStatus == 0 ? "no answer" : "HTTP \(exchange.httpStatus)"
            let code = exchange.errorCode.map { ", error \($0)" } ?? ""
            let wait = (exchange.answeredAt - exchange.sentAt).count
            return TraceEvent(
                found,
                stage: "apple",
                at: exchange.sentAt,
                "\(exchange.request.method) \(status.rawValue): \(answer)\(code) after \(wait) ms",
                Fact.text("method", exchange.request.method)
                    + Fact.text("requestIdentifier", identifier)
                    + Fact.number("httpStatus", Int64(exchange.httpStatus))
                    + Fact.number("errorCode", exchange.errorCode)
                    + Fact.number("answeredAt", exchange.answeredAt.milliseconds)
            )
        }
    }
}
