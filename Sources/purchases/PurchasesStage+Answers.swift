internal import Kafka
internal import StageRuntime
internal import StateStore
internal import TokenDomain
internal import TokenWire

/// What Apple answered to the reports that carry sales.
extension PurchasesStage {
    /// Has the book read at once what the answers among some records are about.
    func loadAnswered(
        _ records: ArraySlice<RecordBatch.Record>,
        of batch: RecordBatch,
        _ book: inout Book
    ) throws(StoreFault) {
        var tokens: [BookPlace] = []
        for record in records
        where Worker.purchases.sources[record.topic] == .purchasesAnswered
            && !record.value.isAbsent && !record.key.isAbsent
        {
            let key = PurchaseKey(
                String(decoding: batch.arena[record.key.indices], as: UTF8.self)
            )
            do throws(WireFault) {
                let answer = try PurchaseAnswered(
                    reading: batch.arena.span.extracting(record.value.indices)
                )
                let token = BookKey.token(answer.externalPurchaseID, of: key)
                tokens.append(BookPlace(partition: record.partition, key: token))
            } catch {
                // It becomes a dead letter when its turn comes.
                continue
            }
        }
        try book.load(tokens)
        var items: [BookPlace] = []
        for token in tokens {
            let lane = try lane(of: token, &book)
            for id in try book.token(token)?.inFlight ?? [] {
                items.append(token.at(.item(id, of: token.key.purchaseKey, lane)))
            }
        }
        try book.load(items)
    }

    func takeAnswer(
        _ record: RecordBatch.Record,
        _ value: Span<UInt8>,
        _ key: PurchaseKey,
        _ book: inout Book,
        into plan: inout BatchPlan
    ) throws(StoreFault) -> Verdict {
        let answer: PurchaseAnswered
        do throws(WireFault) {
            answer = try PurchaseAnswered(reading: value)
        } catch {
            return .deadLetter(Self.badRecord(error.message))
        }
        let outputCount = plan.outputs.outputs.count
        let place = BookPlace(
            partition: record.partition,
            key: .token(answer.externalPurchaseID, of: key)
        )
        guard var token = try book.token(place), !token.inFlight.isEmpty,
            token.inFlight == answer.lineItemIDs
                || Set(token.inFlight) == Set(answer.lineItemIDs)
        else {
            // The answer to a report by hand, or one that was read before.
            return .settled("unmatched")
        }
        let ids = token.inFlight
        token.inFlight = []
        token.touchedAt = plan.now
        book.put(token, at: place)
        if token.wantsReport {
            // What was queued meanwhile goes with the next tick.
            ready.insert(place)
        }
        switch answer.outcome {
        case .accepted, .verified:
            for id in ids {
                try accept(id, answer, as: answer.outcome, place, &book, into: &plan)
            }
        case .rejected:
            try reject(ids, answer, place, &book, into: &plan)
        }
        let made = plan.outputs.outputs.count - outputCount
        return made > 0 ? .forward(outputCount: made) : .settled("answered")
    }

    /// The item of an answer, where it is still under way.
    func sent(
        _ id: String,
        _ lane: Lane,
        _ token: BookPlace,
        _ book: inout Book
    ) throws(StoreFault) -> (place: BookPlace, item: BookedItem, event: BookedEvent)? {
        let place = token.at(.item(id, of: token.key.purchaseKey, lane))
        guard let item = try book.item(place), item.wait == .sent(token.key.tokenID),
            let number = item.turn, let event = try book.event(number, of: place)
        else {
            return nil
        }
        return (place, item, event)
    }

    func lane(
        of token: BookPlace,
        _ book: inout Book
    ) throws(StoreFault) -> Lane {
        Lane(
            appAppleID: try book.token(token)?.reportedApp ?? 0,
            environment: token.key.tokenID.environment
        )
    }

    /// Whether an item can go under no other token: Apple has it, or its buy, under this one.
    func isBound(
        _ item: BookedItem,
        to token: TokenID,
        _ place: BookPlace,
        _ book: inout Book
    ) throws(StoreFault) -> Bool {
        if let live = item.live {
            return live.token == token
        }
        guard item.sale?.kind == .refund, let parent = item.parent else {
            return false
        }
        return try book.item(place.at(place.key.sibling(parent)))?.live?.token == token
    }

