internal import TokenDomain
internal import TokenWire

/// Restatements and retractions, by the rules of `purchases`.
extension PurchaseCheckBook {
    mutating func change(
        _ event: PurchaseEvent,
        _ item: Item,
        _ key: Key
    ) throws(PurchaseFault) -> Step {
        guard !item.waitsForRate else {
            return .done(.waits("rate"))
        }
        var item = item
        let isRetraction = event.kind == .retract
        if let fault = ReferenceRules.fault(ofRestating: item.sale, now: now) {
            throw fault
        }
        let sale = isRetraction ? item.sale : try item.sale.applying(event, now: now)
        if isRetraction ? item.isRetracted : sale == item.sale && !item.isRetracted {
            return .done(.settled("repeat"))
        }
        let isRefund = sale.kind == .refund
        let parent = item.parent.flatMap { items[$0] }
        if !isRetraction {
            // What the item must be to the one that it refers to is not known yet.
            guard parent?.waitsForRate != true else {
                return .done(.waits("rate"))
            }
            if let fault = fault(of: sale, insteadOf: item, parent) {
                throw fault
            }
        }
        let buy = isRefund ? parent : nil
        let terms =
            isRetraction
            ? item.terms
            : buy?.terms
                ?? ReportingTerms.of(sale, insteadOf: item.sale, in: item.terms, rates: rates)
        guard let terms else {
            item.waitsForRate = true
            items[key] = item
            return .done(.waits("rate"))
        }
        let own = item.isRetracted ? nil : item.share
        let compiled = try LineItemCompiler.compile(
            sale,
            LineItemCompiler.Context(
                revision: isRetraction ? .retraction : .restatement,
                terms: terms,
                family: family(of: buy ?? item),
                previous: isRefund ? own : nil,
                buy: buy?.sale,
                startLineItemID: isRefund ? nil : item.parent?.id,
                daysOfPaidService: item.days
            )
        )
        item.sale = sale
        item.terms = terms
        item.share = compiled.share
        item.isRetracted = isRetraction
        items[key] = item
        if isRefund, let parent = item.parent {
            count(compiled.share, insteadOf: own, isRetracted: isRetraction, in: parent)
        }
        return .done(.lineItem(json: compiled.item.json, token: item.token))
    }

    /// The rule of references that a restated item breaks.
    private func fault(
        of restated: PurchaseEvent,
        insteadOf item: Item,
        _ parent: Item?
    ) -> PurchaseFault? {
        guard restated.kind != .refund else {
            return parent.flatMap { buy in
                ReferenceRules.fault(ofRefund: restated, of: buy.target, isNew: false, now: now)
            }
        }
        return parent.flatMap { ReferenceRules.fault(ofLater: restated, after: $0.target) }
            ?? currencyFault(of: restated, insteadOf: item)
    }

    /// A buy that has refunds keeps what they must have in common.
    private func currencyFault(
        of restated: PurchaseEvent,
        insteadOf item: Item
    ) -> PurchaseFault? {
        guard item.family.refunded != .none else {
            return nil
        }
        let sale = item.sale
        let repair = "Retract the refunds first: they have the value of the buy."
        if restated.pricingCurrency != sale.pricingCurrency {
            return PurchaseFault(.pricingCurrencyMismatch, .pricingCurrency, repair: repair)
        }
        if restated.taxCountry != sale.taxCountry {
            return PurchaseFault(.taxCountryMismatch, .taxCountry, repair: repair)
        }
        if restated.reportingCurrency != sale.reportingCurrency {
            return PurchaseFault(.reportingCurrencyMismatch, .reportingCurrency, repair: repair)
        }
        if restated.exchangeRate != sale.exchangeRate {
            return PurchaseFault(.exchangeRateMismatch, .exchangeRate, repair: repair)
        }
        return nil
    }
}
