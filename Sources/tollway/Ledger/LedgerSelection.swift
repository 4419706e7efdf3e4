internal import StageRuntime
internal import TokenDomain
internal import TokenWire

/// Which part of the ledger is asked for.
///
/// A line item belongs to the month of its `creationDate`, as Apple counts a sale, whenever it was
/// reported; a report without line items to the month in which it was settled; a sale that was not
/// reported to that of its `creationDate` or, where there is none, to that in which it came in.
struct LedgerSelection: Equatable {
    /// What the month of a line item is.
    enum Basis: String {
        case sale
        /// When Apple had the report.
        case told
    }

    static let options: [Verb.Option] = [
        .value("--app", "ID", "appAppleId or bundle id; default: all", isRepeatable: true),
        .value("--environment", "NAME", "production or sandbox; default: both"),
        .value("--month", "YYYY-MM", "of the UTC calendar; default: all there is"),
        .value("--by", "sale|told", "what month a line item belongs to; default: of the sale"),
    ]

    /// Records are written after the events they describe; clocks may differ by this.
    private static let clockSkew = Milliseconds.hours(1)

    var apps: Set<Int64> = []
    var environment: AppleEnvironment?
    var month: CalendarMonth?
    var basis = Basis.sale

    init() {}

    /// - Throws: exit 2 for a value that can match nothing, 3 for a bundle id that no app has.
    init(_ invocation: Invocation, _ configuration: Configuration) throws(CommandFailure) {
        for name in try AppName.all(invocation) {
            apps.insert(try name.number(configuration))
        }
        environment = try invocation.environment()
        month = try Self.month(invocation)
        if let text = invocation.value("--by") {
            guard let basis = Basis(rawValue: text) else {
                throw .usage("bad_value", "--by is \"\(text)\": it must be sale or told")
            }
            self.basis = basis
        }
    }

    static func month(_ invocation: Invocation) throws(CommandFailure) -> CalendarMonth? {
        guard let text = invocation.value("--month") else {
            return nil
        }
        guard let month = MonthText.read(text) else {
            throw .usage("bad_value", "--month is \"\(text)\": it must be a month such as 2026-10")
        }
        return month
    }

    /// For people: what the totals are of.
    var sentence: String {
        guard let month else {
            return "sales of all months:"
        }
        let name = MonthText.of(month)
        return switch basis {
        case .sale: "sales of \(name) (UTC), whenever they were reported:"
        case .told: "what Apple accepted in \(name) (UTC), whenever it was sold:"
        }
    }

    /// The ledger has nothing of the month before this; nil where all of it is asked for.
    ///
    /// A sale is reported after it happened, and corrected up to a year later: the end is open.
    var readsFrom: Timestamp? { month.map { $0.start + -Self.clockSkew } }

    func month(of item: LedgerLineItem?, settledAt: Timestamp) -> CalendarMonth {
        switch basis {
        case .sale: CalendarMonth(of: item?.creationDate ?? settledAt)
        case .told: CalendarMonth(of: settledAt)
        }
    }

    /// Whether a row may be wanted, before its line items are read.
    func matches(app: Int64?, _ environment: AppleEnvironment?) -> Bool {
        let isApp = apps.isEmpty || app.map { apps.contains($0) } ?? false
        return isApp && (self.environment == nil || self.environment == environment)
    }

    /// What a record of a report says before it is read whole.
    struct Report {
        var app: Int64?
        /// Nil where no environment is asked for.
        var environment: AppleEnvironment?
        var settledAt: Timestamp?
        /// Its line items' JSON; nil where there are none, or their months do not matter.
        var items: String?
    }

    /// Whether a report, or one of its line items, is of the month that is asked for.
    func mayShow(_ outcome: ReportOutcome) -> Bool {
        mayShow(
            Report(
                app: outcome.appAppleID,
                settledAt: outcome.settledAt,
                items: basis == .sale ? outcome.details.lineItems : nil
            )
        )
    }

    /// Likewise, before its record is read whole.
    func mayShow(_ report: Report) -> Bool {
        guard let month, let settledAt = report.settledAt else {
            return true
        }
        let items: [LedgerLineItem]
        do throws(WireFault) {
            items =
                try report.items.map { (text) throws(WireFault) in
                    try LedgerLineItem.list(text)
                } ?? []
        } catch {
            // Shown as a report without line items.
            items = []
        }
        guard !items.isEmpty else {
            return self.month(of: nil, settledAt: settledAt) == month
        }
        return items.contains { self.month(of: $0, settledAt: settledAt) == month }
    }

    func matches(_ row: LedgerRow) -> Bool {
        matches(app: row.appAppleID, row.environment) && (month == nil || month == row.month)
    }
}
