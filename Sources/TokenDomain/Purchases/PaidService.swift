/// How long a subscription was paid for, event by event: what `subscriptionDaysOfPaidService` counts.
///
/// Days of periods for which nothing was charged do not count; a period that the next event cuts
/// short (a change of plan) counts as far as it went.
///
/// Source: Apple, "subscriptionDaysOfPaidService"
package struct PaidService: Hashable, Sendable {
    /// Paid before ``last`` began.
    package var before: Milliseconds
    package var last: Period?

    package struct Period: Hashable, Sendable {
        package var start: Timestamp
        package var end: Timestamp
        package var isPaid: Bool

        package init(start: Timestamp, end: Timestamp, isPaid: Bool) {
            self.start = start
            self.end = end
            self.isPaid = isPaid
        }

        /// Of an event of a subscription; nil where it names no period.
        package init?(of sale: PurchaseEvent) {
            guard let start = sale.subscriptionStartDate, let end = sale.subscriptionEndDate else {
                return nil
            }
            let isPaid = sale.amountTaxInclusive ?? .zero > .zero
            self.init(start: start, end: end, isPaid: isPaid)
        }

        /// What was paid for in it, where another one begins at a time: nil where none does.
        fileprivate func paid(until next: Timestamp?) -> Milliseconds {
            guard isPaid else {
                return Milliseconds(0)
            }
            return Milliseconds(max(0, (min(end, next ?? end) - start).count))
        }
    }

    package init(before: Milliseconds = Milliseconds(0), last: Period? = nil) {
        self.before = before
        self.last = last
    }

    /// Whether an event with this start comes after all that were counted.
    package func isInOrder(_ start: Timestamp) -> Bool {
        last.map { $0.start <= start } ?? true
    }

    /// What was paid for before an event that begins now.
    package func paid(before start: Timestamp) -> Milliseconds {
        Milliseconds(before.count &+ (last?.paid(until: start).count ?? 0))
    }

    /// How much less periods in a row come to without one of them.
    ///
    /// The one before it is cut short by the one behind it then.
    package static func loss(
        of period: Period,
        between previous: Period?,
        and next: Period?
    ) -> Milliseconds {
        let own = period.paid(until: next?.start)
        guard let previous else {
            return own
        }
        let cut = previous.paid(until: period.start)
        let uncut = previous.paid(until: next?.start)
        return Milliseconds(own.count &+ cut.count &- uncut.count)
    }

    /// The same in days, to the nearest: periods of local time are an hour short or long at times.
    ///
    /// Never below zero, though a forgotten period may have cut one short that begins only now.
    package func days(before start: Timestamp) -> Int64 {
        let dayMilliseconds: Int64 = 86_400_000
        let count = max(paid(before: start).count, 0)
        return min(
            count / dayMilliseconds + (count % dayMilliseconds) / (dayMilliseconds / 2),
            Int64(Int32.max)
        )
    }

    package mutating func add(_ period: Period) {
        before = paid(before: period.start)
        last = period
    }
}
