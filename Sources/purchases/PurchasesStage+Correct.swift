internal import StageRuntime
internal import StateStore
internal import TokenDomain

/// Changes of what waits for an exchange rate.
extension PurchasesStage {
    /// More are taken at the next look.
    private static let correctionCountMax = 100

    /// A sale that waits for a rate is looked at at once where changes of it are known.
    func correctable(_ decision: Decision, _ item: BookedItem) -> Decision {
        guard case .wait(.rate) = decision, item.isOutdated else {
            return decision
        }
        return .wait(.now)
    }

    /// Folds the changes of a buy that waits for a rate into it before it is reported: another currency,
    /// or a rate of its own, may end its wait, and a retraction does.
    ///
    /// What refers to the buy was said of it as it was: while such an item waits for it, only its rate,
    /// product and dates may change. One that may not yet waits, and all behind it; one that breaks a rule
    /// is refused, and the next may be right.
    ///
    /// Where the buy's own event is forgotten and a restatement stands for it, the newest one does: a replay
    /// is known by what it makes of the sale.
    func correct(
        _ item: inout BookedItem,
        _ place: BookPlace,
        _ event: inout BookedEvent,
        _ book: inout Book,
        into plan: inout BatchPlan
    ) throws(StoreFault) -> Decision {
        let now = plan.now
        for _ in 0..<Self.correctionCountMax {
            let number = item.foldedTo ?? item.changeFirst
            guard number < item.changeNext, let sale = item.sale,
                let next = try book.event(number, of: place), let change = change(next)
            else {
                return .wait(.rate)
            }
            guard change.kind == .restate else {
                guard try !isWaitedFor(place) else {
                    return .wait(.rate)
                }
                try recount(sale, place, &book)
                return .notOwed("retracted")
            }
            let restated: PurchaseEvent
            do throws(PurchaseFault) {
                restated = try sale.applying(change, to: item.parent, now: now)
            } catch {
                tellRefusal(error.asFault, item, place, next, type: change.kind, into: &plan)
                try remove(number, of: &item, place, &book)
                continue
            }
            if !restated.isSameMoney(as: sale), try isWaitedFor(place) {
                return .wait(.rate)
            }
            item.first = item.first ?? sale
            item.sale = restated
            item.foldedTo = number + 1
            if self.change(event)?.kind == .restate {
                event = next
                book.drop(0, of: &item, at: place)
                book.keep(event, of: &item, at: place)
                settleFolded(&item, place, &book)
            }
            try recount(restated, place, &book)
            let decision = try decideBase(&item, place, event, &book, now: now)
            guard case .wait(.rate) = decision else {
                return decision
            }
        }
        return .wait(.now)
    }

    /// Takes a change out from among those of an item: no number between two of them is without an event.
    private func remove(
        _ number: Int64,
        of item: inout BookedItem,
        _ place: BookPlace,
        _ book: inout Book
    ) throws(StoreFault) {
        for later in number + 1..<item.changeNext {
            if let event = try book.event(later, of: place) {
                book.put(event, number: later - 1, of: place)
            }
        }
        item.changeNext -= 1
        book.put(nil, number: item.changeNext, of: place)
    }

    /// The buy is settled with the changes that were folded into it.
    func settleFolded(_ item: inout BookedItem, _ place: BookPlace, _ book: inout Book) {
        guard let end = item.foldedTo else {
            return
        }
        for number in item.changeFirst..<end {
            book.put(nil, number: number, of: place)
            metrics.count(.repeated, "corrected", of: place.key.lane)
        }
        item.changeFirst = end
        item.foldedTo = nil
    }

    private func isWaitedFor(_ place: BookPlace) throws(StoreFault) -> Bool {
        guard let state else {
            return true
        }
        let referring = BookDue.start(.reference, of: place.key.bytes)
        return try !waiting(in: referring, place, state).items.isEmpty
    }
}

extension PurchaseEvent {
    /// Whether what a refund is measured against is the same.
    fileprivate func isSameMoney(as other: PurchaseEvent) -> Bool {
        pricingCurrency == other.pricingCurrency && taxCountry == other.taxCountry
            && amountTaxInclusive == other.amountTaxInclusive
            && amountTaxExclusive == other.amountTaxExclusive && taxAmount == other.taxAmount
    }
}
