internal import StageRuntime
internal import StateStore
internal import TokenDomain

/// What is to be done about the event in turn of an item.
enum Decision {
    /// It goes with the next report of a token.
    case queue(TokenID)
    case wait(BookedItem.Wait)
    case notOwed(StaticReason)
    /// It asks for what is so already.
    case repeated
    case refuse(PurchaseFault)
}

extension PurchasesStage {
    /// What a partition has at its assignment is read within this, at a thousand records a second some
    /// 600,000.
    private static let catchUpMax = Milliseconds.minutes(10)

    /// Decides about the event in turn of an item, if it is time to.
    ///
    /// What the due table said may be out of date: the record counts.
    func decide(
        _ place: BookPlace,
        isWoken: Bool,
        hasTurn: Bool = false,
        _ book: inout Book,
        into plan: inout BatchPlan
    ) throws(StoreFault) {
        let now = plan.now
        guard var item = try book.item(place) else {
            return
        }
        switch item.wait {
        case .now: break
        case .token(let until):
            guard isWoken || until <= now else { return }
        case .rate, .turn:
            guard isWoken else { return }
        case .reference(_, let until):
            guard isWoken || until.map({ $0 <= now }) ?? false else { return }
        case .base(let until):
            guard until <= now else { return }
            return try giveUp(item, place, &book, into: &plan)
        case .reopening(_, let until):
            if isWoken {
                return try reopen(item, place, &book, into: &plan)
            }
            guard until <= now else { return }
            if try mayBeOwed(item.parent, place, book) {
                return try reopen(item, place, isOver: true, &book, into: &plan)
            }
            book.drop(0, of: &item, at: place)
            item.wait(for: .idle, now: now)
            return book.put(item, at: place)
        case .idle, .queued, .sent: return
        }
        guard let number = item.turn, var event = try book.event(number, of: item, at: place)
        else {
            return try goOn(&item, place, &book, now: now)
        }
        let before = item
        var decision = try decide(number, &item, place, event, &book, now: now)
        if number == 0, case .wait(.rate) = decision {
            decision = try correct(&item, place, &event, &book, into: &plan)
        }
        if case .wait(item.wait) = decision, item.wait != .now, item == before,
            BookKey.isSame(item.parent, before.parent)
        {
            // It waits as before: each file of rates would have all that lack one written again.
            try leaveTurn(&item, place, &book)
            guard item != before else {
                return
            }
        }
        try enact(decision, item, place, event, hasTurn: hasTurn, &book, into: &plan)
        // A token that came while a change of what is not owed was in turn has woken nobody.
        if number != 0, let rested = try book.item(place), case .reopening = rested.wait {
            try reopen(rested, place, &book, into: &plan)
        }
    }

    /// Decides about the event of an item that has a number.
    func decide(
        _ number: Int64,
        _ item: inout BookedItem,
        _ place: BookPlace,
        _ event: BookedEvent,
        _ book: inout Book,
        now: Timestamp
    ) throws(StoreFault) -> Decision {
        number == 0
            ? try decideBase(&item, place, event, &book, now: now)
            : try decideChange(&item, place, event, &book, now: now)
    }

    func enact(
        _ decision: Decision,
        _ item: BookedItem,
        _ place: BookPlace,
        _ event: BookedEvent,
        hasTurn: Bool = false,
        _ book: inout Book,
        into plan: inout BatchPlan
    ) throws(StoreFault) {
        let now = plan.now
        var item = item
        func move(to wait: BookedItem.Wait) {
            if item.wait != wait {
                metrics.waited(now - item.waitingSince, for: item.wait)
            }
            item.wait(for: wait, now: now)
        }
        if case .queue = decision {
        } else {
            try leaveTurn(&item, place, &book)
        }
        switch decision {
        case .queue(let token):
            guard try takesTurn(&item, place, hasTurn: hasTurn, &book) else {
                move(to: .turn(root(of: item, place).key))
                return book.put(item, at: place)
            }
            let tokenPlace = place.at(place.key.token(token))
            let traffic = try book.traffic(of: tokenPlace)
            traffic.enqueue(place)
            move(to: .queued(token))
            book.put(item, at: place)
            // The answer to a report that is under way makes the next one.
            if traffic.inFlight.isEmpty {
                ready.insert(tokenPlace)
            }
        case .wait(let wait):
            move(to: wait)
            book.put(item, at: place)
            if item.live == nil {
                // It may have left a queue, and what it refers to wait for that to be retracted.
                try keepParent(of: item, place, &book, now: now)
            }
        case .notOwed(let reason):
            metrics.waited(now - item.waitingSince, for: item.wait)
            try notOwed(reason.text, item, place, event, &book, into: &plan)
        case .repeated:
            try repeated(item, place, event, &book, now: now)
        case .refuse(let fault):
            try refuse(fault.asFault, item, place, event, &book, into: &plan)
        }
    }

