import Testing
@testable import TokenDomain

@Suite struct `An account of a token` {
    typealias Fixtures = ReportFixtures
    static let received = Fixtures.received
    static let due = received + .hours(24)

    @Test func `holds a primary token for a day, then owes NO_LINE_ITEM once`() {
        var account = Fixtures.account()
        expect(account.take(Fixtures.distinct(), now: Self.received), .owed)
        #expect(account.attention == .waiting(until: Self.due))
        #expect(account.current == nil)
        _ = account.advance(now: Self.due + Milliseconds(-1), policy: Fixtures.policy)
        #expect(account.current == nil)
        _ = account.advance(now: Self.due, policy: Fixtures.policy)
        #expect(account.current?.status == .noLineItem)
        #expect(account.current?.reason == .hold)
        #expect(account.current?.number == 1)
        #expect(account.current?.identifier == "\(Fixtures.id.text)#1")
        guard case .ready(let lane, let deadline) = account.attention else {
            Issue.record("a planned report is ready")
            return
        }
        #expect(lane == Fixtures.token.lane)
        #expect(deadline == Fixtures.created + .days(366))
        let effects = account.hear(.accepted, at: Self.due)
        #expect(effects.count == 1)
        #expect(account.lastAccepted == .noLineItem && account.current == nil)
        expect(account.take(Fixtures.distinct(), now: Self.due), .repeated)
        expect(account.take(Fixtures.notice("UNREPORTED"), now: Self.due), .alreadyReported)
        #expect(account.current == nil && account.debt == nil)
    }

    @Test func `counts no request that had no key to be signed with`() throws {
        var account = Fixtures.account()
        _ = account.take(Fixtures.distinct(), now: Self.received)
        _ = account.advance(now: Self.due, policy: Fixtures.policy)
        let before = account
        expect(account.hear(.lane(.noKey, until: nil), at: Self.due, httpStatus: 0), [])
        #expect(account == before)
        let sentAt = Self.due + .hours(1)
        guard case .outcome(let outcome)? = account.hear(.accepted, at: sentAt).first else {
            Issue.record("an accepted report has an outcome")
            return
        }
        #expect(outcome.attempts == 1 && outcome.firstSentAt == sentAt)
        #expect(outcome.exchanges.map(\.sentAt) == [sentAt])
    }

