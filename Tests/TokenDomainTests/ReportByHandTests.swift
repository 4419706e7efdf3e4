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
        #expect(account.current?.status == .lineItem)
        #expect(account.line.count == 1 && account.line.joined?.number == 2)
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

    /// By hand it is wanted now; sales have the time that Apple gives them, or the token has.
    @Test(
        arguments: [
            (nil, nil, nil), (nil, 3, nil), ("c1.a", nil, nil), ("c1.a", 3, 3), ("c1.a", 4_000, 0),
        ] as [(String?, Int64?, Int64?)]
    )
    func `has time as long as Apple gives it`(key: String?, asked: Int64?, days: Int64?) throws {
        var account = Fixtures.account()
        _ = account.take(Fixtures.distinct(), now: Self.received)
        let expiration = try #require(account.tokenExpirationDate)
        var request = Fixtures.request(.lineItem, lineItems: "[]")
        request.purchaseKey = key.map { PurchaseKey($0) }
        request.deadline = asked.map { Self.received + .days($0) }
        expect(account.take(request, offset: 1, now: Self.received), .owed)
        let expected =
            switch days {
            case nil: Self.received
            case 0: expiration + .days(1)
            case let days?: Self.received + .days(days)
            }
        #expect(account.current?.deadline == expected)
    }

    @Test func `buries a queued report that may no longer follow`() {
        var account = Fixtures.account()
        let duplicate = Fixtures.distinct(.duplicate(of: TokenID("first")))
        _ = account.take(duplicate, now: Self.received)
        _ = account.advance(now: Self.received + .hours(48), policy: Fixtures.policy)
        let items = Fixtures.request(.lineItem, lineItems: "[1]")
        expect(account.take(items, offset: 1, now: Self.received), .owed)
        let effects = account.hear(.accepted, at: Self.received)
        guard case .deadLetter(let deadLetter, let fault, let origin, _)? = effects.last else {
            Issue.record("a sale that cannot be reported is a dead letter")
            return
        }
        #expect(fault.code == "report.status_order" && origin == Fixtures.origin(2, 1))
        // It was never sent: its replay is a report of its own. Apple has one of the token, and so
        // waits for none.
        #expect(deadLetter == items)
        #expect(account.current == nil && account.line.isEmpty)
    }

    /// The time at which somebody asked, or Apple did, orders what is sent, and is no deadline.
    @Test(arguments: [false, true])
    func `has Apple's deadline in its dead letter, as the ledger has`(isUnreported: Bool) throws {
        var account = Fixtures.account()
        _ = account.take(Fixtures.distinct(), now: Self.received)
        let absorption =
            isUnreported
            ? account.take(Fixtures.notice("UNREPORTED"), now: Self.received)
            : account.take(Fixtures.request(.noLineItem), offset: 1, now: Self.received)
        expect(absorption, .owed)
        #expect(account.current?.deadline == Self.received)
        let effects = account.hear(.rejected(.refused), at: Self.due, httpStatus: 400)
        guard case .outcome(let outcome)? = effects.first,
            case .deadLetter(let deadLetter, _, _, _)? = effects.dropFirst().first
        else {
            Issue.record("a refusal is an outcome and a dead letter: \(effects)")
            return
        }
        let deadline = try #require(account.tokenExpirationDate) + .days(1)
        #expect(deadLetter.deadline == deadline && outcome.details.deadline == deadline)
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

    /// Offsets begin anew where the topic was made anew, or lost its end.
    @Test func `is no repeat where offsets begin anew`() {
        var account = Fixtures.account()
        let request = Fixtures.request(.noLineItem)
        let later = Self.received + .hours(1)
        // The clocks of two writers differ.
        expect(account.take(request, offset: 49_999, now: Self.received), .owed)
        expect(account.take(request, offset: 50_000, now: Self.received + .seconds(-9)), .owed)
        expect(account.take(request, offset: 49_999, now: Self.received), .repeated)
        expect(account.take(request, offset: 0, now: later), .owed)
        #expect(account.intentCount == 3)
        // Of the new ones each is taken once, those of one millisecond too.
        expect(account.take(request, offset: 1, now: later), .owed)
        expect(account.take(request, offset: 0, now: later), .repeated)
        expect(account.take(request, offset: 1, now: later), .repeated)
        #expect(account.intentCount == 4)
    }

    /// It has an offset, and no time of the records that it absorbed.
    @Test func `is no repeat where an earlier version wrote the account and offsets begin anew`() {
        var account = Fixtures.account()
        let request = Fixtures.request(.noLineItem)
        // The clock of the writer was ahead.
        let ahead = Self.received + .hours(1)
        expect(account.take(request, offset: 50_000, now: ahead), .owed)
        account.lastRequestAt = nil
        expect(account.take(request, offset: 50_000, now: ahead), .repeated)
        expect(account.take(request, offset: 50_001, now: Self.received), .owed)
        // Read again, it is no new one for what came after it.
        expect(account.take(request, offset: 50_000, now: ahead), .repeated)
        #expect(account.intentCount == 2)
        account.lastRequestAt = nil
        expect(account.take(request, offset: 0, now: ahead + Milliseconds(1)), .owed)
        #expect(account.intentCount == 3)
    }

    @Test func `is a repeat by its offset alone where a time is missing`() {
        var account = Fixtures.account()
        let request = Fixtures.request(.noLineItem)
        expect(account.take(request, offset: 7, isTimed: false, now: Self.received), .owed)
        expect(account.take(request, offset: 7, isTimed: false, now: Self.due), .repeated)
        expect(account.take(request, offset: 8, now: Self.received), .owed)
        expect(account.take(request, offset: 8, isTimed: false, now: Self.due), .repeated)
        #expect(account.intentCount == 2)
    }

    @Test func `lets any number wait, and has room for each in turn`() {
        var account = Fixtures.account()
        let large = Fixtures.request(.lineItem, lineItems: String(repeating: " ", count: 200 << 10))
        let small = Fixtures.request(.lineItem, lineItems: "[]")
        expect(account.take(small, offset: 0, now: Self.due), .owed)
        expect(account.take(large, offset: 1, now: Self.due), .owed)
        let bound = account.byteCountBound
        #expect(bound > 400 << 10)
        var records = account.line.takeChanges()
        for offset in 2..<1_000 as Range<Int64> {
            expect(account.take(small, offset: offset, now: Self.due), .owed)
            records.merge(account.line.takeChanges()) { $1 }
        }
        #expect(account.line.count == 999 && records.count == 999)
        // What is accepted leaves a trace, a limited number of times.
        #expect(account.byteCountBound < bound + (64 << 10))
        for number in 1...1_000 {
            #expect(account.current?.number == number)
            account.layNext(from: records)
            _ = account.hear(.accepted, at: Self.due)
            records.merge(account.line.takeChanges()) { $1 }
        }
        #expect(account.current == nil && account.line.isEmpty)
        #expect(records.values.allSatisfy { $0 == nil })
        #expect(account.byteCountBound < 128 << 10)
    }

    private static func sale(by days: Int64) -> ReportRequested {
        var request = Fixtures.request(.lineItem, lineItems: "[]")
        request.purchaseKey = PurchaseKey("c1.a")
        request.deadline = received + .days(days)
        return request
    }

    private static let own = Fixtures.policy.deadline(
        creation: Fixtures.token.tokenCreationDate,
        expiration: Fixtures.token.tokenExpirationDate
    )

    @Test func `has the deadline of a token whose record comes later`() {
        var account = Fixtures.account()
        _ = account.take(Self.sale(by: 400), now: Self.received)
        #expect(account.current?.deadline == Self.received + .days(400))
        _ = account.take(Fixtures.distinct(), now: Self.received)
        #expect(account.current?.deadline == Self.own)
    }

    @Test func `has its own deadline alone where Apple has a report of the token`() {
        var account = Fixtures.account()
        _ = account.take(Fixtures.distinct(), now: Self.received)
        _ = account.take(Self.sale(by: 400), now: Self.received)
        #expect(account.current?.deadline == Self.own)
        _ = account.hear(.accepted, at: Self.received)
        _ = account.take(Self.sale(by: 401), offset: 2, now: Self.received)
        #expect(account.current?.deadline == Self.received + .days(401))
    }

    @Test func `waits for the record of the next where it is not at hand`() {
        var account = Fixtures.account()
        for offset in 1...3 as ClosedRange<Int64> {
            let request = Fixtures.request(.lineItem, lineItems: "[\(offset)]")
            _ = account.take(request, offset: offset, now: Self.due)
        }
        let records = account.line.takeChanges()
        _ = account.hear(.accepted, at: Self.due)
        #expect(account.current?.number == 2)
        _ = account.hear(.accepted, at: Self.due)
        #expect(account.current == nil && account.line.count == 1)
        // It is due at once, before any debt, and an unknown token is none meanwhile.
        #expect(account.attention == .waiting(until: Timestamp(milliseconds: 0)))
        expect(account.take(Fixtures.notice("UNREPORTED"), now: Self.due), .alreadyReported)
        account.proveUnknown(policy: Fixtures.policy)
        #expect(account.current == nil)
        account.layNext(from: records)
        _ = account.advance(now: Self.due, policy: Fixtures.policy)
        #expect(account.current?.number == 3 && account.current?.lineItems == "[3]")
    }

    @Test func `becomes several reports in order where it has too many line items for one`() {
        var account = Fixtures.account()
        let request = Fixtures.request(.lineItem, lineItems: "[1,2,3]")
        func taken(_ request: ReportRequested, _ offset: Int64) -> Absorption {
            account.absorb(
                request,
                parts: ["[1]", "[2]", "[3]"],
                origin: Fixtures.origin(2, offset),
                time: Self.due,
                now: Self.due,
                policy: Fixtures.policy
            )
        }
        expect(taken(request, 1), .owed)
        expect(taken(request, 1), .repeated)
        #expect(account.current?.lineItems == "[1]" && account.current?.number == 1)
        #expect(account.line.takeChanges().mapValues { $0?.lineItems } == [0: "[2]", 1: "[3]"])
        #expect(account.intentCount == 3)
        // One identifier is one report's.
        let named = Fixtures.request(
            .lineItem,
            identifier: "5b0c1a52-4f0e-4a55-9f1e-7f6a0c1d2e3f",
            lineItems: "[1,2,3]"
        )
        expect(taken(named, 2).fault?.code, "report.line_items")
    }

    /// A person corrected it, or a sale came: nothing of the first report is owed any more.
    @Test(
        arguments: [ReportStatus.noLineItem, .lineItem],
        [ReportReason.hold, .unreported, .reminder]
    )
    func `ends the token's own that was refused`(status: ReportStatus, reason: ReportReason) {
        var account = Fixtures.account()
        _ = account.take(Fixtures.distinct(), now: Self.received)
        account.debt?.reason = reason
        _ = account.advance(now: Self.due, policy: Fixtures.policy)
        let effects = account.hear(.rejected(.refused), at: Self.due, httpStatus: 400)
        guard case .deadLetter(let deadLetter, _, _, _)? = effects.dropFirst().first else {
            Issue.record("\(effects)")
            return
        }
        #expect(account.hasParkedDebt)
        let replay = { (account: inout TokenAccount) in
            account.resume(deadLetter, offset: 9, policy: Fixtures.policy, now: Self.due)
        }
        let hand = Fixtures.request(status, lineItems: status == .lineItem ? "[]" : nil)
        expect(account.take(hand, offset: 1, now: Self.due), .owed)
        // Asked for once more while the other is under way.
        var waiting = account
        expect(replay(&waiting), .owed)
        let ended = waiting.hear(.accepted, at: Self.due)
        guard case .cancelled(let cancelled)? = ended.last else {
            Issue.record("\(ended)")
            return
        }
        #expect(cancelled.identifier == deadLetter.requestIdentifier && !waiting.isBusy)

        _ = account.hear(.accepted, at: Self.due)
        #expect(!account.hasParkedDebt && account.debt == nil)
        expect(replay(&account), .alreadyReported)
        #expect(!account.isBusy)
        for (subtype, uuid) in [("UNREPORTED", "1"), ("ACTIVE_TOKEN_REMINDER", "2")] {
            let notice = Fixtures.notice(subtype, uuid: uuid)
            expect(account.take(notice, now: Self.due), .alreadyReported)
        }
        #expect(account.current == nil && account.debt == nil)
    }

    /// A person has it, and whatever they bring: nothing more is owed by the token itself.
    @Test(arguments: [ReportStatus.lineItem, .noLineItem])
    func `ends reminders of a token among our dead letters with its sales`(status: ReportStatus) {
        var account = Fixtures.account()
        _ = account.take(Fixtures.distinct(.seen), now: Self.received)
        let items = status == .lineItem ? "[]" : nil
        expect(
            account.take(Fixtures.request(status, lineItems: items), offset: 1, now: Self.due),
            .owed
        )
        _ = account.hear(.accepted, at: Self.due)
        expect(
            account.take(Fixtures.notice("ACTIVE_TOKEN_REMINDER"), now: Self.due),
            status == .lineItem ? .alreadyReported : .noticeForSeen
        )
    }

    @Test func `alarms where DUPLICATE_TOKEN was accepted for what is the first by now`() {
        var account = Fixtures.account()
        let duplicate = Fixtures.distinct(.duplicate(of: TokenID("first")))
        _ = account.take(duplicate, now: Self.received)
        expect(account.take(Fixtures.request(.duplicateToken), offset: 1, now: Self.due), .owed)
        var promotion = Fixtures.distinct()
        promotion.promotedFrom = TokenID("first")
        expect(account.take(promotion, now: Self.due), .promoted)
        #expect(account.hear(.accepted, at: Self.due).contains(.promotedLate))
    }

    /// An earlier version kept it.
    @Test func `finds the token's own ended where it is still among the refused`() {
        var account = Fixtures.account()
        _ = account.take(Fixtures.distinct(), now: Self.received)
        _ = account.advance(now: Self.due, policy: Fixtures.policy)
        let effects = account.hear(.rejected(.refused), at: Self.due, httpStatus: 400)
        guard case .deadLetter(let deadLetter, _, _, _)? = effects.dropFirst().first else {
            Issue.record("\(effects)")
            return
        }
        account.lastAccepted = .noLineItem
        account.lastAcceptedAt = Self.due
        #expect(!account.hasParkedDebt)
        expect(account.take(Fixtures.notice("UNREPORTED"), now: Self.due), .alreadyReported)
        expect(
            account.resume(deadLetter, offset: 9, policy: Fixtures.policy, now: Self.due),
            .alreadyReported
        )
        #expect(account.parked.isEmpty && !account.isBusy && account.debt == nil)
    }

    @Test func `keeps no line items of a refused one, and its replay brings them again`() {
        var account = Fixtures.account()
        let request = Fixtures.request(.lineItem, lineItems: "[0]")
        expect(account.take(request, offset: 1, now: Self.due), .owed)
        _ = account.hear(.rejected(.refused), at: Self.due, httpStatus: 400)
        #expect(account.parked.map(\.lineItems) == [nil])
        expect(account.take(request, offset: 2, now: Self.due), .owed)
        let replay = Fixtures.request(
            .lineItem,
            identifier: "\(Fixtures.id.text)#1",
            lineItems: "[1]"
        )
        expect(account.resume(replay, offset: 5, policy: Fixtures.policy, now: Self.due), .owed)
        #expect(account.line.joined?.lineItems == "[1]" && account.parked.isEmpty)
    }

    @Test(arguments: [
        (ReportStatus.lineItem, String?.some("[1]"), false),
        (.lineItem, "[ 1]", true),
        (.noLineItem, nil, true),
    ])
    func `refuses other content under an identifier that is under way`(
        status: ReportStatus,
        lineItems: String?,
        isRefused: Bool
    ) {
        var account = Fixtures.account()
        _ = account.take(Fixtures.request(.lineItem, lineItems: "[1]"), offset: 1, now: Self.due)
        _ = account.take(Fixtures.request(.lineItem, lineItems: "[2]"), offset: 2, now: Self.due)
        let request = Fixtures.request(
            status,
            identifier: "\(Fixtures.id.text)#1",
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

    /// `purchases` asks once more where no answer has come for days.
    @Test(arguments: [
        ("[1]", "c1.anna", 0, true), ("[2]", "c1.anna", 0, false), ("[1]", "c1.bob", 0, false),
        ("[1]", nil, 0, false), ("[1]", "c1.anna", 1, false),
    ])
    func `makes no second report of sales whose report is under way`(
        lineItems: String,
        purchaseKey: String?,
        later: Int64,
        isSame: Bool
    ) {
        var account = Fixtures.account()
        var request = Fixtures.request(.lineItem, lineItems: "[1]")
        request.purchaseKey = PurchaseKey("c1.anna")
        request.askedAt = Self.received
        #expect(account.take(request, offset: 1, now: Self.due) == .owed)
        request.lineItems = lineItems
        request.purchaseKey = purchaseKey.map { PurchaseKey($0) }
        request.askedAt = Self.received + .hours(later)
        let absorption = account.take(request, offset: 2, now: Self.due)
        #expect(absorption == (isSame ? .underWay : .owed))
        #expect(account.line.count == (isSame ? 0 : 1))
    }

    /// Also where the token turned out to be a duplicate, or an earlier version took the request in.
    @Test(arguments: [false, true])
    func `knows sales that are under way, whatever was learnt since`(isOld: Bool) {
        var account = Fixtures.account()
        var request = Fixtures.request(.lineItem, lineItems: "[1]")
        request.purchaseKey = PurchaseKey("c1.anna")
        request.askedAt = isOld ? nil : Self.received
        #expect(account.take(request, offset: 1, now: Self.due) == .owed)
        _ = account.take(
            Fixtures.distinct(.duplicate(of: TokenID("first"))),
            offset: 2,
            now: Self.due
        )
        #expect(account.duplicateFault != nil)
        request.askedAt = Self.received
        #expect(account.take(request, offset: 3, now: Self.due) == .underWay)
        #expect(account.line.isEmpty)
    }

    /// Also where it waits behind another report; the answer is that of the report Apple has.
    @Test(arguments: [true, false])
    func `asks Apple once for sales that are asked for again`(isInLine: Bool) throws {
        var account = Fixtures.account()
        if isInLine {
            _ = account.take(Fixtures.request(.noLineItem), offset: 1, now: Self.due)
        }
        var request = Fixtures.request(.lineItem, lineItems: "[1]")
        request.purchaseKey = PurchaseKey("c1.anna")
        request.askedAt = Self.received
        #expect(account.take(request, offset: 2, now: Self.due) == .owed)
        var effects: [ReportEffect] = []
        if isInLine {
            #expect(account.take(request, offset: 3, now: Self.due) == .owed)
            let copy = try #require(account.line.joined)
            effects += account.hear(.accepted, at: Self.due)
            account.line.lay(copy)
            effects += account.hear(.accepted, at: Self.due)
        } else {
            effects += account.hear(.accepted, at: Self.due)
        }
        let number = isInLine ? 2 : 1
        if !isInLine {
            let absorption = account.absorb(
                request,
                origin: Fixtures.origin(2, 4),
                time: Self.due,
                now: Self.due,
                policy: Fixtures.policy
            )
            #expect(absorption == .owed)
            effects += account.advance(now: Self.due, policy: Fixtures.policy)
        }
        #expect(account.current == nil && account.line.isEmpty)
        let answers = effects.compactMap { effect in
            if case .answered(let answer) = effect { answer } else { nil }
        }
        #expect(answers.map(\.outcome) == [.accepted, .verified])
        let identifier = Fixtures.policy.requestIdentifier(Fixtures.id, number)
        #expect(answers.allSatisfy { $0.requestIdentifier == identifier })
        #expect(answers.allSatisfy { $0.askedAt == Self.received && $0.lineItems == "[1]" })
        // What Apple was told since is not what it was told then.
        request.lineItems = "[2]"
        #expect(account.take(request, offset: 5, now: Self.due) == .owed)
        effects = account.hear(.accepted, at: Self.due)
        request.lineItems = "[1]"
        #expect(account.take(request, offset: 6, now: Self.due) == .owed)
        #expect(account.current?.lineItems == "[1]")
    }

    /// Apple gives a sale less time than a token with expiry: what it waits behind goes as early.
    @Test(arguments: [("c1.a", Int64(3)), (nil, 3), ("c1.a", 4_000)] as [(String?, Int64)])
    func `makes what it waits behind as urgent as its sales`(key: String?, days: Int64) throws {
        var account = Fixtures.account()
        _ = account.take(Fixtures.distinct(), now: Self.received)
        _ = account.advance(now: Self.due, policy: Fixtures.policy)
        let own = try #require(account.current).deadline
        var request = Fixtures.request(.lineItem, lineItems: "[]")
        request.purchaseKey = key.map { PurchaseKey($0) }
        request.deadline = Self.received + .days(days)
        #expect(account.take(request, offset: 1, now: Self.due) == .owed)
        let expected = key != nil && days == 3 ? Self.received + .days(3) : own
        #expect(account.current?.deadline == expected)
        #expect(own > Self.received + .days(3))
    }

    /// What waits is not in memory: it is decided when the second is due.
    @Test(arguments: [
        ("\(ReportFixtures.id.text)#2", "[2]", ReportAnswer.accepted, String?.none),
        ("\(ReportFixtures.id.text)#2", "[1]", .accepted, "report.identifier_conflict"),
        ("theirs", "[2]", .accepted, nil),
        ("theirs", "[1]", .accepted, "report.identifier_conflict"),
        ("\(ReportFixtures.id.text)#2", "[4]", .rejected(.refused), "taken up again"),
        ("theirs", "[4]", .rejected(.refused), "taken up again"),
    ])
    func `decides in its turn what names an identifier in line`(
        identifier: String,
        lineItems: String,
        answer: ReportAnswer,
        ending: String?
    ) {
        var account = Fixtures.account()
        func take(_ identifier: String?, _ lineItems: String, _ offset: Int64) {
            let request = Fixtures.request(
                .lineItem,
                identifier: identifier,
                lineItems: lineItems
            )
            _ =
                identifier == nil
                ? account.take(request, offset: offset, now: Self.due)
                : account.resume(request, offset: offset, policy: Fixtures.policy, now: Self.due)
        }
        take(nil, "[1]", 1)
        take(identifier == "theirs" ? identifier : nil, "[2]", 2)
        take(identifier, lineItems, 3)
        #expect(account.line.count == 2)
        let records = account.line.takeChanges()
        account.layNext(from: records)
        _ = account.hear(.accepted, at: Self.due)
        account.layNext(from: records)
        let effects = account.hear(answer, at: Self.due, httpStatus: 400)
        switch (effects.last, ending) {
        case (.cancelled(let intent)?, nil):
            #expect(intent.origin.offset == 3)
        case (.deadLetter(let deadLetter, let fault, let origin, _)?, "taken up again"):
            // The first dead letter is the refused one's.
            #expect(fault.code == "report.rejected" && origin.offset == 2)
            #expect(deadLetter.lineItems == "[2]")
            #expect(account.current?.lineItems == lineItems)
            #expect(account.current?.identifier == identifier && account.current?.number == 2)
        case (.deadLetter(let deadLetter, let fault, let origin, _)?, let code?):
            #expect(fault.code == code && origin.offset == 3)
            #expect(deadLetter.requestIdentifier == identifier)
        default:
            Issue.record("\(effects)")
        }
        #expect(account.line.isEmpty && account.parked.isEmpty)
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

    /// A policy to which blanks say nothing.
    private static let reading = ReportPolicy(
        requestIdentifier: Fixtures.policy.requestIdentifier,
        contentHash: { text in FNV1a.hash(of: text.utf8.filter { $0 != UInt8(ascii: " ") }) }
    )

    /// An earlier version has the hash of the bytes.
    @Test(arguments: [
        (true, "[ 1]", true), (true, "[ 2]", false), (false, "[ 1]", true), (false, "[1 ]", true),
        (false, "[ 2]", false),
    ])
    func `is known by what it says, and by its bytes where an earlier version had it`(
        isOld: Bool,
        lineItems: String,
        isSame: Bool
    ) {
        var account = Fixtures.account()
        let identifier = "\(Fixtures.id.text)#1"
        func asked(_ lineItems: String, _ offset: Int64) -> Absorption {
            let request = Fixtures.request(.lineItem, identifier: identifier, lineItems: lineItems)
            return account.resume(request, offset: offset, policy: Self.reading, now: Self.due)
        }
        expect(asked("[ 1]", 1), .owed)
        let repeated = asked(lineItems, 2)
        #expect(isSame ? repeated == .underWay : repeated.fault?.code == "report.status_changed")
        _ = account.absorb(
            Fixtures.answer(.accepted, to: account, at: Self.due),
            policy: isOld ? Fixtures.policy : Self.reading
        )
        let absorption = asked(lineItems, 4)
        #expect(isSame ? absorption == .alreadyReported : absorption.fault != nil)
    }

    /// Apple may have the first body after all.
    @Test(arguments: [
        (Rejection.unverifiable, "[2]", false), (.unverifiable, "[1 ]", true),
        (.refused, "[2]", true),
    ])
    func `goes with other line items under its identifier only where Apple refused it`(
        why: Rejection,
        lineItems: String,
        isTaken: Bool
    ) {
        var account = Fixtures.account()
        let first = Fixtures.request(.lineItem, lineItems: "[1]")
        expect(account.take(first, offset: 1, now: Self.due), .owed)
        _ = account.absorb(
            Fixtures.answer(.rejected(why), to: account, at: Self.due, httpStatus: 400),
            policy: Self.reading
        )
        let before = account
        let replay = Fixtures.request(
            .lineItem,
            identifier: "\(Fixtures.id.text)#1",
            lineItems: lineItems
        )
        let absorption = account.resume(replay, offset: 2, policy: Self.reading, now: Self.due)
        guard isTaken else {
            #expect(absorption.fault?.code == "report.status_changed")
            // Under another identifier Apple might count the sales twice.
            #expect(absorption.fault?.message.contains("leave out") == false)
            #expect(account == before)
            return
        }
        #expect(absorption == .owed)
        #expect(account.current?.lineItems == lineItems && account.current?.frozenHash == nil)
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

    @Test func `gives way to its token's own debt where refused reports are many`() throws {
        var account = Fixtures.account()
        _ = account.take(Fixtures.distinct(), now: Self.due)
        var deadLetters: [ReportRequested] = []
        func refuse() {
            for case .deadLetter(let deadLetter, _, _, _)
                in account.hear(.rejected(.refused), at: Self.due, httpStatus: 400)
            {
                deadLetters.append(deadLetter)
            }
        }
        refuse()
        for offset in 1...10 as ClosedRange<Int64> {
            let request = Fixtures.request(.lineItem, lineItems: "[\(offset)]")
            expect(account.take(request, offset: offset, now: Self.due), .owed)
            refuse()
        }
        #expect(deadLetters.count == 11 && account.parked.count == TokenAccount.parkedCountMax)
        #expect(account.hasParkedDebt)
        // Nothing was accepted: what is not kept any more is reported all the same.
        for (index, number) in [(0, 1), (1, 2), (10, 11)] {
            var copy = account
            let replay = deadLetters[index]
            expect(
                copy.resume(replay, offset: 20, policy: Fixtures.policy, now: Self.due),
                .owed
            )
            #expect(copy.current?.status == replay.status && copy.current?.number == number)
            #expect(copy.current?.lineItems == replay.lineItems)
        }
    }

    @Test func `carries the history of its dead letter into the next one`() {
        var account = Fixtures.account()
        _ = account.take(Fixtures.distinct(), now: Self.due)
        let errors = [AppleError(code: 8, fieldName: "status", lineItemID: nil)]
        let first = account.hear(.rejected(.refused), at: Self.due, errors: errors)
        guard case .deadLetter(let deadLetter, _, _, nil)? = first.last else {
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
            deadLetter,
            under: deadLetter.requestIdentifier ?? "",
            origin: Fixtures.origin(2, 1),
            time: Self.due,
            history: history,
            policy: Fixtures.policy
        )
        #expect(absorption == .owed)
        _ = account.advance(now: Self.due, policy: Fixtures.policy)
        let second = account.hear(.rejected(.refused), at: Self.due, errors: errors)
        guard case .deadLetter(_, _, _, let carried)? = second.last else {
            Issue.record("it is a dead letter again")
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
            case .deadLetter(let deadLetter, let fault, let origin, _) = effects.dropFirst().first,
            case .refusedToken(let refused) = effects.last
        else {
            Issue.record("a refusal is an outcome and a dead letter")
            return
        }
        #expect(refused.externalPurchaseID == Fixtures.id && account.refusedAt == Self.due)
        #expect(outcome.outcome == .rejected && outcome.errors == errors && outcome.attempts == 1)
        #expect(fault.code == "report.rejected" && origin == Fixtures.origin(0, 1))
        expect(account.take(Fixtures.notice("UNREPORTED"), now: Self.due), .parked)
        #expect(account.current == nil)
        let changed = Fixtures.request(
            .lineItem,
            identifier: deadLetter.requestIdentifier,
            lineItems: "[]"
        )
        // An identifier that is no UUID is refused; the fixtures' policy makes none.
        guard case .refused = account.take(changed, offset: 1, now: Self.due) else {
            Issue.record("another status is another report")
            return
        }
        var resumed = account
        expect(resumed.resume(deadLetter, policy: Fixtures.policy, now: Self.due), .owed)
        #expect(resumed.current?.number == 1 && resumed.parked.isEmpty)
        #expect(resumed.current?.attempts == 1)
        _ = resumed.hear(.accepted, at: Self.due)
        expect(
            resumed.resume(deadLetter, offset: 9, policy: Fixtures.policy, now: Self.due),
            .alreadyReported
        )
    }
}

extension TokenAccount {
    /// A replay of a dead letter, past the check for a UUID, which the fixtures' names are not.
    mutating func resume(
        _ deadLetter: ReportRequested,
        offset: Int64 = 1,
        policy: ReportPolicy,
        now: Timestamp
    ) -> Absorption {
        let absorption = absorb(
            deadLetter,
            under: deadLetter.requestIdentifier ?? "",
            origin: ReportFixtures.origin(2, offset),
            time: now,
            policy: policy
        )
        _ = advance(now: now, policy: policy)
        return absorption
    }
}
