import Testing

@testable import TokenDomain

@Suite struct `The paid days of a subscription` {
    private static func period(
        _ start: Int64,
        _ end: Int64,
        isPaid: Bool = true,
        given: Int64? = nil
    ) -> Period {
        Period(
            start: Timestamp(milliseconds: 0) + .days(start),
            end: Timestamp(milliseconds: 0) + .days(end),
            isPaid: isPaid,
            daysBefore: given
        )
    }

    private typealias Period = PaidService.Period

    private static func days(
        _ periods: [Period],
        forgotten: Milliseconds = .days(0)
    ) -> Int64 {
        PaidService(periods, forgotten: forgotten)
            .days(before: Timestamp(milliseconds: 0) + .days(1_000))
    }

    /// Periods side by side, apart, cut short by the next ones, free, and of one time.
    private static let periods = [
        period(0, 30), period(20, 50), period(50, 365), period(60, 70, isPaid: false),
        period(65, 95), period(65, 80), period(200, 230),
    ]

    @Test func `are those of each period until the next one begins`() {
        #expect(Self.days(Self.periods) == 20 + 30 + 10 + 0 + 0 + 15 + 30)
    }

    /// History that a platform moved from elsewhere: 31 days known, 365 given, a month more.
    @Test func `begin from those that an event gives`() {
        let moved = [Self.period(0, 31), Self.period(365, 396, given: 365)]
        #expect(Self.days(moved) == 396)
        var paid = PaidService()
        for period in moved {
            paid.add(period)
        }
        #expect(paid == PaidService(before: .days(365), last: Self.period(365, 396)))
    }

    @Test(arguments: [nil, 90] as [Int64?])
    func `stay what they are whatever period is left out first`(given: Int64?) {
        var all = Self.periods
        all[3].daysBefore = given
        let days = Self.days(all)
        func leaveOut(_ periods: [Period], _ forgotten: Milliseconds) {
            for index in periods.indices {
                let loss = PaidService.loss(of: index, in: periods)
                var rest = periods
                rest.remove(at: index)
                let forgotten = Milliseconds(forgotten.count + loss.count)
                let left = Self.days(rest, forgotten: forgotten)
                #expect(left == days, "\(periods) without \(index)")
                leaveOut(rest, forgotten)
            }
        }
        leaveOut(all, .days(0))
    }

    /// A plan is changed on the day of a renewal; a first payment comes with its start.
    @Test func `count the period that was sold last of those that begin at one time`() {
        func order(
            _ name: String,
            _ event: SubscriptionEvent,
            soldAt day: Int64
        ) -> PaidService.Order {
            var sale = PurchaseEvent(lineItemID: name)
            sale.subscriptionEvent = event
            sale.creationDate = Timestamp(milliseconds: 0) + .days(day)
            return PaidService.Order(Self.period(0, 30), of: sale, named: name)
        }
        #expect(order("r2", .renewal, soldAt: 1) < order("c2", .change, soldAt: 2))
        #expect(order("sub7-start", .start, soldAt: 1) < order("sub7-pay", .payment, soldAt: 1))
        #expect(order("a", .renewal, soldAt: 1) < order("b", .change, soldAt: 1))
        #expect(
            PaidService.Order(Self.period(0, 30), of: nil, named: "b")
                < PaidService.Order(Self.period(1, 30), of: nil, named: "a")
        )
    }
}
