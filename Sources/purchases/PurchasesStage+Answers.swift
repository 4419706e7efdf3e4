internal import Kafka
internal import StageRuntime
internal import StateStore
internal import TokenDomain
internal import TokenWire

/// What Apple answered to the reports that carry sales.
extension PurchasesStage {
    /// Has the book read at once what the answers among some records are about.
    ///
    /// - Returns: the answers that can be read, by their place in the batch.
    func loadAnswered(
        _ records: ArraySlice<RecordBatch.Record>,
        of batch: RecordBatch,
        _ book: inout Book
    ) throws(StoreFault) -> [Int: PurchaseAnswered] {
        var answers: [Int: PurchaseAnswered] = [:]
        var tokens: [BookPlace] = []
        for (index, record) in zip(records.indices, records)
        where Worker.purchases.sources[record.topic] == .purchasesAnswered
            && !record.value.isAbsent && !record.key.isAbsent
            // A longer one becomes a dead letter when its turn comes: it fits no key of the book.
            && record.key.count <= TextLimit.tokenField.byteCountMax
        {
            let key = PurchaseKey(
                String(decoding: batch.arena[record.key.indices], as: UTF8.self)
            )
            do throws(WireFault) {
                let answer = try PurchaseAnswered(
                    reading: batch.arena.span.extracting(record.value.indices)
                )
                answers[index] = answer
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
            items += try book.traffic(of: token).inFlight
        }
        try book.load(items)
        var parents: [BookPlace] = []
        for place in items {
            if let name = try book.item(place)?.parent {
                parents.append(place.at(place.key.sibling(name)))
            }
        }
        try book.load(parents)
        return answers
    }

    /// `known` is the answer where it was read before.
    func takeAnswer(
        _ known: PurchaseAnswered?,
        _ record: RecordBatch.Record,
        _ value: Span<UInt8>,
        _ key: PurchaseKey,
        _ book: inout Book,
        into plan: inout BatchPlan
    ) throws(StoreFault) -> Verdict {
        let answer: PurchaseAnswered
        do throws(WireFault) {
            if let known {
                answer = known
            } else {
                answer = try PurchaseAnswered(reading: value)
            }
        } catch {
            return .deadLetter(Self.badRecord(error.message))
        }
        let outputCount = plan.outputs.outputs.count
        let place = BookPlace(
            partition: record.partition,
            key: .token(answer.externalPurchaseID, of: key)
        )
        let traffic = try book.traffic(of: place)
        guard traffic.isReport(of: answer.lineItemIDs) else {
            // The answer to a report by hand, or one that was read before.
            return .settled("unmatched")
        }
        let items = traffic.inFlight
        guard try isAnswer(answer, to: items, book) else {
            return .settled("unmatched")
        }
        traffic.inFlight = []
        try touch(place, &book, now: plan.now)
        if traffic.hasQueue {
            // What was queued meanwhile goes with the next tick.
            ready.insert(place)
        }
        switch answer.outcome {
        case .accepted, .verified:
            for item in items {
                try accept(item, answer, as: answer.outcome, &book, into: &plan)
            }
        case .rejected:
            try reject(items, answer, place, &book, into: &plan)
        }
        let made = plan.outputs.outputs.count - outputCount
        return made > 0 ? .forward(outputCount: made) : .settled("answered")
    }

    /// Whether an answer is that to the report under way, and not one to an earlier report of the same
    /// line items, read again.
    ///
    /// Where it does not name when the report was asked for, as an earlier version answered, it is
    /// known only for what it says of an item: that Apple has it by the report that the change under
    /// way is to replace.
    private func isAnswer(
        _ answer: PurchaseAnswered,
        to items: [BookPlace],
        _ book: Book
    ) throws(StoreFault) -> Bool {
        for place in items {
            let item = try book.item(place)
            if let askedAt = answer.askedAt {
                guard item?.waitingSince == askedAt else {
                    return false
                }
                continue
            }
            guard let live = item?.live else {
                continue
            }
            let holder =
                switch answer.outcome {
                case .accepted, .verified: answer.requestIdentifier
                case .rejected: answer.holder(of: place.key)
                }
            if holder == live.requestIdentifier {
                return false
            }
        }
        return true
    }

    /// A token is kept as long as what is reported under it, a subscription as long as its periods.
    func touch(_ place: BookPlace, _ book: inout Book, now: Timestamp) throws(StoreFault) {
        if var token = try book.token(place), token.touchedAt + BookDue.touchInterval < now {
            token.touchedAt = now
            book.put(token, at: place)
        } else if var record = try book.subscription(place) {
            // Its items go soon after it was due: it is looked at again after the touch interval.
            record.touchedAt = now + -SeenBefore.keyLifetime
            book.put(record, at: place)
        }
    }

    /// The item of an answer, where it is still under way.
    func sent(
        _ place: BookPlace,
        under token: TokenID,
        _ book: inout Book
    ) throws(StoreFault) -> (item: BookedItem, event: BookedEvent)? {
        guard let item = try book.item(place), item.wait == .sent(token),
            let number = item.turn, let event = try book.event(number, of: item, at: place)
        else {
            return nil
        }
        return (item, event)
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
        _ place: BookPlace,
        _ answer: PurchaseAnswered,
        as outcome: ReportOutcome.Outcome,
        _ book: inout Book,
        into plan: inout BatchPlan
    ) throws(StoreFault) {
        guard let sent = try sent(place, under: answer.externalPurchaseID, &book),
            let flight = sent.item.flight, let number = sent.item.turn
        else {
            return
        }
        let event = sent.event
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
        ledger.externalPurchaseID = answer.externalPurchaseID
        ledger.requestIdentifier = answer.requestIdentifier
        append(ledger, place.key, trace: event.trace, to: &plan)
        if !event.isOurs {
            metrics.count(.reported, outcome.rawValue, of: place.key.lane)
        }
        try settleFamily(flight, &item, place, &book, now: now)
        let wasRestated = item.live != nil
        if let restated = flight.sale {
            item.first = item.first ?? item.sale
            item.sale = restated
        }
        if flight.isRetraction {
            item.noteRetraction(at: event.offset)
        } else {
            item.retractedOffset = nil
        }
        item.standing = .live
        item.revision += 1
        item.live = BookedItem.Live(
            token: answer.externalPurchaseID,
            terms: flight.terms,
            reported: flight.share.reported,
            requestIdentifier: answer.requestIdentifier,
            days: flight.days,
            isRetracted: flight.isRetraction
        )
        try book.wake(place)
        book.drop(number, of: &item, at: place)
        if number == 0 {
            settleFolded(&item, place, &book)
            item.excluded = []
            item.goesAlone = false
            item.attempts = 0
            item.flight = nil
            item.touchedAt = now
        } else {
            item.finishTurn(of: event, now: now)
        }
        if wasRestated {
            try recount(item.sale, place, &book)
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
        // The buy keeps its currency while Apple has the refund.
        item.saidIn = root.sale?.pricingCurrency
        try book.wake(rootPlace)
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
        if let parentPlace = parentPlace(of: item, place), try book.item(parentPlace) != nil {
            try book.wake(parentPlace)
        }
        try keepParent(of: item, place, &book, now: now)
    }

    /// What an item refers to is kept as long as the item, owed or not; where its retraction waits for those
    /// that refer to it, it is looked at again.
    func keepParent(
        of item: BookedItem,
        _ place: BookPlace,
        _ book: inout Book,
        now: Timestamp
    ) throws(StoreFault) {
        guard let parentPlace = parentPlace(of: item, place),
            var parent = try book.item(parentPlace)
        else {
            return
        }
        if parent.wait == .reference(parentPlace.key, until: nil) {
            try book.wake(parentPlace)
        }
        guard parent.touchedAt + BookDue.touchInterval < now else {
            return
        }
        parent.touchedAt = now
        book.put(parent, at: parentPlace)
        // What comes without a token of its own may go under the parent's.
        if let token = parent.live?.token {
            try touch(place.at(place.key.token(token)), &book, now: now)
        }
    }

    private func parentPlace(of item: BookedItem, _ place: BookPlace) -> BookPlace? {
        item.parent.map { place.at(place.key.sibling($0)) }
    }

    /// A period of a subscription changed that was counted as it came: paid days are counted from the
    /// items from now on.
    func recount(
        _ sale: PurchaseEvent?,
        _ place: BookPlace,
        _ book: inout Book
    ) throws(StoreFault) {
        guard let id = sale?.subscriptionID, sale?.kind == .buy else {
            return
        }
        let subscription = place.at(place.key.subscription(id))
        guard var record = try book.subscription(subscription) else {
            return
        }
        let givesDays = record.givesDays || sale?.subscriptionDaysOfPaidService != nil
        if record.countsArrivals || givesDays != record.givesDays {
            record.paid = nil
            record.countsArrivals = false
            record.givesDays = givesDays
            book.put(record, at: subscription)
        }
    }
}

extension PurchaseAnswered {
    /// The report that Apple holds a line item of ``verifiedLineItemIDs`` by; nil for any other.
    func holder(of item: BookKey) -> String? {
        guard let index = verifiedLineItemIDs.firstIndex(where: { item.isNamed($0) }),
            verifiedRequestIdentifiers.indices.contains(index)
        else {
            return nil
        }
        return verifiedRequestIdentifiers[index]
    }
}
