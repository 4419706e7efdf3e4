internal import TokenDomain
internal import TokenWire

/// One row of the export: a report without line items, one line item of a report, or a sale that
/// was not reported to Apple.
struct LedgerRow {
    enum Kind: String {
        case report
        case lineItem = "line_item"
        case sale
    }

    var kind: Kind
    /// Nil of a sale whose record does not say.
    var appAppleID: Int64?
    var environment: AppleEnvironment?
    /// Where it belongs: see ``LedgerSelection``.
    var month: CalendarMonth
    var externalPurchaseID: TokenID?
    var status: ReportStatus?
    var outcome: String
    var reason: String
    var firstSentAt: Timestamp?
    var settledAt: Timestamp
    var requestIdentifier: String?
    var httpStatus: Int?
    var errors: [AppleError]
    var attempts: Int?
    var tokenCreationDate: Timestamp?
    var tokenExpirationDate: Timestamp?
    /// A new sale's own, or the report's.
    var deadline: Timestamp?
    /// By how much it was missed; nil where the ledger does not say.
    var lateBySeconds: Int64?
    /// How late the report was that the row is of, by the earliest of its deadlines.
    var reportLateBySeconds: Int64?
    var item: LedgerLineItem?
    /// A later report has replaced what this row says.
    var isSuperseded = false
    /// Set where the ledger has the same accepted report in another record, and that one counts.
    var repetition: RepeatedReports.Repetition?
    /// `topic/partition/offset`.
    var position: String

    /// Whether Apple has it.
    var isAccepted: Bool {
        outcome == ReportOutcome.Outcome.accepted.rawValue
            || outcome == ReportOutcome.Outcome.verified.rawValue
    }

    var isLate: Bool { lateBySeconds ?? 0 > 0 }
    var isRepeat: Bool { repetition != nil }

    /// Names for CSV, with units, and for JSON; in the order of ``values``.
    static let columns: [(csv: String, json: String)] = [
        ("kind", "kind"), ("app_apple_id", "appAppleId"), ("environment", "environment"),
        ("month_utc", "month"), ("external_purchase_id", "externalPurchaseId"),
        ("status", "status"), ("outcome", "outcome"), ("reason", "reason"),
        ("first_sent_at_utc", "firstSentAt"), ("settled_at_utc", "settledAt"),
        ("request_identifier", "requestIdentifier"), ("http_status", "httpStatus"),
        ("apple_errors", "appleErrors"), ("attempts", "attempts"),
        ("token_created_at_utc", "tokenCreationDate"),
        ("token_expires_at_utc", "tokenExpirationDate"), ("deadline_utc", "deadline"),
        ("late_by_seconds", "lateBySeconds"), ("line_item_id", "lineItemId"),
        ("reference_line_item_id", "referenceLineItemId"), ("sold_at_utc", "creationDate"),
        ("event_type", "eventType"), ("product_type", "productType"),
        ("product_identifier", "productIdentifier"), ("quantity", "quantity"),
        ("subscription_event", "subscriptionEvent"), ("tax_country", "taxCountry"),
        ("pricing_currency", "pricingCurrency"), ("reporting_currency", "reportingCurrency"),
        ("exchange_rate", "exchangeRate"),
        ("amount_tax_exclusive_thousandths", "amountTaxExclusive"),
        ("tax_amount_thousandths", "taxAmount"),
        ("amount_tax_inclusive_thousandths", "amountTaxInclusive"),
        ("net_amount_tax_exclusive_thousandths", "netAmountTaxExclusive"),
        ("restatement", "restatement"), ("erroneously_submitted", "erroneouslySubmitted"),
        ("superseded", "superseded"), ("ledger_position", "position"), ("repeated", "repeated"),
    ]

    var values: [ExportValue] {
        let item = item
        return [
            .text(kind.rawValue), .number(appAppleID), .optional(environment?.rawValue),
            .text(MonthText.of(month)), .optional(externalPurchaseID?.text),
            .optional(status?.rawValue), .text(outcome), .text(reason), .time(firstSentAt),
            .time(settledAt), .optional(requestIdentifier), .number(httpStatus.map(Int64.init)),
            errors.isEmpty ? .none : .text(errorText), .number(attempts.map(Int64.init)),
            .time(tokenCreationDate), .time(tokenExpirationDate), .time(deadline),
            .number(lateBySeconds), .optional(item?.lineItemID),
            .optional(item?.referenceLineItemID), .time(item?.creationDate),
            .optional(item?.eventType), .optional(item?.productType),
            .optional(item?.productIdentifier), .digits(item?.quantity),
            .optional(item?.subscriptionEvent), .optional(item?.taxCountry),
            .optional(item?.pricingCurrency), .optional(item?.reportingCurrency),
            .digits(item?.exchangeRate), .digits(item?.amounts.taxExclusive),
            .digits(item?.amounts.tax), .digits(item?.amounts.taxInclusive),
            .digits(item?.amounts.netTaxExclusive),
            item.map { .flag($0.isRestatement) } ?? .none,
            item.map { .flag($0.isErroneous) } ?? .none,
            item == nil ? .none : .flag(isSuperseded), .text(position),
            kind == .sale ? .none : .flag(isRepeat),
        ]
    }

