internal import AppStoreAPI
internal import Telemetry

/// A record of the audit topic as it is shown: who did what, when and why.
struct AuditEntry {
    /// UNIX milliseconds.
    let at: Int64
    /// Such as `dlq.replay`.
    let action: String
    let runID: String
    let by: String
    let why: String?
    private let value: JSONValue

    /// Nil where the record is no value of `audit.v1`.
    init?(_ text: Span<UInt8>) {
        guard let value = JSONValue(text), let at = value["at"]?.integer,
            let action = value["action"]?.text, let runID = value["runId"]?.text,
            let by = value["by"]?.text
        else {
            return nil
        }
        self.value = value
        self.at = at
        self.action = action
        self.runID = runID
        self.by = by
        why = value["why"]?.text
    }

    /// What was changed, in a few words.
    var what: String {
        switch action.prefix(while: { $0 != "." }) {
        case "dlq": deadLetters
        case "transactions": repair
        case "report": join([text("status"), text("externalPurchaseId"), app])
        case "offsets": offsets
        case "topics": topics
        case "lanes": join([app, text("environment")])
        case "notifications": join([count.map { "\($0) notifications" }, text("filter"), state])
        default: ""
        }
    }

    private var deadLetters: String {
        let filter = text("filter").map { $0.isEmpty ? "everything" : $0 }
        return join([
            deadLetterCount.map { CountText.of(Int(clamping: $0), "dead letter") },
            filter.map { "(\($0))" }, state,
        ])
    }

    /// Of this transaction; where it only ends a run, as after its canaries, of all of the run.
    private var deadLetterCount: Int64? {
        count == 0 ? value["runCount"]?.integer ?? count : count
    }

    private var repair: String {
        let transactions = value["transactions"]?.elements ?? []
        let topics = Set(transactions.compactMap { $0["topic"]?.text }).sorted()
        return join([
            CountText.of(transactions.count, "transaction") + " of", topics.joined(separator: ", "),
            state,
        ])
    }

    private var offsets: String {
        let offsets = value["offsets"]?.elements ?? []
        let workers = Set(offsets.compactMap { $0["worker"]?.text }).sorted()
        return join([
            CountText.of(offsets.count, "partition") + " of", workers.joined(separator: ", "),
            state,
        ])
    }

    private var topics: String {
        let topics = value["topics"]?.elements ?? []
        return join([
            CountText.of(topics.count, "topic") + ":",
            topics.compactMap { $0["topic"]?.text }.joined(separator: ", "),
        ])
    }

    private var app: String? { value["appAppleId"]?.integer.map { "app \($0)" } }
    private var count: Int64? { value["count"]?.integer }
    /// Only what is not yet, or not, finished is worth a word.
    private var state: String? {
        let state = text("state")
        return state == "finished" ? nil : state
    }

    private func text(_ name: String) -> String? { value[name]?.text }

    private func join(_ parts: [String?]) -> String {
        parts.compactMap { $0 }.joined(separator: " ")
    }
}

/// Which records of the audit are wanted.
struct AuditFilter {
    /// UNIX milliseconds.
    var since: Int64?
    var until: Int64?
    /// `lanes` means all of `lanes.pause`, `lanes.resume` and `lanes.reset`.
    var actions: [String] = []
    var runIDs: [String] = []
    /// In the user's name, without case.
    var by: String?

    func matches(_ entry: AuditEntry) -> Bool {
        let isInTime = since ?? .min <= entry.at && entry.at < until ?? .max
        let isAction =
            actions.isEmpty
            || actions.contains { entry.action == $0 || entry.action.hasPrefix($0 + ".") }
        let isRun = runIDs.isEmpty || runIDs.contains(entry.runID)
        return isInTime && isAction && isRun
            && by.map { entry.by.lowercased().contains($0.lowercased()) } ?? true
    }
}

/// The newest records of many, in bounded memory.
struct AuditList {
    private struct Row {
        var at: Int64
        var position: (Int32, Int64)
        var entry: AuditEntry
        /// As it is in Kafka.
        var text: String
    }

    let countMax: Int
    private(set) var seenCount = 0
    private var rows: [Row] = []
    /// Nothing older can be among the newest.
    private var cutoff = Int64.min

    init(countMax: Int) {
        self.countMax = countMax
    }

    mutating func add(_ entry: AuditEntry, _ text: String, at position: (Int32, Int64)) {
        seenCount += 1
        guard entry.at >= cutoff else {
            return
        }
        rows.append(Row(at: entry.at, position: position, entry: entry, text: text))
        if rows.count >= 2 * countMax {
            prune()
        }
    }

    /// Sorts, and leaves the newest.
    mutating func prune() {
        rows.sort {
            ($1.at, $1.position.0, $1.position.1) < ($0.at, $0.position.0, $0.position.1)
        }
        if rows.count > countMax {
            rows.removeLast(rows.count - countMax)
            cutoff = rows.last?.at ?? .min
        }
    }

    /// The newest first; ``prune()`` comes before it.
    var table: String {
        var table = TextTable(columns: [
            .init(title: "WHEN"), .init(title: "BY"), .init(title: "ACTION"),
            .init(title: "WHAT"), .init(title: "WHY"),
        ])
        table.rows = rows.map { row in
            [
                // Seconds are enough here; the other forms have all of it.
                String(WallClock.rfc3339(milliseconds: row.at).prefix(19)) + "Z",
                PlainText.printable(row.entry.by, characterCountMax: 32),
                PlainText.printable(row.entry.action, characterCountMax: 32),
                PlainText.printable(row.entry.what, characterCountMax: 100),
                PlainText.printable(row.entry.why ?? "", characterCountMax: 500),
            ]
        }
        return table.text
    }

    var objects: [String] { rows.map(\.text) }
}
