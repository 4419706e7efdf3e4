import Testing
@testable import TokenDomain

private typealias Fixtures = ReportFixtures

@Suite struct `The months of a token` {
    /// 2026-01 is 0.
    private static let january = CalendarMonth(of: Fixtures.created)
    private static var policy: ReportPolicy {
        var policy = Fixtures.policy
        policy.repeatsMonthly = true
        return policy
    }

    /// A token of 14 months, created on a day of January 2026, and the months that its reports are for.
    private struct Token {
        var account = Fixtures.account()
        var now: Timestamp
        var months: [Int64] = []
        var isLate = false

        init(createdAt: Timestamp, expiresAt: Timestamp, type: TokenType? = nil) {
            now = createdAt
            var distinct = Fixtures.distinct(at: createdAt)
            distinct.tokenType = type ?? distinct.tokenType
            distinct.tokenCreationDate = createdAt
            distinct.tokenExpirationDate = expiresAt
            _ = account.absorb(
                distinct,
                origin: Fixtures.origin(0, 1),
                now: createdAt,
                policy: `The months of a token`.policy
            )
        }

        /// Sends all that falls due before a time; Apple accepts each report after a while, those
        /// that were due by then after a second.
        mutating func run(until end: Timestamp, lag: Milliseconds = .seconds(1)) {
            while let due = account.debt?.dueAt, due < end, months.count < 100 {
                now = max(now, due)
                let effects = account.advance(now: now, policy: policy)
                #expect(effects.isEmpty)
                accept(lag: lag)
            }
            now = max(now, end)
        }

        mutating func accept(lag: Milliseconds = .seconds(1)) {
            var lag = lag
            while let intent = account.current {
                #expect(intent.status == .noLineItem)
                // What is sent as soon as it is due is in time.
                #expect(intent.deadline >= now || isLate)
                let isOver = intent.reason == .month
                let month = CalendarMonth(of: isOver ? now + Milliseconds(-1) : now)
                months.append(month.number - january.number)
                now = now + lag
                lag = .seconds(1)
                let answer = Fixtures.answer(.accepted, to: account, at: now)
                _ = account.absorb(answer, policy: policy)
            }
        }

        /// Apple refuses what is under way.
        mutating func refuse() {
            let answer = Fixtures.answer(
                .rejected(.refused),
                to: account,
                at: now,
                httpStatus: 400
            )
            _ = account.absorb(answer, policy: policy)
        }

        /// Apple reminds, and nothing is sent yet.
        mutating func hearReminder(_ uuid: String) -> Absorption {
            let notice = Fixtures.notice("ACTIVE_TOKEN_REMINDER", uuid: uuid, at: now)
            let origin = Fixtures.origin(1, 1)
            let absorption = account.absorb(notice, origin: origin, now: now, policy: policy)
            _ = account.advance(now: now, policy: policy)
            return absorption
        }

        /// Apple asks again.
        mutating func hearUnreported() {
            let notice = Fixtures.notice("UNREPORTED", uuid: "u", at: now)
            _ = account.absorb(notice, origin: Fixtures.origin(1, 2), now: now, policy: policy)
        }

        mutating func remind(_ uuid: String) -> Absorption {
            defer { accept() }
            return hearReminder(uuid)
        }

        /// Somebody asks for NO_LINE_ITEM; it is not sent yet.
        mutating func askByHand() {
            _ = account.absorb(
                Fixtures.request(.noLineItem),
                origin: Fixtures.origin(2, 9),
                time: now,
                now: now,
                policy: policy
            )
            _ = account.advance(now: now, policy: policy)
        }
    }

    @Test func `are each reported once, when they are over`() {
        // Until the 20th of the 14th month.
        let expiresAt = Self.january.adding(13).start + .days(19)
        var token = Token(createdAt: Fixtures.created, expiresAt: expiresAt)
        token.run(until: expiresAt + .days(60))
        #expect(token.months == Array(0...13))
        #expect(token.account.debt == nil)
        #expect(token.now == expiresAt + .days(60))
    }

