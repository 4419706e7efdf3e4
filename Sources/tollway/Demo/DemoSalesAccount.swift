internal import Foundation

/// The account of sales at the end: the generator's truth, Apple's side and the ledger, row by row.
struct DemoSalesAccount {
    struct Row {
        var saleClass: DemoSaleClass
        var inputCount = 0
        /// Events that Apple must have, and those that the ledger says it has.
        var owedCount = 0
        var ledgerCount = 0
        var notOwedGoal = 0
        var notOwedCount = 0
        var deadLetterGoal = 0
        var deadLetterCount = 0
        var refusedGoal = 0
        var refusedCount = 0

        var agrees: Bool {
            owedCount == ledgerCount && notOwedGoal == notOwedCount
                && deadLetterGoal == deadLetterCount && refusedGoal == refusedCount
        }
    }

    /// One line of the ledger of sales (`purchases.outcomes.v1`).
    struct LedgerEntry {
        var lineItemID: String
        var type: String
        /// `reported`, `not_owed`, or the code of a rejection.
        var end: String
    }

    private(set) var rows: [Row] = []
    private(set) var differences: [String] = []
    /// By app, from the metrics of `purchases`.
    var apps: [SaleAccount] = []

    var agrees: Bool {
        differences.isEmpty && rows.allSatisfy(\.agrees)
            && apps.allSatisfy { $0.closes && $0.held == 0 }
    }

    /// - Parameters:
    ///   - truth: what went in.
    ///   - refused: by line, the code with which the door refused it.
    ///   - ledger: every outcome we recorded.
    ///   - apple: what Apple's side holds, by line item.
    ///   - deadLetters: how many there are, by code.
    ///   - rejectedCodes: Apple's codes in answers that refused a report, and how often.
    init(
        truth: DemoSales,
        refused: [String: String],
        ledger: [LedgerEntry],
        apple: [String: DemoItem],
        deadLetters: [String: Int],
        rejectedCodes: [String: Int]
    ) {
        var byClass: [DemoSaleClass: Row] = [:]
        for saleClass in DemoSaleClass.allCases {
            byClass[saleClass] = Row(saleClass: saleClass)
        }
        var told = Dictionary(grouping: ledger) { Self.key($0.lineItemID, $0.type, $0.end) }
            .mapValues(\.count)
        var deadLetterGoals: [String: Int] = [:]
        for sale in truth.sales {
            var row = byClass[sale.saleClass] ?? Row(saleClass: sale.saleClass)
            row.inputCount += 1
            func take(_ end: String) -> Int {
                let key = Self.key(sale.lineItemID, sale.type, end)
                guard let count = told[key], count > 0 else {
                    return 0
                }
                told[key] = count - 1
                return 1
            }
            switch sale.end {
            case .reported:
                row.owedCount += 1
                row.ledgerCount += take("reported")
            case .notOwed:
                row.notOwedGoal += 1
                row.notOwedCount += take("not_owed")
            case .repeated: break
            case .deadLetter(let code):
                row.deadLetterGoal += 1
                row.deadLetterCount += take(code)
                deadLetterGoals[code, default: 0] += 1
            case .refused(let code):
                row.refusedGoal += 1
                row.refusedCount += refused[sale.line] == code ? 1 : 0
                if refused[sale.line] != code {
                    differences.append(
                        "\(sale.lineItemID): the door says \(refused[sale.line] ?? "202"), not \(code)"
                    )
                }
            }
            byClass[sale.saleClass] = row
        }
        rows = DemoSaleClass.allCases.compactMap { byClass[$0] }.filter { $0.inputCount > 0 }
        for (key, count) in told.sorted(by: { $0.key < $1.key }) where count > 0 {
            differences.append("the ledger has \(key) \(count) times too often")
        }
        compare(truth.items, apple)
        for code in Set(deadLetters.keys).union(deadLetterGoals.keys).sorted()
        where deadLetters[code] != deadLetterGoals[code] {
            differences.append(
                "dead letters \(code): \(deadLetters[code] ?? 0), not \(deadLetterGoals[code] ?? 0)"
            )
        }
        for (code, count) in rejectedCodes.sorted(by: { $0.key < $1.key }) {
            differences.append(
                "Apple refused " + CountText.of(count, "report") + " with code \(code)"
            )
        }
    }

