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
        let tooLate = ReferenceRules.fault(ofRestating: item.sale, now: now)
        guard event.kind == .restate else {
            if let tooLate, !item.isRetracted {
                throw tooLate
            }
            return .done(try retract(item, key))
        }
        let parent = item.parent.flatMap { items[$0] }
        // What the item must be to the one that it refers to is not known yet.
        guard parent?.waitsForRate != true else {
            return .done(.waits("rate"))
        }
        let sale = try item.sale.applying(
            event,
            to: item.parent?.id,
            terms: item.terms,
            now: now
        )
        guard sale != item.sale || item.isRetracted else {
            return .done(.settled("repeat"))
        }
        if let fault = tooLate ?? fault(of: sale, by: event, insteadOf: item, key, parent) {
            throw fault
        }
        let terms =
            sale.kind == .refund
            ? parent?.terms
            : ReportingTerms.of(sale, insteadOf: item.sale, in: item.terms, rates: rates)
        guard let terms else {
            items[key]?.waitsForRate = true
            return .done(.waits("rate"))
        }
        return .done(try report(sale, .restatement, terms, insteadOf: item, key))
    }

    /// Retracts an item, and what refers to it first: Apple takes children first.
    private mutating func retract(
        _ item: Item,
        _ key: Key
    ) throws(PurchaseFault) -> PurchaseCheckResult.End {
        guard !item.isRetracted else {
            return .settled("repeat")
        }
        for child in (children[key] ?? []).sorted(by: { $0.id < $1.id }) {
            guard let known = items[child], !known.isRetracted else {
                continue
            }
            // Its own retraction comes behind a restatement that waits.
            guard !known.waitsForRate else {
                items[key]?.waitsForRate = true
                return .waits("rate")
            }
            let end = try retract(known, child)
            guard case .lineItem = end else {
                items[key]?.waitsForRate = true
                return end
            }
            retracted.append((child.id, end))
        }
        // Its refunds are no longer in its net amount.
        return try report(item.sale, .retraction, item.terms, insteadOf: items[key] ?? item, key)
    }

    private mutating func report(
        _ sale: PurchaseEvent,
        _ revision: LineItem.Revision,
        _ terms: ReportingTerms,
        insteadOf item: Item,
        _ key: Key
    ) throws(PurchaseFault) -> PurchaseCheckResult.End {
        let isRefund = sale.kind == .refund
        let buy = isRefund ? item.parent.flatMap { items[$0] } : nil
        let own = item.isRetracted ? nil : item.share
        let compiled = try LineItemCompiler.compile(
            sale,
            LineItemCompiler.Context(
                revision: revision,
                terms: terms,
                family: family(of: buy ?? item),
                previous: isRefund ? own : nil,
                buy: buy?.sale,
                startLineItemID: isRefund ? nil : item.parent?.id,
                daysOfPaidService: item.days
            )
        )
        let isRetraction = revision == .retraction
        var item = item
        item.sale = sale
        item.terms = terms
        item.share = compiled.share
        item.isRetracted = isRetraction
        if let buy {
            item.saidIn = buy.sale.pricingCurrency
        }
        items[key] = item
        recount(sale)
        if isRefund, let parent = item.parent {
            count(compiled.share, insteadOf: own, isRetracted: isRetraction, in: parent)
        }
        return .lineItem(json: compiled.item.json, token: item.token)
    }

    /// The rule of references that a restated item breaks.
    private func fault(
        of restated: PurchaseEvent,
        by change: PurchaseEvent,
        insteadOf item: Item,
        _ key: Key,
        _ parent: Item?
    ) -> PurchaseFault? {
        guard restated.kind != .refund else {
            return parent.flatMap { buy in
                ReferenceRules.fault(ofRefund: restated, of: buy.target, isNew: false, now: now)
                    ?? (AmountTriple(change) == nil
                        ? ReferenceRules.fault(ofSaidIn: item.saidIn, of: buy.target) : nil)
            }
        }
        if let parent,
            let fault = ReferenceRules.fault(ofLater: restated, after: parent.target)
        {
            return fault
        }
        let hasRefund = (children[key] ?? []).contains { child in
            items[child].map { $0.sale.kind == .refund && !$0.isRetracted } ?? false
        }
        return hasRefund
            ? ReferenceRules.fault(
                ofRestatedBuy: restated,
                insteadOf: item.sale,
                in: item.terms,
                rates: rates
            ) : nil
    }
}
