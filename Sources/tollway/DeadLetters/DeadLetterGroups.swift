internal import Kafka
internal import Telemetry
internal import TokenDomain

/// Dead letters by stage, reason and fingerprint.
struct DeadLetterGroups {
    struct Key: Hashable {
        var stage: Worker
        var code: UInt64
        var fingerprint: UInt64
    }

    struct Group {
        /// Apps beyond these are counted as "more" only.
        static let appCountMax = 1_000

        var stage: Worker
        var reason: String
        var code: String
        var fingerprint: String
        /// Of the first one seen.
        var message: String
        var count = 0
        var firstFailedAt = Int64.max
        var lastFailedAt = Int64.min
        var deadline: Timestamp?
        var appCounts: [Int64: Int] = [:]
        var hasMoreApps = false
        /// For `show`.
        var example: DeadLetterPosition

        mutating func count(app: Int64) {
            if appCounts.count < Self.appCountMax || appCounts[app] != nil {
                appCounts[app, default: 0] += 1
            } else {
                hasMoreApps = true
            }
        }
    }

    /// Codes and fingerprints come from headers that anybody may write: beyond this they are
    /// counted together.
    static let groupCountMax = 10_000

    private(set) var groups: [Group] = []
    private(set) var otherCount = 0
    private var indices: [Key: Int] = [:]
    private let deadlineDays: Int

    init(deadlineDays: Int) {
        self.deadlineDays = deadlineDays
    }

    var count: Int { groups.reduce(otherCount) { $0 + $1.count } }

    /// Counts a dead letter.
    ///
    /// - Returns: the index of its group; nil where there is no room for another.
    @discardableResult
    mutating func add(
        _ deadLetter: DeadLetterRecord,
        in batch: RecordBatch,
        subject: DeadLetterSubject
    ) -> Int? {
        guard let index = index(of: deadLetter, in: batch) else {
            otherCount += 1
            return nil
        }
        let first =
            deadLetter.headers.time(.firstFailedAt, in: batch.arena.span) ?? deadLetter.failedAt
        groups[index].count += 1
        groups[index].firstFailedAt = min(groups[index].firstFailedAt, first)
        groups[index].lastFailedAt = max(groups[index].lastFailedAt, deadLetter.failedAt)
        if let app = subject.appAppleID {
            groups[index].count(app: app)
        }
        if let deadline = subject.deadline(days: deadlineDays) {
            groups[index].deadline = min(groups[index].deadline ?? deadline, deadline)
        }
        return index
    }

    /// Most dead letters first.
    var sorted: [Group] {
        groups.sorted { ($1.count, $0.code, $0.fingerprint) < ($0.count, $1.code, $1.fingerprint) }
    }

    private mutating func index(of deadLetter: DeadLetterRecord, in batch: RecordBatch) -> Int? {
        let arena = batch.arena.span
        let key = Key(
            stage: deadLetter.stage,
            code: FNV1a.hash(of: arena.extracting(deadLetter.headers[.code].indices)),
            fingerprint: FNV1a.hash(of: arena.extracting(deadLetter.headers[.fingerprint].indices))
        )
        if let index = indices[key] {
            return index
        }
        guard groups.count < Self.groupCountMax else {
            return nil
        }
        func text(_ field: DeadLetterHeaders.Field, atMost characterCountMax: Int = 64) -> String {
            PlainText.printable(
                deadLetter.headers.text(field, of: batch.arena),
                characterCountMax: characterCountMax
            )
        }
        let code = text(.code)
        let reason = text(.reason)
        indices[key] = groups.count
        groups.append(
            Group(
                stage: deadLetter.stage,
                reason: reason.isEmpty ? "(none)" : reason,
                code: code.isEmpty ? "(none)" : code,
                fingerprint: text(.fingerprint),
                message: text(.message, atMost: 300),
                example: deadLetter.position
            )
        )
        return groups.count - 1
    }

    // MARK: - Output

    func text(format: OutputFormat, now: Timestamp) -> String {
        switch format {
        case .table:
            var table = TextTable(columns: [
                .init(title: "STAGE"), .init(title: "REASON"),
                .init(title: "COUNT", isNumber: true),
                .init(title: "FIRST", isNumber: true), .init(title: "LAST", isNumber: true),
                .init(title: "DUE"), .init(title: "KIND"), .init(title: "APPS"),
            ])
            table.rows = sorted.map { group in
                [
                    group.stage.rawValue, group.reason, "\(group.count)",
                    AgeText.of(now - Timestamp(milliseconds: group.firstFailedAt)),
                    AgeText.of(now - Timestamp(milliseconds: group.lastFailedAt)),
                    group.deadline.map { AgeText.relative($0, now: now) } ?? "-",
                    String(group.fingerprint.prefix(8)), Self.apps(group),
                ]
            }
            return table.text
        case .json, .ndjson:
            return JSONLines.text(
                sorted.map { Self.object($0, now: now) },
                list: "groups",
                format: format
            )
        }
    }

    private static func apps(_ group: Group) -> String {
        guard let most = group.appCounts.max(by: { ($0.value, $1.key) < ($1.value, $0.key) })
        else {
            return "-"
        }
        let others = group.appCounts.count - 1
        return "\(most.key)" + (others > 0 ? " +\(others)\(group.hasMoreApps ? "…" : "")" : "")
    }

    private static func object(_ group: Group, now: Timestamp) -> String {
        let apps = group.appCounts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
            .map { JSONLines.object([("appAppleId", "\($0.key)"), ("count", "\($0.value)")]) }
        return JSONLines.object([
            ("stage", JSONText.quoted(group.stage.rawValue)),
            ("reason", JSONText.quoted(group.reason)),
            ("code", JSONText.quoted(group.code)),
            ("fingerprint", JSONText.quoted(group.fingerprint)),
            ("message", JSONText.quoted(group.message)),
            ("count", "\(group.count)"),
            ("firstFailedAt", "\(group.firstFailedAt)"),
            ("lastFailedAt", "\(group.lastFailedAt)"),
            ("oldestAgeMilliseconds", "\(max(0, now.milliseconds - group.firstFailedAt))"),
            ("nearestDeadline", group.deadline.map { "\($0.milliseconds)" } ?? "null"),
            ("apps", JSONLines.list(apps)),
            ("example", JSONText.quoted(group.example.description)),
        ])
    }
}
