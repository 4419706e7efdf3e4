/// What a platform says of a sale, complete: a purchase event in one form, so that two events of the
/// same content are equal.
extension PurchaseEvent {
    /// With all three amounts and the quantity, and without what is not the sale's: when and by
    /// which request it came, and the second name of its app.
    ///
    /// - Parameter appAppleID: that of the app, by either name.
    /// - Returns: the same sale; equal for equal content.
    package func normalized(appAppleID: Int64) -> PurchaseEvent {
        var sale = self
        sale.appAppleID = appAppleID
        sale.bundleID = nil
        sale.receivedAt = nil
        sale.requestID = nil
        if let amounts = AmountTriple(self) {
            sale.setAmounts(amounts)
        }
        if kind == .buy {
            sale.quantity = quantity ?? 1
        }
        return sale
    }

    mutating func setAmounts(_ amounts: AmountTriple) {
        amountTaxInclusive = amounts.inclusive
        taxAmount = amounts.tax
        amountTaxExclusive = amounts.exclusive
    }

    /// The sale with the fields of a restatement in place of its own.
    ///
    /// - Parameters:
    ///   - change: the restatement, which passed the rules for one.
    ///   - parent: the item that the sale refers to, where it does not name it itself.
    ///   - terms: what Apple has the item in; nil where it has none of it.
    ///   - codes: the currencies and countries there are.
    ///   - now: for the rules that the whole must pass.
    /// - Returns: the sale as it shall be; equal to this one where nothing changes.
    /// - Throws: the first rule that the change or the whole breaks.
    package func applying(
        _ change: PurchaseEvent,
        to parent: String? = nil,
        terms: ReportingTerms? = nil,
        codes: SalesCodes = .current,
        now: Timestamp
    ) throws(PurchaseFault) -> PurchaseEvent {
        if let date = change.creationDate, date != creationDate {
            throw PurchaseFault(
                .creationDateChanged,
                .creationDate,
                repair:
                    "Leave the date as it was; to change it, retract the item and send a new one."
            )
        }
        try refuse(change.subscriptionEvent, where: subscriptionEvent, .subscriptionEvent)
        try refuse(change.subscriptionID, where: subscriptionID, .subscriptionID)
        try refuse(
            change.referenceLineItemID,
            where: referenceLineItemID ?? parent,
            .referenceLineItemID
        )
        var sale = self
        if change.pricingCurrency ?? pricingCurrency != pricingCurrency {
            // They belonged to the other currency.
            sale.reportingCurrency = nil
            sale.exchangeRate = nil
        } else if kind == .buy, change.exchangeRate != nil, let terms, terms.rate != nil {
            // A rate alone leads to the currency that Apple has, which the file may have given.
            sale.reportingCurrency = reportingCurrency ?? terms.currency
        }
        if change.reportingCurrency ?? sale.reportingCurrency != sale.reportingCurrency {
            // So did the rate.
            sale.exchangeRate = nil
        }
        sale.productIdentifier = change.productIdentifier ?? productIdentifier
        sale.quantity = change.quantity ?? quantity
        sale.taxCountry = change.taxCountry ?? taxCountry
        sale.pricingCurrency = change.pricingCurrency ?? pricingCurrency
        sale.reportingCurrency = change.reportingCurrency ?? sale.reportingCurrency
        sale.exchangeRate = change.exchangeRate ?? sale.exchangeRate
        sale.subscriptionStartDate = change.subscriptionStartDate ?? subscriptionStartDate
        sale.subscriptionEndDate = change.subscriptionEndDate ?? subscriptionEndDate
        sale.subscriptionDaysOfPaidService =
            change.subscriptionDaysOfPaidService ?? subscriptionDaysOfPaidService
        if let amounts = AmountTriple(change) {
            sale.setAmounts(amounts)
        }
        // Whose it is, the key says.
        let faults = PurchaseRules.faults(
            of: sale,
            unreadable: [.customer],
            codes: codes,
            now: now
        )
        if let fault = faults.first {
            throw fault
        }
        return sale
    }

    private func refuse<Value: Equatable>(
        _ value: Value?,
        where current: Value?,
        _ field: PurchaseField
    ) throws(PurchaseFault) {
        guard value == nil || value == current else {
            throw PurchaseFault(
                .fieldNotAllowed,
                field,
                repair: "Leave it as it was; to change it, retract the item and send a new one."
            )
        }
    }

    /// Whether it says again what another refund said: the same amounts of the same buy.
    ///
    /// - Parameter other: normalized, as this one is.
    /// - Returns: false where this one names the currency of its amounts, or either is no refund.
    package func isSameRefund(as other: PurchaseEvent) -> Bool {
        guard kind == .refund, other.kind == .refund, pricingCurrency == nil,
            let buy = referenceLineItemID, let otherBuy = other.referenceLineItemID
        else {
            return false
        }
        // As texts of Swift two names are equal that only look the same.
        return buy.utf8.elementsEqual(otherBuy.utf8)
            && AmountTriple(self) == AmountTriple(other)
    }

    /// Whether it is a renewal, a change or a payment: it refers to the start of its subscription.
    package var isLaterSubscriptionEvent: Bool {
        kind == .buy && subscriptionEvent != nil && subscriptionEvent != .start
    }
}
