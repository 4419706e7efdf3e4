import Foundation
import Testing
import TokenDomain

@Suite struct `Calendar months` {
    @Test func `agree with Foundation's calendar`() throws {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = try #require(TimeZone(secondsFromGMT: 0))
        var generator = SeededGenerator(seed: 1)
        for _ in 0..<2_000 {
            let milliseconds = Int64.random(in: 0...4_102_444_800_000, using: &generator)
            let date = Date(timeIntervalSince1970: Double(milliseconds) / 1_000)
            let parts = calendar.dateComponents([.year, .month], from: date)
            let month = CalendarMonth(of: Timestamp(milliseconds: milliseconds))
            let year = try #require(parts.year)
            let monthOfYear = try #require(parts.month)
            #expect(month.number == Int64(year * 12 + monthOfYear - 1))
            let start = try #require(calendar.date(from: parts))
            #expect(month.start.milliseconds == Int64(start.timeIntervalSince1970 * 1_000))
        }
    }

    @Test func `begin and end with what a timestamp can say`() {
        let (first, last) = (Timestamp(milliseconds: .min), Timestamp(milliseconds: .max))
        #expect(CalendarMonth(of: first).start == first)
        #expect(CalendarMonth(of: last).start < last)
        #expect(CalendarMonth(of: last).adding(1).start == last)
    }

    @Test(arguments: [
        (deadline: Int64.min, late: Int64.max / 1_000 + 1), (-1_000, 1), (-1, 1), (0, 0), (1, 0),
    ])
    func `are deadlines that a report may be late for`(deadline: Int64, late: Int64) {
        var details = ReportOutcome.Details()
        details.bringForward(
            deadline: Timestamp(milliseconds: deadline),
            settledAt: Timestamp(milliseconds: 0)
        )
        #expect(details.lateBySeconds == late)
    }
}
