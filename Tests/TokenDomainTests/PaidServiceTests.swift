import Testing

@testable import TokenDomain

@Suite struct `The paid days of a subscription` {
    private static func period(_ start: Int64, _ end: Int64, isPaid: Bool = true) -> Period {
        Period(
            start: Timestamp(milliseconds: 0) + .days(start),
            end: Timestamp(milliseconds: 0) + .days(end),
            isPaid: isPaid
        )
    }

    private typealias Period = PaidService.Period

    private static func days(_ periods: [Period], from base: Milliseconds = .days(0)) -> Int64 {
        var paid = PaidService(before: base)
        for period in periods {
            paid.add(period)
        }
        return paid.days(before: Timestamp(milliseconds: 0) + .days(1_000))
    }

    /// Periods side by side, apart, cut short by the next ones, free, and of one time.
    private static let periods = [
        period(0, 30), period(20, 50), period(50, 365), period(60, 70, isPaid: false),
        period(65, 95), period(65, 80), period(200, 230),
    ]

    @Test func `are those of each period until the next one begins`() {
        #expect(Self.days(Self.periods) == 20 + 30 + 10 + 0 + 0 + 15 + 30)
    }

    @Test func `stay what they are whatever period is left out first`() {
        func leaveOut(_ periods: [Period], _ base: Milliseconds) {
            for index in periods.indices {
                var rest = periods
                let loss = PaidService.loss(
                    of: rest.remove(at: index),
                    between: index > 0 ? periods[index - 1] : nil,
                    and: index + 1 < periods.count ? periods[index + 1] : nil
                )
                let base = Milliseconds(base.count + loss.count)
                #expect(Self.days(rest, from: base) == 105, "\(periods) without \(index)")
                leaveOut(rest, base)
            }
        }
        leaveOut(Self.periods, .days(0))
    }
}
