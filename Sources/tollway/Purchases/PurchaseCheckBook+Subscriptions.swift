internal import TokenDomain

/// The starts and the paid days of subscriptions, by the rules of `purchases`.
extension PurchaseCheckBook {
    struct Subscription {
        /// In the order in which they came.
        private var starts: [(id: String, date: Timestamp)] = []
        /// Its events that Apple has.
        var events: [Key] = []
        /// Nil where it must be counted anew from ``events``.
        var paid: PaidService? = PaidService()
        /// Whether ``paid`` counts events as they come, also those that are not owed: until one comes out of
        /// order, is refused or changed.
        private(set) var countsArrivals = true

        mutating func note(start id: String, at date: Timestamp) {
            starts.removeAll { $0.id == id }
            starts.append((id, date))
        }

        /// The id with the newest date, the last that came of several.
        func newestStart(
            where isFit: (_ id: String, _ date: Timestamp) -> Bool = { _, _ in true }
        ) -> String? {
            var newest: (id: String, date: Timestamp)?
            for start in starts where isFit(start.id, start.date) {
                if newest.map({ $0.date <= start.date }) ?? true {
                    newest = start
                }
            }
            return newest?.id
        }

        /// A period changed: paid days are counted anew.
        mutating func recount() {
            paid = nil
            countsArrivals = false
        }
    }

    // MARK: Starts

    /// The newest start of a subscription that is not after an event of it, and is not retracted; the newest
    /// of all where there is none.
    func start(of sale: PurchaseEvent) -> String? {
        guard let id = sale.subscriptionID, let date = sale.creationDate,
            let subscription = subscriptions[subscription(sale, id)],
            let newest = subscription.newestStart()
        else {
            return nil
        }
        return subscription.newestStart { id, startDate in
            guard startDate <= date else {
                return false
            }
            let key = key(sale, id)
            // One that was refused is waited for where it is the newest.
            return items[key].map { !$0.isRetracted } ?? (unreported[key] != nil || id == newest)
        } ?? newest
    }

    // MARK: Paid days

    /// A buy or a refund that is new comes in.
    mutating func arrive(_ sale: PurchaseEvent, _ key: Key) {
        daysAtArrival[key] = nil
        guard sale.kind == .buy, let id = sale.subscriptionID else {
            return
        }
        let name = subscription(sale, id)
        var subscription = subscriptions[name] ?? Subscription()
        if sale.subscriptionEvent == .start, let date = sale.creationDate {
            subscription.note(start: sale.lineItemID, at: date)
        }
        if subscription.countsArrivals, let period = PaidService.Period(of: sale) {
            if let paid = subscription.paid, paid.isInOrder(period.start) {
                daysAtArrival[key] = paid.days(before: period.start)
                subscription.paid?.add(period)
            } else {
                subscription.recount()
            }
        }
        subscriptions[name] = subscription
    }

    /// An event of a subscription is reported.
    mutating func note(_ sale: PurchaseEvent, _ key: Key) {
        if sale.kind == .buy, let id = sale.subscriptionID {
            subscriptions[subscription(sale, id)]?.events.append(key)
        }
    }

    /// An event of a subscription was refused, or changed.
    mutating func recount(_ sale: PurchaseEvent) {
        if sale.kind == .buy, let id = sale.subscriptionID {
            subscriptions[subscription(sale, id)]?.recount()
        }
    }

    /// How many days the subscription was paid for before an event of it, which is counted from now on.
    mutating func days(before sale: PurchaseEvent, _ key: Key) -> Int64 {
        guard sale.kind == .buy, let id = sale.subscriptionID,
            let period = PaidService.Period(of: sale)
        else {
            return 0
        }
        let name = subscription(sale, id)
        var subscription = subscriptions[name] ?? Subscription()
        defer {
            subscriptions[name] = subscription
        }
        if subscription.countsArrivals, let days = daysAtArrival[key] {
            return days
        }
        if let paid = subscription.paid, paid.isInOrder(period.start) {
            subscription.paid?.add(period)
            return paid.days(before: period.start)
        }
        let others = subscription.events.compactMap { items[$0] }
            .filter { !$0.isRetracted }
            .compactMap { PaidService.Period(of: $0.sale) }
            .sorted { $0.start < $1.start }
        var paid = PaidService()
        for other in others.prefix(while: { $0.start <= period.start }) {
            paid.add(other)
        }
        let days = paid.days(before: period.start)
        paid.add(period)
        for other in others.drop(while: { $0.start <= period.start }) {
            paid.add(other)
        }
        subscription.paid = paid
        return days
    }
}
