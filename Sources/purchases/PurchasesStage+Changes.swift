internal import StageRuntime
internal import StateStore
internal import TokenDomain

/// Restatements and retractions.
extension PurchasesStage {
    func decideChange(
        _ item: inout BookedItem,
        _ place: BookPlace,
        _ event: BookedEvent,
        _ book: inout Book,
        now: Timestamp
    ) throws(StoreFault) -> Decision {
        let change = change(event, item)
        guard let sale = item.sale else {
            preconditionFailure("an item whose change is in turn has a sale")
        }
        guard let live = item.live else {
            // Apple has nothing of it. The newest event decides what is reported later.
            return noteOfNotOwed(&item, change, sale, now: now)
        }
        if let fault = ReferenceRules.fault(ofRestating: sale, now: now) {
            return .refuse(fault)
        }
        guard let change, change.kind == .restate else {
            guard !live.isRetracted else {
                return .repeated
            }
            let isFree = try retractChildren(of: place, trace: event.trace, &book, now: now)
            return isFree ? .queue(live.token) : .wait(.reference(place.key, until: nil))
        }
        let restated: PurchaseEvent
        do throws(PurchaseFault) {
            restated = try sale.applying(change, now: now)
        } catch {
            return .refuse(error)
        }
        guard restated != sale || live.isRetracted else {
            return .repeated
        }
        if let fault = try fault(of: restated, instead: item, place, &book, now: now) {
            let other = try unsettledRelative(of: item, place, before: event, &book)
            return other.map { .wait(.reference($0, until: now + policy.referenceLook)) }
                ?? .refuse(fault)
        }
        if restated.kind == .buy, terms(of: restated, insteadOf: sale, live) == nil {
            return .wait(.rate)
        }
        return .queue(live.token)
    }

    private func noteOfNotOwed(
        _ item: inout BookedItem,
        _ change: PurchaseEvent?,
        _ sale: PurchaseEvent,
        now: Timestamp
    ) -> Decision {
        guard let change, change.kind == .restate else {
            item.reopensUntil = nil
            return .notOwed("retracted")
        }
        do throws(PurchaseFault) {
            let restated = try sale.applying(change, now: now)
            item.first = item.first ?? sale
            item.sale = restated
            return .notOwed("no_active_token")
        } catch {
            return .refuse(error)
        }
    }

    /// What a restated item is reported in: as before, unless what decides it changed.
    func terms(
        of restated: PurchaseEvent,
        insteadOf sale: PurchaseEvent,
        _ live: BookedItem.Live
    ) -> ReportingTerms? {
        let isSame =
            restated.pricingCurrency == sale.pricingCurrency
            && restated.reportingCurrency == sale.reportingCurrency
            && restated.exchangeRate == sale.exchangeRate
        return isSame ? live.terms : ReportingTerms.of(restated, rates: rates.rates)
    }

    /// The rule of references that a restated item breaks.
    private func fault(
        of restated: PurchaseEvent,
        instead item: BookedItem,
        _ place: BookPlace,
        _ book: inout Book,
        now: Timestamp
    ) throws(StoreFault) -> PurchaseFault? {
        guard let parent = item.parent,
            let target = try book.item(place.at(place.key.sibling(parent))).flatMap(target)
        else {
            return currencyFault(of: restated, instead: item)
        }
        return restated.kind == .refund
            ? ReferenceRules.fault(ofRefund: restated, of: target, isNew: false, now: now)
            : ReferenceRules.fault(ofLater: restated, after: target)
                ?? currencyFault(of: restated, instead: item)
    }

    /// A buy that has refunds keeps what they must have in common.
    private func currencyFault(
        of restated: PurchaseEvent,
        instead item: BookedItem
    ) -> PurchaseFault? {
        guard item.refunded != .none, let sale = item.sale else {
            return nil
        }
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

    /// What an event breaks a rule for, where it may not once that is settled: the item's parent, or an
    /// item that refers to the same buy, has a change that came before the event.
    ///
    /// Among those that refer to a buy it is looked for in the first hundred of the store, and in all that
    /// were put since.
    func unsettledRelative(
        of item: BookedItem,
        _ place: BookPlace,
        before event: BookedEvent,
        _ book: inout Book
    ) throws(StoreFault) -> BookKey? {
        var relatives: [BookPlace] = []
        if let parent = item.parent {
            relatives.append(place.at(place.key.sibling(parent)))
        }
        if let state {
            let buy = root(of: item, place)
            for group in [BookDue.start(.child, of: buy.key.bytes), BookDue.turns(of: buy.key)] {
                relatives += try waiting(in: group, buy, state).items
            }
        }
        try book.load(relatives)
        for relative in relatives where relative != place {
            if let item = try book.item(relative),
                try isChanging(item, relative, before: event, &book)
            {
                return relative.key
            }
        }
        return nil
    }

    /// Retracts what refers to an item that is to be retracted: Apple takes children first.
    ///
    /// - Returns: whether nothing that is live refers to it any more.
    private func retractChildren(
        of place: BookPlace,
        trace: TraceParent?,
        _ book: inout Book,
        now: Timestamp
    ) throws(StoreFault) -> Bool {
        guard let state else {
            return true
        }
        let group = BookDue.start(.child, of: place.key.bytes)
        let found = try entries(
            place.partition,
            prefix: group,
            countMax: limits.childCountMax,
            state
        )
        var isFree = true
        for (entry, _) in found.entries {
            guard let key = BookDue.key(of: entry, after: group),
                var child = try book.item(place.at(key))
            else {
                continue
            }
            switch child.wait {
            case .queued, .sent: isFree = false
            default: break
            }
            guard let live = child.live, !live.isRetracted else {
                continue
            }
            isFree = false
            let childPlace = place.at(key)
            guard try book.event(child.changeNext - 1, of: childPlace)?.isOurs != true else {
                continue
            }
            let event = BookedEvent(
                value: [],
                offset: 0,
                receivedAt: now,
                trace: trace,
                history: nil
            )
            book.put(event, number: child.changeNext, of: childPlace)
            child.changeNext += 1
            if case .idle = child.wait {
                child.wait(for: .now, now: now)
            }
            book.put(child, at: childPlace)
        }
        return isFree
    }
}
