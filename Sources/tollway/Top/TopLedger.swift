internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// What came lately into the ledger, read on from look to look.
final class TopLedger {
    /// So far back the first look goes.
    private static let windowMilliseconds: Int64 = 3_600_000
    private static let lookMilliseconds: Int64 = 1_500
    /// Groups shown at most are far fewer; beyond so many all go by one name.
    private static let groupCountMax = 1_000

    private struct Group: Hashable {
        var app: Int64
        var environment: String
    }

    private let browser: LogBrowser
    /// By group, the times of its records, in minutes: counts a minute.
    private var minutes: [Group: [Int64: Int]] = [:]
    /// Whether the end has been reached that there was at the start: until then counts are too small.
    private(set) var isRead = false

    /// Starts an hour ago, or where the topic begins.
    init(settings: KafkaSettings, topic: String, now: Int64) throws(LogFault) {
        browser = try LogBrowser(settings: settings, topics: [topic], deadlineMilliseconds: 5_000)
        try browser.start(from: .timestamp(now - Self.windowMilliseconds))
    }

    func close() {
        browser.close()
    }

    /// Takes in what came since the last look, and forgets what is older than the window.
    func look(now: Int64) throws(LogFault) {
        let until = WallClock.monotonicMilliseconds() + Self.lookMilliseconds
        isRead = try browser.look(until: until) { batch in
            for record in batch.records {
                guard var group = Self.group(record, batch) else {
                    continue
                }
                if minutes[group] == nil, minutes.count >= Self.groupCountMax {
                    group = Group(app: 0, environment: "other")
                }
                let time = max(record.timestampMilliseconds, 0)
                minutes[group, default: [:]][time / 60_000, default: 0] += 1
            }
        }
        let oldest = (now - Self.windowMilliseconds) / 60_000
        for group in minutes.keys {
            minutes[group] = minutes[group]?.filter { $0.key >= oldest }
            if minutes[group]?.isEmpty == true {
                minutes[group] = nil
            }
        }
    }

    /// How many of the window each app has in an environment, the largest first.
    var reported: [TopSnapshot.Reported] {
        minutes.map { group, minutes in
            TopSnapshot.Reported(
                app: group.app,
                environment: group.environment,
                count: minutes.values.reduce(0, +)
            )
        }
        .sorted {
            ($1.count, "\($0.app)\($0.environment)") < ($0.count, "\($1.app)\($1.environment)")
        }
    }

    /// Of an entry of the ledger; nil of a report that Apple rejected.
    private static func group(_ record: RecordBatch.Record, _ batch: RecordBatch) -> Group? {
        do throws(WireFault) {
            let outcome = try ReportOutcome(
                reading: batch.arena.span.extracting(record.value.indices)
            )
            return outcome.outcome == .rejected
                ? nil
                : Group(
                    app: outcome.appAppleID,
                    environment: outcome.externalPurchaseID.environment.rawValue
                )
        } catch {
            return Group(app: 0, environment: "unreadable")
        }
    }
}
