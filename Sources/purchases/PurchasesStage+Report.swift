internal import StageRuntime
internal import StateStore
internal import TokenDomain
internal import TokenWire

/// Items that are ready for one token go together; the next report of the token follows the answer.
extension PurchasesStage {
    /// Makes reports for the tokens that have a queue and nothing under way, from an entry of the due
    /// table on: nobody knows which they are when the partition is new.
    ///
    /// - Returns: where to go on; nil at the end.
    func reportQueues(
        _ partition: Int32,
        from start: [UInt8],
        _ book: inout Book,
        into plan: inout BatchPlan
    ) throws(StoreFault) -> [UInt8]? {
        var groups: [[UInt8]] = []
        var next: [UInt8]?
        var left = limits.queuedCountMax
        let region = BookDue.start(.queued)
        try plan.state.scan(.due, partition: partition, from: start, within: region) { entry, _ in
            let group = BookDue.target(of: entry)
            guard left > 0, groups.count < limits.reportCountMax || groups.last == group else {
                next = entry
                return false
            }
            left -= 1
            if groups.last != group {
                groups.append(group)
            }
            return true
        }
        for group in groups {
            guard hasRoomToReport(plan) else {
                return group
            }
            let token = BookKey(bytes: Array(group.dropFirst(region.count + 2)))
            try report(BookPlace(partition: partition, key: token), &book, into: &plan)
        }
        return next
    }

    /// One report while it is put together.
    struct Draft {
        private(set) var lineItems: [UInt8] = [UInt8(ascii: "[")]
        private(set) var items: [BookPlace] = []
        private(set) var trace: TraceParent?
        /// Of all its items.
        private(set) var app: Int64 = 0
        private(set) var oldestSale: Timestamp?
        /// Everything that stood in the queue was looked at, and left it.
        fileprivate var isExhausted = true

        mutating func append(
            _ lineItem: String,
            of item: BookedItem,
            at place: BookPlace,
            _ event: BookedEvent
        ) {
            if !items.isEmpty {
                lineItems.append(UInt8(ascii: ","))
            }
            lineItems.append(contentsOf: lineItem.utf8)
            items.append(place)
            trace = trace ?? event.trace
            app = place.key.lane.appAppleID
            // A correction is wanted soon, and not by a day that is long past.
            let date = item.live == nil ? item.sale?.creationDate : event.receivedAt
            oldestSale = .earlier(of: oldestSale, date)
        }
    }

    /// Makes reports for the tokens whose queue has grown since the last tick, or whose report was
    /// answered: what is queued and sent in one transaction is one changelog record.
    ///
    /// Those that there is no room for stay ready.
    func reportReady(into plan: inout BatchPlan) throws(StoreFault) {
        guard !ready.isEmpty else {
            return
        }
        var book = openBook(plan)
        for (index, place) in readyInTurn().enumerated() {
            guard index < limits.readyCountMax, hasRoomToReport(plan) else {
                readyFrom = place
                break
            }
            if index > 0, index % Self.sliceTokenCount == 0 {
                try close(&book, &plan)
                book = openBook(plan)
            }
            ready.remove(place)
            if partitions.contains(place.partition) {
                try report(place, &book, into: &plan)
            }
        }
        try close(&book, &plan)
    }

    /// The tokens that are ready, from the one on that there was no room for: no other has two
    /// reports before it has one.
    func readyInTurn() -> [BookPlace] {
        let places = ready.sorted()
        guard let readyFrom, let first = places.firstIndex(where: { $0 >= readyFrom }) else {
            return places
        }
        return Array(places[first...] + places[..<first])
    }

    private static let sliceTokenCount = 100

    func report(
        _ place: BookPlace,
        _ book: inout Book,
        into plan: inout BatchPlan
    ) throws(StoreFault) {
        let traffic = try book.traffic(of: place)
        guard traffic.inFlight.isEmpty, traffic.hasQueue else {
            return
        }
        let token = try book.token(place) ?? BookedToken(touchedAt: plan.now)
        let id = place.key.tokenID
        var draft = Draft()
        let (candidates, isAll) = try queue(of: place, id, traffic, &book, plan.state)
        draft.isExhausted = isAll
        for candidate in candidates {
            guard try add(candidate, to: &draft, token, id, &book, &plan) else {
                draft.isExhausted = false
                break
            }
        }
        if draft.isExhausted {
            traffic.emptyQueue()
        }
        if !draft.items.isEmpty {
            traffic.inFlight = draft.items
            send(draft, token, id, place, at: plan.now, into: &plan)
        } else if traffic.hasQueue {
            // Items are left for which the store does not have all yet: after the commit.
            later.insert(place)
        }
    }

