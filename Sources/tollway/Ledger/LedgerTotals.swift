internal import Telemetry
internal import TokenDomain

/// What the selection comes to: reports by status, lateness, and money by currency.
///
/// Money is that of the newest version of each line item that Apple has, retracted ones left out, in
/// the reporting currency: what Apple's invoice is counted from.
struct LedgerTotals {
    /// Whose money, and in what.
    struct Key: Hashable {
        var appAppleID: Int64
        var environment: AppleEnvironment
        var currency: String
    }

    /// Sums of Apple's integers, in thousandths; wider than any sum of them.
    struct Money: Equatable {
        /// Line items with amounts that are no whole numbers, or none: in no sum.
        var unsummedCount = 0
        var buyCount = 0
        var refundCount = 0
        var buyTaxExclusive = Int128(0)
        var buyTax = Int128(0)
        var buyTaxInclusive = Int128(0)
        var refundTaxExclusive = Int128(0)
        var refundTax = Int128(0)
        var refundTaxInclusive = Int128(0)

        /// What was sold less what was given back.
        var netTaxExclusive: Int128 { buyTaxExclusive - refundTaxExclusive }
    }

    private(set) var money: [Key: Money] = [:]
    private(set) var reportCount = 0
    /// Of these, refused by Apple.
    private(set) var rejectedCount = 0
    private(set) var lineItemCount = 0
    private(set) var supersededCount = 0
    private(set) var retractedCount = 0
    /// Whether they were in time, the ledger does not say.
    private(set) var undatedCount = 0
    /// Rows of sales: one sale may have several, and may have been reported since.
    private(set) var notToldCount = 0
    /// Records that repeat an accepted report of the ledger: in no other count.
    private(set) var copyCount = 0
    private(set) var firstCopy = ""
    /// Likewise, with other content.
    private(set) var alteredCount = 0
    private(set) var firstAltered = ""
    /// Their amounts are no whole numbers: they are in no sum.
    private(set) var unsummedCount = 0
    private var lastReport = ""

    /// The month of the sales that are asked for, nil where late reports count by their rows.
    ///
    /// They count for it as in the account.
    private let month: CalendarMonth?
    private var lateOfMonth = LateReports()
    private var lateRows: (count: Int, bySecondsMax: Int64) = (0, 0)

    var lateCount: Int { month == nil ? lateRows.count : lateOfMonth.count }
    var lateBySecondsMax: Int64 {
        month == nil ? lateRows.bySecondsMax : lateOfMonth.lateBySecondsMax
    }

    init(_ selection: LedgerSelection = LedgerSelection()) {
        month = selection.basis == .sale ? selection.month : nil
    }

    var isEmpty: Bool { reportCount + copyCount + alteredCount + notToldCount == 0 }

    /// Takes in whether a report was late for the month; it may have no row of the month.
    mutating func take(_ outcome: ReportOutcome, _ items: [LedgerLineItem]) {
        if let month {
            lateOfMonth.take(outcome, MonthBelonging(outcome, items, to: month))
        }
    }

    mutating func add(_ row: LedgerRow) {
        guard row.kind != .sale else {
            notToldCount += 1
            return
        }
        // The line items of a report follow one another.
        let isNextReport = row.position != lastReport
        lastReport = row.position
        if let repetition = row.repetition {
            if isNextReport {
                addRepeat(row, repetition)
            }
            return
        }
        if isNextReport {
            addReport(row)
        }
        guard row.kind == .lineItem, row.isAccepted, let item = row.item else {
            return
        }
        lineItemCount += 1
        guard !row.isSuperseded else {
            supersededCount += 1
            return
        }
        guard !item.isErroneous else {
            retractedCount += 1
            return
        }
        addMoney(row, item)
    }

