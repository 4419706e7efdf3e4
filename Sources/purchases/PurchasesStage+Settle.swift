internal import Kafka
internal import StageRuntime
internal import StateStore
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// How an event ends: in the ledger, and as a dead letter where it was refused.
extension PurchasesStage {
    private static let requestsIndex = Worker.purchases.targetIndex(of: .reportsRequested)
    private static let outcomesIndex = Worker.purchases.targetIndex(of: .purchasesOutcomes)

    // MARK: Outputs

    func append(
        _ outcome: PurchaseOutcome,
        _ key: PurchaseKey,
        trace: TraceParent?,
        to plan: inout BatchPlan
    ) {
        let key = plan.outputs.place(key.text.utf8.span)
        plan.append(topic: Self.outcomesIndex, key: key, trace: trace) { outcome.write(to: &$0) }
    }

    func append(
        _ outcome: PurchaseOutcome,
        _ item: BookKey,
        trace: TraceParent?,
        to plan: inout BatchPlan
    ) {
        let key = plan.outputs.place(item.purchaseKeyBytes.span)
        plan.append(topic: Self.outcomesIndex, key: key, trace: trace) { outcome.write(to: &$0) }
    }

    func append(
        _ request: ReportRequested,
        trace: TraceParent?,
        to plan: inout BatchPlan
    ) {
        let key = plan.outputs.place(request.externalPurchaseID.text.utf8.span)
        plan.append(topic: Self.requestsIndex, key: key, trace: trace) { request.write(to: &$0) }
    }

    func outcome(
        _ outcome: PurchaseOutcome.Outcome,
        _ item: BookedItem,
        _ place: BookPlace,
        _ event: BookedEvent,
        _ type: PurchaseEvent.Kind,
        reason: String,
        _ plan: BatchPlan
    ) -> PurchaseOutcome {
        PurchaseOutcome(
            lineItemID: place.key.name,
            revision: item.revision + 1,
            type: type,
            outcome: outcome,
            externalPurchaseID: nil,
            requestIdentifier: nil,
            reason: reason,
            errors: [],
            item: item.flight?.item,
            receivedAt: event.receivedAt,
            settledAt: plan.now,
            lane: place.key.lane,
            firstFailedAt: event.history?.firstFailedAt
        )
    }

    // MARK: Ends of an event

    /// What the event in turn asks for.
    func type(of event: BookedEvent, _ item: BookedItem) -> PurchaseEvent.Kind {
        guard item.turn != 0 else {
            return item.sale?.kind ?? .buy
        }
        return change(event)?.kind ?? .retract
    }

    /// The restatement or retraction of an event; nil for a retraction of our own making.
    func change(_ event: BookedEvent) -> PurchaseEvent? {
        guard !event.isOurs else {
            return nil
        }
        do throws(WireFault) {
            return try PurchaseEvent(fromState: event.value)
        } catch {
            preconditionFailure("an event of the book was read before: \(error.message)")
        }
    }

