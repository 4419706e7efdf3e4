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
        guard item.sale?.subscriptionID != nil, let sale = item.sale, sale.kind == .buy,
            let id = sale.subscriptionID, let period = PaidService.Period(of: sale)
        else {
            return
        }
        let subscription = place.at(place.key.subscription(id))
        var record = try book.subscription(subscription) ?? BookedSubscription(touchedAt: now)
        record.givesDays = record.givesDays || period.daysBefore != nil
        // Of several lives only the items say which an event is of, and only the sales of two events
        // that begin at one time which of them comes first.
        //
        // Also where it counts none: a subscription is remembered as long as events of it come.
        if record.countsArrivals, record.hasOneLife, var paid = record.paid,
            paid.isInOrder(period.start)
        {
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

    /// How many days the subscription was paid for before an event of it, in the life that its
    /// start began; 0 for what is no later event.
    ///
    /// Source: Apple, "subscriptionDaysOfPaidService": the days of a new subscription begin at 0
    func days(
        before sale: PurchaseEvent,
        _ item: BookedItem,
        _ place: BookPlace,
        _ book: inout Book
    ) throws(StoreFault) -> Int64 {
        guard sale.isLaterSubscriptionEvent, let id = sale.subscriptionID,
            let period = PaidService.Period(of: sale)
        else {
            return 0
        }
        if let live = item.live {
            return live.days
        }
        if let given = period.daysBefore {
            return given
        }
        let subscription = place.at(place.key.subscription(id))
        let record = try book.subscription(subscription)
        // An earlier version went on counting where a customer had come back.
        if let record, record.countsArrivals, record.hasOneLife, let days = item.daysBefore {
            return days
        }
        guard let start = item.parent, let first = try beginning(of: start, place, book) else {
            return 0
        }
        let periods = try book.periods(
            of: subscription,
            from: first,
            until: period.start,
            givesDays: record?.givesDays ?? false
        ).filter { $0.key != place.key }.map(\.period)
        return PaidService(
            periods,
            forgotten: record?.forgotten(of: start, beside: periods) ?? Milliseconds(0)
        ).days(before: period.start)
    }

    /// When the life begins that a start began, of the customer of a place; nil where the start is
    /// gone.
    private func beginning(
        of start: String,
        _ place: BookPlace,
        _ book: Book
    ) throws(StoreFault) -> Timestamp? {
        try book.item(place.at(place.key.sibling(start)))?.sale?.subscriptionStartDate
    }

    /// The subscription keeps what its count from the items loses with one that is forgotten.
    ///
    /// Its start stays as long as anything refers to it, so that forgotten periods lie between
    /// others; where it is gone, the life that it began is over.
    func keepPaid(of place: BookPlace, _ book: inout Book) throws(StoreFault) {
        guard place.key.kind == .item, let item = try book.item(place),
            let (sale, _) = BookDue.period(of: item), sale.isLaterSubscriptionEvent,
            let id = sale.subscriptionID, let start = item.parent,
            let first = try beginning(of: start, place, book)
        else {
            return
        }
        let subscription = place.at(place.key.subscription(id))
        guard var record = try book.subscription(subscription) else {
            return
        }
        let periods = try book.periods(
            of: subscription,
            from: first,
            givesDays: record.givesDays
        )
        guard let index = periods.firstIndex(where: { $0.key == place.key }) else {
            return
        }
        record.forget(index, of: periods.map(\.period), of: start)
        book.put(record, at: subscription)
    }
}

extension Book {
    /// The periods of a subscription that begin in a span of time, in order: for an event that
    /// comes late, after one that was refused or changed, and where a customer comes back.
    ///
    /// Those of the store, and as they were put since. Where two begin at one time, or `givesDays`,
    /// their items say what counts.
    fileprivate func periods(
        of subscription: BookPlace,
        from first: Timestamp,
        until last: Timestamp = Timestamp(milliseconds: .max),
        givesDays: Bool
    ) throws(StoreFault) -> [(key: BookKey, period: PaidService.Period)] {
        let group = BookDue.start(.period, of: subscription.key.bytes)
        let partition = subscription.partition
        var periods: [BookKey: PaidService.Period] = [:]
        try state.scan(
            .due,
            partition: partition,
            from: group + BigEndian.bytes(first.milliseconds),
            within: group
        ) { entry, note in
            guard let period = BookDue.period(entry, note, in: group), period.start <= last,
                let key = BookDue.key(of: entry, after: group, numberByteCount: 8)
            else {
                return false
            }
            if !isRemoved(subscription.at(key)) {
                periods[key] = period
            }
            return true
        }
        for place in recent.waiting(in: group) {
            let found = try item(place).flatMap { BookDue.period(of: $0) }
            // Its name may be another subscription's by now.
            let isOfThis =
                found?.0.subscriptionID.map { place.key.subscription($0) == subscription.key }
                ?? false
            periods[place.key] = found.flatMap {
                isOfThis && $0.1.start >= first && $0.1.start <= last ? $0.1 : nil
            }
        }
        return try inOrder(periods, subscription, givesDays: givesDays)
    }

    /// Periods of a subscription by their items, in order.
    private func inOrder(
        _ periods: [BookKey: PaidService.Period],
        _ subscription: BookPlace,
        givesDays: Bool
    ) throws(StoreFault) -> [(key: BookKey, period: PaidService.Period)] {
        var counts: [Timestamp: Int] = [:]
        for period in periods.values {
            counts[period.start, default: 0] += 1
        }
        let places = periods.filter { givesDays || (counts[$0.value.start] ?? 0) > 1 }.keys
            .map { subscription.at($0) }
        try load(places)
        var sales: [BookKey: PurchaseEvent] = [:]
        for place in places {
            sales[place.key] = try item(place)?.sale
        }
        var ordered: [(order: PaidService.Order, key: BookKey, period: PaidService.Period)] = []
        for (key, period) in periods {
            var period = period
            period.daysBefore = sales[key]?.subscriptionDaysOfPaidService
            let order = PaidService.Order(period, of: sales[key], named: key.name)
            ordered.append((order, key, period))
        }
        ordered.sort { $0.order < $1.order }
        return ordered.map { ($0.key, $0.period) }
    }
}
