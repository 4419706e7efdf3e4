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
        _ state: StagedState
    ) throws(StoreFault) -> (before: Int64, all: PaidService) {
        var before: Int64?
        var paid = PaidService()
        func add(_ next: PaidService.Period) {
            if before == nil, next.start > period.start {
                before = paid.days(before: period.start)
                paid.add(period)
            }
            paid.add(next)
        }
        try state.scan(.due, partition: partition, from: group, within: group) { key, note in
            guard key.count > group.count + 8, note.count == 9 else {
                return false
            }
            add(
                PaidService.Period(
                    start: Timestamp(
                        milliseconds: BigEndian.number(key, at: group.count)
                    ),
                    end: Timestamp(milliseconds: BigEndian.number(note, at: 0)),
                    isPaid: note[8] == 1
                )
            )
            return true
        }
        if let before {
            return (before, paid)
        }
        let days = paid.days(before: period.start)
        paid.add(period)
        return (days, paid)
    }
}
