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
        (TokenType.services, ReportStatus.duplicateToken),
        (.acquisition, .duplicateToken),
        (.other("IN_APP"), .noLineItem),
    ])
    func `says DUPLICATE_TOKEN at once, for the types that have it`(
        type: TokenType,
        status: ReportStatus
    ) {
        var account = Fixtures.account()
        var distinct = Fixtures.distinct(.duplicate(of: TokenID("first")))
        distinct.tokenType = type
        _ = account.take(distinct, now: Self.due)
        #expect(account.current?.status == status)
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
        #expect(account.intentCount == 1)
    }

    @Test func `waits for the guard before it says UNRECOGNIZED_TOKEN`() {
        var account = Fixtures.account()
        expect(account.take(Fixtures.notice("UNREPORTED"), now: Self.received), .guarded)
        #expect(
            account.attention == .guarded(from: Self.received + .minutes(15))
        )
        expect(account.take(Fixtures.notice("UNREPORTED"), now: Self.received), .repeated)
        _ = account.proveUnknown(now: Self.due, policy: Fixtures.policy)
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
        _ = account.proveUnknown(now: Self.due, policy: Fixtures.policy)
        #expect(account.intentCount == 1)
    }

    @Test func `sends nothing for a token in our own dead letters until it is replayed`() {
        var account = Fixtures.account()
        expect(account.take(Fixtures.distinct(.seen), now: Self.received), .seen)
        expect(account.take(Fixtures.notice("UNREPORTED"), now: Self.received), .noticeForSeen)
        _ = account.proveUnknown(now: Self.due, policy: Fixtures.policy)
        #expect(account.current == nil)
        guard case .forgotten = account.attention else {
            Issue.record("nothing is owed for a seen token")
            return
        }
        expect(account.take(Fixtures.distinct(), now: Self.due), .owed)
        #expect(account.current?.reason == .unreported)
    }

    @Test func `makes nothing of CREATED, and reminds of what is due`() {
        var account = Fixtures.account()
        expect(account.take(Fixtures.notice("CREATED", uuid: "1"), now: Self.received), .noted)
        #expect(account == Fixtures.account())
        _ = account.take(Fixtures.distinct(), now: Self.received)
        let reminder = Fixtures.notice("ACTIVE_TOKEN_REMINDER", uuid: "2")
        expect(account.take(reminder, now: Self.received), .owed)
        #expect(account.current?.reason == .reminder)
        let unknown = Fixtures.notice("SOMETHING_NEW", uuid: "3")
        expect(account.take(unknown, now: Self.received), .unknownSubtype)
    }

    @Test(arguments: [true, false])
    func `tells each month of an active token, where that is wanted`(repeats: Bool) {
        var policy = Fixtures.policy
        policy.repeatsMonthly = repeats
        var account = Fixtures.account()
        _ = account.absorb(Fixtures.distinct(), origin: Fixtures.origin(0, 1), policy: policy)
        _ = account.advance(now: Self.due, policy: policy)
        _ = account.absorb(Fixtures.answer(.accepted, to: account, at: Self.due), policy: policy)
        // Accepted in January: February is over on the first of March.
        let march = CalendarMonth(of: Self.due).adding(2).start
        #expect(account.debt?.dueAt == (repeats ? march : nil))
        let february = Fixtures.notice(
            "ACTIVE_TOKEN_REMINDER",
            uuid: "feb",
            at: CalendarMonth(of: Self.due).adding(1).start
        )
        let absorption = account.absorb(february, origin: Fixtures.origin(1, 1), policy: policy)
        #expect(absorption == (repeats ? .owed : .alreadyReported))
        _ = account.advance(now: february.receivedAt, policy: policy)
        #expect(account.current?.number == (repeats ? 2 : nil))
    }

    // MARK: By hand

    @Test func `queues another status behind, and LINE_ITEM cancels NO_LINE_ITEM`() {
        var account = Fixtures.account()
        _ = account.take(Fixtures.distinct(), now: Self.received)
        let items = Fixtures.request(.lineItem, lineItems: "[]")
        expect(account.take(items, offset: 1, now: Self.received), .owed)
        expect(account.take(Fixtures.request(.noLineItem), offset: 2, now: Self.received), .owed)
        #expect(account.current?.status == .lineItem && account.queued.map(\.number) == [2])
        let effects = account.hear(.accepted, at: Self.received)
        #expect(effects.count == 2)
        guard case .cancelled(let cancelled) = effects.last else {
            Issue.record("NO_LINE_ITEM is cancelled")
            return
        }
        #expect(cancelled.number == 2)
        #expect(account.current == nil && account.debt == nil)
        let again = account.take(Fixtures.request(.noLineItem), offset: 3, now: Self.due)
        guard case .refused(let fault) = again else {
            Issue.record("no NO_LINE_ITEM after LINE_ITEM")
            return
        }
        #expect(fault.code == "report.status_order")
    }

    @Test func `buries a queued report that may no longer follow`() {
        var account = Fixtures.account()
        let duplicate = Fixtures.distinct(.duplicate(of: TokenID("first")))
        _ = account.take(duplicate, now: Self.received)
        let items = Fixtures.request(.lineItem, lineItems: "[1]")
        expect(account.take(items, offset: 1, now: Self.received), .owed)
        let effects = account.hear(.accepted, at: Self.received)
        guard case .deadLetter(let letter, let fault, let origin)? = effects.last else {
            Issue.record("a sale that cannot be reported is buried")
            return
        }
        #expect(fault.code == "report.status_order" && origin == Fixtures.origin(2, 1))
        // It was never sent: its replay is a report of its own.
        #expect(letter == items)
        #expect(account.current == nil && account.queued.isEmpty)
    }

    @Test func `takes a request once, though its record may come twice`() {
        var account = Fixtures.account()
        let request = Fixtures.request(.noLineItem)
        expect(account.take(request, offset: 7, now: Self.received), .owed)
        expect(account.take(request, offset: 7, now: Self.received), .repeated)
        _ = account.hear(.accepted, at: Self.received)
        expect(account.take(request, offset: 7, now: Self.received), .repeated)
        #expect(account.intentCount == 1)
    }

    @Test func `holds a bounded number of bytes of line items, refused ones too`() {
        var account = Fixtures.account()
        let half = String(repeating: " ", count: 200 << 10)
        let request = Fixtures.request(.lineItem, lineItems: half)
        expect(account.take(request, offset: 1, now: Self.due), .owed)
        _ = account.hear(.rejected(.refused), at: Self.due, httpStatus: 400)
        expect(account.take(request, offset: 2, now: Self.due), .owed)
        let small = Fixtures.request(.lineItem, lineItems: "[]")
        expect(account.take(small, offset: 3, now: Self.due).fault?.code, "report.queue_full")
        #expect(account.parked.count == 1 && account.current != nil && account.queued.isEmpty)
        // What a replay takes up again is not counted twice.
        let replay = Fixtures.request(
            .lineItem,
            identifier: "\(Fixtures.id.text)#1",
            lineItems: half
        )
        expect(account.resume(replay, offset: 4, policy: Fixtures.policy, now: Self.due), .owed)
        _ = account.hear(.accepted, at: Self.due)
        expect(account.take(small, offset: 5, now: Self.due), .owed)
    }

    /// The one under way is number 1, the one that waits number 2.
    @Test(arguments: [
        (1, ReportStatus.lineItem, String?.some("[1]"), false),
        (1, .lineItem, "[ 1]", true),
        (1, .noLineItem, nil, true),
        (2, .lineItem, "[2]", false),
        (2, .lineItem, "[1]", true),
    ])
    func `refuses other content under an identifier that is under way`(
        number: Int,
        status: ReportStatus,
        lineItems: String?,
        isRefused: Bool
    ) {
        var account = Fixtures.account()
        let first = Fixtures.request(.lineItem, lineItems: "[1]")
        let second = Fixtures.request(.lineItem, lineItems: "[2]")
        _ = account.take(first, offset: 1, now: Self.due)
        _ = account.take(second, offset: 2, now: Self.due)
        let request = Fixtures.request(
            status,
            identifier: "\(Fixtures.id.text)#\(number)",
            lineItems: lineItems
        )
        let before = account
        let absorption = account.resume(
            request,
            offset: 3,
            policy: Fixtures.policy,
            now: Self.due
        )
        guard isRefused else {
            #expect(absorption == .underWay)
            return
        }
        #expect(absorption.fault?.code == "report.status_changed")
        #expect(account == before)
    }

    @Test func `refuses a sale under the identifier of a report without one`() {
        var account = Fixtures.account()
        _ = account.take(Fixtures.distinct(), now: Self.due)
        _ = account.hear(.accepted, at: Self.due)
        func resumed(_ status: ReportStatus, _ lineItems: String?) -> Absorption {
            let identifier = "\(Fixtures.id.text)#1"
            let request = Fixtures.request(status, identifier: identifier, lineItems: lineItems)
            return account.resume(request, policy: Fixtures.policy, now: Self.due)
        }
        expect(resumed(.lineItem, "[]").fault?.code, "report.status_changed")
        expect(resumed(.noLineItem, nil), .alreadyReported)
    }

    @Test func `resumes a refused intent under its identifier, and another status never`() {
        var account = Fixtures.account()
        _ = account.take(Fixtures.distinct(), now: Self.due)
        let errors = [AppleError(code: 3, fieldName: "externalPurchaseId", lineItemID: nil)]
        let effects = account.hear(
            .rejected(.refused),
            at: Self.due,
            httpStatus: 400,
            errors: errors
        )
        guard case .outcome(let outcome) = effects.first,
            case .deadLetter(let letter, let fault, let origin) = effects.last
        else {
            Issue.record("a refusal is told and buried")
            return
        }
        #expect(outcome.outcome == .rejected && outcome.errors == errors && outcome.attempts == 1)
        #expect(fault.code == "report.rejected" && origin == Fixtures.origin(0, 1))
        expect(account.take(Fixtures.notice("UNREPORTED"), now: Self.due), .parked)
        #expect(account.current == nil)
        let changed = Fixtures.request(
            .lineItem,
            identifier: letter.requestIdentifier,
            lineItems: "[]"
        )
        // An identifier that is no UUID is refused; the fixtures' policy makes none.
        guard case .refused = account.take(changed, offset: 1, now: Self.due) else {
            Issue.record("another status is another report")
            return
        }
        var resumed = account
        expect(resumed.resume(letter, policy: Fixtures.policy, now: Self.due), .owed)
        #expect(resumed.current?.number == 1 && resumed.parked.isEmpty)
        #expect(resumed.current?.attempts == 1)
        _ = resumed.hear(.accepted, at: Self.due)
        expect(
            resumed.resume(letter, offset: 9, policy: Fixtures.policy, now: Self.due),
            .alreadyReported
        )
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
            Issue.record("a verified report is told")
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
                guard case .deadLetter(_, let fault, _)? = effects.last else {
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

extension Absorption {
    fileprivate var fault: Fault? {
        if case .refused(let fault) = self {
            return fault
        }
        return nil
    }
}

extension TokenAccount {
    /// A replay of a dead letter, past the check for a UUID, which the fixtures' names are not.
    mutating func resume(
        _ letter: ReportRequested,
        offset: Int64 = 1,
        policy: ReportPolicy,
        now: Timestamp
    ) -> Absorption {
        let absorption = absorb(
            letter,
            under: letter.requestIdentifier ?? "",
            origin: ReportFixtures.origin(2, offset),
            time: now,
            policy: policy
        )
        _ = advance(now: now, policy: policy)
        return absorption
    }
}