    /// What stands in the queue of a token, the oldest sale first.
    private func queue(
        of token: BookPlace,
        _ id: TokenID,
        _ traffic: TokenTraffic,
        _ book: inout Book,
        _ state: StagedState
    ) throws(StoreFault) -> (items: [BookPlace], isAll: Bool) {
        switch traffic.queue {
        case .empty: return ([], true)
        case .known(let places): return (try queued(places, under: id, book), true)
        case .unknown: return try storedQueue(of: token, id, &book, state)
        }
    }

    /// Those of some items that stand in the queue of a token, the oldest sale first.
    private func queued(
        _ places: [BookPlace],
        under token: TokenID,
        _ book: Book
    ) throws(StoreFault) -> [BookPlace] {
        guard places.count > 1 else {
            // Whether it stands there is asked where it is added.
            return places
        }
        var queued: [(date: Int64, place: BookPlace)] = []
        queued.reserveCapacity(places.count)
        for place in places {
            if let item = try book.item(place), item.wait == .queued(token) {
                queued.append((BookDue.queueDate(of: item), place))
            }
        }
        guard queued.count > 1 else {
            return queued.map(\.place)
        }
        queued.sort { ($0.date, $0.place) < ($1.date, $1.place) }
        var items: [BookPlace] = []
        for (_, place) in queued where place != items.last {
            items.append(place)
        }
        return items
    }

    /// What stands in the queue of a token by the store and was put since, the oldest sale first.
    private func storedQueue(
        of token: BookPlace,
        _ id: TokenID,
        _ book: inout Book,
        _ state: StagedState
    ) throws(StoreFault) -> (items: [BookPlace], isAll: Bool) {
        let group = BookDue.start(.queued, of: token.key.bytes)
        let found = try entries(
            token.partition,
            prefix: group,
            countMax: limits.candidateCountMax,
            state
        )
        var keys = found.entries.map(\.key)
        var known = Set(keys)
        for place in recent.waiting(in: group) {
            guard let item = try book.item(place), item.wait == .queued(id) else {
                continue
            }
            let key = BookDue.queueKey(of: item, place.key, in: id)
            if known.insert(key).inserted {
                keys.append(key)
            }
        }
        keys.sort { $0.lexicographicallyPrecedes($1) }
        let items = keys.compactMap { key in
            BookDue.key(of: key, after: group, numberByteCount: 8).map(token.at)
        }
        return (items, found.next == nil)
    }

    func send(
        _ draft: Draft,
        _ token: BookedToken,
        _ id: TokenID,
        _ place: BookPlace,
        at askedAt: Timestamp,
        into plan: inout BatchPlan
    ) {
        append(
            ReportRequested(
                externalPurchaseID: id,
                appAppleID: draft.app,
                bundleID: token.token?.bundleID ?? apps.bundleID(of: draft.app) ?? "",
                status: .lineItem,
                requestIdentifier: nil,
                lineItems: String(decoding: draft.lineItems + [UInt8(ascii: "]")], as: UTF8.self),
                deadline: draft.oldestSale.map(ReportPolicy.deadline(ofSale:)),
                purchaseKey: place.key.purchaseKey,
                askedAt: askedAt,
                tokenCreationDate: token.token?.tokenCreationDate,
                tokenExpirationDate: token.token?.tokenExpirationDate
            ),
            trace: draft.trace,
            to: &plan
        )
    }

