internal import Telemetry
internal import TokenDomain

/// Which of an app's keys signs, lane by lane.
final class KeyMetrics {
    private let number: Gauge

    init(_ metrics: Metrics) {
        number = metrics.gauge(
            "report_key_number",
            help:
                "Which of an app's keys in TOLLWAY_APPS_FILE signs, by app and environment: 1 is the"
                + " first; 2 while Apple refuses the first, or it cannot be read.",
            labels: ["app", "environment"]
        )
    }

    /// Every lane begins with the first, where it can be read.
    func expect(apps: [Int64]) {
        for app in apps {
            for environment in AppleEnvironment.allCases {
                inUse(1, of: Lane(appAppleID: app, environment: environment))
            }
        }
    }

    func inUse(_ number: Int, of lane: Lane) {
        self.number.set(Double(number), String(lane.appAppleID), lane.environment.rawValue)
    }
}
