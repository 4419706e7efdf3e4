internal import StateStore
internal import TokenDomain

/// The starts of a subscription, and which of them a later event refers to.
extension PurchasesStage {
    /// The start of a subscription: its later events refer to it.
    func noteStart(
        _ sale: PurchaseEvent,
        _ event: BookedEvent,
        _ place: BookPlace,
        _ book: inout Book,
        now: Timestamp
    ) throws(StoreFault) {
        guard sale.subscriptionEvent == .start, let id = sale.subscriptionID,
            let date = sale.creationDate
        else {
            return
        }
        let key = place.key.subscription(id)
        let place = place.at(key)
        var record = try book.subscription(place) ?? BookedSubscription(touchedAt: now)
        // One that comes again takes nobody's place.
        let isNew = !record.starts.contains { BookKey.isSame($0.name, sale.lineItemID) }
        for start in record.starts where !BookKey.isSame(start.name, sale.lineItemID) {
            let other = place.at(key.sibling(start.name))
            // What waits for another start may refer to this one.
            try book.wake(other)
            // It takes the place of a refused one of its date or of a later one. A refused one of an
            // earlier date began an earlier life of the subscription, whose events wait for it.
            if isNew, let refused = start.date, date <= refused, try book.item(other)?.sale == nil {
                record.starts.removeAll { $0 == start }
            }
        }
        record.note(start: sale.lineItemID, at: date, offset: event.offset)
        record.touchedAt = now
        try book.wake(place)
        book.put(record, at: place)
    }

    /// A retracted start leaves its subscription with its item: without that it would be one that was refused.
    func forgetStart(_ place: BookPlace, _ book: inout Book) throws(StoreFault) {
        guard place.key.kind == .item, let item = try book.item(place), item.isRetracted,
            let sale = item.sale, sale.subscriptionEvent == .start, let id = sale.subscriptionID
        else {
            return
        }
        let subscription = place.at(place.key.subscription(id))
        guard var record = try book.subscription(subscription) else {
            return
        }
        record.starts.removeAll { BookKey.isSame($0.name, sale.lineItemID) }
        book.put(record, at: subscription)
    }

    /// The newest start of a subscription that is not after an event of it, and is not retracted.
    ///
    /// Where there is none, the newest retracted one, and else the newest of all. Of those of one date one
    /// that was not refused comes first. None is the event itself, which may have the name of one that was
    /// refused; nor is what has the name of a refused one now, and is no start of the subscription.
    ///
    /// A retraction takes along what came before it: that does not go to an earlier life, only to a
    /// start that was sent after the retracted one.
    func start(
        of sale: PurchaseEvent,
        _ subscription: BookPlace,
        _ event: BookedEvent,
        _ book: inout Book
    ) throws(StoreFault) -> String? {
        let id = sale.lineItemID
        guard let record = try book.subscription(subscription),
            let newest = record.starts.first(where: { !BookKey.isSame($0.name, id) }),
            let date = sale.creationDate
        else {
            return nil
        }
        guard record.starts.count > 1 else {
            let item = try book.item(subscription.at(subscription.key.sibling(newest.name)))
            return mayBegin(item, sale) ? newest.name : nil
        }
        let left = try withdrawn(record.starts, of: sale, date, subscription, event, &book)
        var first: String?
        var found: (name: String, order: Order)?
        var retracted: (name: String, order: Order)?
        var undated: String?
        for start in record.starts where !BookKey.isSame(start.name, id) {
            let place = subscription.at(subscription.key.sibling(start.name))
            let item = try book.item(place)
            guard mayBegin(item, sale) else {
                continue
            }
            first = first ?? start.name
            guard let own = start.date ?? item?.sale?.creationDate else {
                undated = undated ?? start.name
                continue
            }
            if let left, start.isOfEarlierLife(than: left) {
                continue
            }
            let order = Order(date: own, isRefused: item?.sale == nil)
            guard own <= date, found.map({ $0.order < order }) ?? true else {
                continue
            }
            // What comes before the event may make it live again.
            if let item, item.isRetracted, try !isChanging(item, place, before: event, &book) {
                if retracted.map({ $0.order < order }) ?? true {
                    retracted = (start.name, order)
                }
                continue
            }
            found = (start.name, order)
        }
        return found?.name ?? left?.name ?? retracted?.name ?? undated ?? first
    }

    /// The newest start that is not after an event, and was sent before it and retracted after it: the event
    /// is of the life that was withdrawn.
    ///
    /// Not where it was found to refer to another one already.
    private func withdrawn(
        _ starts: [BookedSubscription.Start],
        of sale: PurchaseEvent,
        _ date: Timestamp,
        _ subscription: BookPlace,
        _ event: BookedEvent,
        _ book: inout Book
    ) throws(StoreFault) -> BookedSubscription.Start? {
        let id = sale.lineItemID
        let parent = try book.item(subscription.at(subscription.key.sibling(id)))?.parent
        for start in starts
        where !BookKey.isSame(start.name, id)
            && BookKey.isSame(parent ?? start.name, start.name)
        {
            let place = subscription.at(subscription.key.sibling(start.name))
            guard let begun = start.date, begun <= date,
                let offset = start.offset, offset < event.offset,
                let item = try book.item(place), item.isRetracted, mayBegin(item, sale),
                let retractedOffset = item.retractedOffset, retractedOffset > event.offset,
                // Where offsets began anew, times say that the event came later.
                let change = item.lastChange, change.time >= event.receivedAt
            else {
                continue
            }
            return start
        }
        return nil
    }

    /// Whether an item may be the start of a later event's subscription; of a refused one nothing is known.
    private func mayBegin(_ item: BookedItem?, _ sale: PurchaseEvent) -> Bool {
        guard let start = item?.sale else {
            return true
        }
        return start.subscriptionEvent == .start && start.subscriptionID == sale.subscriptionID
    }
}

extension BookedSubscription.Start {
    /// Whether it began an earlier life than another start, and was not sent in its place.
    fileprivate func isOfEarlierLife(than other: Self) -> Bool {
        guard let date, let otherDate = other.date, let offset, let otherOffset = other.offset
        else {
            return false
        }
        return date < otherDate && offset < otherOffset
    }
}

/// Which of two starts a later event refers to: the greater one.
private struct Order: Comparable {
    var date: Timestamp
    /// Or forgotten.
    var isRefused: Bool

    static func < (one: Order, other: Order) -> Bool {
        one.date == other.date ? one.isRefused && !other.isRefused : one.date < other.date
    }
}
