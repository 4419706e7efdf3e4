internal import Telemetry
internal import TokenDomain

/// What `report` counts beside what every worker counts.
final class ReportMetrics {
    private let requests: Counter
    private let outcomes: Counter
    private let cancelled: Counter
    private let ownerConflicts: Counter
    private let laneChanges: Counter
    private let rate: Gauge
    private let isStopped: Gauge
    private let slack: Gauge
    private let endToEnd: Histogram
    private let held: Gauge
    private let inFlight: Gauge.Series
    private let guardWaiting: Gauge.Series
    private let guardSeconds: Gauge.Series

    init(_ metrics: Metrics) {
        requests = metrics.counter(
            "report_requests_total",
            help: "Requests to Apple that ended, by environment, HTTP status (0: none) and code.",
            labels: ["environment", "status", "code"]
        )
        outcomes = metrics.counter(
            "report_outcomes_total",
            help: "Reports settled, by app, environment, reported status and outcome.",
            labels: ["app", "environment", "status", "outcome"]
        )
        cancelled = metrics.counter(
            "report_cancelled_total",
            help: "Queued reports that lost their meaning before they were sent, by status.",
            labels: ["status"]
        )
        ownerConflicts = metrics.counter(
            "report_owner_conflicts_total",
            help: "Records that name another customer for a token that has one."
        )
        laneChanges = metrics.counter(
            "report_lane_changes_total",
            help: "Lanes held, stopped or opened again, by app, environment and change.",
            labels: ["app", "environment", "change"]
        )
        rate = metrics.gauge(
            "report_rate_limit_per_second",
            help: "Requests a second that this replica allows itself, by app and environment.",
            labels: ["app", "environment", "endpoint"]
        )
        isStopped = metrics.gauge(
            "report_lane_stopped",
            help: "1 while a lane is stopped for its key, role or address, 0 else.",
            labels: ["app", "environment", "endpoint"]
        )
        slack = metrics.gauge(
            "deadline_slack_seconds",
            help: "Time left for the most urgent report that is ready and not yet accepted, by app"
                + " and environment; no series where none is.",
            labels: ["app", "environment"]
        )
        endToEnd = metrics.histogram(
            "end_to_end_seconds",
            help: "From a token's creation at Apple's to the end of a report about it.",
            labels: ["environment", "status", "outcome"],
            buckets: Histogram.waitBuckets
        )
        held = metrics.gauge(
            "report_held",
            help: "Tokens known and neither reported nor refused yet, by app and environment.",
            labels: ["app", "environment"]
        )
        inFlight = metrics.gauge("report_in_flight", help: "Requests to Apple under way.").series()
        guardWaiting = metrics.gauge(
            "report_guard_waiting",
            help: "Notices about unknown tokens that wait for the guard, up to 1,000 a partition."
        ).series()
        guardSeconds = metrics.gauge(
            "report_guard_waiting_seconds",
            help: "How long the oldest of them has waited since its grace time ended."
        ).series()
    }

    func ended(_ lane: Lane, httpStatus: Int, code: String) {
        requests.add(1, lane.environment.rawValue, String(httpStatus), code)
    }

    func settled(_ outcome: ReportOutcome, tokenCreatedAt: Timestamp?) {
        if let tokenCreatedAt {
            // A phone's clock and ours may differ.
            let wait = max((outcome.settledAt - tokenCreatedAt).count, 0)
            endToEnd.series(
                outcome.externalPurchaseID.environment.rawValue,
                outcome.status.rawValue,
                outcome.outcome.rawValue
            ).observe(Double(wait) / 1_000)
        }
        outcomes.add(
            1,
            String(outcome.appAppleID),
            outcome.externalPurchaseID.environment.rawValue,
            outcome.status.rawValue,
            outcome.outcome.rawValue
        )
    }

    func cancelled(_ intent: ReportIntent) {
        cancelled.add(1, intent.status.rawValue)
    }

    func ownerConflict() {
        ownerConflicts.add(1)
    }

    /// The gate of these queues of one lane changed.
    func changed(_ queues: [SendQueue], _ change: String, isStopped stopped: Bool) {
        guard let lane = queues.first?.lane else {
            return
        }
        let app = String(lane.appAppleID)
        laneChanges.add(1, app, lane.environment.rawValue, change)
        for queue in queues {
            isStopped.set(stopped ? 1 : 0, app, lane.environment.rawValue, queue.endpoint.name)
        }
    }

    func paced(_ queue: SendQueue, requestsPerSecond: Double) {
        rate.set(
            requestsPerSecond,
            String(queue.lane.appAppleID),
            queue.lane.environment.rawValue,
            queue.endpoint.name
        )
    }

    /// Nil where nothing waits: a slack that stands still would be no slack.
    func slack(_ lane: Lane, seconds: Double?) {
        let labels = (String(lane.appAppleID), lane.environment.rawValue)
        if let seconds {
            slack.set(seconds, labels.0, labels.1)
        } else {
            slack.remove(labels.0, labels.1)
        }
    }

    func held(_ counts: [Lane: Int]) {
        for (lane, count) in counts {
            held.set(Double(count), String(lane.appAppleID), lane.environment.rawValue)
        }
    }

    func inFlight(_ count: Int) {
        inFlight.set(Double(count))
    }

    func guarded(count: Int, seconds: Double) {
        guardWaiting.set(Double(count))
        guardSeconds.set(seconds)
    }
}

extension SendQueue.Endpoint {
    var name: String {
        switch self {
        case .reports: "reports"
        case .accountTokens: "account_tokens"
        }
    }
}
