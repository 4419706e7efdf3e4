internal import Foundation

/// The account at the end: the generator's truth, Apple's side and our own ledger, row by row.
struct DemoAccount {
    /// Differences shown one by one; the rest is only counted.
    static let differenceCountMax = 20

    struct Row {
        var demoClass: DemoClass
        var inputCount: Int
        /// Tokens of this class that must be reported, and how many are, exactly once and with the
        /// right status, by each side's word.
        var owedCount = 0
        var appleCount = 0
        var ledgerCount = 0
        var deadLetterGoal = 0
        var deadLetterCount = 0
        /// Refused at the door, so that nothing is stored.
        var refusedGoal = 0
        var refusedCount = 0

        var agrees: Bool {
            owedCount == appleCount && owedCount == ledgerCount
                && deadLetterGoal == deadLetterCount && refusedGoal == refusedCount
        }
    }

    private(set) var rows: [Row] = []
    private(set) var differences: [String] = []
    private(set) var differenceCount = 0
    private(set) var statusCounts: [String: Int] = [:]
    /// Ledger entries that a 200 did not settle: Apple's answer was lost and asked for again.
    let verifiedCount: Int
    let retriedCount: Int

    var agrees: Bool {
        differenceCount == 0 && heldCount == 0 && rows.allSatisfy(\.agrees)
            && apps.allSatisfy(\.closes) && sales?.agrees ?? true
    }

    /// The account of sales; nil where none were sent.
    var sales: DemoSalesAccount?

    /// One line of the ledger (`reports.outcomes.v1`).
    struct LedgerEntry {
        var externalPurchaseID: String
        var status: String
        var outcome: String
        var attempts: Int
    }

    /// Compares what went in with what came out.
    ///
    /// `apple` has every status that Apple's side stored, by token; `ledger` every outcome we
    /// recorded. `deadLetters` says how many there are, by `<worker> <code>`; `refusedNoticeCount`
    /// how many notices the door took for forged, where that was counted.
    init(
        truth: DemoTruth,
        apple: [String: [String]],
        ledger: [LedgerEntry],
        deadLetters: [String: Int],
        refusedNoticeCount: Int? = nil
    ) {
        verifiedCount = ledger.count { $0.outcome == "verified" }
        retriedCount = ledger.count { $0.attempts > 1 }
        var byClass: [DemoClass: Row] = [:]
        for demoClass in DemoClass.allCases {
            byClass[demoClass] = Row(
                demoClass: demoClass,
                inputCount: truth.inputs[demoClass] ?? 0,
                deadLetterGoal: truth.deadLettersByClass[demoClass] ?? 0
            )
        }
        let ledgerByID = Dictionary(grouping: ledger, by: \.externalPurchaseID)
        for (id, report) in truth.reports.sorted(by: { $0.key < $1.key }) {
            byClass[report.demoClass]?.owedCount += 1
            var told = apple[id] ?? []
            var noted = (ledgerByID[id] ?? []).map {
                $0.outcome == "rejected" ? "rejected" : $0.status
            }
            if report.demoClass == .sold {
                (told, noted) = (Self.asOne(told), Self.asOne(noted))
            }
            if told == [report.status] {
                byClass[report.demoClass]?.appleCount += 1
                statusCounts[report.status, default: 0] += 1
            }
            if noted == [report.status] {
                byClass[report.demoClass]?.ledgerCount += 1
            }
            if told != [report.status] || noted != [report.status] {
                differ(
                    "\(id) (\(report.demoClass.rawValue)): owed \(report.status); Apple has "
                        + "\(Self.list(told)); the ledger has \(Self.list(noted))"
                )
            }
        }
        for id in Set(apple.keys).union(ledgerByID.keys).subtracting(truth.reports.keys).sorted() {
            differ(
                "\(id): nothing is owed; Apple has \(Self.list(apple[id] ?? [])); the ledger has "
                    + Self.list((ledgerByID[id] ?? []).map(\.status))
            )
        }
        for kind in Set(deadLetters.keys).union(truth.deadLetters.keys).sorted() {
            let count = deadLetters[kind] ?? 0
            let goal = truth.deadLetters[kind] ?? 0
            // Each code of the demo belongs to one class; any other is in none and differs.
            byClass[.undecodable]?.deadLetterCount += min(count, goal)
            if count != goal {
                differ("dead letters \(kind): \(count), and \(goal) went in")
            }
        }
        let forgedCount = truth.inputs[.forged] ?? 0
        byClass[.forged]?.refusedGoal = forgedCount
        byClass[.forged]?.refusedCount = refusedNoticeCount ?? forgedCount
        if let refusedNoticeCount, refusedNoticeCount != forgedCount {
            differ("forged notices refused: \(refusedNoticeCount), and \(forgedCount) went in")
        }
        rows = DemoClass.allCases.compactMap { byClass[$0] }.filter { $0.inputCount > 0 }
    }

