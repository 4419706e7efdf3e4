internal import TokenDomain

/// The starts and the paid days of subscriptions, by the rules of `purchases`.
extension PurchaseCheckBook {
    struct Subscription {
        struct Start {
            var id: String
            var date: Timestamp
        }

        /// The newest one first: of those of one date the one that came last.
        private(set) var starts: [Start] = []
        /// Those that the last start was sent in place of.
        private(set) var replaced: [String] = []
        /// Its events that Apple has, and those that are not owed.
        var events: Set<Key> = []
        /// What was counted as events came.
        private var paid = PaidService()
        /// Whether ``paid`` counts events as they come, also those that are not owed.
        ///
        /// Until one comes out of order, is refused or changed, or is another start: then ``events``
        /// are counted.
        private(set) var countsArrivals = true

        /// Of more the oldest are forgotten.
        private static let startCountMax = 17

        /// Notes a start that comes; `isRefused` is asked of those that came before.
        mutating func note(start id: String, at date: Timestamp, isRefused: (String) -> Bool) {
            starts.removeAll { $0.id == id }
            // What was refused before it was of an earlier time of the subscription, and is waited for.
            replaced = starts.filter { date <= $0.date && isRefused($0.id) }.map(\.id)
            starts.removeAll { replaced.contains($0.id) }
            let index = starts.firstIndex { $0.date <= date } ?? starts.endIndex
            starts.insert(Start(id: id, date: date), at: index)
            starts = Array(starts.prefix(Self.startCountMax))
        }

        /// Counts an event that comes.
        ///
        /// - Returns: the paid days before it; nil where ``events`` must be counted.
        mutating func arrive(_ period: PaidService.Period) -> Int64? {
            guard countsArrivals, starts.count < 2, paid.isInOrder(period.start) else {
                recount()
                return nil
            }
            let days = paid.days(before: period.start)
            paid.add(period)
            return days
        }

        /// A period changed: paid days are counted anew.
        mutating func recount() {
            countsArrivals = false
        }
    }

    // MARK: Starts

    /// The newest start of a subscription that is not after an event of it, and is not retracted.
    ///
    /// Where there is none, the newest retracted one, and else the newest of all. Of those of one date one
    /// that was not refused comes first.
    func start(of sale: PurchaseEvent) -> String? {
        guard let id = sale.subscriptionID, let date = sale.creationDate,
            let subscription = subscriptions[subscription(sale, id)],
            let newest = subscription.starts.first(where: { $0.id != sale.lineItemID })
        else {
            return nil
        }
        guard subscription.starts.count > 1 else {
            return newest.id
        }
        let before = subscription.starts.filter { $0.date <= date && $0.id != sale.lineItemID }
        let live = before.filter { !isRetracted(key(sale, $0.id)) }
        let fit = live.isEmpty ? before : live
        let sameDate = fit.prefix { $0.date == fit[0].date }
        let found = sameDate.first { !isRefused(key(sale, $0.id)) } ?? sameDate.first
        return (found ?? newest).id
    }

    /// Apple has its retraction, or was never told of it; no restatement of it waits.
    private func isRetracted(_ key: Key) -> Bool {
        items[key].map { $0.isRetracted && !$0.waitsForRate } ?? unreported[key]?.isRetracted
            ?? false
    }

    /// Of what came before: there is no sale of this name.
    private func isRefused(_ key: Key) -> Bool {
        items[key] == nil && unreported[key] == nil && waitingSales[key] == nil
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
            subscription.note(start: sale.lineItemID, at: date) { isRefused(self.key(sale, $0)) }
        }
        if let period = PaidService.Period(of: sale) {
            daysAtArrival[key] = subscription.arrive(period)
        }
        subscriptions[name] = subscription
    }

    /// An event of a subscription is reported, or not owed.
    mutating func note(_ sale: PurchaseEvent, _ key: Key) {
        if sale.kind == .buy, let id = sale.subscriptionID {
            subscriptions[subscription(sale, id)]?.events.insert(key)
        }
    }

    /// An event of a subscription that Apple has, that is not owed, or that waits for a rate alone;
    /// nil where it was retracted.
    private func counted(_ key: Key) -> PurchaseEvent? {
        if let item = items[key] {
            return item.isRetracted ? nil : item.sale
        }
        return unreported[key].flatMap {
            ($0.isNotOwed || $0.isCounted) && !$0.isRetracted ? $0.sale : nil
        }
    }

    func period(of item: Unreported) -> PaidService.Period? {
        item.isNotOwed && !item.isRetracted ? PaidService.Period(of: item.sale) : nil
    }

    /// An event of a subscription was refused or changed.
    mutating func recount(_ sale: PurchaseEvent) {
        if sale.kind == .buy, let id = sale.subscriptionID {
            subscriptions[subscription(sale, id)]?.recount()
        }
    }

    /// How many days the subscription was paid for before an event of it, in the life that its
    /// start began.
    func days(before sale: PurchaseEvent, _ key: Key, after start: PurchaseEvent?) -> Int64 {
        guard sale.isLaterSubscriptionEvent, let id = sale.subscriptionID,
            let period = PaidService.Period(of: sale), let first = start?.subscriptionStartDate,
            let subscription = subscriptions[subscription(sale, id)]
        else {
            return 0
        }
        if let given = period.daysBefore {
            return given
        }
        if subscription.countsArrivals, let days = daysAtArrival[key] {
            return days
        }
        var others: [(order: PaidService.Order, period: PaidService.Period)] = []
        for other in subscription.events where other != key {
            if let event = counted(other), let found = PaidService.Period(of: event),
                found.start >= first, found.start <= period.start
            {
                others.append((PaidService.Order(found, of: event, named: other.id), found))
            }
        }
        others.sort { $0.order < $1.order }
        return PaidService(others.map(\.period)).days(before: period.start)
    }
}
