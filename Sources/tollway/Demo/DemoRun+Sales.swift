internal import Foundation
internal import Kafka
internal import TokenDomain
internal import TokenWire

/// The sales of a demo: sent, waited for, and accounted.
extension DemoRun {
    /// Sends every sale.
    func sell() throws {
        try sell((stream.sales?.sales ?? [])[...])
    }

    /// Sends some sales; what breaks a rule goes alone, since it would refuse all beside it.
    func sell(_ sales: ArraySlice<DemoSale>) throws {
        var lines: [String] = []
        for sale in sales {
            if case .refused = sale.end {
                try postSales(&lines)
                try postRefused(sale.line)
            } else {
                lines.append(sale.line)
            }
            if lines.count == Self.linesPerPost {
                try postSales(&lines)
            }
        }
        try postSales(&lines)
    }

    private func postSales(_ lines: inout [String]) throws {
        try post(&lines, to: "/v1/purchases")
    }

    private func postRefused(_ line: String) throws {
        let answer = try knock("/v1/purchases", "application/json", Array(line.utf8))
        let problem = try JSONSerialization.jsonObject(with: Data(answer.body)) as? [String: Any]
        refusedSales[line] = problem?["code"] as? String ?? "\(answer.status)"
    }

    /// Sales that must be settled in the end, whatever their end.
    var settledSalesGoal: Int {
        stream.sales?.sales.count { sale in
            if case .refused = sale.end { false } else { true }
        } ?? 0
    }

    // MARK: Accounting

    func salesAccount(deadLetters: [String: Int]) throws -> DemoSalesAccount? {
        guard let sales = stream.sales else {
            return nil
        }
        let deadLetters = deadLetters.filter { $0.key.hasPrefix("purchases ") }
        var account = DemoSalesAccount(
            truth: sales,
            refused: refusedSales,
            ledger: try salesLedger(),
            apple: try appleItems(),
            deadLetters: Dictionary(
                uniqueKeysWithValues: deadLetters.map {
                    (String($0.key.dropFirst("purchases ".count)), $0.value)
                }
            ),
            rejectedCodes: try rejectedCodes()
        )
        account.apps = try accounts(besides: "0", SaleAccount.init) {
            $0.closes && $0.held == 0
        }
        return account
    }

    private func salesLedger() throws -> [DemoSalesAccount.LedgerEntry] {
        try records(of: [.purchasesOutcomes]) { batch, record in
            let outcome = try PurchaseOutcome(
                reading: batch.arena.span.extracting(record.value.indices)
            )
            return DemoSalesAccount.LedgerEntry(
                lineItemID: outcome.lineItemID,
                type: outcome.type.rawValue,
                end: outcome.outcome == .rejected ? outcome.reason : outcome.outcome.rawValue
            )
        }
    }

    /// The newest version of every line item that Apple's side accepted.
    func appleItems() throws -> [String: DemoItem] {
        var items: [String: DemoItem] = [:]
        try http.list(workers.simulatorURL("/line-items"), "lineItems") { entry in
            guard let item = entry["item"] as? [String: Any],
                let id = item["lineItemId"] as? String
            else {
                return
            }
            items[id] = DemoItem(
                versionCount: entry["versions"] as? Int ?? 0,
                isRetracted: item["erroneouslySubmitted"] as? Bool ?? false,
                net: (item["netAmountTaxExclusive"] as? Int).map { Int64($0) }
            )
        }
        return items
    }

    /// Codes with which Apple's rules refused something.
    ///
    /// Code 1 of `requestIdentifier` means a report that it has: an answer was lost. Only Apple's side
    /// counts that of `lineItemId` apart.
    private func rejectedCodes() throws -> [String: Int] {
        var counts: [String: Int] = [:]
        let page = try http.json(workers.simulatorURL("/requests?limit=0")) as? [String: Any]
        if let count = (page?["errors"] as? [String: Int])?["1 lineItemId"] {
            counts["1"] = count
        }
        for code in 2...40 {
            let count = try workers.metricsPages(http: http).reduce(0) { sum, page in
                sum
                    + DemoCounts.sum(
                        page,
                        "tollway_report_requests_total",
                        ["status=\"400\"", "code=\"\(code)\""]
                    )
            }
            if count > 0 {
                counts[String(code)] = count
            }
        }
        return counts
    }
}
