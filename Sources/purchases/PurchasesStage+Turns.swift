internal import StageRuntime
internal import StateStore
internal import TokenDomain

/// The net calculation of a buy: itself, its refunds, and what corrects them.
///
/// One of its items at a time stands in a queue or is under way: Apple wants the same figure of all (code 24).
/// They have their turns in the order in which their events came, for each is right after those before it.
/// The buy names the item that has the turn; the buy's first event has no other before it.
extension PurchasesStage {
    /// Items looked at for one that takes its turn.
    private static let turnCountMax = 100

    /// The buy whose net calculation an item belongs to.
    func root(of item: BookedItem, _ place: BookPlace) -> BookPlace {
        guard item.sale?.kind == .refund, let parent = item.parent else {
            return place
        }
        return place.at(place.key.sibling(parent))
    }

    /// Whether an item that may go to a queue has its turn, which it then takes.
    ///
    /// Where others wait for theirs, the one whose event came first has it as soon as the woken are looked
    /// at: `hasTurn` says that it is this one.
    func takesTurn(
        _ item: inout BookedItem,
        _ place: BookPlace,
        hasTurn: Bool,
        _ book: inout Book
    ) throws(StoreFault) -> Bool {
        guard item.turn != 0 || item.sale?.kind == .refund else {
            return true
        }
        let rootPlace = root(of: item, place)
        // A buy that is not there any more: whoever makes the report finds that.
        guard var root = rootPlace == place ? item : try book.item(rootPlace) else {
            return true
        }
        let name = place.key.name
        if root.busyWith == nil, !hasTurn,
            try book.mayBeAwaited(BookDue.turns(of: rootPlace.key), partition: place.partition)
        {
            book.note(woken: rootPlace)
            return false
        }
        guard root.busyWith == nil || place.key.isNamed(root.busyWith) else {
            return false
        }
        if rootPlace == place {
            item.busyWith = name
        } else if root.busyWith == nil {
            root.busyWith = name
            book.put(root, at: rootPlace)
        }
        return true
    }

    /// A change that needs no report is settled after the commit, and has the turn until then: the
    /// next change of its item goes before what came behind that.
    ///
    /// - Returns: whether it waits for the turn instead, which nobody has and others wait for.
    ///   While another item has it, the change is settled without.
    func awaitsTurn(
        _ item: inout BookedItem,
        _ place: BookPlace,
        _ book: inout Book,
        now: Timestamp
    ) throws(StoreFault) -> Bool {
        guard try !takesTurn(&item, place, hasTurn: false, &book) else {
            book.put(item, at: place)
            return false
        }
        let rootPlace = root(of: item, place)
        guard try book.item(rootPlace)?.busyWith == nil else {
            return false
        }
        let wait = BookedItem.Wait.turn(rootPlace.key)
        if item.wait != wait {
            metrics.waited(now - item.waitingSince, for: item.wait)
        }
        item.wait(for: wait, now: now)
        book.put(item, at: place)
        return true
    }

    /// An item that goes to no queue now, or is under way no more, gives up the turn, where it has it.
    func leaveTurn(
        _ item: inout BookedItem,
        _ place: BookPlace,
        _ book: inout Book
    ) throws(StoreFault) {
        let rootPlace = root(of: item, place)
        if rootPlace == place {
            guard place.key.isNamed(item.busyWith) else {
                return
            }
            item.busyWith = nil
        } else {
            guard var root = try book.item(rootPlace), place.key.isNamed(root.busyWith) else {
                return
            }
            root.busyWith = nil
            book.put(root, at: rootPlace)
        }
        try book.wake(rootPlace)
    }

    /// An item left its queue and is not under way: the next one that waits for its turn has it.
    func passTurn(
        of place: BookPlace,
        in root: BookPlace,
        _ book: inout Book
    ) throws(StoreFault) {
        guard var buy = try book.item(root), buy.live != nil else {
            return
        }
        if place.key.isNamed(buy.busyWith) {
            buy.busyWith = nil
            book.put(buy, at: root)
        }
        if buy.busyWith == nil {
            try book.wake(root)
        }
    }

    /// One of the items that wait for their turn at a buy takes it, in the transaction that frees it.
    func giveTurn(
        of place: BookPlace,
        to items: [BookPlace],
        hasMore: Bool,
        _ book: inout Book,
        _ plan: inout BatchPlan
    ) throws(StoreFault) {
        guard place.key.kind == .item, try book.item(place)?.busyWith == nil else {
            return
        }
        try book.load(items)
        for item in try book.inOrderOfEvents(items) {
            try look(item, hasTurn: true, &book, &plan)
            if try book.item(place)?.busyWith != nil {
                return
            }
        }
        if hasMore {
            // All of these have left it: the next ones are looked at after the commit.
            try setWaking(place, [], &book)
        }
    }

    /// The same after the commit, for what a transaction had no room for.
    ///
    /// - Returns: how many were looked at.
    func giveTurn(
        _ place: BookPlace,
        countMax: Int,
        _ book: inout Book,
        into plan: inout BatchPlan
    ) throws(StoreFault) -> Int {
        guard place.key.kind == .item, try book.item(place)?.busyWith == nil else {
            return 0
        }
        let group = BookDue.turns(of: place.key)
        let (waiting, next) = try entries(
            place.partition,
            prefix: group,
            countMax: min(countMax, Self.turnCountMax),
            plan.state
        )
        let items = waiting.compactMap { entry, _ in
            BookDue.key(of: entry, after: group).map(place.at)
        }
        try book.load(items)
        for (index, item) in try book.inOrderOfEvents(items).enumerated() {
            try decide(item, isWoken: true, hasTurn: true, &book, into: &plan)
            if try book.item(place)?.busyWith != nil {
                return index + 1
            }
        }
        if next != nil {
            try setWaking(place, [], &book)
        }
        return waiting.count
    }
}