    /// Nobody knows yet which types of custom links expire: the date decides.
    @Test(arguments: ["LINK_OUT", "IN_APP", "NEXT_TYPE"])
    func `are reported of whatever type expires`(type: String) {
        var token = Token(
            createdAt: Fixtures.created,
            expiresAt: Self.january.adding(3).start + .days(19),
            type: TokenType(text: type)
        )
        token.run(until: Self.january.adding(6).start)
        #expect(token.months == Array(0...3))
    }

    @Test(arguments: [0, 1, 3, 13, 14, 15, 16, 20, 27, 28] as [Int64])
    func `end with that of the expiry, whichever day that is`(days: Int64) {
        for offset in [1, 3_600_000, 43_200_000] as [Int64] {
            let last = Self.january.adding(12).start
            let expiresAt = last + .days(days) + Milliseconds(offset)
            var token = Token(createdAt: Fixtures.created, expiresAt: expiresAt)
            token.run(until: expiresAt + .days(60))
            // A report that Apple accepts after the expiry is for the last month too.
            let isOver = last + .seconds(1) >= expiresAt
            #expect(token.months == Array(0...(isOver ? 11 : 12)), "\(days) days \(offset) ms")
        }
    }

    @Test func `are each reported once where reminders ask for some`() {
        let expiresAt = Self.january.adding(13).start + .days(19)
        var token = Token(createdAt: Fixtures.created, expiresAt: expiresAt)
        for month in 1...13 as ClosedRange<Int64> where month % 3 != 0 {
            token.run(until: Self.january.adding(month).start + .days(9))
            // Last month's report was accepted on the first of this month: this one's is owed.
            expect(token.remind("\(month)"), .owed)
            expect(token.remind("\(month) again"), .alreadyReported)
        }
        token.run(until: expiresAt + .days(60))
        #expect(token.months == Array(0...13))
    }

    @Test func `are not skipped by a token that comes on the last day of one`() {
        let createdAt = Self.january.adding(1).start + .hours(-5)
        var token = Token(createdAt: createdAt, expiresAt: createdAt + .days(365))
        token.run(until: Self.january.adding(2).start + .hours(1))
        // Held until the first of February, for January; February's follows when it is over.
        #expect(token.account.intentCount == 2)
        #expect(token.account.debt?.dueAt == Self.january.adding(3).start)
    }

    @Test func `are caught up after an outage, and only those that were owed`() {
        let expiresAt = Self.january.adding(13).start + .days(19)
        var token = Token(createdAt: Fixtures.created, expiresAt: expiresAt)
        // February's report takes until May.
        token.isLate = true
        token.run(until: Self.january.adding(2).start)
        token.run(until: Self.january.adding(2).start + .hours(1), lag: .days(70))
        token.run(until: Self.january.adding(5).start)
        // January to April.
        #expect(token.account.intentCount == 4)
        #expect(token.account.debt?.dueAt == Self.january.adding(5).start)
        // A token that comes late owes nothing for the months before.
        let lateAt = Self.january.adding(6).start + .days(20)
        var late = Token(createdAt: Fixtures.created, expiresAt: expiresAt)
        late.now = lateAt
        _ = late.account.advance(now: lateAt, policy: Self.policy)
        late.accept()
        #expect(late.account.debt?.dueAt == Self.january.adding(8).start)
    }

    @Test func `stay owed where another report was asked for when they were over`() {
        let expiresAt = Self.january.adding(13).start + .days(19)
        var token = Token(createdAt: Fixtures.created, expiresAt: expiresAt)
        token.run(until: Self.january.adding(2).start + .hours(-2))
        // By hand on the last of February, and accepted in March: the lane stood.
        token.askByHand()
        token.now = Self.january.adding(2).start + .days(1)
        token.isLate = true
        token.accept()
        token.isLate = false
        token.run(until: Self.january.adding(3).start)
        #expect(token.account.debt?.dueAt == Self.january.adding(3).start)
        // January, the one by hand, and February.
        #expect(token.account.intentCount == 3)
    }