    /// The event in turn breaks a rule: it becomes a dead letter, and the item stays as it was.
    func refuse(
        _ fault: Fault,
        errors: [AppleError] = [],
        token: TokenID? = nil,
        requestIdentifier: String? = nil,
        _ item: BookedItem,
        _ place: BookPlace,
        _ event: BookedEvent,
        _ book: inout Book,
        into plan: inout BatchPlan
    ) throws(StoreFault) {
        var item = item
        var fault = fault
        // What Apple refuses may be the restatement's fault or not.
        let isOurs = requestIdentifier == nil
        let dropsRestatement =
            isOurs
            ? try isRestatementToDrop(fault, item, place, event, &book, now: plan.now) : false
        if dropsRestatement {
            fault.message +=
                " It is as it was restated while it was not owed, and that is dropped: a replay sends"
                + " what the event itself says."
        }
        tellRefusal(
            fault,
            errors: errors,
            token: token,
            requestIdentifier: requestIdentifier,
            item,
            place,
            event,
            into: &plan
        )
        if event.isOurs {
            try refuseParent(fault, of: item, place, &book, into: &plan)
        }
        let wasBase = item.turn == 0
        if wasBase {
            // What is only folded into it stays for the replay; of the rest nobody has the events.
            let isSettled = item.foldedTo == nil || item.changeFirst > 1
            item.restated =
                item.first != nil && isSettled && !dropsRestatement ? item.sale : nil
            item.foldedTo = nil
            try recount(item.sale, place, &book)
        }
        // Its retraction may be what that waits for.
        try touchParent(of: item, place, &book, now: plan.now)
        if let number = item.turn ?? (item.hasChanges ? item.changeFirst : nil) {
            book.drop(number, of: &item, at: place)
        }
        item.finishTurn(of: event, now: plan.now)
        try book.wake(place)
        if wasBase {
            if dropsRestatement {
                item.saidIn = nil
            }
            try noteCurrency(of: &item, place, at: event, book)
            item.standing = .unknown
            // A refund that comes again as it was is said in the same currency.
            let isKept = item.restated != nil || item.saidIn != nil
            item.first = isKept ? item.first ?? item.sale : nil
            item.sale = nil
            item.parent = nil
        }
        try goOn(&item, place, &book, now: plan.now)
    }

    /// Whether a sale is refused for what restatements made of it that nobody could judge when they came:
    /// the same again would be refused for ever.
    ///
    /// A refund is, where it is more than its buy and was not: with other refunds it may fit another time.
    /// Where the sale's own event is forgotten the restatement is the dead letter.
    private func isRestatementToDrop(
        _ fault: Fault,
        _ item: BookedItem,
        _ place: BookPlace,
        _ event: BookedEvent,
        _ book: inout Book,
        now: Timestamp
    ) throws(StoreFault) -> Bool {
        guard item.turn == 0, let first = item.first, change(event)?.kind != .restate else {
            return false
        }
        switch fault.code {
        case PurchaseRule.itemTooLarge.code: return false
        case PurchaseRule.refundTooLarge.code:
            guard let name = item.parent,
                let buy = try book.item(place.at(place.key.sibling(name)))?.sale,
                let bought = buy.amountTaxExclusive, let own = first.amountTaxExclusive,
                let restated = item.sale?.amountTaxExclusive
            else {
                return false
            }
            return own <= bought && bought < restated
        default: break
        }
        var original = item
        original.sale = first
        if case .refuse = try decideBase(&original, place, event, &book, now: now) {
            return false
        }
        return true
    }

    /// Tells that an event breaks a rule: a row of the ledger, and a dead letter.
    ///
    /// `type`: where it is another one's than the item's turn says.
    func tellRefusal(
        _ fault: Fault,
        errors: [AppleError] = [],
        token: TokenID? = nil,
        requestIdentifier: String? = nil,
        _ item: BookedItem,
        _ place: BookPlace,
        _ event: BookedEvent,
        type: PurchaseEvent.Kind? = nil,
        into plan: inout BatchPlan
    ) {
        var ledger = outcome(
            .rejected,
            item,
            place,
            event,
            type ?? self.type(of: event, item),
            reason: fault.code,
            plan
        )
        ledger.errors = errors
        ledger.externalPurchaseID = token
        ledger.requestIdentifier = requestIdentifier
        append(ledger, place.key, trace: event.trace, to: &plan)
        if event.isOurs {
            // No record came for it: whoever asked for the other retraction finds it in the ledger.
            log.limited(
                .error,
                "a retraction that follows from another one was refused",
                per: event.trace?.traceID,
                ("appAppleId", .integer(place.key.lane.appAppleID)),
                ("code", .text(fault.code)),
                ("traceId", .text(event.trace?.traceID ?? ""))
            )
        } else {
            metrics.count(.deadLetter, String(fault.reason), of: place.key.lane)
            deadLetters.append(
                event.value,
                key: Array(place.key.purchaseKeyBytes),
                fault,
                RecordOrigin(topic: 0, partition: place.partition, offset: event.offset),
                event.history,
                trace: event.trace,
                into: &plan
            )
        }
    }

