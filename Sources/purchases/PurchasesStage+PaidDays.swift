internal import StageRuntime
internal import StateStore
internal import TokenDomain

/// Paid days of subscriptions, counted on where an event comes in order and anew where not.
extension PurchasesStage {
    /// Counts an event of a subscription that comes after all that came before: months that go under
    /// several tokens are reported in any order.
    func countArrival(
        _ item: inout BookedItem,
        _ place: BookPlace,
        _ book: inout Book,
        now: Timestamp
    ) throws(StoreFault) {
        item.daysBefore = nil
        guard let sale = item.sale, sale.kind == .buy, let id = sale.subscriptionID,
            let period = PaidService.Period(of: sale)
        else {
            return
        }
        let subscription = place.at(place.key.subscription(id))
        var record = try book.subscription(subscription) ?? BookedSubscription(touchedAt: now)
        guard record.countsArrivals else {
            return
        }
        if var paid = record.paid, paid.isInOrder(period.start) {
            item.daysBefore = paid.days(before: period.start)
            paid.add(period)
            record.paid = paid
        } else {
            record.paid = nil
            record.countsArrivals = false
        }
        record.touchedAt = now
        book.put(record, at: subscription)
    }

    /// How many days the subscription was paid for before an event of it.
    ///
    /// - Returns: 0 for what is no later event; nil where it must be counted from the items and the
    ///   store does not have all of them yet.
    func days(
        before sale: PurchaseEvent,
        _ item: BookedItem,
        _ place: BookPlace,
        _ book: inout Book,
        _ plan: BatchPlan
    ) throws(StoreFault) -> Int64? {
        guard sale.kind == .buy, let id = sale.subscriptionID,
            let period = PaidService.Period(of: sale)
        else {
            return 0
        }
        if let live = item.live {
            return live.days
        }
        let key = place.key.subscription(id)
        let subscription = place.at(key)
        var record =
            try book.subscription(subscription) ?? BookedSubscription(touchedAt: plan.now)
        if record.countsArrivals, let days = item.daysBefore {
            return days
        }
        if var paid = record.paid, paid.isInOrder(period.start) {
            let days = paid.days(before: period.start)
            paid.add(period)
            record.paid = paid
            record.touchedAt = plan.now
            book.put(record, at: subscription)
            return days
        }
        guard
            plan.state.stagedValue(forKey: key.bytes, partition: place.partition) == nil,
            !book.isChanged(subscription)
        else {
            return nil
        }
        let group = BookDue.start(.period, of: key.bytes)
        let (before, all) = try countPaid(
            group,
            place.partition,
            adding: period,
            to: PaidService(before: record.forgotten),
            plan.state
        )
        record.paid = all
        record.touchedAt = plan.now
        book.put(record, at: subscription)
        return before
    }

    /// Counts the paid days of a subscription from its items, in order: for an event that comes
    /// late, and after one that was refused or changed.
    private func countPaid(
        _ group: [UInt8],
        _ partition: Int32,
        adding period: PaidService.Period,
        to forgotten: PaidService,
        _ state: StagedState
    ) throws(StoreFault) -> (before: Int64, all: PaidService) {
        var before: Int64?
        var paid = forgotten
        func add(_ next: PaidService.Period) {
            if before == nil, next.start > period.start {
                before = paid.days(before: period.start)
                paid.add(period)
            }
            paid.add(next)
        }
        try state.scan(.due, partition: partition, from: group, within: group) { key, note in
            guard let next = Self.period(key, note, in: group) else {
                return false
            }
            add(next)
            return true
        }
        if let before {
            return (before, paid)
        }
        let days = paid.days(before: period.start)
        paid.add(period)
        return (days, paid)
    }

    /// The period of an entry of the due table.
    private static func period(
        _ key: [UInt8],
        _ note: [UInt8],
        in group: [UInt8]
    ) -> PaidService.Period? {
        guard key.count > group.count + 8, note.count == 9 else {
            return nil
        }
        return PaidService.Period(
            start: Timestamp(milliseconds: BigEndian.number(key, at: group.count)),
            end: Timestamp(milliseconds: BigEndian.number(note, at: 0)),
            isPaid: note[8] == 1
        )
    }

    /// The subscription keeps what its count from the items loses with one that is forgotten.
    ///
    /// Its start stays as long as anything refers to it, so that forgotten periods lie between others.
    func keepPaid(
        of place: BookPlace,
        _ book: inout Book,
        _ state: StagedState
    ) throws(StoreFault) {
        guard place.key.kind == .item, let item = try book.item(place),
            let (sale, period) = BookDue.period(of: item), let id = sale.subscriptionID
        else {
            return
        }
        let subscription = place.at(place.key.subscription(id))
        guard var record = try book.subscription(subscription) else {
            return
        }
        let group = BookDue.start(.period, of: subscription.key.bytes)
        var previous: PaidService.Period?
        var next: PaidService.Period?
        var isBehind = false
        let known = book
        try state.scan(.due, partition: place.partition, from: group, within: group) {
            entry,
            note in
            guard let found = Self.period(entry, note, in: group),
                let key = BookDue.key(of: entry, after: group, numberByteCount: 8)
            else {
                return false
            }
            if key == place.key {
                isBehind = true
            } else if known.isRemoved(place.at(key)) {
                return true
            } else if isBehind {
                next = found
                return false
            } else {
                previous = found
            }
            return true
        }
        guard isBehind else {
            return
        }
        let loss = PaidService.loss(of: period, between: previous, and: next)
        record.forgotten = Milliseconds(record.forgotten.count &+ loss.count)
        book.put(record, at: subscription)
    }
}
