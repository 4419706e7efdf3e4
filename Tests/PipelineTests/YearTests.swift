import Foundation
import TokenDomain
import Testing

/// Goal: a year of 100 million tokens in three apps, at 5 reports a second for each, ends with every
/// token reported once and none late, through an outage of Apple, a worker that stands still and a
/// sale week that brings more than Apple takes.
///
/// Method: ``YearOfTokens`` plays a part of it, `YEAR_TOKENS` (5,000 where not set), and prints a line
/// a month with `YEAR_PRINT=1`; nine tenths of the time that it takes are the stages' own:
///
///     YEAR_TOKENS=200000 YEAR_PRINT=1 swift test -c release -Xswiftc -enable-testing --filter 'year of tokens'
@Suite struct `A year of tokens` {
    private static let environment = ProcessInfo.processInfo.environment
    private static let tokenCount = environment["YEAR_TOKENS"].flatMap(Int.init) ?? 5_000

    @Test func `is reported whole, once and in time, whatever stops for days`() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(
            "year-\(UUID().uuidString)"
        )
        defer {
            do {
                try FileManager.default.removeItem(at: folder)
            } catch {
                Issue.record("\(folder.path) stays: \(error)")
            }
        }
        let year = try YearOfTokens(tokenCount: Self.tokenCount, seed: 1, folder: folder.path)
        func isWithin(_ time: Timestamp, day: Int64, dayCount: Int64) -> Bool {
            let start = YearOfTokens.start + .days(day)
            return start <= time && time < start + .days(dayCount)
        }
        year.apple.isDown = { isWithin($0, day: 61, dayCount: 2) }
        try year.play(isStopped: { worker, time in
            worker == .report && isWithin(time, day: 155, dayCount: 3)
                || worker == .dedupe && isWithin(time, day: 200, dayCount: 1)
        })
        if Self.environment["YEAR_PRINT"] != nil {
            show(year)
        }
        #expect(year.apple.acceptedCount == year.issuedCount)
        #expect(year.apple.repeatedCount == 0)
        #expect(year.months.map(\.lateCount) == Array(repeating: 0, count: 13))
        // Verified: the answer was lost, and Apple asked.
        let settled = ["accepted", "verified"]
        let expected =
            settled.map { "NO_LINE_ITEM \($0)" } + settled.map { "DUPLICATE_TOKEN \($0)" }
        #expect(Set(year.outcomes.keys).subtracting(expected).isEmpty, "\(year.outcomes)")
        // The sale week owes more than any other: the year has a peak to survive.
        let debts = year.months.map(\.debtMax)
        #expect(debts.max() == debts[10...11].max())
    }

    private func show(_ year: YearOfTokens) {
        print("\(year.issuedCount) tokens: \(year.outcomes), \(year.apple.refusedCount) times 429")
        print("month tokens reported duplicates 503 decode dedupe report debts slack/h late")
        for (number, month) in year.months.enumerated() {
            let waiting = [Worker.decode, .dedupe, .report].map { month.waitingMax[$0] ?? 0 }
            print(
                number + 1,
                month.tokenCount,
                month.reportCount,
                month.duplicateCount,
                month.failureCount,
                waiting[0],
                waiting[1],
                waiting[2],
                month.debtMax,
                (month.slackMin ?? 0) / 3_600,
                month.lateCount
            )
        }
    }
}
