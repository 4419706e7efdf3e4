/// What Apple says to the line items of one report: S9 and S10, sections 2.4 to 2.7.
///
/// References look at the report as a whole: an item of the same report counts as accepted already.
struct LineItemRules {
    /// A year of restating and refunding: the longest, since Apple does not say how leap days count.
    static let yearMilliseconds: Int64 = 366 * 86_400_000

    let now: UnixMilliseconds
    let dateFloor: UnixMilliseconds
    /// Nil where the token is unknown, which is an error of its own.
    let token: IssuedToken?
    /// What has been accepted of the app before.
    let book: LineItemBook
    /// This report's items by identifier; of a repeated one the first.
    private let reported: [String: LineItem]
    private let items: [LineItem]

    init(
        _ items: [LineItem],
        token: IssuedToken?,
        book: LineItemBook,
        dateFloor: UnixMilliseconds,
        now: UnixMilliseconds
    ) {
        self.items = items
        self.token = token
        self.book = book
        self.dateFloor = dateFloor
        self.now = now
        let named = items.compactMap { item in item.lineItemID.map { ($0, item) } }
        reported = Dictionary(named) { first, _ in first }
    }

    /// Every violation: each item's own, in order, then those of the net amounts.
    func violations() -> [ReportError] {
        var errors: [ReportError] = []
        var seen: Set<String> = []
        for item in items {
            let fieldRules = LineItemFieldRules(
                item: item,
                token: token,
                dateFloor: dateFloor,
                now: now
            )
            errors += fieldRules.violations()
            guard let id = item.lineItemID else { continue }
            if !seen.insert(id).inserted {
                errors.append(
                    ReportError(.duplicateValue, field: "lineItemId", lineItemID: id)
                )
                continue
            }
            errors += identityViolations(item, id)
            errors += referenceViolations(item, id)
            errors += referrerViolations(item, id)
            errors += retractionViolations(item, id)
        }
        return errors + netViolations()
    }

    /// The newest version of an item, this report included.
    private func newest(_ id: String) -> LineItem? {
        reported[id] ?? book.item(id)
    }

    /// Items that point at one and are not retracted, this report included.
    private func liveReferrers(of id: String) -> [LineItem] {
        let candidates = book.referrers(of: id).union(
            reported.filter { $0.value.referenceLineItemID == id }.keys
        )
        return candidates.compactMap { newest($0) }.filter {
            $0.referenceLineItemID == id && !$0.isRetraction
        }
    }

    // MARK: New or restated (S10)

    private func identityViolations(_ item: LineItem, _ id: String) -> [ReportError] {
        guard let before = book.item(id) else {
            return item.isRestatement
                ? [ReportError(.notFound, field: "lineItemId", lineItemID: id)] : []
        }
        guard item.isRestatement else {
            return [ReportError(.duplicateValue, field: "lineItemId", lineItemID: id)]
        }
        var errors: [ReportError] = []
        func add(_ code: ReportErrorCode, _ field: String) {
            errors.append(ReportError(code, field: field, lineItemID: id))
        }
        if let date = item.creationDate, date != before.creationDate {
            add(.restatementCreationDateMismatch, "creationDate")
        }
        if let date = before.creationDate, now - Self.yearMilliseconds > date {
            add(.restatementNotAllowedCreationDate, "creationDate")
        }
        if item.isRetraction, before.isRetraction {
            add(.repeatErroneousSubmission, "erroneouslySubmitted")
        }
        return errors
    }

    private func retractionViolations(_ item: LineItem, _ id: String) -> [ReportError] {
        guard item.isRetraction, !liveReferrers(of: id).isEmpty else { return [] }
        return [
            ReportError(
                .erroneousLineItemReferencedByValidLineItem,
                field: "erroneouslySubmitted",
                lineItemID: id
            )
        ]
    }

    // MARK: References

    private func referenceViolations(_ item: LineItem, _ id: String) -> [ReportError] {
        guard let targetID = item.referenceLineItemID, item.mayReference else { return [] }
        var errors: [ReportError] = []
        func add(_ code: ReportErrorCode, _ field: String) {
            errors.append(ReportError(code, field: field, lineItemID: id))
        }
        guard targetID != id else {
            add(.selfReference, "referenceLineItemId")
            return errors
        }
        guard let target = newest(targetID) else {
            add(.notFound, "referenceLineItemId")
            return errors
        }
        if let own = item.creationDate, let other = target.creationDate, other > own {
            add(.referencedCreationDateIncompatible, "creationDate")
        }
        if target.isRetraction, !item.isRetraction {
            add(.validLineItemReferencesErroneousLineItem, "erroneouslySubmitted")
        }
        matchViolations(item, target, add: add)
        if item.event == .refund, target.event == .buy, !item.isRestatement,
            let date = target.creationDate, now - Self.yearMilliseconds > date
        {
            add(.refundNotAllowedCreationDate, "creationDate")
        }
        return errors
    }

