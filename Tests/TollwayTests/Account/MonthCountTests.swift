import StageRuntime
import Testing
import TokenDomain

@testable import tollway

@Suite struct `The count of a month` {
    private static let origin = RecordOrigin(topic: 0, partition: 0, offset: 0)
    /// 2026-10.
    private static let october = CalendarMonth(of: LedgerMaker.time)

    /// Of a day of October 2026, from 1; beyond 31 it lies in the months after.
    private static func day(_ number: Int64, hour: Int64 = 0) -> Timestamp {
        october.start + .days(number - 1) + .hours(hour)
    }

    /// SIZING.md and the operator's pod are computed from it: 72 bytes with the key.
    @Test func `keeps no more of a token than the pages count`() {
        #expect(MemoryLayout<ReportAccounts.Token>.stride <= 64)
    }

    /// A token made on 10 October that ends on 20 December.
    private func account(
        _ lastAccepted: ReportStatus?,
        debt: (dueAt: Timestamp, reason: ReportReason)? = nil,
        parked: ReportStatus? = nil,
        id: String = "t"
    ) -> TokenAccount {
        var account = TokenAccount(externalPurchaseID: TokenID(id), touchedAt: Self.day(10))
        account.appAppleID = 1
        account.role = .primary
        account.tokenCreationDate = Self.day(10)
        account.tokenExpirationDate = Self.day(81)
        account.lastAccepted = lastAccepted
        account.debt = debt.map { .init(dueAt: $0.dueAt, reason: $0.reason, origin: Self.origin) }
        account.parked =
            parked.map { status in
                [
                    ReportIntent(
                        number: 1,
                        identifier: LedgerMaker.identifier(1),
                        status: status,
                        lineItems: nil,
                        reason: .hold,
                        origin: Self.origin,
                        deadline: Self.day(20)
                    )
                ]
            } ?? []
        return account
    }

    private func line(
        _ account: TokenAccount,
        _ month: CalendarMonth,
        isReported: Bool = false
    ) throws -> (line: MonthLine?, sandboxCount: Int) {
        let configuration = try Configuration(
            environment: ["TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": "localhost:1"],
            program: .tollway
        )
        var count = MonthCount(month, configuration, now: Self.day(62))
        count.take(
            ReportAccounts.token(account),
            MonthCount.Marks(isReported: isReported, hasSales: false)
        )
        return (count.lines[1], count.sandboxCount)
    }

    @Test func `owes only what the rules of report still owe`() throws {
        let november = Self.october.adding(1)
        let decemberFirst = Self.day(62)
        var refused = account(.noLineItem, debt: (decemberFirst, .month), parked: .noLineItem)
        refused.parked[0].reason = .month
        refused.parked[0].deadline = november.start + ReportPolicy.deadlineAfterMonth
        let rows: [(TokenAccount, CalendarMonth, owed: Int, refused: Int)] = [
            // October's was refused, and November's is still to come.
            (refused, Self.october, 1, 1), (refused, november, 1, 0),
            // Never reported: every month it is active in.
            (account(nil), Self.october, 1, 0), (account(nil), november, 1, 0),
            (account(nil, parked: .noLineItem), Self.october, 1, 1),
            // Ended for good.
            (account(.lineItem), november, 0, 0), (account(.duplicateToken), november, 0, 0),
            (account(.lineItem, parked: .noLineItem), november, 0, 0),
            // November is due in December; October was settled before.
            (account(.noLineItem, debt: (decemberFirst, .month)), november, 1, 0),
            (account(.noLineItem, debt: (decemberFirst, .month)), Self.october, 0, 0),
            (account(.noLineItem, debt: (Self.day(33), .reminder)), november, 1, 0),
            (account(.noLineItem, debt: (Self.day(33), .reminder)), Self.october, 0, 0),
            // The repetition is switched off, or the token has ended.
            (account(.noLineItem), november, 0, 0),
        ]
        for (number, row) in rows.enumerated() {
            let line = try #require(try line(row.0, row.1).line)
            #expect(line.active == 1, "row \(number)")
            #expect((line.owed, line.refused) == (row.owed, row.refused), "row \(number)")
            // Not reported for the month: it is owed, or it owes none.
            #expect(line.owesNone == 1 - row.owed, "row \(number)")
        }
        let told = try line(account(nil), Self.october, isReported: true).line
        #expect(told?.owed == 0 && told?.reported == 1)
        #expect(told?.active == 1 && told?.owesNone == 0)
    }

