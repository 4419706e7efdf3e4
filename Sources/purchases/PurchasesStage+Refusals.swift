internal import StageRuntime
internal import StateStore
internal import TokenDomain

/// Reports that were refused, by Apple or by `report` itself: whose fault it is, and what goes again.
extension PurchasesStage {
    /// Apple's codes that say that something else must settle first, and how often an item is sent
    /// again for them.
    private static let passingCodes: Set<AppleErrorCode?> = [
        .erroneousLineItemReferencedByValidLineItem, .validLineItemReferencesErroneousLineItem,
        .simultaneousSubmission,
    ]
    private static let attemptCountMax = 3
    /// How often an item waits a minute for what `report` knows of its token to agree with the book.
    private static let disagreementCountMax = 60

    /// What an answer says of all items of its report.
    private struct Refusal {
        let answer: PurchaseAnswered
        let token: BookPlace
        /// Apple's reasons, by the bytes of the line item's name.
        let named: [ArraySlice<UInt8>: [AppleError]]
        let isTokenUnknown: Bool
        /// Whether the answer says which items are refused; the others go again.
        let isCulpritKnown: Bool
        let itemCount: Int

        init(_ items: [BookPlace], _ answer: PurchaseAnswered, _ token: BookPlace) {
            self.answer = answer
            self.token = token
            named = Dictionary(grouping: answer.errors.filter { $0.lineItemID != nil }) {
                ArraySlice(($0.lineItemID ?? "").utf8)
            }
            isTokenUnknown = answer.errors.contains(where: \.isUnknownToken)
            let named = named
            isCulpritKnown = items.contains { named[$0.key.nameBytes] != nil }
            itemCount = items.count
        }

        /// `report` says that the token is no primary.
        ///
        /// It may not have read yet that Apple refused the one before it.
        var isDuplicate: Bool { answer.primaryExternalPurchaseID != nil }

        /// Apple says that an item is retracted already: what was asked for is so.
        func isRetracted(_ item: BookKey) -> Bool {
            named[item.nameBytes].map { errors in
                errors.allSatisfy { $0.name == .repeatErroneousSubmission }
            } ?? false
        }

        /// What `report` knows of the token had no room: that passes.
        var isPassing: Bool { answer.reason == "report.account_full" }

        /// Apple has the token as a duplicate, which no sale may follow.
        var isStatusOrder: Bool { answer.reason == "report.status_order" }
    }

    func reject(
        _ items: [BookPlace],
        _ answer: PurchaseAnswered,
        _ token: BookPlace,
        _ book: inout Book,
        into plan: inout BatchPlan
    ) throws(StoreFault) {
        let refusal = Refusal(items, answer, token)
        for place in items {
            guard let (item, event) = try sent(place, under: answer.externalPurchaseID, &book)
            else {
                // An answer that is read again says nothing of the token either: Apple may know it by now.
                continue
            }
            if refusal.isTokenUnknown {
                _ = try refuse(token, at: answer.settledAt, &book)
            }
            let key = place.key
            let isRetracted = item.flight?.isRetraction == true && refusal.isRetracted(key)
            if isRetracted || answer.verifiedLineItemIDs.contains(where: { key.isNamed($0) }) {
                var holding = answer
                holding.requestIdentifier = answer.holder(of: key) ?? answer.requestIdentifier
                try accept(place, holding, as: .verified, &book, into: &plan)
                continue
            }
            metrics.waited(plan.now - item.waitingSince, for: item.wait)
            let freed = try free(item, place, &book)
            try judge(refusal, freed, place, event, &book, into: &plan)
        }
    }

    private func isRefused(
        _ token: TokenID?,
        _ place: BookPlace,
        _ book: inout Book
    ) throws(StoreFault) -> Bool {
        guard let token else {
            return false
        }
        return try book.token(place.at(place.key.token(token)))?.isRefused ?? false
    }

