internal import HTTPServer
internal import Telemetry

/// What `ingest` counts.
final class IngestMeasures {
    private let requests: Counter
    /// By route and status in one number: a request costs a look-up.
    private var requestSeries: [Int: Counter.Series] = [:]
    private let notificationRefusals: Counter
    /// What the server has refused by itself, as it was counted last.
    private var refusals: [(route: Route?, status: Int, count: Int)] =
        ([nil] + Route.allCases.map { $0 }).flatMap { route in
            HTTPServer.refusalStatuses.map { (route, $0, 0) }
        }
    /// By ``Route/number``, as ``incomplete``.
    private let durations: [Histogram.Series]
    private let stored: [Counter.Series]
    private let failed: [Counter.Series]
    private let inFlight: Gauge.Series
    private let fillLevel: Gauge.Series
    private let connections: Gauge.Series
    private let notificationsWaiting: Gauge.Series
    private let incomplete: [Gauge.Series]
    private let evictions: [(eviction: HTTPServer.Eviction, series: Counter.Series)]

    /// The names of the topics are in the order of the targets.
    init(_ metrics: Metrics, topics: [String]) {
        requests = metrics.counter(
            "ingest_requests_total",
            help: "Requests answered, by route and status.",
            labels: ["route", "status"]
        )
        notificationRefusals = metrics.counter(
            "ingest_notifications_refused_total",
            help: "Notifications refused, by the code of the answer; jws. ones are not Apple's.",
            labels: ["code"]
        )
        let duration = metrics.histogram(
            "ingest_request_duration_seconds",
            help: "From a complete request to its answer, where records came of it.",
            labels: ["route"]
        )
        durations = Route.allCases.map { duration.series($0.rawValue) }
        let stored = metrics.counter(
            "ingest_records_stored_total",
            help: "Records with the broker's receipt, by topic.",
            labels: ["topic"]
        )
        self.stored = topics.map { stored.series($0) }
        let failed = metrics.counter(
            "ingest_records_failed_total",
            help: "Records that the broker did not store, by topic; their senders were told.",
            labels: ["topic"]
        )
        self.failed = topics.map { failed.series($0) }
        inFlight = metrics.gauge(
            "ingest_requests_in_flight",
            help: "Requests that wait for receipts."
        ).series()
        notificationsWaiting = metrics.gauge(
            "ingest_notifications_waiting",
            help: "Notifications under a chain never seen before that wait for their turn."
        ).series()
        fillLevel = metrics.gauge(
            "ingest_queue_fill_ratio",
            help: "How full the producer's queue is; at 0.5 the door closes."
        ).series()
        connections = metrics.gauge(
            "ingest_connections",
            help: "Connections open."
        ).series()
        let incomplete = metrics.gauge(
            "ingest_incomplete_bytes",
            help: "Bytes of incomplete bodies, by route; beyond a limit the slowest goes.",
            labels: ["route"]
        )
        self.incomplete = Route.allCases.map { incomplete.series($0.rawValue) }
        let evicted = metrics.counter(
            "ingest_connections_evicted_total",
            help: "Connections closed to make room for a new one, by state (lingering: its last"
                + " answer was out; silent; head; unserved: idle, and only ever refused; idle; body:"
                + " of an incomplete request, by its route; answer: it did not take it) and route.",
            labels: ["state", "route"]
        )
        let states: [(HTTPServer.Eviction, String)] = [
            (.lingering, "lingering"), (.silent, "silent"), (.head, "head"),
            (.unserved, "unserved"), (.idle, "idle"), (.answer, "answer"),
        ]
        evictions =
            states.map { ($0, evicted.series($1, "other")) }
            + Route.allCases.map { (.body(lane: $0.lane), evicted.series("body", $0.rawValue)) }
        beginAtZero()
    }

    /// What alarms look at: of a counter that begins above zero Prometheus sees no increase.
    private func beginAtZero() {
        for route in Route.allCases {
            for status in [route.acceptedStatus, 400, 401, 408, 413, 415, 429, 503] {
                _ = series(route: route, status: status)
            }
        }
        for status in [413, 431, 503] {
            _ = series(route: nil, status: status)
        }
        for code in ["jws.chain", "jws.certificate", "jws.oid", "ingest.foreign_source"] {
            _ = notificationRefusals.series(code)
        }
    }

    private func series(route: Route?, status: Int) -> Counter.Series {
        // A status has three digits.
        let key = (route.map(\.number) ?? Route.allCases.count) * 1_000 + status
        if let series = requestSeries[key] {
            return series
        }
        let series = requests.series(route?.rawValue ?? "other", String(status))
        requestSeries[key] = series
        return series
    }

    func answered(route: Route?, status: Int) {
        series(route: route, status: status).add()
    }

    func refusedNotification(code: String) {
        notificationRefusals.add(1, code)
    }

    /// What the server refused by itself, while a body came in for a route or, where that is nil, before
    /// there was a request to route: of each of `HTTPServer.refusalStatuses` all since it was started.
    func refused(_ count: (_ route: Route?, _ status: Int) -> Int) {
        for (index, refusal) in refusals.enumerated() {
            let count = count(refusal.route, refusal.status)
            if count > refusal.count {
                series(route: refusal.route, status: refusal.status)
                    .add(Int64(count - refusal.count))
                refusals[index].count = count
            }
        }
    }

    /// `count` gives how many connections the server has closed in a state since it was started.
    func evicted(_ count: (HTTPServer.Eviction) -> Int) {
        for (eviction, series) in evictions {
            series.add(Int64(count(eviction)) - series.value)
        }
    }

    func took(milliseconds: Int64, route: Route) {
        durations[route.number].observe(Double(max(milliseconds, 0)) / 1_000)
    }

    func received(_ topic: Int, isStored: Bool, recordCount: Int) {
        (isStored ? stored : failed)[topic].add(Int64(recordCount))
    }

    /// `byteCount` gives what the incomplete bodies of a route hold.
    func setIncomplete(_ byteCount: (Route) -> Int) {
        for route in Route.allCases {
            incomplete[route.number].set(Double(byteCount(route)))
        }
    }

    func set(
        inFlight count: Int,
        fillLevel level: Double,
        connections connectionCount: Int,
        notificationsWaiting waitingCount: Int
    ) {
        notificationsWaiting.set(Double(waitingCount))
        inFlight.set(Double(count))
        fillLevel.set(level)
        connections.set(Double(connectionCount))
    }
}