    @Test func `leaves the sandbox out`() throws {
        let (line, count) = try line(account(nil, id: "SANDBOX_t"), Self.october)
        #expect(line == nil && count == 1)
    }

    /// When it was settled, why, until when Apple wanted it, when its token was made and ended; and
    /// the months from October on that it is for.
    @Test(
        arguments: [
            (day(12), .hold, day(20), day(11), day(81), [0]),
            // Made on 31 October, and reported after its hold.
            (day(32, hour: 12), .hold, day(41), day(31, hour: 12), nil, [0]),
            (day(46, hour: 23), .hold, day(41), day(31), nil, [0]),
            (day(47, hour: 1), .hold, day(41), day(31), nil, [1]),
            // October's own, in time, and two months late.
            (day(32), .month, day(47), day(-9), day(81), [0]),
            (day(95), .month, day(47), day(-9), day(150), [0]),
            // The token ended on 31 October at 20:00, and its last report fell due after that month.
            (day(32), .month, day(32, hour: 20), day(-9), day(31, hour: 20), [0]),
            // It ended on 20 October, and its last report fell due in that month.
            (day(21), .month, day(21), day(-40), day(20), [0]),
            (day(35), .month, day(21), day(-40), day(20), [0]),
            // A reminder of October, answered in it or after.
            (day(20), .reminder, day(47), day(-9), day(81), [0]),
            (day(32), .reminder, day(47), day(-9), day(81), [0, 1]),
        ] as [(Timestamp, ReportReason, Timestamp, Timestamp, Timestamp?, [Int64])]
    )
    func `counts a report for its month`(
        settledAt: Timestamp,
        reason: ReportReason,
        deadline: Timestamp,
        created: Timestamp,
        expires: Timestamp?,
        months: [Int64]
    ) {
        var outcome = LedgerMaker.outcome(1, settledAt: settledAt)
        outcome.reason = reason.rawValue
        outcome.details.deadline = deadline
        outcome.details.tokenCreationDate = created
        outcome.details.tokenExpirationDate = expires
        let found = (0...4).filter {
            MonthCount.belongs(outcome, to: Self.october.adding($0)).isFor
        }
        #expect(found == months)
    }

    /// When it was settled, the sales in it with whether each restates one, how late the report says it
    /// was; and the months from September on in which it counts as late.
    @Test(
        arguments: [
            // September's is due on 15 October, October's on 15 November.
            (day(20), [(day(-5), false), (day(18), false)], 400_000, [-1]),
            (day(48), [(day(-5), false), (day(18), false)], 3_000_000, [-1, 0]),
            (day(48), [(day(-5), false), (day(18), true)], 3_000_000, [-1]),
            (day(20), [(day(-5), true), (day(18), false)], nil, []),
            (day(14), [(day(-5), false)], 0, []),
        ] as [(Timestamp, [(Timestamp, Bool)], Int64?, [Int64])]
    )
    func `calls late what the sales of the month make late`(
        settledAt: Timestamp,
        sales: [(at: Timestamp, isRestatement: Bool)],
        late: Int64?,
        months: [Int64]
    ) {
        let items = sales.enumerated().map { number, sale in
            LedgerMaker.item(
                "\(number)",
                at: sale.at,
                more: sale.isRestatement ? #","restatement":true"# : ""
            )
        }
        var outcome = LedgerMaker.outcome(1, items: items, settledAt: settledAt, late: late)
        // For no month but by its sales.
        outcome.reason = ReportReason.month.rawValue
        outcome.details.deadline = Self.day(400)
        let found = (-1...2).filter { number in
            let belonging = MonthCount.belongs(outcome, to: Self.october.adding(Int64(number)))
            #expect(!belonging.isFor)
            return belonging.isLate && belonging.hasSales
        }
        #expect(found.map(Int64.init) == months)
        // As report writes it: for the month that it was told in, too.
        outcome.reason = ReportReason.request.rawValue
        let oldest = sales.filter { !$0.isRestatement }.map(\.at).min()
        outcome.details.deadline = oldest.map { ReportPolicy.deadline(ofSale: $0) }
        let asked = (-1...2).filter { number in
            let belonging = MonthCount.belongs(outcome, to: Self.october.adding(Int64(number)))
            return belonging.isLate && (belonging.isFor || belonging.hasSales)
        }
        #expect(asked.map(Int64.init) == months)
    }
}