    /// An item cannot be retracted, so what it refers to cannot be either.
    private func refuseParent(
        _ fault: Fault,
        of item: BookedItem,
        _ place: BookPlace,
        _ book: inout Book,
        into plan: inout BatchPlan
    ) throws(StoreFault) {
        guard let name = item.parent else {
            return
        }
        let parentPlace = place.at(place.key.sibling(name))
        guard let parent = try book.item(parentPlace), let number = parent.turn,
            parent.wait == .reference(parentPlace.key, until: nil),
            let event = try book.event(number, of: parentPlace)
        else {
            return
        }
        try refuse(fault, parent, parentPlace, event, &book, into: &plan)
    }

    /// The event in turn asks for what is so already.
    func repeated(
        _ item: BookedItem,
        _ place: BookPlace,
        _ event: BookedEvent,
        _ book: inout Book,
        now: Timestamp
    ) throws(StoreFault) {
        var item = item
        if !event.isOurs {
            metrics.count(.repeated, "repeat", of: place.key.lane)
        }
        book.put(nil, number: item.changeFirst, of: place)
        item.finishTurn(of: event, now: now)
        // Its retraction may be what that waits for.
        try touchParent(of: item, place, &book, now: now)
        try book.wake(place)
        try goOn(&item, place, &book, now: now)
    }

    /// Nothing is owed to Apple for the event in turn.
    func notOwed(
        _ reason: String,
        _ item: BookedItem,
        _ place: BookPlace,
        _ event: BookedEvent,
        _ book: inout Book,
        into plan: inout BatchPlan
    ) throws(StoreFault) {
        var item = item
        append(
            outcome(.notOwed, item, place, event, type(of: event, item), reason: reason, plan),
            place.key,
            trace: event.trace,
            to: &plan
        )
        metrics.count(.notOwed, reason, of: place.key.lane)
        if item.turn == 0 {
            settleFolded(&item, place, &book)
            try keepParent(of: item, place, &book, now: plan.now)
            // The event stays: a token that comes later carries it.
            item.standing = .notOwed
            item.reopensUntil = plan.now + policy.reopening
            item.excluded = []
            item.touchedAt = plan.now
        } else {
            try keepRestatement(event, of: &item, place, &book, now: plan.now)
            book.put(nil, number: item.changeFirst, of: place)
            item.finishTurn(of: event, now: plan.now)
            // It was counted as it came.
            if let old = try book.item(place),
                BookDue.period(of: old)?.1 != BookDue.period(of: item)?.1
            {
                try recount(item.sale, place, &book)
            }
        }
        try book.wake(place)
        try goOn(&item, place, &book, now: plan.now)
    }

    /// Puts an item back whose event in turn is settled: the next one is in turn, or it rests.
    func goOn(
        _ item: inout BookedItem,
        _ place: BookPlace,
        _ book: inout Book,
        now: Timestamp
    ) throws(StoreFault) {
        switch item.standing {
        case .unknown:
            guard item.hasChanges else {
                item.wait(for: .idle, now: now)
                return book.put(item.first == nil ? nil : item, at: place)
            }
            let first = try book.event(item.changeFirst, of: place)
            let until = (first?.receivedAt ?? now) + policy.referenceWait
            item.wait(for: .base(until: max(until, now)), now: now)
        case .pending:
            item.wait(for: .now, now: now)
        case .live:
            item.wait(for: item.hasChanges ? .now : .idle, now: now)
            if item.hasChanges {
                book.note(inTurn: place)
            }
        case .notOwed:
            if item.hasChanges {
                item.wait(for: .now, now: now)
            } else if let until = item.reopensUntil, until > now {
                let parent = item.parent.map { place.key.sibling($0) }
                item.wait(for: .reopening(parent, until: until), now: now)
            } else {
                book.drop(0, of: &item, at: place)
                item.wait(for: .idle, now: now)
            }
        }
        book.put(item, at: place)
    }
}