    private mutating func addRepeat(_ row: LedgerRow, _ repetition: RepeatedReports.Repetition) {
        switch repetition {
        case .copy:
            firstCopy = copyCount == 0 ? row.position : firstCopy
            copyCount += 1
        case .altered:
            firstAltered = alteredCount == 0 ? row.requestIdentifier ?? "" : firstAltered
            alteredCount += 1
        }
    }

    private mutating func addReport(_ row: LedgerRow) {
        reportCount += 1
        guard row.isAccepted else {
            // Apple has nothing of it that could have come late.
            rejectedCount += 1
            return
        }
        guard let late = row.reportLateBySeconds else {
            undatedCount += 1
            return
        }
        // The sandbox has no deadline.
        if late > 0, row.environment == .production {
            lateRows.count += 1
            lateRows.bySecondsMax = max(lateRows.bySecondsMax, late)
        }
    }

    private mutating func addMoney(_ row: LedgerRow, _ item: LedgerLineItem) {
        guard let app = row.appAppleID, let environment = row.environment else {
            unsummedCount += 1
            return
        }
        let key = Key(
            appAppleID: app,
            environment: environment,
            currency: item.reportingCurrency ?? ""
        )
        guard item.reportingCurrency != nil,
            let exclusive = item.amounts.taxExclusive.flatMap({ Int64($0) }),
            let tax = item.amounts.tax.flatMap({ Int64($0) }),
            let inclusive = item.amounts.taxInclusive.flatMap({ Int64($0) })
        else {
            unsummedCount += 1
            money[key, default: Money()].unsummedCount += 1
            return
        }
        var sum = money[key, default: Money()]
        if item.eventType == "REFUND" {
            sum.refundCount += 1
            sum.refundTaxExclusive += Int128(exclusive)
            sum.refundTax += Int128(tax)
            sum.refundTaxInclusive += Int128(inclusive)
        } else {
            sum.buyCount += 1
            sum.buyTaxExclusive += Int128(exclusive)
            sum.buyTax += Int128(tax)
            sum.buyTaxInclusive += Int128(inclusive)
        }
        money[key] = sum
    }

    // MARK: Shown

    private var sorted: [(key: Key, value: Money)] {
        money.sorted {
            ($0.key.appAppleID, $0.key.environment.rawValue, $0.key.currency)
                < ($1.key.appAppleID, $1.key.environment.rawValue, $1.key.currency)
        }
    }

    private static let columns: [(csv: String, json: String)] = [
        ("app_apple_id", "appAppleId"), ("environment", "environment"),
        ("reporting_currency", "reportingCurrency"), ("buys", "buyCount"),
        ("refunds", "refundCount"),
        ("buys_tax_exclusive_thousandths", "buyTaxExclusive"),
        ("buys_tax_thousandths", "buyTax"),
        ("buys_tax_inclusive_thousandths", "buyTaxInclusive"),
        ("refunds_tax_exclusive_thousandths", "refundTaxExclusive"),
        ("refunds_tax_thousandths", "refundTax"),
        ("refunds_tax_inclusive_thousandths", "refundTaxInclusive"),
        ("net_tax_exclusive_thousandths", "netTaxExclusive"),
        ("unsummed_line_items", "unsummedCount"),
    ]

    private static func values(_ key: Key, _ money: Money) -> [ExportValue] {
        let amounts = [
            money.buyTaxExclusive, money.buyTax, money.buyTaxInclusive, money.refundTaxExclusive,
            money.refundTax, money.refundTaxInclusive, money.netTaxExclusive,
        ]
        return [
            .number(key.appAppleID), .text(key.environment.rawValue), .text(key.currency),
            .number(Int64(money.buyCount)), .number(Int64(money.refundCount)),
        ] + amounts.map { .digits("\($0)") } + [.number(Int64(money.unsummedCount))]
    }

    var csv: String {
        CSVText.line(Self.columns.map(\.csv))
            + sorted.map { CSVText.line(Self.values($0.key, $0.value).map(\.cell)) }.joined()
    }