    /// What the accepted items that point at a restated one no longer agree with.
    ///
    /// The error names the item of this report: Apple does not say which of the two it means.
    private func referrerViolations(_ item: LineItem, _ id: String) -> [ReportError] {
        var errors: [ReportError] = []
        for referrer in liveReferrers(of: id) where reported[referrer.lineItemID ?? ""] == nil {
            matchViolations(referrer, item) { code, field in
                let error = ReportError(code, field: field, lineItemID: id)
                if !errors.contains(error) { errors.append(error) }
            }
        }
        return errors
    }

    /// What an item and the one that it points at must have in common.
    private func matchViolations(
        _ item: LineItem,
        _ target: LineItem,
        add: (ReportErrorCode, String) -> Void
    ) {
        switch item.event {
        case .refund: refundViolations(item, of: target, add: add)
        case .buy, nil: subscriptionReferenceViolations(target, add: add)
        }
    }

    private func refundViolations(
        _ item: LineItem,
        of target: LineItem,
        add: (ReportErrorCode, String) -> Void
    ) {
        guard target.event == .buy else {
            add(.refundReferencedByRefund, "lineItemId")
            return
        }
        if item.reportingCurrency != target.reportingCurrency {
            add(.reportingCurrencyMismatch, "reportingCurrency")
        }
        if item.taxCountry != target.taxCountry { add(.taxCountryMismatch, "taxCountry") }
        if item.pricingCurrency != target.pricingCurrency {
            add(.pricingCurrencyMismatch, "pricingCurrency")
        }
        if item.exchangeRate.map(plainDecimal) != target.exchangeRate.map(plainDecimal) {
            add(.exchangeRateMismatch, "exchangeRate")
        }
    }

    /// A renewal, change or payment points at the start of its subscription.
    private func subscriptionReferenceViolations(
        _ target: LineItem,
        add: (ReportErrorCode, String) -> Void
    ) {
        guard target.event == .buy else {
            add(.referenceLineItemNotABuy, "referenceLineItemId")
            return
        }
        guard target.subscriptionEvent != .start else { return }
        // Error 14 is about the event, so a target without one breaks 29 alone.
        if target.subscriptionEvent != nil {
            add(.referenceInvalidSubscriptionEvent, "referenceLineItemId")
        }
        add(.nonInitialBuyReferencedByBuy, "lineItemId")
    }

    // MARK: Net amounts

    /// All items of one net calculation carry the same figure, and the right one.
    private func netViolations() -> [ReportError] {
        let groups = Dictionary(grouping: reported.values) { $0.netRootID }
        var errors: [ReportError] = []
        for (rootID, members) in groups.sorted(by: { $0.key ?? "" < $1.key ?? "" }) {
            guard let rootID, let root = newest(rootID), root.event == .buy,
                let amount = root.amountTaxExclusive
            else { continue }
            let code: ReportErrorCode
            let refunds = liveReferrers(of: rootID).filter { $0.event == .refund }
            let net = refunds.reduce(root.isRetraction ? 0 : amount) {
                $0.subtractingReportingOverflow($1.amountTaxExclusive ?? 0).partialValue
            }
            let figures = Set(members.compactMap(\.netAmountTaxExclusive))
            if figures.count > 1 {
                code = .netAmountMismatch
            } else if figures.first ?? net != net {
                code = .incorrectNetAmount
            } else {
                continue
            }
            errors += members.compactMap(\.lineItemID).sorted().map {
                ReportError(code, field: "netAmountTaxExclusive", lineItemID: $0)
            }
        }
        return errors
    }
}

extension LineItem {
    /// One-time buys and starts may name no other item; that is error 5 and nothing more.
    var mayReference: Bool {
        event == .refund || product == .subscription && subscriptionEvent != .start
    }

    /// The buy whose net amount this item takes part in.
    fileprivate var netRootID: String? {
        event == .refund ? referenceLineItemID : lineItemID
    }
}

/// A decimal literal without zeros that say nothing, so that 1.10 equals 1.1.
func plainDecimal(_ literal: String) -> String {
    let parts = literal.split(separator: ".", omittingEmptySubsequences: false)
    var fraction = parts.count == 2 ? parts[1] : ""
    while fraction.last == "0" { fraction.removeLast() }
    return fraction.isEmpty ? String(parts[0]) : "\(parts[0]).\(fraction)"
}

/// The line items of one app in one environment: the newest version of each.
struct LineItemBook: Sendable {
    private var items: [String: LineItem] = [:]
    private var referrersByID: [String: Set<String>] = [:]
    /// How often each was accepted: once, and once more with each restatement.
    private(set) var versionCounts: [String: Int] = [:]

    func item(_ id: String) -> LineItem? { items[id] }

    /// The newest version of each, by identifier.
    var newest: [LineItem] { items.sorted { $0.key < $1.key }.map(\.value) }

    /// Items that point at one now or did in an older version.
    func referrers(of id: String) -> Set<String> { referrersByID[id] ?? [] }

    mutating func apply(_ newItems: [LineItem]) {
        for item in newItems {
            guard let id = item.lineItemID else { continue }
            items[id] = item
            versionCounts[id, default: 0] += 1
            if let target = item.referenceLineItemID {
                referrersByID[target, default: []].insert(id)
            }
        }
    }
}
