internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// The newest of many dead letters, in bounded memory.
struct DeadLetterList {
    private struct Row {
        var failedAt: Int64
        var position: DeadLetterPosition
        var cells: [String]
        var object: String
    }

    let countMax: Int
    let text: DeadLetterText
    /// Whether it will be a table; else objects.
    let isTable: Bool
    let deadlineDays: Int
    let now: Timestamp
    private(set) var seenCount = 0
    private var rows: [Row] = []
    /// Nothing older can be among the newest.
    private var cutoff = Int64.min

    init(countMax: Int, text: DeadLetterText, isTable: Bool, deadlineDays: Int, now: Timestamp) {
        self.countMax = countMax
        self.text = text
        self.isTable = isTable
        self.deadlineDays = deadlineDays
        self.now = now
    }

    mutating func add(
        _ deadLetter: DeadLetterRecord,
        in batch: RecordBatch,
        subject: DeadLetterSubject
    ) {
        seenCount += 1
        guard deadLetter.failedAt >= cutoff else {
            return
        }
        rows.append(
            Row(
                failedAt: deadLetter.failedAt,
                position: deadLetter.position,
                cells: isTable ? cells(deadLetter, batch, subject) : [],
                object: isTable
                    ? ""
                    : text.object(
                        deadLetter,
                        in: batch,
                        subject: subject,
                        deadlineDays: deadlineDays
                    )
            )
        )
        if rows.count >= 2 * countMax {
            prune()
        }
    }

    private mutating func prune() {
        rows.sort { ($1.failedAt, $1.position) < ($0.failedAt, $0.position) }
        if rows.count > countMax {
            rows.removeLast(rows.count - countMax)
            cutoff = rows.last?.failedAt ?? .min
        }
    }

    /// Whether none that was not read can be among the newest; `unreadUntil` is when the youngest of
    /// those was written at the latest, UNIX milliseconds, nil where all are read.
    mutating func hasNewest(unreadUntil: Int64?) -> Bool {
        guard let unreadUntil else {
            return true
        }
        prune()
        guard rows.count >= countMax, let last = rows.last else {
            return false
        }
        return last.failedAt >= unreadUntil
    }

    private func cells(
        _ deadLetter: DeadLetterRecord,
        _ batch: RecordBatch,
        _ subject: DeadLetterSubject
    ) -> [String] {
        let arena = batch.arena
        let record = deadLetter.record
        let key =
            record.key.isAbsent ? "-" : text.key(arena[record.key.indices], of: deadLetter.stage)
        return [
            deadLetter.position.description,
            AgeText.of(now - Timestamp(milliseconds: deadLetter.failedAt)),
            subject.deadline(days: deadlineDays).map { AgeText.relative($0, now: now) } ?? "-",
            PlainText.printable(deadLetter.headers.text(.reason, of: arena), characterCountMax: 32),
            subject.appAppleID.map { "\($0)" } ?? "-",
            "\(deadLetter.headers.number(.attempts, in: arena.span))",
            deadLetter.settled?.text ?? "open",
            // `show` prints how long a masked one is; here a line is to fit a terminal.
            PlainText.printable(
                String(text.isRevealed ? key[...] : key.prefix { $0 != " " }),
                characterCountMax: 64
            ),
        ]
    }

    mutating func text(format: OutputFormat) -> String {
        prune()
        guard format == .table else {
            return JSONLines.text(rows.map(\.object), list: "deadLetters", format: format)
        }
        var table = TextTable(columns: [
            .init(title: "POSITION"), .init(title: "AGE", isNumber: true), .init(title: "DUE"),
            .init(title: "REASON"), .init(title: "APP"), .init(title: "ATTEMPTS", isNumber: true),
            .init(title: "STATE"),
            .init(title: "KEY"),
        ])
        table.rows = rows.map(\.cells)
        return table.text
    }
}

/// One dead letter on a page, for a person.
struct DeadLetterSheet {
    private static let textCountMax = 4_000

    let text: DeadLetterText
    let configuration: Configuration
    let now: Timestamp

    func text(_ deadLetter: DeadLetterRecord, in batch: RecordBatch, subject: DeadLetterSubject)
        -> String
    {
        let arena = batch.arena
        func header(_ field: DeadLetterHeaders.Field) -> String {
            PlainText.printable(
                deadLetter.headers.text(field, of: arena),
                characterCountMax: Self.textCountMax
            )
        }
        let record = deadLetter.record
        let first =
            deadLetter.headers.time(.firstFailedAt, in: arena.span) ?? deadLetter.failedAt
        var lines: [(String, String)] = [
            ("state", deadLetter.settled?.text ?? "open"),
            ("reason", "\(header(.reason)) (\(header(.code)), kind \(header(.fingerprint)))"),
            ("message", header(.message)),
            ("failed", time(deadLetter.failedAt)),
            ("first failed", time(first)),
            (
                "attempts",
                "\(header(.attempts)), of them after a replay: \(header(.replayCount))"
            ),
            ("came from", "\(header(.topic))/\(header(.partition))/\(header(.offset))"),
        ]
        if let app = subject.appAppleID {
            lines.append(("app", "\(app) \(subject.bundleID ?? "")"))
        }
        if let id = subject.externalPurchaseID {
            lines.append(("token", "\(id) (\(subject.environment?.rawValue ?? "?"))"))
        }
        if let deadline = subject.deadline(days: configuration.reportDeadlineDays) {
            lines.append(("due at Apple", time(deadline.milliseconds)))
        }
        if let status = subject.status {
            lines.append(("report", "\(status.rawValue) \(subject.requestIdentifier ?? "")"))
        }
        lines.append(
            (
                "key",
                record.key.isAbsent
                    ? "none" : text.key(arena[record.key.indices], of: deadLetter.stage)
            )
        )
        for (name, value) in HeaderList.entries(in: record.headers, of: arena)
        where !DeadLetter.diagnosticPrefixes.contains(where: { name.hasPrefix($0) }) {
            lines.append(
                ("header", "\(name): \(String(decoding: arena[value.indices], as: UTF8.self))")
            )
        }
        lines.append(
            ("value", record.value.isAbsent ? "none" : text.value(arena[record.value.indices]))
        )
        if !deadLetter.headers[.omittedByteCount].isAbsent {
            lines.append(
                ("left out", "\(header(.omittedByteCount)) bytes: it lies where it came from")
            )
        }
        let rows = lines.map { name, value in
            (name, PlainText.printable(value, characterCountMax: Self.textCountMax))
        }
        return "\(deadLetter.position)\n\(HelpText.table(rows))\n"
    }

    private func time(_ milliseconds: Int64) -> String {
        WallClock.rfc3339(milliseconds: milliseconds) + " ("
            + AgeText.relative(Timestamp(milliseconds: milliseconds), now: now) + ")"
    }
}