    private mutating func differ(_ sentence: String) {
        differenceCount += 1
        if differences.count < Self.differenceCountMax {
            differences.append(sentence)
        }
    }

    /// Of a token that was bought with: a report each time, perhaps after one that said nothing was.
    private static func asOne(_ statuses: [String]) -> [String] {
        let sold =
            statuses.count > 1 && statuses.first == "NO_LINE_ITEM"
            ? statuses.dropFirst() : statuses[...]
        return Set(sold) == ["LINE_ITEM"] ? ["LINE_ITEM"] : statuses
    }

    private static func list(_ statuses: [String]) -> String {
        statuses.isEmpty ? "nothing" : statuses.joined(separator: ", ")
    }

    /// What the stages counted: tokens read by decode, and repeats settled by dedupe and report.
    var counted: (accepted: Int, repeats: Int)?

    /// The same by app, by the workers' metrics.
    var apps: [AppAccount] = []

    /// Accepted at the door and neither a repeat, nor a dead letter, nor in the ledger.
    private var heldCount: Int {
        guard let counted else {
            return 0
        }
        return counted.accepted - counted.repeats - deadLetterCount - reportedCount
    }

    private var reportedCount: Int {
        rows.filter { !$0.demoClass.isNotice }.map(\.ledgerCount).reduce(0, +)
    }

    private var deadLetterCount: Int {
        rows.filter { !$0.demoClass.isNotice }.map(\.deadLetterCount).reduce(0, +)
    }

    /// The account that must close, each number counted where it happened.
    var closing: String {
        "accepted at the door \(counted?.accepted ?? 0) = repeats \(counted?.repeats ?? 0)"
            + " + dead letters \(deadLetterCount) + reported \(reportedCount) + held \(heldCount)"
    }

    /// The same account for each app.
    var appLines: String { apps.map { $0.line + "\n" }.joined() }

    // MARK: As text and as data

    func table() -> String {
        let heads = [
            "input", "in", "owed", "Apple has", "ledger has", "dead letters", "refused", "",
        ]
        var lines = [heads]
        for row in rows {
            lines.append([
                row.demoClass.rawValue, String(row.inputCount), String(row.owedCount),
                String(row.appleCount), String(row.ledgerCount),
                Self.cell(row.deadLetterCount, of: row.deadLetterGoal),
                Self.cell(row.refusedCount, of: row.refusedGoal),
                row.agrees ? "ok" : "DIFFERS",
            ])
        }
        return Self.table(lines)
    }

    /// Lines of as many cells as the first one has, in columns: words to the left, numbers to the
    /// right.
    static func table(_ lines: [[String]]) -> String {
        let columns = lines.first?.indices ?? 0..<0
        let widths = columns.map { column in lines.map { $0[column].count }.max() ?? 0 }
        return lines.map { line in
            zip(line.indices, line).map { column, cell in
                let pad = String(repeating: " ", count: widths[column] - cell.count)
                return column == 0 || column == columns.last ? cell + pad : pad + cell
            }.joined(separator: "  ")
        }.joined(separator: "\n") + "\n"
    }

    static func cell(_ count: Int, of goal: Int) -> String {
        count == goal ? String(count) : "\(count) of \(goal)"
    }

    var json: [String: Any] {
        [
            "agrees": agrees,
            "sales": sales?.json ?? [:],
            "accepted": counted?.accepted ?? 0,
            "repeats": counted?.repeats ?? 0,
            "held": heldCount,
            "apps": apps.map(\.json),
            "rows": rows.map { row in
                [
                    "input": row.demoClass.rawValue, "in": row.inputCount, "owed": row.owedCount,
                    "apple": row.appleCount, "ledger": row.ledgerCount,
                    "deadLetters": row.deadLetterCount, "deadLettersOwed": row.deadLetterGoal,
                    "refused": row.refusedCount, "refusedOwed": row.refusedGoal,
                    "agrees": row.agrees,
                ] as [String: Any]
            },
            "statuses": statusCounts,
            "differences": differences,
            "differenceCount": differenceCount,
            "verifiedAfterLostAnswer": verifiedCount,
            "settledAfterRetries": retriedCount,
        ]
    }
}

extension DemoClass {
    /// Notices come from Apple, not through the token door.
    var isNotice: Bool {
        switch self {
        case .unreportedKnown, .unreportedUnknown, .forged: true
        default: false
        }
    }
}
