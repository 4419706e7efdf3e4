import Testing
@testable import TokenDomain

private typealias Fixtures = ReportFixtures

/// A report that the token owed once and owes no more: it became a primary, or it came in after all.
@Suite struct `An outdated report` {
    private static let received = Fixtures.received
    private static let due = received + .days(3)
    private static let duplicate = TokenRole.duplicate(of: TokenID("first"))

    private static func intent(
        _ status: ReportStatus,
        _ reason: ReportReason,
        _ number: Int = 1
    ) -> ReportIntent {
        ReportIntent(
            number: number,
            identifier: "\(Fixtures.id.text)#\(number)",
            status: status,
            lineItems: nil,
            reason: reason,
            origin: Fixtures.origin(1, 1),
            deadline: received
        )
    }

    /// A token that came in, before the report that it makes outdated was dropped or sent.
    private static func known(
        parked: [ReportIntent] = [],
        current: ReportIntent? = nil
    ) -> TokenAccount {
        var account = Fixtures.account()
        _ = account.take(Fixtures.distinct(), now: received)
        account.debt = nil
        account.intentCount = 1
        account.parked = parked
        account.current = current
        return account
    }

    private static var promotion: TokenDistinct {
        var distinct = Fixtures.distinct(at: received)
        distinct.promotedFrom = TokenID("first")
        return distinct
    }

    static let reports: [(ReportStatus, ReportReason)] = [
        (.duplicateToken, .duplicate), (.unrecognizedToken, .unknown),
    ]

    @Test(arguments: reports)
    func `stands in no way where an earlier version has kept it among the refused`(
        status: ReportStatus,
        reason: ReportReason
    ) {
        let intent = Self.intent(status, reason)
        var asked = Self.known(parked: [intent])
        #expect(!asked.hasParkedDebt && asked.isHeld)
        expect(asked.take(Fixtures.notice("UNREPORTED"), now: Self.due), .owed)
        #expect(asked.current?.status == .noLineItem)
        // Or its dead letter is replayed.
        var replayed = Self.known(parked: [intent])
        let deadLetter = replayed.deadLetter(
            of: intent,
            under: intent.identifier,
            policy: Fixtures.policy
        )
        expect(
            replayed.resume(deadLetter, policy: Fixtures.policy, now: Self.due),
            .alreadyReported
        )
        #expect(replayed.parked.isEmpty && replayed.current?.status == .noLineItem)
        _ = replayed.hear(.accepted, at: Self.due)
        #expect(!replayed.owesReport)
        // Where Apple has a report of it, nothing is owed instead.
        var reported = Self.known(parked: [intent])
        reported.lastAccepted = .noLineItem
        reported.lastAcceptedAt = Self.received
        expect(
            reported.resume(deadLetter, policy: Fixtures.policy, now: Self.due),
            .alreadyReported
        )
        #expect(reported.parked.isEmpty && !reported.owesReport)
    }

    @Test(arguments: reports)
    func `is asked for and withdrawn where an earlier version has planned it`(
        status: ReportStatus,
        reason: ReportReason
    ) {
        var account = Self.known(current: Self.intent(status, reason))
        #expect(account.nextRequest == .retrieve)
        // Only Apple's word that it has none withdraws it, for a day: another status may not follow one that
        // it has.
        var unheard = account
        unheard.current?.firstSentAt = Self.due
        for hours in [0, 12, 23] as [Int64] {
            #expect(unheard.hear(.nothingSaid, at: Self.due + .hours(hours)).isEmpty)
            #expect(unheard.current?.status == status && unheard.nextRequest == .retrieve)
        }
        let end = unheard.hear(.nothingSaid, at: Self.due + .hours(25))
        #expect(end.contains { if case .deadLetter = $0 { true } else { false } })
        #expect(unheard.current?.status == .noLineItem)
        let effects = account.hear(.notHeld, at: Self.due)
        guard case .cancelled? = effects.first, effects.count == 1 else {
            Issue.record("\(effects)")
            return
        }
        #expect(account.current?.status == .noLineItem && account.nextRequest == .send)
    }

