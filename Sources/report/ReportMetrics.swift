internal import Telemetry
internal import TokenDomain

/// What `report` counts beside what every worker counts.
final class ReportMetrics {
    private let requests: Counter
    private let requestSeconds: Histogram
    private let outcomes: Counter
    private let cancelled: Counter
    private let ownerConflicts: Counter
    private let identifierConflicts: Counter
    private let late: Counter
    private let promotions: Counter
    private let laneChanges: Counter
    private let rate: Gauge
    private let isStopped: Gauge
    private let isPaused: Gauge
    private let unreadableOrders: Counter
    private let ordersUnread: Gauge.Series
    private let heldSeconds: Gauge
    private let slack: Gauge
    private let due: Gauge
    private let monthDue: Gauge
    private let failing: Gauge
    private let endToEnd: Histogram
    private let held: Gauge
    private let inFlight: Gauge.Series
    private let guardWaiting: Gauge.Series
    private let guardSeconds: Gauge.Series

    init(_ metrics: Metrics) {
        requests = metrics.counter(
            "report_requests_total",
            help:
                "Requests to Apple that ended, by app, environment, method, status and Apple's code."
                + " Status is that of HTTP (5xx and the like where it is an unusual one); not_held"
                + " for a look-up that found no report; or why there was no answer: resolve,"
                + " connect, tls, tls_untrusted (the certificate does not verify), timeout, reset,"
                + " protocol, other, no_key (nothing was sent).",
            labels: ["app", "environment", "method", "status", "code"],
            openLabel: "code"
        )
        requestSeconds = metrics.histogram(
            "report_request_seconds",
            help: "From a request to Apple to its answer or its failure, by app, environment,"
                + " method and status, as in tollway_report_requests_total.",
            labels: ["app", "environment", "method", "status"]
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
        identifierConflicts = metrics.counter(
            "report_identifier_conflicts_total",
            help:
                "Reports that carry sales and ended because Apple holds another report under their"
                + " identifier; of any other report tollway_dlq_records_total counts that."
        )
        late = metrics.counter(
            "reports_late_total",
            help: "Reports of production that Apple has accepted after the deadline, by app and"
                + " reported status; lateBySeconds of reports.outcomes.v1 says by how much.",
            labels: ["app", "status"]
        )
        promotions = metrics.counter(
            "report_promotions_total",
            help: "Duplicates that became the first of their period because Apple does not know the"
                + " one before: turned, or late where Apple has them as a duplicate already.",
            labels: ["outcome"]
        )
        for outcome in ["turned", "late"] {
            promotions.add(0, outcome)
        }
        laneChanges = metrics.counter(
            "report_lane_changes_total",
            help:
                "Lanes held, stopped or opened again, and paused, resumed or reset by hand, by app,"
                + " environment and change.",
            labels: ["app", "environment", "change"]
        )
        rate = metrics.gauge(
            "report_rate_limit_per_second",
            help: "Requests a second that this replica allows itself, by app, environment and"
                + " endpoint.",
            labels: ["app", "environment", "endpoint"]
        )
        isStopped = metrics.gauge(
            "report_lane_stopped",
            help:
                "1 while a lane with something due, and not paused, is stopped for its key, role or"
                + " address, 0 else, by app, environment and endpoint.",
            labels: ["app", "environment", "endpoint"]
        )
        isPaused = metrics.gauge(
            "report_lane_paused",
            help: "1 while a lane is paused by hand (tollway lanes pause), 0 else, by app and"
                + " environment.",
            labels: ["app", "environment"]
        )
        unreadableOrders = metrics.counter(
            "report_lane_orders_unreadable_total",
            help: "Records of lanes.control.v1 that cannot be read and were ignored."
        )
        ordersUnread = metrics.gauge(
            "report_lane_orders_unread",
            help: "1 until lanes.control.v1 was read whole since the start: nothing is sent to"
                + " Apple before, for no app; 0 from then on."
        ).series()
        heldSeconds = metrics.gauge(
            "report_lane_held_seconds",
            help:
                "How long Apple has answered nothing but 429 to a lane, the waits between included,"
                + " by app and environment, of the endpoint that is held longest; 0 while it is open.",
            labels: ["app", "environment"]
        )
        slack = metrics.gauge(
            "deadline_slack_seconds",
            help:
                "Time left for the most urgent report that is due and not yet accepted, also while"
                + " it waits to be tried again, by app and environment; no series where none is.",
            labels: ["app", "environment"]
        )
        due = metrics.gauge(
            "reports_due",
            help: "Reports that are due and not yet accepted, those that wait to be tried again"
                + " included, by app and environment; counted at 2,500 a second.",
            labels: ["app", "environment"]
        )
        monthDue = metrics.gauge(
            "reports_month_due",
            help:
                "Of tollway_reports_due those that a calendar month owes, which Apple wants 15 days"
                + " after it, by app and environment.",
            labels: ["app", "environment"]
        )
        failing = metrics.gauge(
            "report_apple_failing_seconds",
            help:
                "How long Apple has failed every request of a lane (HTTP 5xx, no answer, or HTTP 200"
                + " that is not Apple's: a proxy stands between), by app, environment and endpoint; 0"
                + " while it answers.",
            labels: ["app", "environment", "endpoint"]
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

    /// What alerts count begins at zero: the first event is seen, too.
    func expect(apps: [Int64]) {
        for app in apps {
            for status in ReportStatus.allCases {
                late.add(0, String(app), status.rawValue)
            }
            for environment in AppleEnvironment.allCases {
                for status in ["401", "tls_untrusted"] {
                    requests.add(0, String(app), environment.rawValue, "PUT", status, "")
                }
            }
        }
    }

    /// `seconds` is nil where nothing was sent.
    func ended(_ lane: Lane, method: String, status: String, code: String, seconds: Double?) {
        let app = String(lane.appAppleID)
        let environment = lane.environment.rawValue
        requests.add(1, app, environment, method, status, code)
        if let seconds {
            requestSeconds.observe(seconds, app, environment, method, status)
        }
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
        countLate(outcome)
        outcomes.add(
            1,
            String(outcome.appAppleID),
            outcome.externalPurchaseID.environment.rawValue,
            outcome.status.rawValue,
            outcome.outcome.rawValue
        )
    }

    private func countLate(_ outcome: ReportOutcome) {
        guard outcome.externalPurchaseID.environment == .production, outcome.outcome != .rejected,
            let seconds = outcome.details.lateBySeconds, seconds > 0
        else {
            return
        }
        late.add(1, String(outcome.appAppleID), outcome.status.rawValue)
    }

    func promoted(isLate: Bool) {
        promotions.add(1, isLate ? "late" : "turned")
    }

    func cancelled(_ intent: ReportIntent) {
        cancelled.add(1, intent.status.rawValue)
    }

    func ownerConflict() {
        ownerConflicts.add(1)
    }

    func identifierConflict() {
        identifierConflicts.add(1)
    }

    /// Its circuit breakers or its rate limiter changed, or somebody ordered it.
    func changed(_ lane: Lane, _ change: String) {
        laneChanges.add(1, String(lane.appAppleID), lane.environment.rawValue, change)
    }

    /// Nil where no lane is this replica's.
    func stopped(_ queue: SendQueue, _ stopped: Bool?) {
        isStopped.show(
            stopped.map { $0 ? 1 : 0 },
            String(queue.lane.appAppleID),
            queue.lane.environment.rawValue,
            queue.endpoint.name
        )
    }

    /// Nil where no lane is this replica's.
    func paused(_ lane: Lane, _ paused: Bool?) {
        isPaused.show(
            paused.map { $0 ? 1 : 0 },
            String(lane.appAppleID),
            lane.environment.rawValue
        )
    }

    func unreadableOrders(_ count: Int) {
        unreadableOrders.add(Int64(count))
    }

    func ordersUnread(_ isUnread: Bool) {
        ordersUnread.set(isUnread ? 1 : 0)
    }

    func paced(_ queue: SendQueue, requestsPerSecond: Double) {
        rate.set(
            requestsPerSecond,
            String(queue.lane.appAppleID),
            queue.lane.environment.rawValue,
            queue.endpoint.name
        )
    }

    /// Nil where nothing waits: a slack that no longer changes would be wrong.
    func slack(_ lane: Lane, seconds: Double?) {
        slack.show(seconds, String(lane.appAppleID), lane.environment.rawValue)
    }

    func held(_ lane: Lane, _ count: Int) {
        held.set(Double(count), String(lane.appAppleID), lane.environment.rawValue)
    }

    func due(_ lane: Lane, _ count: Int) {
        due.set(Double(count), String(lane.appAppleID), lane.environment.rawValue)
    }

    func monthDue(_ lane: Lane, _ count: Int) {
        monthDue.set(Double(count), String(lane.appAppleID), lane.environment.rawValue)
    }

    func held(_ lane: Lane, for span: Milliseconds) {
        heldSeconds.set(
            Double(span.count) / 1_000,
            String(lane.appAppleID),
            lane.environment.rawValue
        )
    }

    func failing(_ queue: SendQueue, for span: Milliseconds) {
        failing.set(
            Double(span.count) / 1_000,
            String(queue.lane.appAppleID),
            queue.lane.environment.rawValue,
            queue.endpoint.name
        )
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
