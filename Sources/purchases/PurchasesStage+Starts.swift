internal import StateStore
internal import TokenDomain

/// The starts of a subscription, and which of them a later event refers to.
extension PurchasesStage {
    /// The start of a subscription: its later events refer to it.
    func noteStart(
        _ sale: PurchaseEvent,
        _ place: BookPlace,
        _ book: inout Book,
        now: Timestamp
    ) throws(StoreFault) {
        guard sale.subscriptionEvent == .start, let id = sale.subscriptionID else {
            return
        }
        let key = place.key.subscription(id)
        let place = place.at(key)
        var record = try book.subscription(place) ?? BookedSubscription(touchedAt: now)
        var others: [(name: String, date: Timestamp)] = []
        for name in record.starts where name != sale.lineItemID {
            let other = place.at(key.sibling(name))
            // What waits for another start may refer to this one.
            try book.wake(other)
            if let date = try book.item(other)?.sale?.creationDate {
                others.append((name, date))
            }
        }
        // What was refused may have been sent again as this one. Until another start came, what refers to
        // the subscription waited for its replay.
        record.keep(starts: others)
        record.note(start: sale.lineItemID, at: sale.creationDate)
        record.touchedAt = now
        try book.wake(place)
        book.put(record, at: place)
    }

    /// The newest start of a subscription that is not after an event of it, and is not retracted.
    ///
    /// Where there is none, the newest retracted one, and else the newest of all.
    func start(
        of sale: PurchaseEvent,
        _ subscription: BookPlace,
        _ event: BookedEvent,
        _ book: inout Book
    ) throws(StoreFault) -> String? {
        guard let record = try book.subscription(subscription),
            let newest = record.startLineItemID, let date = sale.creationDate
        else {
            return nil
        }
        var found: (name: String, date: Timestamp)?
        var retracted: (name: String, date: Timestamp)?
        for name in record.otherStarts.isEmpty ? [] : record.starts {
            let place = subscription.at(subscription.key.sibling(name))
            let item = try book.item(place)
            let own = item?.sale?.creationDate ?? (name == newest ? record.startDate : nil)
            guard let own, own <= date, found.map({ $0.date < own }) ?? true else {
                continue
            }
            // What comes before the event may make it live again.
            if let item, item.isRetracted, try !isChanging(item, place, before: event, &book) {
                if retracted.map({ $0.date < own }) ?? true {
                    retracted = (name, own)
                }
                continue
            }
            found = (name, own)
        }
        return found?.name ?? retracted?.name ?? newest
    }
}