    private func judge(
        _ refusal: Refusal,
        _ item: BookedItem,
        _ place: BookPlace,
        _ event: BookedEvent,
        _ book: inout Book,
        into plan: inout BatchPlan
    ) throws(StoreFault) {
        var item = item
        let errors = refusal.named[place.key.nameBytes] ?? refusal.answer.errors
        let isBound = try isBound(item, to: refusal.token.key.tokenID, place, &book)
        let isBlamed =
            refusal.isTokenUnknown
            ? isBound
            : refusal.named[place.key.nameBytes] != nil
                || !refusal.isCulpritKnown && refusal.itemCount == 1
        // dedupe makes the token the primary once it has read that: it may be down for days.
        let primary = refusal.answer.primaryExternalPurchaseID
        let isPrimaryRefused = try isRefused(primary, place, &book)
        let isPrimaryExcluded = primary.map { item.excluded.contains($0) } ?? false
        if refusal.isPassing
            || refusal.isDuplicate
                && (isPrimaryRefused
                    || !isPrimaryExcluded && item.attempts < Self.disagreementCountMax)
        {
            metrics.sentBack(
                refusal.isPassing
                    ? .accountFull : isPrimaryRefused ? .primaryRefused : .isDuplicate,
                of: place.key.lane
            )
            item.attempts += refusal.isDuplicate && !isPrimaryRefused ? 1 : 0
            // What has no room together may have it one by one.
            item.goesAlone = item.goesAlone || refusal.isPassing && refusal.itemCount > 1
            item.flight = nil
            item.wait(for: pause(place, until: plan.now + policy.again), now: plan.now)
            book.put(item, at: place)
        } else if refusal.isDuplicate, !isBound {
            let token = refusal.token.key.tokenID
            guard let primary, !isPrimaryExcluded, primary != token else {
                return try exclude(token, &item, place, &book, now: plan.now)
            }
            // The customer shares the token with another one, whose token is the primary, or offsets of
            // `tokens.decoded` began anew. Where that one is a duplicate too, the next is taken at once; the
            // token is chosen no more, so that an item never goes in a circle.
            item.excluded.append(token)
            try queueAgain(&item, under: primary, place, event, &book, into: &plan)
        } else if refusal.isStatusOrder, !isBound,
            try takeAnother(than: refusal.token.key.tokenID, item, place, event, &book, into: &plan)
        {
            return
        } else if isBlamed {
            try blame(
                errors,
                refusal.answer,
                refusal.token,
                &item,
                place,
                event,
                &book,
                into: &plan
            )
        } else {
            // It goes again: under the next token, without the refused item, or alone where Apple
            // does not say which one that was.
            item.goesAlone =
                item.goesAlone || !(refusal.isTokenUnknown || refusal.isCulpritKnown)
            guard refusal.isTokenUnknown else {
                // Back to its queue at once: what it refers to is not retracted before it was sent.
                let token = refusal.token.key.tokenID
                return try queueAgain(&item, under: token, place, event, &book, into: &plan)
            }
            item.flight = nil
            // An older word than the one that Apple knows it, as clocks say: the same token is taken again.
            let isKnown = try book.token(refusal.token)?.isRefused == false
            item.wait(
                for: isKnown ? pause(place, until: plan.now + policy.again) : .now,
                now: plan.now
            )
            // One that report named may have been the unknown one: those before it fit again.
            item.excluded = []
            item.attempts = 0
            book.put(item, at: place)
        }
    }

    /// Nothing wakes who waits for an event: only the time does.
    private func pause(_ place: BookPlace, until time: Timestamp) -> BookedItem.Wait {
        .reference(place.key.event(0), until: time)
    }

    private func queueAgain(
        _ item: inout BookedItem,
        under token: TokenID,
        _ place: BookPlace,
        _ event: BookedEvent,
        _ book: inout Book,
        into plan: inout BatchPlan
    ) throws(StoreFault) {
        item.flight = nil
        item.wait(for: .now, now: plan.now)
        try enact(.queue(token), item, place, event, hasTurn: true, &book, into: &plan)
    }

