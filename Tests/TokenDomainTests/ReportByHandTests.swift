import Testing
@testable import TokenDomain

@Suite struct `A report asked for by hand` {
    typealias Fixtures = ReportFixtures
    static let received = Fixtures.received
    static let due = received + .hours(24)

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
        _ = account.take(duplicate, now: Self.received + .hours(48))
        let items = Fixtures.request(.lineItem, lineItems: "[1]")
        expect(account.take(items, offset: 1, now: Self.received), .owed)
        let effects = account.hear(.accepted, at: Self.received)
        guard case .deadLetter(let letter, let fault, let origin, _)? = effects.last else {
            Issue.record("a sale that cannot be reported is buried")
            return
        }
        #expect(fault.code == "report.status_order" && origin == Fixtures.origin(2, 1))
        // It was never sent: its replay is a report of its own.
        var expected = items
        expected.deadline = Self.received
        #expect(letter == expected)
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

    @Test func `holds a bounded number of bytes of line items, and none of a refused one`() {
        var account = Fixtures.account()
        let half = String(repeating: " ", count: 200 << 10)
        let request = Fixtures.request(.lineItem, lineItems: half)
        expect(account.take(request, offset: 1, now: Self.due), .owed)
        expect(account.take(request, offset: 2, now: Self.due), .owed)
        let small = Fixtures.request(.lineItem, lineItems: "[]")
        expect(account.take(small, offset: 3, now: Self.due).fault?.code, "report.queue_full")
        _ = account.hear(.rejected(.refused), at: Self.due, httpStatus: 400)
        #expect(account.parked.map(\.lineItems) == [nil])
        expect(account.take(small, offset: 4, now: Self.due), .owed)
        // A replay brings the line items again.
        let replay = Fixtures.request(
            .lineItem,
            identifier: "\(Fixtures.id.text)#1",
            lineItems: "[1]"
        )
        expect(account.resume(replay, offset: 5, policy: Fixtures.policy, now: Self.due), .owed)
        #expect(account.queued.last?.lineItems == "[1]" && account.parked.isEmpty)
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
        // A sale that was accepted since is another number's.
        _ = account.take(Fixtures.request(.lineItem, lineItems: "[]"), offset: 5, now: Self.due)
        _ = account.hear(.accepted, at: Self.due)
        expect(resumed(.lineItem, "[]").fault?.code, "report.status_changed")
    }

    /// Number 1, or one that somebody else made.
    @Test(arguments: ["\(ReportFixtures.id.text)#1", "theirs"])
    func `raises an alarm for other content under an accepted identifier`(identifier: String) {
        var account = Fixtures.account()
        func taken(_ status: ReportStatus, _ lineItems: String?, _ offset: Int64) -> Absorption {
            let request = Fixtures.request(status, identifier: identifier, lineItems: lineItems)
            return account.resume(request, offset: offset, policy: Fixtures.policy, now: Self.due)
        }
        expect(taken(.lineItem, "[1]", 1), .owed)
        _ = account.hear(.accepted, at: Self.due)
        let before = account
        for (offset, status, lineItems) in [
            (2, ReportStatus.lineItem, "[2]" as String?), (3, .lineItem, "[]"),
            (4, .noLineItem, nil),
        ] {
            guard case .conflict(let fault) = taken(status, lineItems, Int64(offset)) else {
                Issue.record("\(status.rawValue) \(lineItems ?? "")")
                continue
            }
            #expect(fault.code == "report.identifier_conflict")
        }
        #expect(account == before)
        expect(taken(.lineItem, "[1]", 5), .alreadyReported)
    }

    @Test func `knows the newest accepted reports, and takes the word of who names an older one`() {
        var account = Fixtures.account()
        let count = Int64(TokenAccount.acceptedCountMax) + 1
        for offset in 1...count {
            let request = Fixtures.request(.lineItem, lineItems: "[\(offset)]")
            _ = account.take(request, offset: offset, now: Self.due)
            _ = account.hear(.accepted, at: Self.due)
        }
        #expect(account.accepted.map(\.number) == Array(2...Int(count)))
        let old = Fixtures.request(
            .lineItem,
            identifier: "\(Fixtures.id.text)#1",
            lineItems: "[0]"
        )
        expect(
            account.resume(old, offset: count + 1, policy: Fixtures.policy, now: Self.due),
            .alreadyReported
        )
    }

    @Test func `carries the history of its dead letter into the next one`() {
        var account = Fixtures.account()
        _ = account.take(Fixtures.distinct(), now: Self.due)
        let errors = [AppleError(code: 8, fieldName: "status", lineItemID: nil)]
        let first = account.hear(.rejected(.refused), at: Self.due, errors: errors)
        guard case .deadLetter(let letter, _, _, nil)? = first.last else {
            Issue.record("the first has no history")
            return
        }
        let history = ReplayHistory(
            firstFailedAt: "2026-01-11T01:00:00.000Z",
            attempts: 1,
            replayCount: 1,
            replayID: "r-1"
        )
        let absorption = account.absorb(
            letter,
            under: letter.requestIdentifier ?? "",
            origin: Fixtures.origin(2, 1),
            time: Self.due,
            history: history,
            policy: Fixtures.policy
        )
        #expect(absorption == .owed)
        _ = account.advance(now: Self.due, policy: Fixtures.policy)
        let second = account.hear(.rejected(.refused), at: Self.due, errors: errors)
        guard case .deadLetter(_, _, _, let carried)? = second.last else {
            Issue.record("it is buried again")
            return
        }
        #expect(carried == history)
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
            case .deadLetter(let letter, let fault, let origin, _) = effects.last
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