    /// Restatements and retractions of an item that nobody has sent, or that was refused.
    private func giveUp(
        _ item: BookedItem,
        _ place: BookPlace,
        _ book: inout Book,
        into plan: inout BatchPlan
    ) throws(StoreFault) {
        guard let event = try book.event(item.changeFirst, of: place) else {
            return
        }
        let fault = PurchaseFault(
            .referenceUnknown,
            .lineItemID,
            repair: "Send the buy or the refund itself: no accepted line item has this name."
        )
        try refuse(fault.asFault, item, place, event, &book, into: &plan)
    }

    // MARK: Buys and refunds

    /// `isWaitOver`: no token is waited for any longer.
    func decideBase(
        _ item: inout BookedItem,
        _ place: BookPlace,
        _ event: BookedEvent,
        isWaitOver: Bool = false,
        _ book: inout Book,
        now: Timestamp
    ) throws(StoreFault) -> Decision {
        guard let sale = item.sale, let date = sale.creationDate else {
            preconditionFailure("an item whose buy is in turn has a sale")
        }
        var kind = PurchaseAttribution.Sale.Kind.buy
        if sale.kind == .refund || sale.isLaterSubscriptionEvent {
            switch try parent(of: sale, place, event, &book, now: now) {
            case .decided(let decision): return decision
            case .notOwed(let key):
                item.parent = key.name
                try noteCurrency(of: &item, place, at: event, book)
                return .notOwed("reference_not_owed")
            case .found(let key, let parent):
                item.parent = key.name
                guard let live = parent.live, let target = target(parent) else {
                    preconditionFailure("a live item has what Apple has of it")
                }
                let fault =
                    sale.kind == .refund
                    ? ReferenceRules.fault(ofRefund: sale, of: target, isNew: true, now: now)
                    : ReferenceRules.fault(ofLater: sale, after: target)
                try noteCurrency(of: &item, place, at: event, book)
                // One that names its currency is judged by that.
                let saidIn = sale.pricingCurrency == nil ? item.saidIn : nil
                if let fault = fault ?? ReferenceRules.fault(ofSaidIn: saidIn, of: target) {
                    return .refuse(fault)
                }
                kind =
                    sale.kind == .refund
                    ? .refund(boughtUnder: live.token) : .later(startedUnder: live.token)
            }
        }
        let asked = PurchaseAttribution.Sale(
            date: date,
            lane: place.key.lane,
            asked: sale.externalPurchaseID,
            kind: kind,
            excluded: item.excluded
        )
        var until = now
        if !isWaitOver {
            until = max(event.waitsSince + policy.tokenWait, catchUpEnd(place.partition, now: now))
            if case .token(let reopened) = item.wait {
                until = max(until, reopened)
            }
        }
        let decision = try attribute(asked, place, until: until, &book, now: now)
        guard case .queue = decision, sale.kind == .buy,
            ReportingTerms.of(sale, rates: rates.rates) == nil
        else {
            return decision
        }
        // What is not owed needs no rate.
        return .wait(.rate)
    }

    /// Until when a partition that has just come is read up to where its topics end: tokens that came in
    /// while nobody had it lie unread.
    private func catchUpEnd(_ partition: Int32, now: Timestamp) -> Timestamp {
        guard let assignedAt = sweeps[partition]?.assignedAt, assignedAt <= now else {
            return now
        }
        return assignedAt + min(Self.catchUpMax, policy.tokenWait)
    }