    @Test func `never holds past the deadline`() {
        var account = Fixtures.account()
        var late = Fixtures.distinct(at: Fixtures.created + .days(9) + .hours(20))
        late.tokenExpirationDate = nil
        late.tokenType = nil
        _ = account.take(late, now: late.receivedAt)
        let latest = Fixtures.created + .days(10) + -ReportPolicy.deadlineMargin
        #expect(
            account.debt == .init(dueAt: latest, reason: .deadline, origin: Fixtures.origin(0, 1))
        )
        var overdue = Fixtures.account()
        late.receivedAt = Fixtures.created + .days(300)
        _ = overdue.take(late, now: late.receivedAt)
        #expect(overdue.current?.reason == .deadline)
    }

    @Test(arguments: [
        (TokenType.services, ReportStatus.duplicateToken, Milliseconds.hours(48)),
        (.acquisition, .duplicateToken, .hours(48)),
        (TokenType(text: "IN_APP"), .noLineItem, .hours(24)),
    ])
    func `says DUPLICATE_TOKEN after twice the hold, for the types that have it`(
        type: TokenType,
        status: ReportStatus,
        wait: Milliseconds
    ) {
        var account = Fixtures.account()
        var distinct = Fixtures.distinct(.duplicate(of: TokenID("first")))
        distinct.tokenType = type
        _ = account.take(distinct, now: Self.received)
        #expect(account.attention == .waiting(until: Self.received + wait))
        _ = account.advance(now: Self.received + wait + Milliseconds(-1), policy: Fixtures.policy)
        #expect(account.current == nil)
        _ = account.advance(now: Self.received + wait, policy: Fixtures.policy)
        #expect(account.current?.status == status)
    }

    /// The hours from receipt to expiry: the deadline is a day after it, and an hour before that is the
    /// primary due.
    @Test(arguments: [
        (25 as Int64, Milliseconds.hours(48)), (24, .hours(47)), (0, .hours(23)), (-23, .hours(0)),
        (-1_000, .hours(0)),
    ])
    func `never holds a duplicate past the deadline, and behind its primary`(
        hours: Int64,
        wait: Milliseconds
    ) {
        let lead = ReportPolicy.primaryLead
        var account = Fixtures.account()
        var distinct = Fixtures.distinct(.duplicate(of: TokenID("first")))
        distinct.tokenExpirationDate = distinct.receivedAt + .hours(hours)
        _ = account.take(distinct, now: Fixtures.created)
        #expect(
            account.debt
                == .init(
                    dueAt: Self.received + wait + (hours < 25 ? lead : Milliseconds(0)),
                    reason: .duplicate,
                    origin: Fixtures.origin(0, 1)
                )
        )
    }

    /// Both came late, so Apple has not been asked about the primary when the duplicate comes: days from
    /// receipt to expiry, seconds from receipt to `report`, and seconds until each is due.
    private static let latecomers: [(days: Int64, lag: Int64, primary: Int64, duplicate: Int64)] = [
        (-30, 30, 0, 50), (-30, 259_200, 0, 259_220),
        (364, 30, 86_400, 172_800), (364, 86_400, 86_400, 172_800),
        // Later than one hold: it waits for one more, as far as its deadline lets it.
        (364, 86_401, 86_400, 172_801), (364, 259_200, 86_400, 345_600),
        (3, 200_000, 86_400, 286_400), (3, 259_200, 86_400, 342_020), (3, 345_000, 86_400, 345_020),
        // A clock that is ahead, and not a lag: no more than nine days count.
        (-30, 34_560_000, 0, 777_620), (364, 34_560_000, 86_400, 864_000),
    ]

    @Test(arguments: latecomers)
    func `is behind its primary, however late both came this far`(
        days: Int64,
        lag: Int64,
        primary: Int64,
        duplicate: Int64
    ) {
        let roles = [(TokenRole.primary, primary), (.duplicate(of: TokenID("first")), duplicate)]
        for (role, wait) in roles {
            var account = Fixtures.account()
            var distinct = Fixtures.distinct(role)
            distinct.tokenExpirationDate = distinct.receivedAt + .days(days)
            _ = account.absorb(
                distinct,
                origin: Fixtures.origin(0, 1),
                now: Self.received + .seconds(lag),
                policy: Fixtures.policy
            )
            #expect(account.debt?.dueAt == Self.received + .seconds(wait))
        }
    }

    @Test func `keeps its first role and its first customer`() {
        var account = Fixtures.account()
        _ = account.take(Fixtures.distinct(.duplicate(of: TokenID("x"))), now: Self.received)
        expect(account.take(Fixtures.distinct(customer: "c1.a"), now: Self.received), .repeated)
        #expect(account.customer == CustomerID("c1.a"))
        let other = account.take(Fixtures.distinct(customer: "c1.b"), now: Self.received)
        #expect(other == .ownerConflict)
        #expect(account.customer == CustomerID("c1.a") && account.ownerConflictCount == 1)
        #expect(account.role == .duplicate(of: TokenID("x")))
        #expect(account.debt?.reason == .duplicate)
    }

    @Test(arguments: [ReportAnswer.rejected(.refused), .accepted])
    func `knows the newest of its other customers until Apple has said that it knows it`(
        answer: ReportAnswer
    ) {
        var account = Fixtures.account()
        _ = account.take(Fixtures.distinct(customer: "c1.0"), now: Self.received)
        let countMax = TokenAccount.otherCustomerCountMax
        for number in 1...countMax + 2 {
            let other = Fixtures.distinct(customer: "c1.\(number)")
            expect(account.take(other, now: Self.received), .ownerConflict)
        }
        _ = account.take(Fixtures.distinct(customer: "c1.5"), now: Self.received)
        let newest = ([3, 4] + Array(6...countMax + 2) + [5]).map { CustomerID("c1.\($0)") }
        #expect(account.otherCustomers == newest && newest.count == countMax)
        _ = account.advance(now: Self.due, policy: Fixtures.policy)
        let errors = [AppleError(code: 3, fieldName: "externalPurchaseId", lineItemID: nil)]
        let effects = account.hear(answer, at: Self.due, httpStatus: 400, errors: errors)
        let told = effects.compactMap { effect -> CustomerID? in
            guard case .refusedToken(let refused) = effect else {
                return nil
            }
            return refused.customer
        }
        #expect(told == (answer == .accepted ? [] : [CustomerID("c1.0")] + newest))
        expect(account.take(Fixtures.distinct(customer: "c1.x"), now: Self.due), .ownerConflict)
        let kept = answer == .accepted ? [] : newest.dropFirst() + [CustomerID("c1.x")]
        #expect(account.otherCustomers == kept)
    }

    @Test func `waits for the guard before it says UNRECOGNIZED_TOKEN`() {
        var account = Fixtures.account()
        expect(account.take(Fixtures.notice("UNREPORTED"), now: Self.received), .guarded)
        #expect(
            account.attention == .guarded(from: Self.received + .minutes(15))
        )
        expect(account.take(Fixtures.notice("UNREPORTED"), now: Self.received), .repeated)
        account.proveUnknown(policy: Fixtures.policy)
        #expect(account.current?.status == .unrecognizedToken)
        #expect(account.current?.reason == .unknown)
        _ = account.hear(.accepted, at: Self.due)
        // The token comes after all: Apple has its report.
        expect(account.take(Fixtures.distinct(), now: Self.due), .alreadyReported)
        #expect(account.attention == .forgotten(at: Fixtures.created + .days(765)))
    }

    @Test func `is no longer unknown when the token comes in the grace time`() {
        var account = Fixtures.account()
        _ = account.take(Fixtures.notice("UNREPORTED"), now: Self.received)
        _ = account.take(Fixtures.distinct(), now: Self.received + .minutes(1))
        #expect(account.current?.status == .noLineItem && account.current?.reason == .unreported)
        account.proveUnknown(policy: Fixtures.policy)
        #expect(account.intentCount == 1)
    }

    /// UNRECOGNIZED_TOKEN is decided, and the token comes in after all.
    private static func arrived() -> TokenAccount {
        var account = Fixtures.account()
        _ = account.take(Fixtures.notice("UNREPORTED"), now: received)
        account.proveUnknown(policy: Fixtures.policy)
        #expect(account.current?.status == .unrecognizedToken)
        let distinct = Fixtures.distinct(at: received + .hours(1))
        expect(account.take(distinct, now: received + .hours(1)), .owed)
        return account
    }

    @Test func `is called unknown no more once it has come in, unless Apple has that`() {
        let time = Self.received + .hours(2)
        var account = Self.arrived()
        // It may be on its way: Apple says whether it has arrived.
        #expect(account.nextRequest == .retrieve)
        let effects = account.hear(.notHeld, at: time)
        guard effects.count == 1, case .cancelled(let intent)? = effects.first else {
            Issue.record("\(effects)")
            return
        }
        #expect(intent.status == .unrecognizedToken)
        // Apple has asked for it: it is due at once.
        #expect(account.current?.status == .noLineItem && account.nextRequest == .send)
        #expect(account.current?.reason == .unreported && account.current?.origin.topic == 1)
        _ = account.hear(.accepted, at: time)
        #expect(account.lastAccepted == .noLineItem && !account.owesReport)
        var told = Self.arrived()
        #expect(told.hear(.verified, at: time).count == 1)
        #expect(told.lastAccepted == .unrecognizedToken && told.current == nil && told.debt == nil)
    }

    @Test func `owes its own report where Apple refused to hear that it is unknown`() {
        let time = Self.received + .hours(2)
        var late = Self.arrived()
        _ = late.hear(.rejected(.conflict), at: time, httpStatus: 400)
        #expect(late.parked.isEmpty && late.current?.status == .noLineItem && late.isHeld)
        var account = Fixtures.account()
        _ = account.take(Fixtures.notice("UNREPORTED"), now: Self.received)
        account.proveUnknown(policy: Fixtures.policy)
        _ = account.hear(.rejected(.refused), at: Self.received + .hours(1), httpStatus: 400)
        #expect(account.hasParkedDebt)
        expect(account.take(Fixtures.distinct(at: time), now: time), .owed)
        #expect(account.parked.isEmpty && account.isHeld)
        #expect(account.current?.status == .noLineItem)
    }

    @Test func `sends nothing for a token in our own dead letters until it is replayed`() {
        var account = Fixtures.account()
        expect(account.take(Fixtures.distinct(.seen), now: Self.received), .seen)
        expect(account.take(Fixtures.notice("UNREPORTED"), now: Self.received), .noticeForSeen)
        account.proveUnknown(policy: Fixtures.policy)
        #expect(account.current == nil)
        guard case .forgotten = account.attention else {
            Issue.record("nothing is owed for a seen token")
            return
        }
        expect(account.take(Fixtures.distinct(), now: Self.due), .owed)
        #expect(account.current?.reason == .unreported)
    }

    /// A customer can write another app into a token; what Apple signs is right.
    @Test func `goes under the app that Apple names, not under that of an altered copy`() {
        var altered = Fixtures.distinct()
        altered.appAppleID = 999
        altered.bundleID = "com.example.other"
        altered.tokenCreationDate = Timestamp(milliseconds: 1)
        let notice = Fixtures.notice("UNREPORTED")
        func expectAppleWord(_ account: TokenAccount) {
            #expect(account.appAppleID == Fixtures.token.appAppleID)
            #expect(account.bundleID == Fixtures.token.bundleID)
            #expect(account.tokenCreationDate == Fixtures.token.tokenCreationDate)
        }
        var refused = Fixtures.account()
        _ = refused.take(altered, now: Self.received)
        _ = refused.advance(now: Self.due, policy: Fixtures.policy)
        _ = refused.hear(.rejected(.refused), at: Self.due, httpStatus: 400)
        #expect(refused.hasParkedDebt && refused.appAppleID == 999)
        var byHand = refused
        let request = Fixtures.request(.noLineItem)
        expect(byHand.take(request, now: Self.due).fault?.code, "report.app_mismatch")
        byHand.refusedAt = Self.due
        expect(byHand.take(request, offset: 2, now: Self.due), .owed)
        #expect(byHand.appAppleID == Fixtures.token.appAppleID && byHand.bundleID == "com.example")
        expect(refused.take(notice, now: Self.due), .owed)
        expectAppleWord(refused)
        #expect(refused.parked.isEmpty && refused.current?.status == .noLineItem)
        var asked = Fixtures.account()
        _ = asked.take(notice, now: Self.received)
        _ = asked.take(altered, now: Self.received)
        expectAppleWord(asked)
        var seen = Fixtures.account()
        altered.role = .seen
        _ = seen.take(altered, now: Self.received)
        #expect(seen.appAppleID == nil)
        _ = seen.take(notice, now: Self.received)
        expectAppleWord(seen)
    }

    @Test func `makes nothing of CREATED, and reminds of what is due`() {
        var account = Fixtures.account()
        expect(account.take(Fixtures.notice("CREATED", uuid: "1"), now: Self.received), .noted)
        #expect(account == Fixtures.account())
        _ = account.take(Fixtures.distinct(), now: Self.received)
        let reminder = Fixtures.notice("ACTIVE_TOKEN_REMINDER", uuid: "2")
        expect(account.take(reminder, now: Self.received), .owed)
        #expect(account.current?.reason == .reminder)
        // Due with its month's reports, 15 days after the month, not a year later.
        #expect(account.current?.deadline == Timestamp(milliseconds: 1_771_200_000_000))
        let unknown = Fixtures.notice("SOMETHING_NEW", uuid: "3")
        expect(account.take(unknown, now: Self.received), .unknownSubtype("SOMETHING_NEW"))
    }

    @Test(arguments: [true, false])
    func `reports an unknown token by its reminder, where that is wanted`(isReported: Bool) {
        var policy = Fixtures.policy
        policy.reportsUnknownReminders = isReported
        var account = Fixtures.account()
        let reminder = Fixtures.notice("ACTIVE_TOKEN_REMINDER", uuid: "1")
        let absorption = account.absorb(
            reminder,
            origin: Fixtures.origin(1, 1),
            now: Self.received,
            policy: policy
        )
        #expect(absorption == (isReported ? .guarded : .noted))
        let guardedFrom = reminder.receivedAt + policy.unrecognizedGrace
        #expect((account.attention == .guarded(from: guardedFrom)) == isReported)
        var token = account
        account.proveUnknown(policy: policy)
        #expect(account.current?.status == (isReported ? .unrecognizedToken : nil))
        #expect(account.current?.reason == (isReported ? .unknown : nil))
        // Asked for while the token is active: due with its month's reports.
        let deadline = Timestamp(milliseconds: 1_771_200_000_000)
        #expect(account.current?.deadline == (isReported ? deadline : nil))
        guard isReported else {
            return
        }
        // The token that comes before the proof owes what it owes after a reminder.
        _ = token.take(Fixtures.distinct(), now: Self.due)
        #expect(token.current?.status == .noLineItem && token.current?.reason == .reminder)
        _ = account.absorb(Fixtures.answer(.accepted, to: account, at: Self.due), policy: policy)
        let later = Fixtures.notice("ACTIVE_TOKEN_REMINDER", uuid: "2")
        expect(account.take(later, now: Self.due), .alreadyReported)
        #expect(account.current == nil && account.waitingReminder == nil)
    }

    @Test func `is in a hurry for an unknown token when Apple's time is over, too`() {
        var account = Fixtures.account()
        _ = account.take(Fixtures.notice("ACTIVE_TOKEN_REMINDER", uuid: "1"), now: Self.received)
        let unreported = Fixtures.notice("UNREPORTED", uuid: "2")
        _ = account.take(unreported, now: Self.received)
        account.proveUnknown(policy: Fixtures.policy)
        #expect(account.current?.deadline == unreported.receivedAt)
        #expect(account.waitingNotice == nil && account.waitingReminder == nil)
    }

    @Test(arguments: [true, false])
    func `tells each month of an active token, where that is wanted`(repeats: Bool) {
        var policy = Fixtures.policy
        policy.repeatsMonthly = repeats
        var account = Fixtures.account()
        _ = account.absorb(
            Fixtures.distinct(),
            origin: Fixtures.origin(0, 1),
            now: Self.received,
            policy: policy
        )
        _ = account.advance(now: Self.due, policy: policy)
        _ = account.absorb(Fixtures.answer(.accepted, to: account, at: Self.due), policy: policy)
        // Accepted in January: February is over on the first of March.
        let march = CalendarMonth(of: Self.due).adding(2).start
        #expect(account.debt?.dueAt == (repeats ? march : nil))
        var later = account
        _ = later.advance(now: march, policy: policy)
        #expect(later.current?.deadline == (repeats ? march + .days(15) : nil))
        let february = Fixtures.notice(
            "ACTIVE_TOKEN_REMINDER",
            uuid: "feb",
            at: CalendarMonth(of: Self.due).adding(1).start
        )
        let absorption = account.absorb(
            february,
            origin: Fixtures.origin(1, 1),
            now: february.receivedAt,
            policy: policy
        )
        #expect(absorption == (repeats ? .owed : .alreadyReported))
        _ = account.advance(now: february.receivedAt, policy: policy)
        #expect(account.current?.number == (repeats ? 2 : nil))
    }

    // MARK: Answers

    @Test func `counts a lost 200 as accepted, once`() {
        var account = Fixtures.account()
        _ = account.take(Fixtures.distinct(), now: Self.due)
        expect(account.hear(.again(isDoubtful: true, notBefore: nil), at: Self.due).isEmpty, true)
        #expect(account.nextRequest == .retrieve)
        #expect(account.current?.nextAttemptAt == Self.due + .seconds(10))
        let effects = account.hear(.verified, at: Self.due + .seconds(10))
        guard case .outcome(let outcome)? = effects.first else {
            Issue.record("a verified report is handed out")
            return
        }
        #expect(outcome.outcome == .verified && outcome.attempts == 1)
        #expect(outcome.firstSentAt == Self.due)
        expect(account.hear(.verified, at: Self.due + .seconds(11)).isEmpty, true)
    }

    @Test func `asks GET about a taken identifier, and gives up after a day of nothing`() {
        var account = Fixtures.account()
        _ = account.take(Fixtures.distinct(), now: Self.due)
        var now = Self.due
        var rounds = 0
        while account.current != nil, rounds < 1_000 {
            #expect(account.nextRequest == .send)
            _ = account.hear(.verify(isTaken: true, isRefused: false), at: now)
            #expect(account.nextRequest == .retrieve)
            let effects = account.hear(.notHeld, at: now)
            if account.current == nil {
                guard case .deadLetter(_, let fault, _, _)? = effects.last else {
                    Issue.record("given up without a dead letter")
                    return
                }
                #expect(fault.code == "report.unverifiable")
            }
            now = now + .hours(1)
            rounds += 1
        }
        #expect(rounds == 25)
    }

    @Test func `lets other reasons stand when GET finds nothing`() {
        var account = Fixtures.account()
        _ = account.take(Fixtures.distinct(), now: Self.due)
        let errors = [
            AppleError(code: 1, fieldName: "requestIdentifier", lineItemID: nil),
            AppleError(code: 3, fieldName: "externalPurchaseId", lineItemID: nil),
        ]
        _ = account.hear(.verify(isTaken: true, isRefused: true), at: Self.due, errors: errors)
        let effects = account.hear(.notHeld, at: Self.due, httpStatus: 400)
        guard case .outcome(let outcome)? = effects.first else {
            Issue.record("refused")
            return
        }
        #expect(outcome.outcome == .rejected && outcome.errors == errors)
    }

    @Test func `sends again after a doubt that GET resolves`() {
        var account = Fixtures.account()
        _ = account.take(Fixtures.distinct(), now: Self.due)
        _ = account.hear(.again(isDoubtful: true, notBefore: nil), at: Self.due)
        expect(account.hear(.notHeld, at: Self.due).isEmpty, true)
        #expect(account.nextRequest == .send && account.current?.nextAttemptAt == nil)
        #expect(account.current?.identifier == "\(Fixtures.id.text)#1")
    }

    /// 409, and 200 without a body, name no reason: GET shows nothing, and the next PUT ends alike.
    @Test func `backs off where PUT and GET contradict each other again and again`() {
        var account = Fixtures.account()
        _ = account.take(Fixtures.distinct(), now: Self.due)
        for round in 1...4 {
            _ = account.hear(.verify(isTaken: false, isRefused: false), at: Self.due)
            expect(account.hear(.notHeld, at: Self.due).isEmpty, true)
            let retryAt = round == 1 ? nil : Self.due + .seconds(10)
            #expect(account.current?.nextAttemptAt == retryAt, "round \(round)")
            #expect(account.nextRequest == .send)
            _ = account.advance(now: Self.due + .seconds(10), policy: Fixtures.policy)
        }
    }

    @Test func `takes an answer in once`() {
        var account = Fixtures.account()
        _ = account.take(Fixtures.distinct(), now: Self.due)
        let answer = Fixtures.answer(.serialise, to: account, at: Self.due)
        _ = account.absorb(answer, policy: Fixtures.policy)
        let once = account
        _ = account.absorb(answer, policy: Fixtures.policy)
        #expect(account == once && once.current?.attempts == 1)
    }

    @Test func `keeps its place when the lane waits`() {
        var account = Fixtures.account()
        _ = account.take(Fixtures.distinct(), now: Self.due)
        _ = account.hear(.lane(.rateLimited, until: nil), at: Self.due)
        guard case .ready = account.attention else {
            Issue.record("a report does not wait by itself for its lane")
            return
        }
    }

    @Test func `remembers a bounded number of notices`() {
        var account = Fixtures.account()
        _ = account.take(Fixtures.distinct(), now: Self.due)
        for number in 0..<40 {
            let time = Self.received + .minutes(Int64(number))
            _ = account.take(
                Fixtures.notice("UNREPORTED", uuid: "\(number)", at: time),
                now: Self.due
            )
        }
        #expect(account.notices.count == TokenAccount.noticeCountMax)
        #expect(account.notices.last?.uuid == "39")
    }
}