    /// The first report of all is by a reminder, and Apple asks again before it is accepted.
    @Test(arguments: [Int64(1), 9])
    func `are told once each where Apple asks again for a token's first`(days: Int64) {
        let createdAt = Self.january.adding(1).start + .days(-6)
        var token = Token(createdAt: createdAt, expiresAt: createdAt + .days(365))
        expect(token.hearReminder("r"), .owed)
        token.now = token.now + .days(days)
        token.hearUnreported()
        #expect(token.account.current?.deadline == token.now)
        token.isLate = true
        token.accept()
        // January is told, in it or in February: February is next.
        #expect(token.account.debt?.dueAt == Self.january.adding(2).start)
    }

    /// A first report by a reminder is made urgent by what Apple asks next, and is in time all the same.
    ///
    /// Days of 2026 on which Apple reminds, asks again and accepts, and how many days late that is: the
    /// 15th of February is over with day 46, that of March with day 74.
    @Test(
        arguments: [
            (34, 35, 36, 0), (50, 51, 74, 0), (50, 51, 75, 1), (25, 34, 46, 0), (25, 34, 50, 4),
            (50, 65, 74, 0), (50, 65, 75, 1),
        ] as [(Int64, Int64, Int64, Int64)]
    )
    func `are in time where Apple has asked again before they were accepted`(
        reminder: Int64,
        unreported: Int64,
        accepted: Int64,
        lateByDays: Int64
    ) {
        let createdAt = Self.january.start + .days(reminder)
        var token = Token(createdAt: createdAt, expiresAt: createdAt + .days(365))
        expect(token.hearReminder("r"), .owed)
        #expect(token.account.current?.reason == .reminder)
        token.now = Self.january.start + .days(unreported)
        token.hearUnreported()
        #expect(token.account.current?.deadline == token.now)
        let acceptedAt = Self.january.start + .days(accepted)
        let late = token.account.hear(.accepted, at: acceptedAt).compactMap { effect in
            if case .outcome(let outcome) = effect { outcome.details.lateBySeconds } else { nil }
        }
        #expect(late == [lateByDays * 86_400])
    }

    /// The token of the 10th of January, until the 10th of March, and days of 2026.
    @Test(
        arguments: [
            (31, 74, 0), (31, 75, 1), (69, 105, 0), (69, 106, 1),
        ] as [(Int64, Int64, Int64)]
    )
    func `are in time until the fifteenth, also past the expiry`(
        from: Int64,
        accepted: Int64,
        lateByDays: Int64
    ) throws {
        var token = Token(
            createdAt: Fixtures.created,
            expiresAt: Self.january.start + .days(68) + .hours(12)
        )
        token.run(until: Self.january.start + .days(from) + .hours(1))
        let due = try #require(token.account.debt?.dueAt)
        _ = token.account.advance(now: due, policy: Self.policy)
        #expect(token.account.current?.reason == .month)
        let acceptedAt = Self.january.start + .days(accepted)
        let late = token.account.hear(.accepted, at: acceptedAt).compactMap { effect in
            if case .outcome(let outcome) = effect { outcome.details.lateBySeconds } else { nil }
        }
        #expect(late == [lateByDays * 86_400])
    }

    @Test func `stay owed past a reminder, and past the expiry`() {
        for expiryDays in [400, 60] as [Int64] {
            // The token of the 10th of January, until February of next year or the 11th of March.
            let expiresAt = Fixtures.created + .days(expiryDays)
            var token = Token(createdAt: Fixtures.created, expiresAt: expiresAt)
            token.run(until: Self.january.adding(2).start + .days(-4))
            token.askByHand()
            token.now = token.now + .days(1)
            _ = token.hearReminder("r")
            token.now = expiryDays < 100 ? expiresAt + .hours(2) : Self.january.adding(2).start
            token.isLate = true
            // By hand, and then February's.
            token.accept()
            token.run(until: token.now + .hours(1))
            #expect(token.account.intentCount == 3, "\(expiryDays)")
        }
    }