    private static func key(_ id: String, _ type: String, _ end: String) -> String {
        "\(id) \(type) \(end)"
    }

    private mutating func compare(_ truth: [String: DemoItem], _ apple: [String: DemoItem]) {
        for id in Set(truth.keys).union(apple.keys).sorted() {
            var (owed, held) = (truth[id], apple[id])
            if owed?.net == nil {
                owed?.net = nil
                held?.net = nil
            }
            if owed?.versionCount == 0 {
                owed = nil
            }
            if owed != held {
                differences.append("\(id): owed \(Self.text(owed)); Apple has \(Self.text(held))")
            }
        }
    }

    private static func text(_ item: DemoItem?) -> String {
        guard let item else {
            return "nothing"
        }
        return "\(item.versionCount) versions" + (item.isRetracted ? ", retracted" : "")
            + (item.net.map { ", net \($0)" } ?? "")
    }

    // MARK: As text and as data

    /// The account that must close.
    var closing: String {
        let sum = apps.reduce(into: SaleAccount(app: "all", pages: [])) { $0.add($1) }
        return "sales " + sum.equation
    }

    var appLines: String { apps.map { "app \($0.app): sales \($0.equation)\n" }.joined() }

    func table() -> String {
        let heads = [
            "sales", "in", "owed", "ledger has", "not owed", "dead letters", "refused", "",
        ]
        return DemoAccount.table(
            [heads]
                + rows.map { row in
                    [
                        row.saleClass.rawValue, String(row.inputCount), String(row.owedCount),
                        String(row.ledgerCount),
                        DemoAccount.cell(row.notOwedCount, of: row.notOwedGoal),
                        DemoAccount.cell(row.deadLetterCount, of: row.deadLetterGoal),
                        DemoAccount.cell(row.refusedCount, of: row.refusedGoal),
                        row.agrees ? "ok" : "DIFFERS",
                    ]
                }
        )
    }

    var json: [String: Any] {
        [
            "agrees": agrees,
            "rows": rows.map { row in
                [
                    "sales": row.saleClass.rawValue, "in": row.inputCount, "owed": row.owedCount,
                    "ledger": row.ledgerCount, "notOwed": row.notOwedCount,
                    "deadLetters": row.deadLetterCount, "refused": row.refusedCount,
                    "agrees": row.agrees,
                ] as [String: Any]
            },
            "apps": apps.map(\.json),
            "differences": differences,
        ]
    }
}

/// How one app's sales ended, by the metrics of `purchases`.
struct SaleAccount: Equatable {
    /// As the metrics name it: its Apple id, 0 for none of ours.
    var app: String
    var received = 0
    var repeats = 0
    var reported = 0
    var notOwed = 0
    var deadLetters = 0
    var held = 0

    init(app: String, pages: [String]) {
        self.app = app
        func sum(_ name: String, _ labels: [String] = []) -> Int {
            pages.reduce(0) { $0 + DemoCounts.sum($1, name, ["app=\"\(app)\""] + labels) }
        }
        func total(_ outcome: String) -> Int {
            sum("tollway_purchases_total", ["outcome=\"\(outcome)\""])
        }
        received = total("received")
        repeats = total("repeat")
        reported = total("reported")
        notOwed = total("not_owed") - total("reopened")
        deadLetters = total("dead_letter")
        held = sum("tollway_purchases_held")
    }

    mutating func add(_ other: SaleAccount) {
        received += other.received
        repeats += other.repeats
        reported += other.reported
        notOwed += other.notOwed
        deadLetters += other.deadLetters
        held += other.held
    }

    var settled: Int { repeats + reported + notOwed + deadLetters }
    var closes: Bool { received == settled + held }

    var equation: String {
        "received \(received) = repeats \(repeats) + reported \(reported) + not owed \(notOwed)"
            + " + dead letters \(deadLetters) + held \(held)" + (closes ? "" : "  DIFFERS")
    }

    var json: [String: Any] {
        [
            "app": app, "received": received, "repeats": repeats, "reported": reported,
            "notOwed": notOwed, "deadLetters": deadLetters, "held": held, "closes": closes,
        ]
    }
}
