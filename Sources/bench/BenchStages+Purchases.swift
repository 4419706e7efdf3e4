internal import Foundation
internal import StageRuntime
internal import TokenDomain

extension BenchStages {
    private static let answersName = "answers"
    private static let settledOutcomes = ["reported", "not_owed", "dead_letter", "repeat"]

    /// Sales from the record that brings them to the ledger's: each is decided, asked for, answered by
    /// the bench at once and settled.
    ///
    /// `saleCount` of them are in the book when the first run begins, and every customer has about
    /// `salesPerCustomer` of those.
    func purchases(saleCount: Int, salesPerCustomer: Int) throws -> BenchRow {
        let sales = world.sales(customerCount: max(saleCount / salesPerCustomer, 5))
        _ = try world.start(
            .answer,
            name: Self.answersName,
            [
                "from=\(world.topic(.reportsRequested))",
                "to=\(world.topic(.purchasesAnswered))",
            ]
        )
        defer { world.stop(Self.answersName) }
        // What a customer without token buys is settled when it comes.
        let settings = [Setting.purchasesTokenWait.fullName: "1s"]
        try takeTokens(of: sales, settings)
        var row = try measure(
            Subject(
                worker: .purchases,
                kind: .sale(sales),
                outputs: [.reportsRequested, .purchasesOutcomes, .purchasesState],
                written: .purchasesOutcomes,
                numberMember: BenchTally.saleMember,
                recordCount: recordCount,
                loops: [.copy, .plain],
                keyCount: saleCount,
                settings: settings,
                settled: {
                    try world.http.sum(
                        "tollway_purchases_total",
                        at: world.adminURL(.purchases, "metrics")
                    ) { line in
                        Self.settledOutcomes.contains { line.contains("outcome=\"\($0)\"") }
                    }
                }
            )
        )
        row.measure = "purchases at \(saleCount) sales, \(salesPerCustomer) a customer"
        row.goals = BenchRow.Goals(ratio: 0.4, peakByteCount: 128_000_000)
        return row
    }

    /// The customers' tokens go into the book first.
    private func takeTokens(of sales: BenchSales, _ settings: [String: String]) throws {
        let topic = world.topic(.tokensDecoded)
        let count = sales.owners.count
        Console.say("purchases: \(count) tokens go into its book")
        try world.fill(topic, .owned(sales), 0..<count)
        defer { world.stop(Worker.purchases.rawValue) }
        _ = try world.time(
            group: Worker.purchases.rawValue,
            topic: topic,
            target: world.topic(.purchasesState),
            program: Worker.purchases.rawValue,
            from: 0,
            to: count
        ) {
            try world.start(.purchases, settings: settings)
        }
    }
}