    // MARK: Accepted

    func accept(
        _ id: String,
        _ answer: PurchaseAnswered,
        as outcome: ReportOutcome.Outcome,
        _ token: BookPlace,
        _ book: inout Book,
        into plan: inout BatchPlan
    ) throws(StoreFault) {
        guard let sent = try sent(id, lane(of: token, &book), token, &book),
            let flight = sent.item.flight, let number = sent.item.turn
        else {
            return
        }
        let (place, event) = (sent.place, sent.event)
        var item = sent.item
        let now = plan.now
        metrics.waited(now - item.waitingSince, for: item.wait)
        var ledger = self.outcome(
            .reported,
            item,
            place,
            event,
            type(of: event, item),
            reason: outcome.rawValue,
            plan
        )
        ledger.externalPurchaseID = token.key.tokenID
        ledger.requestIdentifier = answer.requestIdentifier
        append(ledger, place.key.purchaseKey, trace: event.trace, to: &plan)
        if !event.isOurs {
            metrics.count(.reported, outcome.rawValue, app: place.key.lane.appAppleID)
        }
        try settleFamily(flight, &item, place, &book, now: now)
        if item.first == nil, let sale = item.sale, sale != flight.sale {
            item.first = sale
        }
        let wasRestated = item.live != nil
        item.sale = flight.sale
        item.standing = .live
        item.revision += 1
        item.live = BookedItem.Live(
            token: token.key.tokenID,
            terms: flight.terms,
            reported: flight.share.reported,
            requestIdentifier: answer.requestIdentifier,
            days: flight.days,
            isRetracted: flight.isRetraction
        )
        try book.wake(&item, at: place)
        book.drop(number, of: &item, at: place)
        if number == 0 {
            item.excluded = []
            item.goesAlone = false
            item.attempts = 0
            item.flight = nil
            item.touchedAt = now
        } else {
            item.finishTurn(now: now)
        }
        if wasRestated {
            try recount(flight.sale, place, &book, now: now)
        }
        try touchParent(of: item, place, &book, now: now)
        try goOn(&item, place, &book, now: now)
    }

    /// The net calculation that the item takes part in is free for the next one.
    private func settleFamily(
        _ flight: BookedItem.Flight,
        _ item: inout BookedItem,
        _ place: BookPlace,
        _ book: inout Book,
        now: Timestamp
    ) throws(StoreFault) {
        let rootPlace = root(of: item, place)
        guard rootPlace != place else {
            item.busyWith = nil
            return
        }
        guard var root = try book.item(rootPlace) else {
            return
        }
        root.refunded =
            root.family.accepting(
                flight.share,
                insteadOf: item.share,
                isRefund: true,
                isRetracted: flight.isRetraction
            ).refunded
        root.busyWith = nil
        try book.wake(&root, at: rootPlace)
        root.touchedAt = now
        book.put(root, at: rootPlace)
    }

    /// What an item refers to is kept as long as the item, and may wait for its retraction.
    func touchParent(
        of item: BookedItem,
        _ place: BookPlace,
        _ book: inout Book,
        now: Timestamp
    ) throws(StoreFault) {
        guard let name = item.parent else {
            return
        }
        let parentPlace = place.at(place.key.sibling(name))
        if var parent = try book.item(parentPlace) {
            parent.touchedAt = now
            try book.wake(&parent, at: parentPlace)
            book.put(parent, at: parentPlace)
        }
    }

    /// A period of a subscription changed: its paid days are counted anew when they are asked for.
    func recount(
        _ sale: PurchaseEvent?,
        _ place: BookPlace,
        _ book: inout Book,
        now: Timestamp
    ) throws(StoreFault) {
        guard let id = sale?.subscriptionID, sale?.kind == .buy else {
            return
        }
        let key = BookKey.subscription(id, of: place.key.purchaseKey, place.key.lane)
        if var record = try book.subscription(place.at(key)) {
            record.paid = nil
            book.put(record, at: place.at(key))
        }
    }
}
