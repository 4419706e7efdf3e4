/// What an item must be to the item that it refers to, which Apple has accepted.
///
/// Source: Apple, "referenceLineItemId", errors 2, 14, 21, 23, 25, 28, 31, 32, 33, 40
package struct ReferenceRules {
    /// What is known of the item that is referred to.
    package struct Target: Hashable, Sendable {
        package var sale: PurchaseEvent
        package var terms: ReportingTerms
        package var isRetracted: Bool

        package init(sale: PurchaseEvent, terms: ReportingTerms, isRetracted: Bool) {
            self.sale = sale
            self.terms = terms
            self.isRetracted = isRetracted
        }
    }

    /// What an item can never be to the one that names it, whatever is restated: neither changes its kind
    /// or its subscription.
    ///
    /// - Parameters:
    ///   - named: the item that is referred to, which Apple need not have yet.
    ///   - sale: a refund, or a later event of a subscription.
    /// - Returns: nil where it may be that.
    package static func fault(
        ofNaming named: PurchaseEvent,
        in sale: PurchaseEvent
    ) -> PurchaseFault? {
        switch (sale.kind, named.kind) {
        case (.refund, .refund):
            return PurchaseFault(
                .refundOfRefund,
                .referenceLineItemID,
                repair: "Name the buy: a refund cannot be refunded."
            )
        case (.refund, _):
            return nil
        case (_, .refund):
            return PurchaseFault(
                .referenceNotBuy,
                .referenceLineItemID,
                repair: "Name the SUBSCRIPTION_START, or leave the field out."
            )
        default:
            if named.subscriptionEvent == .start, named.subscriptionID == sale.subscriptionID {
                return nil
            }
            var fault = PurchaseFault(
                .referenceNotStart,
                .referenceLineItemID,
                repair: "Name the SUBSCRIPTION_START of this subscription, or leave the field out."
            )
            switch named.subscriptionEvent {
            // Another subscription's: Apple knows no subscriptionId.
            case .start?: fault.appleCode = nil
            case nil: fault.appleCode = .nonInitialBuyReferencedByBuy
            default: break
            }
            return fault
        }
    }

    /// The first rule that a refund of an item breaks.
    ///
    /// - Parameters:
    ///   - refund: the refund, as sent or restated.
    ///   - target: the item that it refunds.
    ///   - isNew: false where it was accepted before: a restated refund has a year of its own.
    ///   - now: Apple refuses refunds of what was bought more than a year ago.
    /// - Returns: nil where it breaks none.
    package static func fault(
        ofRefund refund: PurchaseEvent,
        of target: Target,
        isNew: Bool,
        now: Timestamp
    ) -> PurchaseFault? {
        let buy = target.sale
        if let fault = fault(ofNaming: buy, in: refund) {
            return fault
        }
        if target.isRetracted {
            return retracted
        }
        if let fault = younger(refund, than: buy) {
            return fault
        }
        if isNew, let date = buy.creationDate, now > date.yearLater {
            return PurchaseFault(
                .refundTooLate,
                .creationDate,
                repair: "Settle it with Apple by hand: the buy is older than a year."
            )
        }
        return mismatch(refund, buy, target.terms)
    }

    /// A refund may say what its buy said, and nothing else.
    private static func mismatch(
        _ refund: PurchaseEvent,
        _ buy: PurchaseEvent,
        _ terms: ReportingTerms
    ) -> PurchaseFault? {
        let repair = "Send the value of the buy, or leave the field out of the refund."
        if let currency = refund.pricingCurrency, currency != buy.pricingCurrency {
            return PurchaseFault(.pricingCurrencyMismatch, .pricingCurrency, repair: repair)
        }
        if let currency = refund.reportingCurrency, currency != terms.currency {
            return PurchaseFault(.reportingCurrencyMismatch, .reportingCurrency, repair: repair)
        }
        if let country = refund.taxCountry, country != buy.taxCountry {
            return PurchaseFault(.taxCountryMismatch, .taxCountry, repair: repair)
        }
        if let rate = refund.exchangeRate, rate != terms.rate {
            return PurchaseFault(.exchangeRateMismatch, .exchangeRate, repair: repair)
        }
        return nil
    }

    /// Whether a refund was said of a buy in another currency than that has by now.
    ///
    /// - Parameters:
    ///   - currency: the buy's, when the refund was said; nil where that is not known.
    ///   - buy: what Apple has.
    /// - Returns: nil where it has the same, as far as is known.
    package static func fault(ofSaidIn currency: AlphaCode?, of buy: Target) -> PurchaseFault? {
        guard let currency, currency != buy.sale.pricingCurrency else {
            return nil
        }
        return PurchaseFault(
            .pricingCurrencyMismatch,
            .pricingCurrency,
            repair:
                "Send it with its amounts in the currency that the buy was restated to since, and"
                + " with that as its pricingCurrency."
        )
    }

    /// The first rule that a later event of a subscription breaks.
    ///
    /// - Parameters:
    ///   - event: a renewal, a change or a payment.
    ///   - target: the item that it names, or the start of its subscription.
    /// - Returns: nil where it breaks none.
    package static func fault(
        ofLater event: PurchaseEvent,
        after target: Target
    ) -> PurchaseFault? {
        let start = target.sale
        if let fault = fault(ofNaming: start, in: event) {
            return fault
        }
        return target.isRetracted ? retracted : younger(event, than: start)
    }

    private static let refundsFirst = "Retract the refunds first: they have the value of the buy."

    /// Whether a buy is restated to another currency: the amounts of its refunds are said in its own, also
    /// of those that Apple has not been told of.
    ///
    /// - Parameters:
    ///   - restated: a buy that has refunds, as it shall be.
    ///   - sale: the buy as it was.
    /// - Returns: nil where the currency stays.
    package static func fault(
        ofRestatedCurrency restated: PurchaseEvent,
        insteadOf sale: PurchaseEvent
    ) -> PurchaseFault? {
        restated.kind == .buy && restated.pricingCurrency != sale.pricingCurrency
            ? PurchaseFault(.pricingCurrencyMismatch, .pricingCurrency, repair: refundsFirst) : nil
    }

    /// The first rule that a restated buy breaks: it keeps what its refunds have of it.
    ///
    /// - Parameters:
    ///   - restated: a buy that has refunds, as it shall be.
    ///   - sale: the buy as it was.
    ///   - terms: what Apple has it in.
    ///   - rates: for what it would be reported in.
    /// - Returns: nil where it changes nothing of it.
    package static func fault(
        ofRestatedBuy restated: PurchaseEvent,
        insteadOf sale: PurchaseEvent,
        in terms: ReportingTerms,
        rates: ExchangeRates
    ) -> PurchaseFault? {
        let repair = refundsFirst
        if let fault = fault(ofRestatedCurrency: restated, insteadOf: sale) {
            return fault
        }
        if restated.taxCountry != sale.taxCountry {
            return PurchaseFault(.taxCountryMismatch, .taxCountry, repair: repair)
        }
        let new = ReportingTerms.of(restated, insteadOf: sale, in: terms, rates: rates)
        if new?.currency != terms.currency {
            return PurchaseFault(.reportingCurrencyMismatch, .reportingCurrency, repair: repair)
        }
        return new?.rate == terms.rate
            ? nil : PurchaseFault(.exchangeRateMismatch, .exchangeRate, repair: repair)
    }

    private static var retracted: PurchaseFault {
        PurchaseFault(
            .referenceRetracted,
            .referenceLineItemID,
            repair: "Restate the item that it refers to first: it was retracted."
        )
    }

    private static func younger(
        _ item: PurchaseEvent,
        than target: PurchaseEvent
    ) -> PurchaseFault? {
        guard let date = item.creationDate, let other = target.creationDate, date < other else {
            return nil
        }
        return PurchaseFault(
            .referenceYounger,
            .creationDate,
            repair:
                "Send a date that is not before that of the item it refers to; where that is the"
                + " START of a later period, send its own START first."
        )
    }

    /// Whether Apple still takes a restatement of an item: within a year of its date.
    package static func fault(
        ofRestating sale: PurchaseEvent,
        now: Timestamp
    ) -> PurchaseFault? {
        guard let date = sale.creationDate, now > date.yearLater else {
            return nil
        }
        return PurchaseFault(
            .restatementTooLate,
            .creationDate,
            repair: "Settle it with Apple by hand: the item is older than a year."
        )
    }
}