    /// Code, field and line item of each of Apple's reasons.
    private var errorText: String {
        errors.map { error in
            [String(error.code), error.fieldName, error.lineItemID].compactMap { $0 }
                .joined(separator: " ")
        }
        .joined(separator: "; ")
    }

    static var header: String { CSVText.line(columns.map(\.csv)) }
    var csv: String { CSVText.line(values.map(\.cell)) }

    var json: String {
        JSONLines.object(
            zip(Self.columns, values).compactMap { column, value in
                value.json.map { (column.json, $0) }
            }
        )
    }
}

extension LedgerRow {
    /// A report, or one of its line items.
    init(
        _ outcome: ReportOutcome,
        _ item: LedgerLineItem?,
        _ selection: LedgerSelection,
        _ position: String
    ) {
        kind = item == nil ? .report : .lineItem
        appAppleID = outcome.appAppleID
        environment = outcome.externalPurchaseID.environment
        month = selection.month(of: item, settledAt: outcome.settledAt)
        externalPurchaseID = outcome.externalPurchaseID
        status = outcome.status
        self.outcome = outcome.outcome.rawValue
        reason = outcome.reason
        firstSentAt = outcome.firstSentAt
        settledAt = outcome.settledAt
        requestIdentifier = outcome.requestIdentifier
        httpStatus = outcome.httpStatus
        errors = outcome.errors
        attempts = outcome.attempts
        tokenCreationDate = outcome.details.tokenCreationDate
        tokenExpirationDate = outcome.details.tokenExpirationDate
        deadline = ReportLateness.deadline(of: item, in: outcome)
        lateBySeconds = ReportLateness.lateBySeconds(of: item, in: outcome)
        reportLateBySeconds = outcome.details.lateBySeconds ?? lateBySeconds
        self.item = item
        self.position = position
    }

    /// A sale that is in no report.
    ///
    /// - Throws: where its line item cannot be read.
    init(
        _ outcome: PurchaseOutcome,
        _ selection: LedgerSelection,
        _ position: String
    ) throws(WireFault) {
        let item = try outcome.item.map { (text) throws(WireFault) in
            try LedgerLineItem(reading: text)
        }
        kind = .sale
        appAppleID = outcome.lane?.appAppleID
        environment = outcome.lane?.environment ?? outcome.externalPurchaseID?.environment
        month = selection.month(
            of: item,
            settledAt: selection.basis == .sale ? outcome.receivedAt : outcome.settledAt
        )
        externalPurchaseID = outcome.externalPurchaseID
        self.outcome = outcome.outcome.rawValue
        reason = outcome.reason
        settledAt = outcome.settledAt
        requestIdentifier = outcome.requestIdentifier
        errors = outcome.errors
        self.item = item ?? LedgerLineItem(lineItemID: outcome.lineItemID)
        self.position = position
    }
}

extension ExportValue {
    static func optional(_ text: String?) -> ExportValue { text.map { .text($0) } ?? .none }
    static func number(_ number: Int64?) -> ExportValue {
        number.map { .digits(String($0)) } ?? .none
    }
    static func digits(_ digits: String?) -> ExportValue { digits.map { .digits($0) } ?? .none }
    static func time(_ time: Timestamp?) -> ExportValue {
        time.map { .time($0.milliseconds) } ?? .none
    }
}

/// Months of the UTC calendar as an operator writes them: `2026-10`.
enum MonthText {
    static func of(_ month: CalendarMonth) -> String {
        let year = month.number / 12
        let number = month.number % 12 + 1
        return "\(year)-" + (number < 10 ? "0" : "") + "\(number)"
    }

    /// Nil for anything but a year of four digits, a hyphen and 01 to 12.
    static func read(_ text: String) -> CalendarMonth? {
        let bytes = Array(text.utf8)
        let isPlain = bytes.enumerated().allSatisfy { index, byte in
            index == 4
                ? byte == UInt8(ascii: "-")
                : (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
        }
        guard bytes.count == 7, isPlain, let year = Int64(text.prefix(4)),
            let month = Int64(text.suffix(2)), (1...12).contains(month), year >= 1970
        else {
            return nil
        }
        return CalendarMonth(number: year * 12 + month - 1)
    }
}
