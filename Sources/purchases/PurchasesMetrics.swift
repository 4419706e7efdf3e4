internal import StageRuntime
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

    /// Why `report` sends a sale back that goes to it again in a minute.
    enum SentBack: String {
        /// What it knows of the token has no room for the report.
        case accountFull = "account_full"
        /// It knows another token as the primary: that ends within the hour.
        case isDuplicate = "is_duplicate"
        /// The same, and Apple does not know that one: that ends once `dedupe` names another.
        case primaryRefused = "primary_refused"
    }

    private struct SentBackCount: Hashable {
        var lane: Lane
        var reason: SentBack
    }

    private struct Count: Hashable {
        var lane: Lane
        var outcome: Outcome
        var reason: String
    }

    /// Counted since the plan in hand was begun.
    private var counts: [Count: Int64] = [:]
    private var sentBack: [SentBackCount: Int64] = [:]
    private var waits: [(cause: HeldCount.Cause, seconds: Double)] = []
    private let held: Gauge
    private let answerWait: Gauge
    private let total: Counter
    private let sentBackTotal: Counter
    /// A series each: to look for it by its label costs more than to count.
    private let waitSeconds: [HeldCount.Cause: Histogram.Series]

    init(_ metrics: Metrics) {
        held = metrics.gauge(
            "purchases_held",
            help: "Sales that are neither reported nor settled otherwise, by app, environment"
                + " and by what they wait for: token, rate, reference, apple (a report of it is asked"
                + " for, or goes to `report` again), or work, which is this worker itself.",
            labels: ["app", "environment", "cause"]
        )
        answerWait = metrics.gauge(
            "purchases_answer_wait_seconds",
            help: "How long the report of sales that has waited longest for its answer has"
                + " waited, looked at every ten minutes; 0 where none waits."
        )
        total = metrics.counter(
            "purchases_total",
            help: "Sales received and settled, by app, environment, outcome (received, repeat,"
                + " reported, not_owed, dead_letter, reopened) and reason. Received = repeat + reported +"
                + " not_owed - reopened + dead_letter + held.",
            labels: ["app", "environment", "outcome", "reason"]
        )
        sentBackTotal = metrics.counter(
            "purchases_sent_back_total",
            help: "Sales that `report` sent back and that go to it again in a minute, by app,"
                + " environment and reason: account_full (no room for the report), is_duplicate (it knows another"
                + " token as the primary, for an hour at most), primary_refused (the same, and Apple"
                + " does not know that one).",
            labels: ["app", "environment", "reason"]
        )
        let seconds = metrics.histogram(
            "purchase_wait_seconds",
            help: "How long sales waited, by cause: token, rate, reference, apple.",
            labels: ["cause"],
            buckets: Histogram.waitBuckets
        )
        waitSeconds = Dictionary(
            uniqueKeysWithValues: HeldCount.Cause.allCases.filter { $0 != .work }.map {
                ($0, seconds.series($0.rawValue))
            }
        )
    }

    /// Begins what an alert looks at at zero: of a counter that begins above it Prometheus sees no
    /// increase.
    func expect(apps: [Int64]) {
        for app in apps {
            for environment in AppleEnvironment.allCases {
                let (app, environment) = (String(app), environment.rawValue)
                total.add(0, app, environment, Outcome.reported.rawValue, "accepted")
                total.add(0, app, environment, Outcome.notOwed.rawValue, "no_active_token")
            }
        }
    }

    func count(_ outcome: Outcome, _ reason: String, of lane: Lane) {
        counts[Count(lane: lane, outcome: outcome, reason: reason), default: 0] += 1
    }

    func sentBack(_ reason: SentBack, of lane: Lane) {
        sentBack[SentBackCount(lane: lane, reason: reason), default: 0] += 1
    }

    /// What was counted counts once the transaction of a plan is committed: what is done again after
    /// an abort would count twice.
    func settle(into plan: inout BatchPlan) {
        let (counts, sentBack, waits) = (self.counts, self.sentBack, self.waits)
        (self.counts, self.sentBack, self.waits) = ([:], [:], [])
        guard !counts.isEmpty || !sentBack.isEmpty || !waits.isEmpty else {
            return
        }
        plan.whenCommitted { [total, sentBackTotal, waitSeconds] in
            for wait in waits {
                waitSeconds[wait.cause]?.observe(wait.seconds)
            }
            for (count, number) in counts {
                total.add(
                    number,
                    String(count.lane.appAppleID),
                    count.lane.environment.rawValue,
                    count.outcome.rawValue,
                    count.reason
                )
            }
            for (count, number) in sentBack {
                sentBackTotal.add(
                    number,
                    String(count.lane.appAppleID),
                    count.lane.environment.rawValue,
                    count.reason.rawValue
                )
            }
        }
    }

    func waited(_ span: Milliseconds, for wait: BookedItem.Wait) {
        if let cause = HeldCount.cause(of: wait), cause != .work {
            waits.append((cause, Double(max(0, span.count)) / 1_000))
        }
    }

    func held(_ counts: [HeldCount.Group: Int]) {
        for (group, count) in counts {
            held.set(
                Double(count),
                String(group.lane.appAppleID),
                group.lane.environment.rawValue,
                group.cause.rawValue
            )
        }
    }

    func answerWaited(_ span: Milliseconds) {
        answerWait.set(Double(max(0, span.count)) / 1_000)
    }

    /// Nothing is ours any more, which does not say that nothing is held: zero would end an alarm.
    func noneHeld(_ counts: [HeldCount.Group: Int]) {
        answerWait.remove()
        for group in counts.keys {
            held.remove(
                String(group.lane.appAppleID),
                group.lane.environment.rawValue,
                group.cause.rawValue
            )
        }
    }
}
