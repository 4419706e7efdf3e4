/// How long a subscription was paid for, event by event: what `subscriptionDaysOfPaidService` counts.
///
/// Days of periods for which nothing was charged do not count; a period that the next event cuts
/// short (a change of plan) counts as far as it went. A refund takes no days away. Days that an
/// event gives stand for all that was counted before it.
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
        /// Paid days before it, where its event gives them.
        package var daysBefore: Int64?

        package init(start: Timestamp, end: Timestamp, isPaid: Bool, daysBefore: Int64? = nil) {
            self.start = start
            self.end = end
            self.isPaid = isPaid
            self.daysBefore = daysBefore
        }

        /// Of an event of a subscription; nil where it names no period.
        package init?(of sale: PurchaseEvent) {
            guard let start = sale.subscriptionStartDate, let end = sale.subscriptionEndDate else {
                return nil
            }
            self.init(
                start: start,
                end: end,
                isPaid: sale.amountTaxInclusive ?? .zero > .zero,
                daysBefore: sale.subscriptionDaysOfPaidService
            )
        }

        /// What was paid for in it, where another one begins at a time: nil where none does.
        fileprivate func paid(until next: Timestamp?) -> Milliseconds {
            guard isPaid else {
                return Milliseconds(0)
            }
            return Milliseconds(max(0, (min(end, next ?? end) - start).count))
        }
    }

    /// Where an event stands among those of its subscription: of two whose periods begin at one
    /// time, the one that was sold later counts.
    ///
    /// Of one time of sale, a start comes before what refers to it.
    package struct Order: Comparable, Sendable {
        private let start: Timestamp
        private let soldAt: Timestamp
        private let isLater: Bool
        private let name: String

        /// Where it stands; `sale` may be nil where no other period begins at the same time.
        package init(_ period: Period, of sale: PurchaseEvent?, named name: String) {
            start = period.start
            soldAt = sale?.creationDate ?? Timestamp(milliseconds: 0)
            isLater = sale?.isLaterSubscriptionEvent ?? false
            self.name = name
        }

        package static func < (one: Order, other: Order) -> Bool {
            (one.start, one.soldAt, one.isLater ? 1 : 0, one.name)
                < (other.start, other.soldAt, other.isLater ? 1 : 0, other.name)
        }
    }

    package init(before: Milliseconds = Milliseconds(0), last: Period? = nil) {
        self.before = before
        self.last = last
    }

    /// Counts periods in their ``Order``, and what others came to that were forgotten: see
    /// ``loss(of:in:)``.
    package init(_ periods: [Period], forgotten: Milliseconds = Milliseconds(0)) {
        self.init()
        for period in periods {
            add(period)
        }
        before = Milliseconds(before.count &+ forgotten.count)
    }

    /// Whether an event with this start comes after all that were counted; of two with one start,
    /// only their sales say which comes first.
    package func isInOrder(_ start: Timestamp) -> Bool {
        last.map { $0.start < start } ?? true
    }

    /// What was paid for before an event that begins now.
    package func paid(before start: Timestamp) -> Milliseconds {
        Milliseconds(before.count &+ (last?.paid(until: start).count ?? 0))
    }

    /// How much less periods in their ``Order`` come to in the end without one of them.
    ///
    /// The one before it is cut short by the one behind it then.
    package static func loss(of index: Int, in periods: [Period]) -> Milliseconds {
        var rest = periods
        rest.remove(at: index)
        let end = Timestamp(milliseconds: .max)
        let whole = PaidService(periods).paid(before: end)
        return Milliseconds(whole.count &- PaidService(rest).paid(before: end).count)
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
        before = period.daysBefore.map { Milliseconds.days($0) } ?? paid(before: period.start)
        last = period
        // What it gives is in what was paid before it now.
        last?.daysBefore = nil
    }
}
