internal import Kafka
internal import StageRuntime
internal import StateStore
internal import TokenDomain
internal import TokenWire

/// What Apple answered to the reports that carry sales.
extension PurchasesStage {
    /// Faults of `report` that pass: what it knows of the token had no room.
    private static let passingReasons: Set<String> = ["report.account_full"]
    /// Apple's codes that say that something else must settle first, and how often it is tried again.
    private static let passingCodes: Set<Int64> = [22, 25, 26]
    private static let attemptCountMax = 3

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
            Set(token.inFlight) == Set(answer.lineItemIDs)
        else {
            // The answer to a report by hand, or one that was heard before.
            return .settled("unmatched")
        }
        let ids = token.inFlight
        token.inFlight = []
        token.wantsReport = true
        token.touchedAt = plan.now
        book.put(token, at: place)
        switch answer.outcome {
        case .accepted, .verified:
            for id in ids {
                try accept(id, answer, place, &book, into: &plan)
            }
        case .rejected:
            try reject(ids, answer, place, &book, into: &plan)
        }
        let made = plan.outputs.outputs.count - outputCount
        return made > 0 ? .forward(outputCount: made) : .settled("answered")
    }

    /// The item of an answer, where it is still under way.
    private func sent(
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

    private func lane(
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

    private func accept(
        _ id: String,
        _ answer: PurchaseAnswered,
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
        var ledger = outcome(
            .reported,
            item,
            place,
            event,
            type(of: event, item),
            reason: answer.outcome.rawValue,
            plan
        )
        ledger.externalPurchaseID = token.key.tokenID
        ledger.requestIdentifier = answer.requestIdentifier
        append(ledger, place.key.purchaseKey, trace: event.trace, to: &plan)
        if !event.isOurs {
            metrics.count(.reported, answer.outcome.rawValue, app: place.key.lane.appAppleID)
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
        item.wakesFrom = []
        book.put(nil, number: number, of: place)
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
        root.wakesFrom = []
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
            parent.wakesFrom = []
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

    // MARK: Refused

    private func reject(
        _ ids: [String],
        _ answer: PurchaseAnswered,
        _ token: BookPlace,
        _ book: inout Book,
        into plan: inout BatchPlan
    ) throws(StoreFault) {
        let isTokenUnknown = answer.errors.contains {
            $0.code == 3 && $0.fieldName == "externalPurchaseId"
        }
        if isTokenUnknown {
            _ = try refuse(token, at: answer.settledAt, &book)
        }
        let named = Dictionary(grouping: answer.errors.filter { $0.lineItemID != nil }) {
            $0.lineItemID ?? ""
        }
        let isCulpritKnown = ids.contains { named[$0] != nil }
        let isPassing = answer.reason.map { Self.passingReasons.contains($0) } ?? false
        for id in ids {
            guard
                let (place, item, event) = try sent(id, lane(of: token, &book), token, &book)
            else {
                continue
            }
            metrics.waited(plan.now - item.waitingSince, for: item.wait)
            var freed = try free(item, place, &book, now: plan.now)
            let isBound = try isBound(item, to: token.key.tokenID, place, &book)
            if isTokenUnknown, isBound {
                try blame(answer.errors, answer, token, &freed, place, event, &book, into: &plan)
            } else if let errors = named[id] {
                try blame(errors, answer, token, &freed, place, event, &book, into: &plan)
            } else if isPassing {
                let until = plan.now + policy.again
                freed.flight = nil
                freed.wait(for: .reference(place.key, until: until), now: plan.now)
                book.put(freed, at: place)
            } else if isTokenUnknown || isCulpritKnown || ids.count > 1 {
                // It goes again: under the next token, without the culprit, or alone where nobody
                // says which one it was.
                freed.flight = nil
                freed.goesAlone = freed.goesAlone || !(isTokenUnknown || isCulpritKnown)
                freed.wait(for: .now, now: plan.now)
                book.put(freed, at: place)
            } else {
                try blame(answer.errors, answer, token, &freed, place, event, &book, into: &plan)
            }
        }
    }

    /// An item that is under way no more: its net calculation is free.
    private func free(
        _ item: BookedItem,
        _ place: BookPlace,
        _ book: inout Book,
        now: Timestamp
    ) throws(StoreFault) -> BookedItem {
        var item = item
        let rootPlace = root(of: item, place)
        if rootPlace == place {
            item.busyWith = nil
            item.wakesFrom = []
        } else if var root = try book.item(rootPlace) {
            root.busyWith = nil
            root.wakesFrom = []
            book.put(root, at: rootPlace)
        }
        if item.live == nil {
            try recount(item.sale, place, &book, now: now)
        }
        return item
    }

    /// Apple refuses this very item.
    private func blame(
        _ errors: [AppleError],
        _ answer: PurchaseAnswered,
        _ token: BookPlace,
        _ item: inout BookedItem,
        _ place: BookPlace,
        _ event: BookedEvent,
        _ book: inout Book,
        into plan: inout BatchPlan
    ) throws(StoreFault) {
        let codes = Set(errors.map(\.code))
        if codes == [36], item.live == nil {
            // Its date lies outside of this token: the next one that fits.
            item.excluded.append(token.key.tokenID)
            item.flight = nil
            item.wait(for: .now, now: plan.now)
            return book.put(item, at: place)
        }
        if !codes.isEmpty, codes.isSubset(of: Self.passingCodes),
            item.attempts < Self.attemptCountMax
        {
            item.attempts += 1
            item.flight = nil
            item.wait(for: .now, now: plan.now)
            return book.put(item, at: place)
        }
        try refuse(
            Self.fault(errors, answer),
            errors: errors,
            token: token.key.tokenID,
            requestIdentifier: answer.requestIdentifier,
            item,
            place,
            event,
            &book,
            into: &plan
        )
    }

    private static func fault(_ errors: [AppleError], _ answer: PurchaseAnswered) -> Fault {
        if errors.contains(where: { $0.code == 1 && $0.fieldName == "lineItemId" }) {
            return Fault(
                code: PurchaseRule.conflict.code,
                message: "Apple has another line item under this lineItemId: send another one."
            )
        }
        let reasons = errors.map { "code \($0.code) on \($0.fieldName ?? "no field")" }
        let reason = answer.reason ?? "no reason"
        return Fault(
            code: PurchaseRule.rejected.code,
            message: "Apple refuses the line item: "
                + (reasons.isEmpty ? reason : reasons.joined(separator: ", "))
        )
    }
}
