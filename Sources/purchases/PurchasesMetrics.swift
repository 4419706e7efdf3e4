internal import Telemetry
internal import TokenDomain

/// What `purchases` counts beside what every worker counts.
final class PurchasesMetrics {
    /// How a sale ends, as the account counts it.
    enum Outcome: String, CaseIterable {
        case received
        case repeated = "repeat"
        case reported
        case notOwed = "not_owed"
        case deadLetter = "dead_letter"
        /// Was not owed, and is held once more: a token came for it.
        case reopened
    }

    private let held: Gauge
    private let total: Counter
    private let waitSeconds: Histogram

    init(_ metrics: Metrics) {
        held = metrics.gauge(
            "purchases_held",
            help: "Sales that are neither reported nor settled otherwise, by app and by what they"
                + " wait for: token, rate, reference, apple, or work, which is this worker itself.",
            labels: ["app", "cause"]
        )
        total = metrics.counter(
            "purchases_total",
            help: "Sales received and settled, by app, outcome (received, repeat, reported,"
                + " not_owed, dead_letter, reopened) and reason. Received = repeat + reported +"
                + " not_owed - reopened + dead_letter + held.",
            labels: ["app", "outcome", "reason"]
        )
        waitSeconds = metrics.histogram(
            "purchase_wait_seconds",
            help: "How long sales waited, by cause: token, rate, reference, apple.",
            labels: ["cause"],
            buckets: Histogram.waitBuckets
        )
    }

    func count(_ outcome: Outcome, _ reason: String, app: Int64) {
        total.add(1, String(app), outcome.rawValue, reason)
    }

    func waited(_ span: Milliseconds, for wait: BookedItem.Wait) {
        if let cause = HeldCount.cause(of: wait), cause != .work {
            waitSeconds.observe(Double(max(0, span.count)) / 1_000, cause.rawValue)
        }
    }

    func held(_ counts: [HeldCount.Group: Int]) {
        for (group, count) in counts {
            held.set(Double(count), String(group.app), group.cause.rawValue)
        }
    }
}
