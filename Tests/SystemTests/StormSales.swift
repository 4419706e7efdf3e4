import Kafka
import TokenDomain
import TokenWire

@testable import tollway

/// The account of a storm's sales: what they were made to be, what is stored of them, the ledger,
/// the dead letters and Apple's side.
///
/// What the door did not answer is sent again and may be stored twice. That changes nothing of a buy;
/// a retraction that is sent twice may retract again what was restated between. Of such items it is
/// only asked that every event is settled: ``SalesAudit`` then holds the two books against each
/// other.
struct StormSales {
    private(set) var differences: [String] = []
    /// Items with an event that is stored twice and is not the same twice.
    private(set) var inexactIDs: Set<String> = []
    /// Sales that were not owed until their token came.
    private(set) var reopenedCount = 0

    /// - Parameters:
    ///   - truth: what the sales were made to be.
    ///   - refused: by line, the code with which the door refused it.
    ///   - stored: every record of `purchases.received.v1`.
    ///   - outcomes: the ledger, that of one line item in its order.
    ///   - deadLetters: line item and code of each dead letter.
    ///   - apple: what Apple's side holds, by line item.
    init(
        truth: DemoSales,
        refused: [String: String],
        stored: [SalesEvidence.Event],
        outcomes: [PurchaseOutcome],
        deadLetters: [(lineItemID: String, code: String)],
        apple: [String: DemoItem]
    ) {
        compare(truth, stored)
        let final = SalesAudit.final(outcomes)
        reopenedCount = outcomes.count - final.count
        var exact = truth
        exact.sales.removeAll { inexactIDs.contains($0.lineItemID) }
        exact.items = exact.items.filter { !inexactIDs.contains($0.key) }
        let account = DemoSalesAccount(
            truth: exact,
            refused: refused,
            ledger: final.filter { !inexactIDs.contains($0.lineItemID) }.map { outcome in
                DemoSalesAccount.LedgerEntry(
                    lineItemID: outcome.lineItemID,
                    type: outcome.type.rawValue,
                    end: outcome.outcome == .rejected ? outcome.reason : outcome.outcome.rawValue
                )
            },
            apple: apple.filter { !inexactIDs.contains($0.key) },
            deadLetters: deadLetters.filter { !inexactIDs.contains($0.lineItemID) }
                .reduce(into: [:]) { $0[$1.code, default: 0] += 1 },
            rejectedCodes: [:]
        )
        differences += account.differences
        differences += account.rows.filter { !$0.agrees }.map { row in
            "\(row.saleClass.rawValue): owed \(row.owedCount), \(row.ledgerCount) reported;"
                + " \(row.notOwedCount) of \(row.notOwedGoal) not owed;"
                + " \(row.deadLetterCount) of \(row.deadLetterGoal) dead letters;"
                + " \(row.refusedCount) of \(row.refusedGoal) refused"
        }
        let settled = Set(outcomes.map { "\($0.lineItemID) \($0.type.rawValue)" })
        let open = Set(truth.sales.filter { inexactIDs.contains($0.lineItemID) }.map(Self.key))
            .subtracting(settled)
        if let first = open.min() {
            differences.append("\(open.count) sales have no outcome, such as \(first)")
        }
    }

    private static func key(_ sale: DemoSale) -> String { "\(sale.lineItemID) \(sale.type)" }

    private mutating func compare(_ truth: DemoSales, _ stored: [SalesEvidence.Event]) {
        var left = stored.reduce(into: [String: Int]()) {
            $0["\($1.lineItemID) \($1.type)", default: 0] += 1
        }
        var lost: [String] = []
        let sent = truth.sales.filter { sale in
            if case .refused = sale.end { false } else { true }
        }
        for (key, sales) in Dictionary(grouping: sent, by: Self.key) {
            let count = left.removeValue(forKey: key) ?? 0
            if count < sales.count {
                lost.append(key)
            } else if count > sales.count, !sales.allSatisfy(Self.isSameTwice) {
                inexactIDs.insert(sales[0].lineItemID)
            }
        }
        for (sentence, keys) in [
            ("sales that the door took are not stored", lost),
            ("sales are stored that nobody sent", Array(left.keys)),
        ] where !keys.isEmpty {
            differences.append("\(keys.count) \(sentence), such as \(keys.sorted()[0])")
        }
    }

    /// A repeat of a sale that stands is settled, and that is all.
    private static func isSameTwice(_ sale: DemoSale) -> Bool {
        switch sale.end {
        case .reported: sale.type == "buy" || sale.type == "refund"
        case .notOwed, .repeated: true
        case .deadLetter, .refused: false
        }
    }
}

extension StormRun {
    /// The account of sales as it is now.
    func salesAccount() throws -> StormSales? {
        guard let truth = run.stream.sales else {
            return nil
        }
        let stored = try run.records(of: [.purchasesReceived]) { batch, record in
            try SalesEvidence.event(Array(batch.arena[record.value.indices]))
        }
        let outcomes = try run.records(of: [.purchasesOutcomes]) { batch, record in
            try PurchaseOutcome(reading: batch.arena.span.extracting(record.value.indices))
        }
        let deadLetters = try run.records(of: [.deadLetters(.purchases)]) { batch, record in
            let event = try SalesEvidence.event(Array(batch.arena[record.value.indices]))
            let code = HeaderList.entries(in: record.headers, of: batch.arena)
                .first { $0.name == "tollway.dlq.code" }
                .map { String(decoding: batch.arena[$0.value.indices], as: UTF8.self) }
            return (lineItemID: event.lineItemID, code: code ?? "?")
        }
        return StormSales(
            truth: truth,
            refused: run.refusedSales,
            stored: stored,
            outcomes: outcomes,
            deadLetters: deadLetters,
            apple: try run.appleItems()
        )
    }
}
