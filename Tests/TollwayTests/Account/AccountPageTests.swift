import Foundation
import StageRuntime
import Testing
import TokenDomain

@testable import tollway

/// Goal: what could not be counted never looks like an account that closes.
@Suite struct `The page of an account` {
    /// 2026-10.
    private static let october = CalendarMonth(of: LedgerMaker.time)
    private static let now = october.adding(1).start
    private static let whole = AccountWindow(from: october.start, to: now, shortened: nil)
    private static let empty = AccountWindow(from: now, to: now, shortened: "it is gone")

    private func lines(_ page: AccountPage) throws -> [[String: Any]] {
        try page.text(.ndjson).split(separator: "\n").map { line in
            let object = try JSONSerialization.jsonObject(with: Data(line.utf8))
            return try #require(object as? [String: Any])
        }
    }

    private func months(_ month: CalendarMonth, now: Timestamp) throws -> MonthCount {
        let configuration = try Configuration(
            environment: ["TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": "localhost:1"],
            program: .tollway
        )
        return MonthCount(month, configuration, now: now)
    }

    @Test func `says what cannot be known where nothing could be counted`() throws {
        let page = AccountPage(
            tokens: [:],
            tokenWindow: Self.empty,
            sales: [:],
            salesWindow: Self.empty,
            months: nil,
            unnamedSalesCount: 0
        )
        #expect(page.closes)
        let lines = try lines(page)
        #expect(lines.map { $0["of"] as? String } == ["window", "window"])
        #expect(lines.map { $0["what"] as? String } == ["tokens", "sales"])
        #expect(lines.allSatisfy { $0["cannotKnow"] as? String == "it is gone" })
        #expect(lines.allSatisfy { $0["from"] as? Int64 == $0["to"] as? Int64 })
        let table = page.text(.table)
        #expect(table.contains("tokens that came in from 2026-11-01T00:00Z"), "\(table)")
        #expect(table.contains("sales that came in from 2026-11-01T00:00Z"), "\(table)")
        #expect(table.split(separator: "\n").count { $0 == "it is gone" } == 2, "\(table)")
    }

    @Test func `says nothing of a span that is whole`() throws {
        let page = AccountPage(
            tokens: [1: AccountLine()],
            tokenWindow: Self.whole,
            sales: [:],
            salesWindow: Self.whole,
            months: try months(Self.october, now: Self.now),
            unnamedSalesCount: 0
        )
        #expect(try lines(page).map { $0["of"] as? String } == ["tokens"])
        #expect(!page.text(.table).contains("sales that came in"))
    }

    /// One is reported with a sale, two are owed and one of them refused, and one owes none.
    @Test func `has every active token of a month in one column`() throws {
        var count = try months(Self.october, now: Self.now)
        let tokens: [(openSince: CalendarMonth?, isParked: Bool, isReported: Bool)] = [
            (nil, false, true), (Self.october, false, false), (Self.october, true, false),
            (nil, false, false),
        ]
        for token in tokens {
            count.take(
                ReportAccounts.Token(
                    app: 1,
                    created: Self.october.start,
                    environment: .production,
                    fate: .reported,
                    expires: nil,
                    openSince: token.openSince,
                    parkedUntil: token.isParked ? Self.october : Self.october.adding(-1)
                ),
                MonthCount.Marks(isReported: token.isReported, hasSales: token.isReported)
            )
        }
        let page = AccountPage(
            tokens: [:],
            tokenWindow: Self.whole,
            sales: [:],
            salesWindow: Self.whole,
            months: count,
            unnamedSalesCount: 0
        )
        let line = try #require(try lines(page).first)
        let names = [
            "active", "reported", "owed", "owesNone", "withSales", "refused", "lateReports",
        ]
        #expect(names.map { line[$0] as? Int } == [4, 1, 2, 1, 1, 1, 0])
        let rows = page.text(.table).split(separator: "\n").suffix(2).map { row in
            row.split(separator: " ").joined(separator: " ")
        }
        #expect(
            rows == [
                "APP ACTIVE = REPORTED + OWED + OWES NONE WITH SALES REFUSED LATE REPORTS",
                "1 4 1 2 1 1 1 0",
            ]
        )
    }

    /// Days after the month's first.
    @Test(arguments: [(400, false), (401, true)])
    func `says that report has forgotten tokens of a month`(
        days: Int64,
        isForgotten: Bool
    ) throws {
        let page = AccountPage(
            tokens: [:],
            tokenWindow: Self.whole,
            sales: [:],
            salesWindow: Self.whole,
            months: try months(Self.october, now: Self.october.start + .days(days)),
            unnamedSalesCount: 0
        )
        let lines = try lines(page)
        #expect(lines.count == (isForgotten ? 1 : 0))
        let sentence = "tokens that ended before 2026-10-02T00:00:00.000Z cannot be counted"
        #expect(page.text(.table).contains(sentence) == isForgotten, "\(page.text(.table))")
        guard isForgotten else {
            return
        }
        let line = try #require(lines.first)
        #expect(line["what"] as? String == "month" && line["month"] as? String == "2026-10")
        #expect((line["cannotKnow"] as? String)?.hasPrefix(sentence) == true)
    }

    @Test(
        arguments: [
            (["--since", "1d", "--until", "2d"], "--since must be before --until"),
            (["--since", "1d", "--until", "1d"], "--since must be before --until"),
            (["--since", "2999-01-01"], "--since must be before --until, and before now"),
            (["--month", "2999-01"], "the month of --month has not begun"),
        ]
    )
    func `is not made of a span that holds no time`(
        arguments: [String],
        sentence: String
    ) throws {
        let run = try TollwayProcess.run(
            ["account", "-o", "json"] + arguments,
            environment: ["TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": "localhost:1"]
        )
        #expect(run.exitCode == 2, "\(run.talk)\(run.output)")
        #expect(run.output.contains(sentence), "\(run.output)")
    }
}