    /// Adds an item to a report, or sends it elsewhere.
    ///
    /// - Returns: whether the report has room for more.
    private func add(
        _ place: BookPlace,
        to draft: inout Draft,
        _ token: BookedToken,
        _ tokenID: TokenID,
        _ book: inout Book,
        _ plan: inout BatchPlan
    ) throws(StoreFault) -> Bool {
        guard var item = try book.item(place), item.wait == .queued(tokenID),
            let number = item.turn, let event = try book.event(number, of: item, at: place)
        else {
            return true
        }
        let now = plan.now
        let rootPlace = root(of: item, place)
        // It leaves the queue, and the next item of its buy has the turn.
        func leave(for wait: BookedItem.Wait) throws(StoreFault) {
            item.wait(for: wait, now: now)
            book.put(item, at: place)
            try passTurn(of: place, in: rootPlace, &book)
        }
        func leave(refused fault: PurchaseFault) throws(StoreFault) {
            try refuse(fault.asFault, item, place, event, &book, into: &plan)
            try passTurn(of: place, in: rootPlace, &book)
        }
        if token.isRefused, try !isBound(item, to: tokenID, place, &book) {
            try leave(for: .now)
            return true
        }
        guard var root = rootPlace == place ? item : try book.item(rootPlace) else {
            item.wait(for: .now, now: now)
            book.put(item, at: place)
            return true
        }
        if root.busyWith != nil, !place.key.isNamed(root.busyWith) {
            item.wait(for: .turn(rootPlace.key), now: now)
            book.put(item, at: place)
            return true
        }
        if item.goesAlone, !draft.items.isEmpty {
            return false
        }
        switch try compile(&item, place, event, root, &book, plan) {
        case .elsewhere(let wait):
            try leave(for: wait)
            if wait == .rate {
                // It left its queue for long, and its start may wait for that to be retracted.
                try keepParent(of: item, place, &book, now: now)
            }
            return true
        case .refused(let fault):
            if fault.rule == .refundTooLarge,
                let other = try unsettledRelative(of: item, place, before: event, &book)
            {
                try leave(for: .reference(other, until: now + policy.referenceLook))
            } else {
                try leave(refused: fault)
            }
            return true
        case .compiled(let flight):
            let byteCountMax =
                min(limits.reportByteCountMax, plan.recordByteCountMax) - Self.envelopeByteCount
            guard flight.item.utf8.count <= byteCountMax else {
                let fault = PurchaseFault(
                    .itemTooLarge,
                    .lineItemID,
                    repair: "Send shorter identifiers: the line item is larger than a report."
                )
                try leave(refused: fault)
                return true
            }
            let byteCount = draft.lineItems.count + flight.item.utf8.count + 2
            guard draft.items.isEmpty || byteCount <= byteCountMax else {
                return false
            }
            draft.append(flight.item, of: item, at: place, event)
            item.flight = flight
            item.wait(for: .sent(tokenID), now: now)
            if rootPlace == place {
                item.busyWith = place.key.name
            } else {
                root.busyWith = place.key.name
                book.put(root, at: rootPlace)
            }
            book.put(item, at: place)
            return draft.items.count < limits.itemCountMax && !item.goesAlone
        }
    }

    // MARK: Compiling

    private enum Compilation {
        case compiled(BookedItem.Flight)
        case refused(PurchaseFault)
        /// Something changed since it was decided.
        case elsewhere(BookedItem.Wait)
    }

    private func compile(
        _ item: inout BookedItem,
        _ place: BookPlace,
        _ event: BookedEvent,
        _ root: BookedItem,
        _ book: inout Book,
        _ plan: BatchPlan
    ) throws(StoreFault) -> Compilation {
        guard var sale = item.sale else {
            return .elsewhere(.now)
        }
        if let parent = item.parent {
            let isLive =
                try book.item(place.at(place.key.sibling(parent)))?.live
                .map { !$0.isRetracted } ?? false
            guard isLive else {
                return .elsewhere(.now)
            }
        }
        var revision = LineItem.Revision.first
        var terms: ReportingTerms?
        if let live = item.live {
            let change = change(event)
            if let change, change.kind == .restate {
                revision = .restatement
                do throws(PurchaseFault) {
                    let restated = try sale.applying(
                        change,
                        to: item.parent,
                        terms: live.terms,
                        now: plan.now
                    )
                    terms =
                        sale.kind == .refund
                        ? root.live?.terms
                        : .of(restated, insteadOf: sale, in: live.terms, rates: rates.rates)
                    sale = restated
                } catch {
                    return .refused(error)
                }
            } else {
                revision = .retraction
                terms = live.terms
            }
        } else {
            terms =
                sale.kind == .refund
                ? root.live?.terms : ReportingTerms.of(sale, rates: rates.rates)
        }
        guard let terms else {
            return .elsewhere(sale.kind == .refund || item.isOutdated ? .now : .rate)
        }
        let days = try days(before: sale, item, place, &book)
        return compile(sale, item, root, revision, terms, days)
    }

    private func compile(
        _ sale: PurchaseEvent,
        _ item: BookedItem,
        _ root: BookedItem,
        _ revision: LineItem.Revision,
        _ terms: ReportingTerms,
        _ days: Int64
    ) -> Compilation {
        let isRefund = sale.kind == .refund
        do throws(PurchaseFault) {
            let compiled = try LineItemCompiler.compile(
                sale,
                LineItemCompiler.Context(
                    revision: revision,
                    terms: terms,
                    family: root.family,
                    previous: isRefund ? item.share : nil,
                    buy: isRefund ? root.sale : nil,
                    startLineItemID: isRefund ? nil : item.parent,
                    daysOfPaidService: days
                )
            )
            return .compiled(
                BookedItem.Flight(
                    item: String(decoding: compiled.item.json, as: UTF8.self),
                    sale: revision == .restatement && sale != item.sale ? sale : nil,
                    terms: terms,
                    share: compiled.share,
                    days: days,
                    isRetraction: revision == .retraction
                )
            )
        } catch {
            return .refused(error)
        }
    }
}