    /// One object for each app, environment and currency.
    var objects: [String] {
        sorted.map { key, money in
            JSONLines.object(
                [("kind", "\"total\"")]
                    + zip(Self.columns, Self.values(key, money)).compactMap { column, value in
                        value.json.map { (column.json, $0) }
                    }
            )
        }
    }

    /// For people: amounts with their decimal point.
    var table: String {
        var table = TextTable(columns: [
            .init(title: "APP", isNumber: true), .init(title: ""), .init(title: "CURRENCY"),
            .init(title: "BUYS", isNumber: true), .init(title: "SOLD, NO TAX", isNumber: true),
            .init(title: "REFUNDS", isNumber: true),
            .init(title: "REFUNDED, NO TAX", isNumber: true),
            .init(title: "NET, NO TAX", isNumber: true),
        ])
        table.rows = sorted.map { key, money in
            [
                "\(key.appAppleID)", key.environment.rawValue,
                PlainText.printable(key.currency, characterCountMax: 8), "\(money.buyCount)",
                Self.decimal(money.buyTaxExclusive), "\(money.refundCount)",
                Self.decimal(money.refundTaxExclusive), Self.decimal(money.netTaxExclusive),
            ]
        }
        return table.rows.isEmpty ? "" : table.text
    }

    /// What a person must know beside the sums, a sentence each.
    var notes: [String] {
        var notes = [
            CountText.of(reportCount - rejectedCount, "accepted report") + " with "
                + CountText.of(lineItemCount, "line item")
                + (rejectedCount == 0 ? "" : ", \(rejectedCount) that Apple refused")
        ]
        if supersededCount + retractedCount > 0 {
            notes.append(
                "not in the sums: "
                    + CountText.of(
                        supersededCount,
                        "line item that a later report restates",
                        "line items that later reports restate"
                    )
                    + ", \(retractedCount) retracted"
            )
        }
        notes += repeatNotes
        if notToldCount > 0 {
            notes.append(
                CountText.of(notToldCount, "row is", "rows are")
                    + " of sales that were not reported to Apple (kind sale): one sale may have"
                    + " several, and may have been reported since"
            )
        }
        if lateCount > 0 {
            let most = AgeText.of(.seconds(lateBySecondsMax))
            let which = month.map { month in
                ": those for \(MonthText.of(month)) or with sales of it, as tollway account --month"
                    + " counts them"
            }
            notes.append(
                CountText.of(lateCount, "report was", "reports were")
                    + " late, by \(most) at most" + (which ?? "")
            )
        }
        if undatedCount > 0 {
            notes.append(
                "of " + CountText.of(undatedCount, "report")
                    + " the ledger does not say whether in time"
            )
        }
        if unsummedCount > 0 {
            notes.append(
                CountText.of(unsummedCount, "line item has", "line items have")
                    + " amounts that are no whole numbers: in no sum"
            )
        }
        return notes
    }

    private var repeatNotes: [String] {
        var notes: [String] = []
        if copyCount > 0 {
            notes.append(
                CountText.of(copyCount, "record repeats", "records repeat")
                    + " an accepted report that the ledger has already (column repeated, first"
                    + " \(firstCopy)): counted once"
            )
        }
        if alteredCount > 0 {
            let first = PlainText.printable(firstAltered, characterCountMax: 40)
            notes.append(
                CountText.of(alteredCount, "record repeats", "records repeat")
                    + " an accepted report with other content (column repeated, first request"
                    + " identifier \(first)): one of the two was changed, and the one that was"
                    + " read first is counted; tollway ledger verify --all asks Apple what it holds"
            )
        }
        return notes
    }

    /// Thousandths with a decimal point: `4990` is `4.990`.
    static func decimal(_ thousandths: Int128) -> String {
        let digits = String(thousandths.magnitude)
        let padded = String(repeating: "0", count: max(0, 4 - digits.count)) + digits
        return (thousandths < 0 ? "-" : "") + padded.dropLast(3) + "." + padded.suffix(3)
    }
}
