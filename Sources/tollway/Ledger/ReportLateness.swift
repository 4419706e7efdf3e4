internal import TokenDomain

/// How late a report was: for a calendar month, and for each row of it in the export.
///
/// A report may hold sales of several months, and Apple wants each by the deadline of its month.
/// The record has the earliest of these, or the token's own deadline where that was before. A sale
/// that is restated was reported before: its deadline is none of this report's.
struct ReportLateness {
    private let outcome: ReportOutcome
    private let items: [LedgerLineItem]

    /// `items`: all of the report's; none where they cannot be read.
    init(_ outcome: ReportOutcome, _ items: [LedgerLineItem]) {
        self.outcome = outcome
        self.items = items
    }

    // MARK: A row

    /// Until when Apple wanted what a row says; nil where the ledger does not say.
    static func deadline(of item: LedgerLineItem?, in outcome: ReportOutcome) -> Timestamp? {
        item?.newSaleDate.map { ReportPolicy.deadline(ofSale: $0) } ?? outcome.details.deadline
    }

    /// By how much that was missed: 0 in time, nil where the ledger does not say.
    static func lateBySeconds(of item: LedgerLineItem?, in outcome: ReportOutcome) -> Int64? {
        guard let sale = item?.newSaleDate else {
            return outcome.details.lateBySeconds
        }
        return seconds(outcome.settledAt, after: ReportPolicy.deadline(ofSale: sale))
    }

    // MARK: A month

    /// How late it was for a month; 0 in time.
    ///
    /// How late the report was is how late its oldest sale was, which may be another month's. `isFor`:
    /// whether it is a report for the month, whatever sales are in it.
    func lateBySeconds(for month: CalendarMonth, isFor: Bool) -> Int64 {
        let monthLate = Self.seconds(
            outcome.settledAt,
            after: ReportPolicy.deadline(ofSale: month.start)
        )
        let ownLate = outcome.details.lateBySeconds ?? monthLate
        guard !items.isEmpty else {
            return ownLate
        }
        let sales = items.compactMap(\.newSaleDate)
        let isOthers = sales.min().map { oldest in
            CalendarMonth(of: oldest) != month
                && outcome.details.deadline == ReportPolicy.deadline(ofSale: oldest)
        }
        if isFor, isOthers != true {
            return ownLate
        }
        return sales.contains { CalendarMonth(of: $0) == month } ? monthLate : 0
    }

    /// Counted as report counts it.
    private static func seconds(_ settledAt: Timestamp, after deadline: Timestamp) -> Int64 {
        var details = ReportOutcome.Details()
        details.bringForward(deadline: deadline, settledAt: settledAt)
        return details.lateBySeconds ?? 0
    }
}
