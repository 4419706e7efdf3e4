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
        let change = change(event)
        guard let sale = item.sale else {
            preconditionFailure("an item whose change is in turn has a sale")
        }
        guard let live = item.live else {
            // Apple has nothing of it. The newest event decides what is reported later.
            return try noteOfNotOwed(&item, place, event, change, sale, &book, now: now)
        }
        let tooLate = ReferenceRules.fault(ofRestating: sale, now: now)
        guard let change, change.kind == .restate else {
            guard !live.isRetracted else {
                return .repeated
            }
            if let tooLate {
                return .refuse(tooLate)
            }
            let isFree = try retractChildren(of: place, by: event, &book, now: now)
            return isFree ? .queue(live.token) : .wait(.reference(place.key, until: nil))
        }
        // What was told before of the item that it refers to may retract it, too.
        if let parent = try changingParent(of: item, place, before: event, &book) {
            return .wait(.reference(parent.key, until: now + policy.referenceLook))
        }
        let restated: PurchaseEvent
        do throws(PurchaseFault) {
            restated = try sale.applying(change, to: item.parent, terms: live.terms, now: now)
        } catch {
            return .refuse(error)
        }
        guard restated != sale || live.isRetracted else {
            return .repeated
        }
        if let tooLate {
            return .refuse(tooLate)
        }
        if let fault = try fault(of: restated, by: change, instead: item, place, &book, now: now) {
            let other = try unsettledRelative(of: item, place, before: event, &book)
            return other.map { .wait(.reference($0, until: now + policy.referenceLook)) }
                ?? .refuse(fault)
        }
        if restated.kind == .buy,
            ReportingTerms.of(restated, insteadOf: sale, in: live.terms, rates: rates.rates) == nil
        {
            return .wait(.rate)
        }
        return .queue(live.token)
    }

    private func noteOfNotOwed(
        _ item: inout BookedItem,
        _ place: BookPlace,
        _ event: BookedEvent,
        _ change: PurchaseEvent?,
        _ sale: PurchaseEvent,
        _ book: inout Book,
        now: Timestamp
    ) throws(StoreFault) -> Decision {
        guard let change, change.kind == .restate else {
            item.noteRetraction(at: event.offset)
            item.reopensUntil = BookedItem.never
            return .notOwed("retracted")
        }
        if sale.kind == .refund,
            let buy = try changingParent(of: item, place, before: event, &book),
            try book.item(buy)?.standing == .notOwed
        {
            return .wait(.reference(buy.key, until: now + policy.referenceLook))
        }
        let restated: PurchaseEvent
        do throws(PurchaseFault) {
            restated = try sale.applying(change, to: item.parent, now: now)
        } catch {
            return .refuse(error)
        }
        if let fault = ReferenceRules.fault(ofRestatedCurrency: restated, insteadOf: sale),
            let decision = try decision(on: fault, of: place, before: event, &book, now: now)
        {
            return decision
        }
        item.first = item.first ?? sale
        item.sale = restated
        if AmountTriple(change) != nil {
            // Of a buy that is changing it is known once that is settled.
            let isKnown = try changingParent(of: item, place, before: event, &book) == nil
            item.saidIn = try isKnown ? buysCurrency(item, place, at: event, book) : nil
        }
        if restated.pricingCurrency != sale.pricingCurrency {
            item.currencyOffset = event.offset
            item.currencyBefore = sale.pricingCurrency
        }
        if item.reopensUntil.map({ $0 <= now }) ?? true {
            // It was retracted or its time is over, and its own event forgotten: a token reopens it
            // again.
            item.reopensUntil = now + policy.reopening
            item.retractedOffset = nil
        }
        return .notOwed(item.parent == nil ? "no_active_token" : "reference_not_owed")
    }

    /// The item that another one refers to, where a change of it that came before an event is not settled.
    private func changingParent(
        of item: BookedItem,
        _ place: BookPlace,
        before event: BookedEvent,
        _ book: inout Book
    ) throws(StoreFault) -> BookPlace? {
        guard let name = item.parent else {
            return nil
        }
        let parent = place.at(place.key.sibling(name))
        guard let known = try book.item(parent),
            try isChanging(known, parent, before: event, &book)
        else {
            return nil
        }
        return parent
    }

    /// The currency that the buy of a refund had when an event of the refund was sent; nil of what is no refund.
    ///
    /// What came before that event is settled. Where several changes of the currency came since, it is that
    /// before the last one. Where offsets began anew, what is older than the event is no later change.
    private func buysCurrency(
        _ item: BookedItem,
        _ place: BookPlace,
        at event: BookedEvent,
        _ book: Book
    ) throws(StoreFault) -> AlphaCode? {
        guard item.sale?.kind == .refund, let name = item.parent,
            let buy = try book.item(place.at(place.key.sibling(name)))
        else {
            return nil
        }
        if let changedAt = buy.currencyOffset, changedAt > event.offset,
            let last = buy.lastChange, last.time >= event.receivedAt
        {
            return buy.currencyBefore
        }
        return buy.sale?.pricingCurrency
    }

    /// Notes what a refund is said in, once its buy is known.
    func noteCurrency(
        of item: inout BookedItem,
        _ place: BookPlace,
        at event: BookedEvent,
        _ book: Book
    ) throws(StoreFault) {
        if item.saidIn == nil {
            item.saidIn = try buysCurrency(item, place, at: event, book)
        }
    }

    /// The decision on a restatement that breaks a rule if a buy that is not owed has a refund: nil where it
    /// has none that came before it and was not retracted.
    ///
    /// A refund of what is not owed waits for it. It is looked for in the first ``storedCountMax`` of the
    /// store, and in all that were put since.
    private func decision(
        on fault: PurchaseFault,
        of buy: BookPlace,
        before event: BookedEvent,
        _ book: inout Book,
        now: Timestamp
    ) throws(StoreFault) -> Decision? {
        guard let state else {
            return nil
        }
        let group = BookDue.start(.reference, of: buy.key.bytes)
        let refunds = try waiting(in: group, buy, state).items
        try book.load(refunds)
        for place in refunds {
            guard let item = try book.item(place), item.sale?.kind == .refund, !item.isRetracted,
                try book.event(0, of: place).map({ $0.offset < event.offset }) ?? true
            else {
                continue
            }
            // It may be retracted with that.
            return try isChanging(item, place, before: event, &book)
                ? .wait(.reference(place.key, until: now + policy.referenceLook)) : .refuse(fault)
        }
        return nil
    }

    /// Keeps a restatement of what is not owed, where it stands for the sale: the sale's own event is
    /// forgotten, or an earlier restatement stands for it.
    ///
    /// Of restatements the newest is kept: a replay is known by what it makes of the sale.
    func keepRestatement(
        _ event: BookedEvent,
        of item: inout BookedItem,
        _ place: BookPlace,
        _ book: inout Book,
        now: Timestamp
    ) throws(StoreFault) {
        guard change(event)?.kind == .restate else {
            return
        }
        let until = try book.item(place)?.reopensUntil
        let kept = try book.event(0, of: place)
        guard
            until.map({ $0 <= now }) ?? true
                || kept.flatMap({ change($0) })?.kind == .restate
        else {
            return
        }
        // That may have a record of its own.
        book.drop(0, of: &item, at: place)
        book.keep(event, of: &item, at: place)
    }

    /// The rule of references that a restated item breaks.
    private func fault(
        of restated: PurchaseEvent,
        by change: PurchaseEvent,
        instead item: BookedItem,
        _ place: BookPlace,
        _ book: inout Book,
        now: Timestamp
    ) throws(StoreFault) -> PurchaseFault? {
        if let parent = item.parent,
            let target = try book.item(place.at(place.key.sibling(parent))).flatMap(target)
        {
            let fault =
                restated.kind == .refund
                ? ReferenceRules.fault(ofRefund: restated, of: target, isNew: false, now: now)
                : ReferenceRules.fault(ofLater: restated, after: target)
            if let fault {
                return fault
            }
            // It was retracted, its buy restated to another currency, and it is live again.
            if AmountTriple(change) == nil,
                let fault = ReferenceRules.fault(ofSaidIn: item.saidIn, of: target)
            {
                return fault
            }
        }
        guard restated.kind == .buy, let sale = item.sale, let live = item.live,
            let fault = ReferenceRules.fault(
                ofRestatedBuy: restated,
                insteadOf: sale,
                in: live.terms,
                rates: rates.rates
            )
        else {
            return nil
        }
        if item.refunded == .none, try !hasRefund(place, &book) {
            return nil
        }
        return fault
    }

    /// Whether Apple has a refund of a buy: one of tax alone is in no sum.
    ///
    /// It is looked for in the first ``storedCountMax`` of the store that refer to the buy, and in all
    /// that were put since.
    private func hasRefund(
        _ place: BookPlace,
        _ book: inout Book
    ) throws(StoreFault) -> Bool {
        guard let state else {
            return false
        }
        let group = BookDue.start(.child, of: place.key.bytes)
        let children = try waiting(in: group, place, state).items
        try book.load(children)
        for child in children {
            if let item = try book.item(child), item.sale?.kind == .refund,
                place.key.isNamed(item.parent), let live = item.live, !live.isRetracted
            {
                return true
            }
        }
        return false
    }

    /// What an event breaks a rule for, where it may not once that is settled: the item's parent, or an
    /// item that refers to the same buy, has a change that came before the event.
    ///
    /// Among those that refer to a buy it is looked for in the first ``storedCountMax`` of the store, and in
    /// all that were put since.
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
            guard let item = try book.item(relative),
                try isChanging(item, relative, before: event, &book)
            else {
                continue
            }
            // Its change comes behind its own event. Where that is behind this one it waits for this one.
            if item.turn == 0, let own = try book.event(0, of: relative),
                own.offset > event.offset
            {
                continue
            }
            return relative.key
        }
        return nil
    }

    /// Retracts what refers to an item that is to be retracted: Apple takes children first.
    ///
    /// - Returns: whether nothing that is live refers to it any more.
    private func retractChildren(
        of place: BookPlace,
        by event: BookedEvent,
        _ book: inout Book,
        now: Timestamp
    ) throws(StoreFault) -> Bool {
        guard let state else {
            return true
        }
        let group = BookDue.start(.child, of: place.key.bytes)
        var isFree = true
        var start: [UInt8]? = group
        // What is retracted stays among these as long as later changes of it wait for this one: there
        // may be any number before one that is live.
        while isFree, let from = start {
            let found = try entries(
                place.partition,
                prefix: group,
                from: from,
                countMax: limits.childCountMax,
                state
            )
            start = found.next
            let children = found.entries.compactMap { entry, _ in
                BookDue.key(of: entry, after: group).map(place.at)
            }
            try book.load(children)
            for childPlace in children {
                guard let child = try book.item(childPlace) else {
                    continue
                }
                if child.isQueuedOrSent {
                    isFree = false
                }
                if let live = child.live, !live.isRetracted {
                    isFree = false
                    try retract(child, childPlace, after: event, &book, now: now)
                } else if try isChanging(child, childPlace, before: event, &book) {
                    // A restatement that came before makes it live again.
                    isFree = false
                }
            }
        }
        // One that joined a queue since then has no entry in the store yet.
        for childPlace in recent.waiting(in: group) where isFree {
            if let child = try book.item(childPlace), place.key.isNamed(child.parent) {
                isFree = !child.isQueuedOrSent
            }
        }
        return isFree
    }

    /// A retraction of our own making takes its place among the changes of an item by the offset of the event
    /// that it follows from.
    private func retract(
        _ item: BookedItem,
        _ place: BookPlace,
        after cause: BookedEvent,
        _ book: inout Book,
        now: Timestamp
    ) throws(StoreFault) {
        var item = item
        var number = item.changeNext
        var later: [BookedEvent] = []
        while number > item.changeFirst, let event = try book.event(number - 1, of: place) {
            guard !event.isOurs else {
                return
            }
            guard event.offset > cause.offset else {
                break
            }
            later.append(event)
            number -= 1
        }
        // The change that is queued or sent goes on.
        if item.isQueuedOrSent, number == item.changeFirst, !later.isEmpty {
            number += 1
            later.removeLast()
        }
        let event = BookedEvent(
            value: [],
            offset: cause.offset,
            receivedAt: now,
            trace: cause.trace,
            history: cause.history
        )
        for (index, event) in ([event] + later.reversed()).enumerated() {
            book.put(event, number: number + Int64(index), of: place)
        }
        item.changeNext += 1
        item.oursCount += 1
        if !item.isQueuedOrSent, number == item.changeFirst {
            item.wait(for: .now, now: now)
        }
        book.put(item, at: place)
    }
}
