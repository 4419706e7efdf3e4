import Testing
import TokenDomain

private typealias Fixtures = ReportFixtures

/// Its primary may be forged: Apple never asks for that, and refuses it only when it is reported.
@Suite struct `A duplicate that Apple asks for` {
    private static let received = Fixtures.received
    private static let due = received + .hours(48)

    private static func duplicate(expiration: Timestamp? = nil) -> TokenDistinct {
        var distinct = Fixtures.distinct(.duplicate(of: TokenID("first")))
        distinct.tokenExpirationDate = expiration ?? distinct.tokenExpirationDate
        return distinct
    }

    /// The token comes before the notice, or after it.
    private static func account(
        _ subtype: String,
        at time: Timestamp,
        isTokenFirst: Bool,
        expiration: Timestamp? = nil
    ) -> TokenAccount {
        var account = Fixtures.account()
        var notice = Fixtures.notice(subtype, at: time)
        notice.token.tokenExpirationDate = expiration ?? notice.token.tokenExpirationDate
        if isTokenFirst {
            expect(account.take(duplicate(expiration: expiration), now: received), .owed)
            expect(account.take(notice, now: time), .owed)
        } else {
            expect(account.take(notice, now: time), .guarded)
            expect(account.take(duplicate(expiration: expiration), now: time), .owed)
        }
        #expect(account.current == nil)
        return account
    }

    @Test(arguments: [true, false])
    func `is not due by a reminder`(isTokenFirst: Bool) {
        let time = Self.received + .hours(1)
        let account = Self.account(
            "ACTIVE_TOKEN_REMINDER",
            at: time,
            isTokenFirst: isTokenFirst
        )
        #expect(account.debt?.dueAt == Self.due && account.debt?.reason == .duplicate)
        #expect(account.waitingReminder == nil)
    }

    /// Seconds from receipt to the notice, and to the report.
    @Test(arguments: [
        (0 as Int64, 86_420 as Int64), (86_399, 86_420), (86_400, 86_420), (100_000, 100_020),
        (172_779, 172_799), (172_790, 172_800),
    ])
    func `is due once its primary has been heard, where Apple's time is over`(
        notice: Int64,
        wait: Int64
    ) {
        // A token that comes so late is later itself.
        for isTokenFirst in [true, false] where isTokenFirst || notice + 20 <= wait {
            var account = Self.account(
                "UNREPORTED",
                at: Self.received + .seconds(notice),
                isTokenFirst: isTokenFirst
            )
            let dueAt = Self.received + .seconds(wait)
            #expect(
                account.debt
                    == .init(dueAt: dueAt, reason: .unreported, origin: Fixtures.origin(0, 1))
            )
            // Apple asks again, which makes it no earlier.
            let later = Fixtures.notice("UNREPORTED", uuid: "2", at: Self.received)
            _ = account.take(later, now: dueAt + Milliseconds(-1))
            #expect(account.debt?.dueAt == dueAt && account.current == nil)
            _ = account.advance(now: dueAt, policy: Fixtures.policy)
            #expect(account.current?.status == .duplicateToken)
            // First in its lane.
            #expect(account.current?.deadline == dueAt)
        }
    }

    /// The primary has not come further either.
    @Test func `is behind its primary where all came late`() {
        let late = Self.received + .days(3)
        var account = Fixtures.account()
        _ = account.take(Self.duplicate(), now: late)
        _ = account.take(Fixtures.notice("UNREPORTED"), now: late)
        #expect(account.debt?.dueAt == late + .seconds(20) && account.current == nil)
    }

    @Test(arguments: [true, false])
    func `is due when it was, where its deadline is near`(isTokenFirst: Bool) {
        let account = Self.account(
            "UNREPORTED",
            at: Self.received + .hours(1),
            isTokenFirst: isTokenFirst,
            expiration: Self.received
        )
        #expect(account.debt?.dueAt == Self.received + .hours(23) + .seconds(20))
        #expect(account.debt?.reason == .unreported)
    }

    @Test func `is behind its primary where it was called unknown before`() {
        let time = Self.received + .hours(1)
        var account = Fixtures.account()
        _ = account.take(Fixtures.notice("UNREPORTED"), now: Self.received)
        account.proveUnknown(policy: Fixtures.policy)
        expect(account.take(Self.duplicate(), now: time), .owed)
        let effects = account.hear(.notHeld, at: time)
        guard effects.count == 1, case .cancelled(let intent)? = effects.first else {
            Issue.record("\(effects)")
            return
        }
        #expect(intent.status == .unrecognizedToken && account.current == nil)
        #expect(account.debt?.dueAt == Self.received + .hours(24) + .seconds(20))
    }

    /// Apple's answer that it has no such report comes when the duplicate is due already.
    @Test func `asks whether its primary was heard, where it was called unknown before`() throws {
        let time = Self.received + .hours(1)
        var account = Fixtures.account()
        var notice = Fixtures.notice("UNREPORTED")
        notice.token.tokenExpirationDate = Self.received + -.days(30)
        _ = account.take(notice, now: Self.received)
        account.proveUnknown(policy: Fixtures.policy)
        let duplicate = Self.duplicate(expiration: notice.token.tokenExpirationDate)
        expect(account.take(duplicate, now: time), .owed)
        _ = account.hear(.notHeld, at: time + .days(40))
        #expect(account.current == nil)
        let dueAt = try #require(account.debt?.dueAt)
        #expect(dueAt > time + .days(40))
        _ = account.advance(now: dueAt, policy: Fixtures.policy)
        #expect(account.current?.status == .duplicateToken)
    }

    @Test func `is put off for no longer by a clock that was ahead`() {
        let setBack = Milliseconds.days(500)
        var account = Fixtures.account()
        _ = account.take(Self.duplicate(), now: Self.received)
        account.moveRetry(by: setBack, now: Self.received)
        #expect(account.debt?.dueAt == Self.due && !account.isDuplicateOverdue)
        let ahead = Self.due + setBack
        _ = account.advance(now: ahead, mayTellDuplicate: false, policy: Fixtures.policy)
        #expect(account.debt?.dueAt == ahead + .hours(1) && account.isDuplicateOverdue)
        account.moveRetry(by: setBack, now: Self.due)
        let expiration = account.tokenExpirationDate
        #expect(account.debt?.dueAt == expiration.map { $0 + .hours(23) })
        #expect(!account.isDuplicateOverdue)
    }

    @Test func `is due now, once it is the first of its period`() {
        let time = Self.received + .hours(1)
        var account = Self.account("UNREPORTED", at: time, isTokenFirst: true)
        var promotion = Fixtures.distinct(at: Self.received)
        promotion.promotedFrom = TokenID("first")
        expect(account.take(promotion, now: time), .promoted)
        #expect(account.current?.status == .noLineItem && account.current?.reason == .unreported)
    }
}
