internal import StageRuntime
internal import StateStore
internal import TokenDomain

/// Items that wait for a record are looked at in the transaction that changes the record.
extension PurchasesStage {
    /// Items of the store that are looked at for one record; the others are woken after the commit.
    ///
    /// These are the first by name: so many are told in the order in which their events came, and as many
    /// renewals count each other's paid days. Ten years of weekly renewals are half of it.
    private static let storedCountMax = 1_000
    /// An item that is looked at may wake another; what is left is woken after the commit.
    private static let roundCountMax = 100

    /// Stages what a book changed, and what follows from it for the items that wait for it.
    func close(_ book: inout Book, _ plan: inout BatchPlan) throws(StoreFault) {
        try wake(&book, &plan)
        var held = heldCount.noChanges
        book.flush(into: &plan.outputs, &held)
        guard !held.isEmpty else {
            return
        }
        plan.whenCommitted { [self, held] in heldCount.apply(held) }
    }

    /// Looks at the items that wait for what a book changed.
    func wake(_ book: inout Book, _ plan: inout BatchPlan) throws(StoreFault) {
        for _ in 0..<Self.roundCountMax where book.hasWoken {
            for place in try book.takeInTurn() {
                try look(place, hasTurn: false, &book, &plan)
            }
            for place in book.takeWoken() {
                try wake(place, &book, &plan)
            }
        }
        for place in book.takeWoken() {
            try setWaking(place, [], &book)
        }
    }

    private func wake(
        _ place: BookPlace,
        _ book: inout Book,
        _ plan: inout BatchPlan
    ) throws(StoreFault) {
        guard place.key.kind == .token else {
            return try wake(waitingFor: place, &book, &plan)
        }
        guard let token = try book.token(place) else {
            return
        }
        let group = BookDue.start(.token, of: BookDue.tokenGroup(of: token, place.key))
        let (items, next) = try waiting(in: group, place, plan.state)
        try look(items, &book, &plan)
        if let next {
            try setWaking(place, next, &book)
        }
    }

    /// One look at the store finds the items that wait for a record, and behind them those that wait
    /// for their turn.
    private func wake(
        waitingFor place: BookPlace,
        _ book: inout Book,
        _ plan: inout BatchPlan
    ) throws(StoreFault) {
        let group = BookDue.start(.reference, of: place.key.bytes)
        let turns = BookDue.turns(of: place.key)
        var items = recent.waiting(in: group)
        var inTurn: Set<BookPlace> = []
        var (stored, next): ([DueEntry], [UInt8]?) = ([], nil)
        let noted = items.union(recent.waiting(in: turns))
        if try book.mayBeAwaited(group, partition: place.partition, beside: noted) {
            (stored, next) = try self.stored(in: group, place, plan.state)
        }
        for (entry, _) in stored {
            if BookDue.isTurn(entry, after: group) {
                if let key = BookDue.key(of: entry, after: turns) {
                    inTurn.insert(place.at(key))
                }
            } else if let key = BookDue.key(of: entry, after: group) {
                items.insert(place.at(key))
            }
        }
        try look(Array(items), &book, &plan)
        guard let next, !BookDue.isTurn(next, after: group) else {
            let known = inTurn.union(recent.waiting(in: turns)).sorted()
            return try giveTurn(of: place, to: known, hasMore: next != nil, &book, &plan)
        }
        try setWaking(place, next, &book)
        let (known, more) = try waiting(in: turns, place, plan.state)
        try giveTurn(of: place, to: known, hasMore: more != nil, &book, &plan)
    }

    private func look(
        _ items: [BookPlace],
        _ book: inout Book,
        _ plan: inout BatchPlan
    ) throws(StoreFault) {
        try book.load(items)
        for item in try book.inOrderOfEvents(items) {
            try look(item, hasTurn: false, &book, &plan)
        }
    }

    /// The items in a group, in order: of the store, and those put since.
    func waiting(
        in group: [UInt8],
        _ place: BookPlace,
        _ state: StagedState
    ) throws(StoreFault) -> (items: [BookPlace], next: [UInt8]?) {
        let (stored, next) = try stored(in: group, place, state)
        var items = recent.waiting(in: group)
        for (entry, _) in stored {
            if let key = BookDue.key(of: entry, after: group) {
                items.insert(place.at(key))
            }
        }
        return (items.sorted(), next)
    }

    /// The entries of a group in the store.
    private func stored(
        in group: [UInt8],
        _ place: BookPlace,
        _ state: StagedState
    ) throws(StoreFault) -> (entries: [DueEntry], next: [UInt8]?) {
        try entries(
            place.partition,
            prefix: group,
            countMax: Self.storedCountMax,
            state
        )
    }

    /// Whether an event asks to retract what others may refer to: the store must have those first.
    private func mayHaveChildren(_ item: BookedItem, _ event: BookedEvent) -> Bool {
        item.sale?.kind != .refund && change(event)?.kind != .restate
    }

    /// Decides about an item that waits, where that has no outputs of its own: those come after the
    /// commit, with what is due.
    ///
    /// `hasTurn`: it is the next one in a net calculation that is free.
    func look(
        _ place: BookPlace,
        hasTurn: Bool,
        _ book: inout Book,
        _ plan: inout BatchPlan
    ) throws(StoreFault) {
        guard var item = try book.item(place) else {
            return
        }
        switch item.wait {
        case .now, .token, .reference, .turn: break
        case .reopening: return try reopen(item, place, &book, into: &plan)
        case .idle, .rate, .base, .queued, .sent: return
        }
        var wait = BookedItem.Wait.now
        if let number = item.turn, let event = try book.event(number, of: item, at: place),
            number == 0 || !mayHaveChildren(item, event)
        {
            var decided = item
            let decision = correctable(
                try decide(number, &decided, place, event, &book, now: plan.now),
                decided
            )
            switch decision {
            case .wait(item.wait) where BookKey.isSame(decided.parent, item.parent): return
            case .queue, .wait:
                return try enact(
                    decision,
                    decided,
                    place,
                    event,
                    hasTurn: hasTurn,
                    &book,
                    into: &plan
                )
            case .notOwed, .repeated, .refuse:
                if !hasTurn, item.live != nil,
                    try awaitsTurn(&item, place, &book, now: plan.now)
                {
                    return
                }
                // Until then it stays among those that a restatement of its buy looks for.
                if item.standing == .pending, item.sale?.kind == .refund, let buy = decided.parent {
                    wait = .reference(place.key.sibling(buy), until: BookedItem.never)
                }
            }
        }
        guard item.wait != wait else {
            return
        }
        if wait == .now {
            metrics.waited(plan.now - item.waitingSince, for: item.wait)
            item.wait(for: wait, now: plan.now)
        } else {
            // It goes on waiting as far as anybody can see.
            item.wait = wait
        }
        if hasTurn {
            // Nobody else has it until this one is decided.
            _ = try takesTurn(&item, place, hasTurn: true, &book)
        }
        book.put(item, at: place)
    }
}