    /// A token is none for this item: the next one that fits.
    private func exclude(
        _ token: TokenID,
        _ item: inout BookedItem,
        _ place: BookPlace,
        _ book: inout Book,
        now: Timestamp
    ) throws(StoreFault) {
        item.excluded.append(token)
        item.attempts = 0
        item.flight = nil
        item.wait(for: .now, now: now)
        book.put(item, at: place)
    }

    /// A token carries no sale: the next one that fits, if the customer has one now.
    ///
    /// - Returns: whether it does. Where not, a person must know why: nothing is waited for.
    private func takeAnother(
        than token: TokenID,
        _ item: BookedItem,
        _ place: BookPlace,
        _ event: BookedEvent,
        _ book: inout Book,
        into plan: inout BatchPlan
    ) throws(StoreFault) -> Bool {
        guard item.live == nil else {
            return false
        }
        var other = item
        other.excluded.append(token)
        other.attempts = 0
        other.flight = nil
        other.wait(for: .now, now: plan.now)
        let decision = try decideBase(
            &other,
            place,
            event,
            isWaitOver: true,
            &book,
            now: plan.now
        )
        switch decision {
        case .queue, .wait(.rate):
            try enact(decision, other, place, event, hasTurn: true, &book, into: &plan)
            return true
        case .wait, .notOwed, .repeated, .refuse: return false
        }
    }

    /// An item that is under way no more: its net calculation is free.
    private func free(
        _ item: BookedItem,
        _ place: BookPlace,
        _ book: inout Book
    ) throws(StoreFault) -> BookedItem {
        var item = item
        try leaveTurn(&item, place, &book)
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
        let codes = Set(errors.map(\.name))
        if codes == [.lineItemCreationDateOutOfRange], item.live == nil {
            // Its date lies outside of this token.
            return try exclude(token.key.tokenID, &item, place, &book, now: plan.now)
        }
        // Another item's fault ended the report, which waits such a date out by itself.
        let passesWithTime = errors.allSatisfy {
            AppleErrorKind($0, newestDate: item.sale?.creationDate, now: plan.now) == .futureDate
        }
        let isPassing = passesWithTime || codes.isSubset(of: Self.passingCodes)
        if isPassing, !codes.isEmpty, item.attempts < Self.attemptCountMax {
            item.attempts += 1
            item.flight = nil
            item.wait(
                for: passesWithTime
                    ? pause(place, until: plan.now + PurchaseRules.clockSkewMax) : .now,
                now: plan.now
            )
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
        if errors.contains(where: \.isRepeatedLineItem) {
            return Fault(
                code: PurchaseRule.conflict.code,
                message: "Apple has another line item under this lineItemId: send another one."
            )
        }
        guard answer.reason != "report.status_order" else {
            return Fault(
                code: PurchaseRule.rejected.code,
                message:
                    "Apple was not asked (report.status_order): it has the token as a duplicate,"
                    + " which no sale may follow; see the runbook, A forged token was first."
            )
        }
        if let primary = answer.primaryExternalPurchaseID {
            return Fault(
                code: PurchaseRule.rejected.code,
                message: "Apple was not asked (\(answer.reason ?? "no reason")): the token that"
                    + " Apple has the item or its buy under is a duplicate of \(primary.text)."
            )
        }
        guard answer.reason != Rejection.conflict.code || !errors.isEmpty else {
            return Fault(
                code: PurchaseRule.rejected.code,
                message: "Apple holds another report under the identifier of the sale's report"
                    + " (\(Rejection.conflict.code)): nothing is wrong with the sale; see the runbook,"
                    + " identifier_conflict, then replay it."
            )
        }
        let reasons = errors.map(\.sentence)
        let reason = answer.reason ?? "no reason"
        return Fault(
            code: PurchaseRule.rejected.code,
            message: "Apple refuses the line item: "
                + (reasons.isEmpty ? reason : reasons.joined(separator: "; "))
        )
    }
}
