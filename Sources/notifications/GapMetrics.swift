internal import Telemetry

/// What `notifications` counts beside what every worker counts.
final class GapMetrics {
    private let gaps: Counter

    init(_ metrics: Metrics) {
        gaps = metrics.counter(
            "notification_gaps_total",
            help: "Times that no notification had come in for longer than Apple tries (157 hours)."
        )
        // The first event is seen, too.
        gaps.add(0)
    }

    func found() {
        gaps.add(1)
    }
}
