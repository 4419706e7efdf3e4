internal import StageRuntime
internal import StateStore
internal import TokenDomain

/// Items that wait for a record are looked at in the transaction that changes the record.
extension PurchasesStage {
    /// Items of the store that are looked at for one record; the others are woken after the commit.
    private static let storedCountMax = 100

    /// Stages what a book changed, and what follows from it for the items that wait for it.
    func close(_ book: inout Book, _ plan: inout BatchPlan) throws(StoreFault) {
        for place in book.takeWoken() {
            try wake(place, &book, &plan)
        }
        book.flush()
    }

    private func wake(
        _ place: BookPlace,
        _ book: inout Book,
        _ plan: inout BatchPlan
    ) throws(StoreFault) {
        var group = BookDue.start(.reference, of: place.key.bytes)
        var prefix = BookDue.references(to: place.key)
        if place.key.kind == .token {
            guard let token = try book.token(place) else {
                return
            }
            group = BookDue.start(.token, of: BookDue.tokenGroup(of: token, place.key))
            prefix = group
        }
        let (items, next) = try waiting(in: group, prefix, place, plan)
        try book.load(items)
        for item in items {
            try look(item, &book, &plan)
        }
        if let next {
            try setWaking(place, next, &book)
        }
        try giveTurn(of: place, &book, &plan)
    }

    /// The items in a group, in order: of the store those that begin with a prefix, and those put since.
    private func waiting(
        in group: [UInt8],
        _ prefix: [UInt8],
        _ place: BookPlace,
        _ plan: BatchPlan
    ) throws(StoreFault) -> (items: [BookPlace], next: [UInt8]?) {
        let (stored, next) = try entries(
            place.partition,
            from: prefix,
            prefix: prefix,
            countMax: Self.storedCountMax,
            plan.state
        )
        var items = recent.waiting(in: group)
        for (entry, _) in stored {
            if let key = BookDue.key(of: entry, after: group) {
                items.insert(place.at(key))
            }
        }
        return (items.sorted(), next)
    }

    /// One of the items that wait for their turn in the net calculation of a buy takes it: the others
    /// would only find that one under way.
    private func giveTurn(
        of place: BookPlace,
        _ book: inout Book,
        _ plan: inout BatchPlan
    ) throws(StoreFault) {
        guard place.key.kind == .item, try book.item(place)?.busyWith == nil else {
            return
        }
        let group = BookDue.turns(of: place.key)
        let (items, next) = try waiting(in: group, group, place, plan)
        for item in items {
            try look(item, &book, &plan)
            if case .queued = try book.item(item)?.wait {
                return
            }
        }
        if next != nil {
            // All of these have left it: the next ones are looked at after the commit.
            try setWaking(place, [], &book)
        }
    }

    /// Decides about an item that waits, where that has no outputs of its own: those come after the
    /// commit, with what is due.
    private func look(
        _ place: BookPlace,
        _ book: inout Book,
        _ plan: inout BatchPlan
    ) throws(StoreFault) {
        guard var item = try book.item(place) else {
            return
        }
        switch item.wait {
        case .token, .reference, .turn: break
        case .reopening: return try reopen(item, place, &book, into: &plan)
        case .idle, .now, .rate, .base, .queued, .sent: return
        }
        if item.turn == 0, let event = try book.event(0, of: place) {
            var decided = item
            let decision = try decideBase(&decided, place, event, &book, now: plan.now)
            switch decision {
            case .wait(item.wait) where decided.parent == item.parent: return
            case .queue, .wait:
                return try enact(decision, decided, place, event, &book, into: &plan)
            case .notOwed, .repeated, .refuse: break
            }
        }
        metrics.waited(plan.now - item.waitingSince, for: item.wait)
        item.wait(for: .now, now: plan.now)
        book.put(item, at: place)
    }
}
