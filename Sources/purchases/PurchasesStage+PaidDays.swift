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
        // Also where it counts none: a subscription is remembered as long as events of it come.
        if record.countsArrivals, var paid = record.paid, paid.isInOrder(period.start) {
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

    /// How many days the subscription was paid for before an event of it; 0 for what is no later event.
    func days(
        before sale: PurchaseEvent,
        _ item: BookedItem,
        _ place: BookPlace,
        _ book: inout Book
    ) throws(StoreFault) -> Int64 {
        guard sale.kind == .buy, let id = sale.subscriptionID,
            let period = PaidService.Period(of: sale)
        else {
            return 0
        }
        if let live = item.live {
            return live.days
        }
        let subscription = place.at(place.key.subscription(id))
        let record = try book.subscription(subscription)
        if record?.countsArrivals == true, let days = item.daysBefore {
            return days
        }
        return try book.periods(of: subscription, until: period.start, but: place)
            .reduce(into: PaidService(before: record?.forgotten ?? Milliseconds(0))) {
                $0.add($1)
            }.days(before: period.start)
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
            guard let found = BookDue.period(entry, note, in: group),
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

extension Book {
    /// The periods of a subscription that begin before a time, in order: for an event that comes late,
    /// and after one that was refused or changed.
    ///
    /// Those of the store, and as they were put since.
    fileprivate func periods(
        of subscription: BookPlace,
        until last: Timestamp,
        but own: BookPlace
    ) throws(StoreFault) -> [PaidService.Period] {
        let group = BookDue.start(.period, of: subscription.key.bytes)
        let partition = subscription.partition
        var periods: [BookKey: PaidService.Period] = [:]
        try state.scan(.due, partition: partition, from: group, within: group) { entry, note in
            guard let period = BookDue.period(entry, note, in: group), period.start <= last,
                let key = BookDue.key(of: entry, after: group, numberByteCount: 8)
            else {
                return false
            }
            periods[key] = period
            return true
        }
        for place in recent.waiting(in: group) {
            let found = try item(place).flatMap { BookDue.period(of: $0) }
            // Its name may be another subscription's by now.
            let isOfThis =
                found?.0.subscriptionID.map { place.key.subscription($0) == subscription.key }
                ?? false
            periods[place.key] = found.flatMap { isOfThis && $0.1.start <= last ? $0.1 : nil }
        }
        periods[own.key] = nil
        return periods.sorted {
            ($0.value.start, $0.key.name) < ($1.value.start, $1.key.name)
        }.map(\.value)
    }
}