    /// January's was accepted, February's is refused at the beginning of March.
    private func refused() -> Token {
        var token = Token(createdAt: Fixtures.created, expiresAt: Fixtures.created + .days(400))
        token.run(until: Self.january.adding(1).start + .hours(1))
        token.now = Self.january.adding(2).start
        _ = token.account.advance(now: token.now, policy: Self.policy)
        #expect(token.account.current?.reason == .month)
        token.refuse()
        #expect(token.account.hasParkedDebt)
        return token
    }

    @Test func `go on after one that Apple refused`() {
        var token = refused()
        token.now = token.now + Milliseconds(-1)
        // Apple asks for the one that a person has, and then for the next.
        expect(token.remind("february"), .parked)
        token.now = Self.january.adding(2).start + .days(9)
        expect(token.remind("march"), .owed)
        #expect(token.months.last == 2)
        token.run(until: Self.january.adding(4).start + .hours(1))
        #expect(token.months.last == 3 && token.account.hasParkedDebt)
    }

    /// A person replays February's in the summer, and Apple refuses it again.
    @Test func `are not told again where an old one is refused once more`() {
        var token = refused()
        let intent = token.account.parked[0]
        token.run(until: Self.january.adding(6).start + .hours(1))
        #expect(token.months == [0, 2, 3, 4, 5])
        let deadLetter = token.account.deadLetter(
            of: intent,
            under: intent.identifier,
            policy: Self.policy
        )
        let absorption = token.account.absorb(
            deadLetter,
            under: intent.identifier,
            origin: Fixtures.origin(2, 9),
            time: token.now,
            policy: Self.policy
        )
        expect(absorption, .owed)
        token.refuse()
        token.run(until: Self.january.adding(7).start + .hours(1))
        #expect(token.months == [0, 2, 3, 4, 5, 6])
    }

    /// A sale, which no NO_LINE_ITEM may follow, or a person's report in its place.
    @Test(arguments: [ReportStatus.lineItem, .noLineItem])
    func `are not waited for once another report has ended what Apple refused`(
        status: ReportStatus
    ) {
        var token = refused()
        let items = status == .lineItem ? "[]" : nil
        let hand = Fixtures.request(status, lineItems: items)
        expect(
            token.account.absorb(
                hand,
                parts: items.map { [$0] } ?? [],
                origin: Fixtures.origin(2, 9),
                time: token.now,
                now: token.now,
                policy: Self.policy
            ),
            .owed
        )
        let answer = Fixtures.answer(.accepted, to: token.account, at: token.now)
        _ = token.account.absorb(answer, policy: Self.policy)
        #expect(!token.account.hasParkedDebt && token.account.parked.isEmpty)
        token.now = Self.january.adding(3).start + .days(1)
        _ = token.account.advance(now: token.now, policy: Self.policy)
        token.accept()
        expect(token.remind("april"), status == .lineItem ? .alreadyReported : .owed)
        #expect((token.months.last == 3) == (status == .noLineItem))
    }

    /// Apple does not take DUPLICATE_TOKEN for it, and a person reports it as any other.
    @Test func `are owed by a duplicate that was reported as a primary`() {
        var token = Token(createdAt: Fixtures.created, expiresAt: Fixtures.created + .days(400))
        token.account.role = .duplicate(of: TokenID("first"))
        token.account.debt = nil
        token.askByHand()
        token.accept()
        token.run(until: Self.january.adding(2).start + .hours(1))
        #expect(token.months == [0, 1])
        token.now = token.now + .days(5)
        expect(token.remind("march"), .owed)
        #expect(token.months == [0, 1, 2])
    }

    @Test func `end where they are not wanted any more`() {
        var token = Token(createdAt: Fixtures.created, expiresAt: Fixtures.created + .days(400))
        token.run(until: Self.january.adding(1).start + .hours(1))
        #expect(token.account.debt?.reason == .month)
        let due = Self.january.adding(2).start
        _ = token.account.advance(now: due, policy: Fixtures.policy)
        #expect(token.account.current == nil && token.account.debt == nil)
    }
}
