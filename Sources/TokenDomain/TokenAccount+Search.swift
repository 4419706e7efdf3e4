/// Looks for line items that Apple calls known, or retracted already: did a report of ours send them as
/// they are now?
///
/// Either way the report itself is refused: what it asked for stands in earlier ones, and the ledger
/// has each of its line items once, under the identifier that Apple holds it by.
extension TokenAccount {
    /// The identifier of the earlier report that is asked for next.
    package func searchedIdentifier(policy: ReportPolicy) -> String? {
        current?.search.map { search in
            accepted.first { $0.number == search.number }?.identifier
                ?? policy.requestIdentifier(externalPurchaseID, search.number)
        }
    }

    /// The newest report before a number that may hold line items: one that was accepted with some,
    /// or one that is not remembered, since it is too old or the account was lost.
    private func earlierReport(than number: Int, but own: Int) -> Int? {
        let itemReports = Set(accepted.filter { $0.status == .lineItem }.map(\.number))
        let passed = Set(parked.map(\.number)).union(accepted.map(\.number))
        // An account that was lost begins with 1 again: what Apple has is no farther than its answers.
        let near = own - Self.numberLookAheadMax
        let oldest = accepted.count >= Self.acceptedCountMax ? itemReports.min() ?? 0 : 0
        return (1..<max(number, 1)).last { candidate in
            itemReports.contains(candidate) && candidate != own
                || candidate < own && !passed.contains(candidate)
                    && (candidate >= near || candidate < oldest)
        }
    }

    /// Begins to look for what Apple calls known; nil where nothing is to be found.
    func searching(
        _ intent: ReportIntent,
        _ answer: AnsweredReport
    ) -> ReportIntent? {
        var intent = intent
        if intent.refusal.isEmpty {
            // Not all have room: what is looked for first, and the rest goes again.
            let held = answer.errors.filter(\.isHeldLineItem)
            intent.keep(held + answer.errors.filter { !$0.isHeldLineItem })
        }
        var ids: [String] = []
        for case let id? in intent.refusal.filter(\.isHeldLineItem).map(\.lineItemID)
        // As texts of Swift two ids are equal that only look the same.
        where !ids.contains(where: { $0.utf8.elementsEqual(id.utf8) }) {
            ids.append(id)
        }
        guard intent.purchaseKey != nil, intent.search == nil, !ids.isEmpty,
            let number = earlierReport(than: intentCount + 1, but: intent.number)
        else {
            return nil
        }
        intent.search = LineItemSearch(
            number: number,
            open: ids,
            requestCountBefore: intent.requestCount
        )
        return intent
    }

    /// Goes on to an earlier report, or ends where none is left to be asked for.
    mutating func search(
        _ held: [[UInt8]: Bool],
        in intent: ReportIntent,
        _ answer: AnsweredReport,
        policy: ReportPolicy
    ) -> [ReportEffect] {
        var intent = intent
        guard var search = intent.search else {
            return []
        }
        // The newest report that has an item decides: it sent the item last.
        let verified = search.open.filter { held[Array($0.utf8)] == true }
        // An earlier version kept no holders.
        while search.holders.count < search.verified.count {
            search.holders.append(intent.identifier)
        }
        search.verified += verified
        if let identifier = searchedIdentifier(policy: policy) {
            search.holders += verified.map { _ in identifier }
        }
        search.open.removeAll { held[Array($0.utf8)] != nil }
        let next = earlierReport(than: search.number, but: intent.number)
        if let next, !search.open.isEmpty {
            search.number = next
            search.requestCountBefore = intent.requestCount
            intent.search = search
            current = intent
            return []
        }
        intent.search = search
        return refuse(intent, .refused, answer, policy: policy)
    }
}
