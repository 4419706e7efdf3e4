internal import TokenDomain

/// What a report of the ledger is to a calendar month.
struct MonthBelonging {
    /// Whatever sales are in it.
    let isFor: Bool
    let hasSales: Bool
    /// 0 where it was in time.
    let lateBySeconds: Int64
    /// Whether the month counts it: Apple has accepted it, and the sandbox has no deadline.
    let isCounted: Bool

    var isLate: Bool { lateBySeconds > 0 }

    /// `items`: all of the report's; none where they cannot be read.
    init(_ outcome: ReportOutcome, _ items: [LedgerLineItem], to month: CalendarMonth) {
        let isFor = OpenMonth.isReport(outcome, for: month)
        let hasSales =
            outcome.details.lineItems == nil
            ? outcome.status == .lineItem && isFor
            : items.contains { item in
                item.creationDate.map { CalendarMonth(of: $0) == month } ?? false
            }
        self.isFor = isFor
        self.hasSales = hasSales
        lateBySeconds = ReportLateness(outcome, items).lateBySeconds(for: month, isFor: isFor)
        isCounted =
            outcome.outcome != .rejected && outcome.externalPurchaseID.environment == .production
            && (isFor || hasSales)
    }
}