    private func attribute(
        _ sale: PurchaseAttribution.Sale,
        _ place: BookPlace,
        until: Timestamp,
        _ book: inout Book,
        now: Timestamp
    ) throws(StoreFault) -> Decision {
        let carrier: TokenID? =
            switch sale.kind {
            case .buy: nil
            case .later(let token), .refund(let token): token
            }
        let tokens = try book.tokens(
            of: place.at(place.key.customer),
            named: [sale.asked, carrier].compactMap { $0 },
            now: now
        )
        let choice = PurchaseAttribution.choose(
            for: sale,
            among: tokens,
            window: policy.tokenWindow,
            isWaitOver: until <= now
        )
        switch choice {
        case .token(let id): return .queue(id)
        case .askedUnknown: return .wait(.token(until: until))
        case .none: break
        }
        let outOfRange = PurchaseFault(
            .tokenOutOfRange,
            .creationDate,
            repair: "Send the token that carries a sale of this date: no known one does."
        )
        switch sale.kind {
        case .refund: return .refuse(outOfRange)
        case .buy, .later: break
        }
        guard until <= now else {
            return .wait(.token(until: until))
        }
        // Somebody says that it is owed, under a token that Apple will not take: a person decides.
        let isAskedKnown = tokens.contains { token in
            token.token.externalPurchaseID == sale.asked && !token.isRefused
        }
        if isAskedKnown || !sale.excluded.isEmpty || sale.kind != .buy {
            return .refuse(outOfRange)
        }
        return .notOwed("no_active_token")
    }

    // MARK: What an item refers to

    private enum Parent {
        case found(BookKey, BookedItem)
        case notOwed(BookKey)
        case decided(Decision)
    }

    func target(_ item: BookedItem) -> ReferenceRules.Target? {
        guard let sale = item.sale, let live = item.live else {
            return nil
        }
        return ReferenceRules.Target(
            sale: sale,
            terms: live.terms,
            isRetracted: live.isRetracted
        )
    }

    private func parent(
        of sale: PurchaseEvent,
        _ place: BookPlace,
        _ event: BookedEvent,
        _ book: inout Book,
        now: Timestamp
    ) throws(StoreFault) -> Parent {
        let until = event.receivedAt + policy.referenceWait
        let unknown = PurchaseFault(
            .referenceUnknown,
            .referenceLineItemID,
            repair: "Send the item that it refers to first: no accepted line item has this name."
        )
        var named = sale.referenceLineItemID
        if named == nil, let id = sale.subscriptionID {
            let key = place.key.subscription(id)
            named = try start(of: sale, place.at(key), event, &book)
            if named == nil {
                return .decided(
                    until <= now ? .refuse(unknown) : .wait(.reference(key, until: until))
                )
            }
        }
        let key = place.key.sibling(named ?? "")
        // It is woken when what it refers to is reported. That this is refused, and forgotten, wakes
        // nobody: the time does.
        let wait = BookedItem.Wait.reference(
            key,
            until: until > now ? until : now + policy.referenceLook
        )
        guard let item = try book.item(place.at(key)) else {
            return .decided(until <= now ? .refuse(unknown) : .wait(wait))
        }
        switch item.standing {
        case .unknown:
            return .decided(until <= now ? .refuse(unknown) : .wait(wait))
        case .pending:
            // It is settled one day, unless it waits for this one: two that name each other.
            if until <= now, let named = item.sale,
                let fault = ReferenceRules.fault(ofNaming: named, in: sale)
            {
                return .decided(.refuse(fault))
            }
            return .decided(.wait(wait))
        case .notOwed:
            // The currency that it is said in is not known before.
            if sale.kind == .refund, try isChanging(item, place.at(key), before: event, &book) {
                return .decided(.wait(wait))
            }
            return .notOwed(key)
        case .live:
            if sale.kind == .buy, try isUnderRetraction(item, place.at(key), book) {
                // Apple takes no retraction together with what refers to the item. A refund has its turn.
                return .decided(.wait(wait))
            }
            return try isChanging(item, place.at(key), before: event, &book)
                ? .decided(.wait(wait)) : .found(key, item)
        }
    }

    /// Whether the retraction of an item stands in a queue or is under way: what is to be retracted before it
    /// was looked for then.
    private func isUnderRetraction(
        _ item: BookedItem,
        _ place: BookPlace,
        _ book: Book
    ) throws(StoreFault) -> Bool {
        guard item.isQueuedOrSent, item.hasChanges,
            let event = try book.event(item.changeFirst, of: place)
        else {
            return false
        }
        return change(event)?.kind != .restate
    }

    /// Whether a change that came before an event is not settled: what refers to the item is measured
    /// against what that change makes of it.
    func isChanging(
        _ item: BookedItem,
        _ place: BookPlace,
        before event: BookedEvent,
        _ book: inout Book
    ) throws(StoreFault) -> Bool {
        guard item.hasChanges, let change = try book.event(item.changeFirst, of: place) else {
            return false
        }
        return change.offset < event.offset
    }
}