    @Test func `is not sent when its turn comes after the promotion`() {
        var account = Fixtures.account()
        _ = account.take(Fixtures.distinct(Self.duplicate, customer: "c1.a"), now: Self.received)
        _ = account.advance(now: Self.due, policy: Fixtures.policy)
        let refused = account.current
        #expect(refused?.status == .duplicateToken)
        _ = account.hear(.rejected(.refused), at: Self.due, httpStatus: 400)
        #expect(account.hasParkedDebt)
        let hand = Fixtures.request(.noLineItem)
        expect(account.take(hand, offset: 1, now: Self.due), .owed)
        guard let refused else {
            return
        }
        let deadLetter = account.deadLetter(
            of: refused,
            under: refused.identifier,
            policy: Fixtures.policy
        )
        expect(
            account.resume(deadLetter, offset: 2, policy: Fixtures.policy, now: Self.due),
            .owed
        )
        #expect(account.line.count == 1)
        expect(account.take(Self.promotion, now: Self.due), .promoted)
        let effects = account.hear(.rejected(.refused), at: Self.due, httpStatus: 400)
        #expect(account.current?.status == .noLineItem && account.current?.reason != .request)
        guard case .cancelled(let cancelled)? = effects.last else {
            Issue.record("\(effects)")
            return
        }
        #expect(cancelled.status == .duplicateToken)
    }

    @Test(
        arguments: [(ReportAnswer.accepted, true), (.rejected(.refused), false)]
    )
    func `ends with the answer to the request that was in flight`(
        meaning: ReportAnswer,
        isAccepted: Bool
    ) {
        var account = Fixtures.account()
        _ = account.take(Fixtures.notice("UNREPORTED"), now: Self.received)
        account.proveUnknown(policy: Fixtures.policy)
        let answer = Fixtures.answer(
            meaning,
            to: account,
            at: Self.due,
            httpStatus: isAccepted ? 200 : 400
        )
        #expect(answer.request == .send)
        expect(account.take(Fixtures.distinct(at: Self.due), now: Self.due), .owed)
        #expect(account.nextRequest == .retrieve)
        let effects = account.absorb(answer, policy: Fixtures.policy)
        #expect(!effects.isEmpty)
        #expect(account.lastAccepted == (isAccepted ? .unrecognizedToken : nil))
        #expect(account.current?.status == (isAccepted ? nil : .noLineItem))
        // Once.
        expect(account.absorb(answer, policy: Fixtures.policy).isEmpty, true)
    }

    @Test func `is doubtful after a request in flight that may have landed`() {
        var account = Fixtures.account()
        _ = account.take(Fixtures.notice("UNREPORTED"), now: Self.received)
        account.proveUnknown(policy: Fixtures.policy)
        let answer = Fixtures.answer(
            .again(isDoubtful: true, notBefore: nil),
            to: account,
            at: Self.due
        )
        _ = account.take(Fixtures.distinct(at: Self.due), now: Self.due)
        _ = account.absorb(answer, policy: Fixtures.policy)
        #expect(account.current?.attempts == 1 && account.nextRequest == .retrieve)
        #expect(account.current?.nextAttemptAt == Self.due + .seconds(10))
    }

    @Test func `says of no token in our dead letters that it is unknown`() {
        var account = Fixtures.account()
        _ = account.take(Fixtures.notice("UNREPORTED"), now: Self.received)
        account.proveUnknown(policy: Fixtures.policy)
        #expect(account.current?.status == .unrecognizedToken)
        let seen = Fixtures.distinct(.seen, at: Self.due)
        var parked = account
        expect(account.take(seen, now: Self.due), .noticeForSeen)
        #expect(account.nextRequest == .retrieve)
        let effects = account.hear(.notHeld, at: Self.due)
        guard case .cancelled? = effects.first, effects.count == 1 else {
            Issue.record("\(effects)")
            return
        }
        // A person replays it, and then it owes what Apple has asked for.
        #expect(account.current == nil && account.debt == nil && account.waitingNotice != nil)
        expect(account.take(Fixtures.distinct(at: Self.due), now: Self.due), .owed)
        #expect(account.current?.status == .noLineItem && account.current?.reason == .unreported)
        // Refused before the dead letter came.
        _ = parked.hear(.rejected(.refused), at: Self.due, httpStatus: 400)
        #expect(parked.hasParkedDebt)
        expect(parked.take(seen, now: Self.due), .noticeForSeen)
        #expect(!parked.hasParkedDebt)
        let intent = parked.parked[0]
        let deadLetter = parked.deadLetter(
            of: intent,
            under: intent.identifier,
            policy: Fixtures.policy
        )
        expect(
            parked.resume(deadLetter, policy: Fixtures.policy, now: Self.due),
            .alreadyReported
        )
        #expect(parked.current == nil && parked.waitingNotice != nil)
        expect(parked.take(Fixtures.distinct(at: Self.due), now: Self.due), .owed)
        #expect(parked.current?.status == .noLineItem)
    }
}
