internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// What came lately into the ledger, read on from look to look.
final class TopTail {
    /// So far back the first look goes.
    static let windowMilliseconds: Int64 = 3_600_000
    private static let lookMilliseconds: Int64 = 1_500
    /// Groups shown at most are far fewer; beyond so many all go by one name.
    private static let groupCountMax = 1_000

    private let browser: LogBrowser
    private let describe: (RecordBatch.Record, RecordBatch, String) -> [String]?
    /// By group, the times of its records, in minutes: counts a minute.
    private var minutes: [[String]: [Int64: Int]] = [:]
    private var newest: [[String]: Int64] = [:]
    /// Whether the end has been reached that there was at the start: until then counts are too small.
    private(set) var isRead = false

    /// Starts an hour ago, or where the topics begin.
    ///
    /// `describe` says which group a record of a topic is in; nil: it does not count.
    init(
        settings: KafkaSettings,
        topics: [String],
        now: Int64,
        describe: @escaping (RecordBatch.Record, RecordBatch, String) -> [String]?
    ) throws(LogFault) {
        self.describe = describe
        browser = try LogBrowser(settings: settings, topics: topics, deadlineMilliseconds: 5_000)
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
                guard var group = describe(record, batch, browser.topics[record.topic]) else {
                    continue
                }
                if minutes[group] == nil, minutes.count >= Self.groupCountMax {
                    group = group.map { _ in "other" }
                }
                let time = max(record.timestampMilliseconds, 0)
                minutes[group, default: [:]][time / 60_000, default: 0] += 1
                newest[group] = max(newest[group] ?? 0, time)
            }
        }
        let oldest = (now - Self.windowMilliseconds) / 60_000
        for group in minutes.keys {
            minutes[group] = minutes[group]?.filter { $0.key >= oldest }
            if minutes[group]?.isEmpty == true {
                minutes[group] = nil
                newest[group] = nil
            }
        }
    }

    /// Groups with their counts in the window, the largest first.
    var groups: [(group: [String], count: Int, newest: Int64)] {
        minutes.map { group, minutes in
            (group, minutes.values.reduce(0, +), newest[group] ?? 0)
        }
        .sorted { ($1.count, $0.group.joined()) < ($0.count, $1.group.joined()) }
    }

    // MARK: What is read

    /// App and environment of an entry of the ledger; nil of a report that Apple rejected.
    static func outcome(
        _ record: RecordBatch.Record,
        _ batch: RecordBatch,
        _ topic: String
    ) -> [String]? {
        do throws(WireFault) {
            let outcome = try ReportOutcome(
                reading: batch.arena.span.extracting(record.value.indices)
            )
            return outcome.outcome == .rejected
                ? nil
                : [
                    "\(outcome.appAppleID)", outcome.externalPurchaseID.environment.rawValue,
                ]
        } catch {
            return ["0", "unreadable"]
        }
    }
}
