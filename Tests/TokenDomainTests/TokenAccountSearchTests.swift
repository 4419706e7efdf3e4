import Testing
import TokenDomain

private typealias Fixtures = ReportFixtures

@Suite struct `A search for line items` {
    /// The reports 1 and 2 were accepted with line items, the third is a sale's.
    private static func searching(_ search: LineItemSearch?) -> TokenAccount {
        let time = Fixtures.received
        var account = Fixtures.account()
        for offset in 1...2 as ClosedRange<Int64> {
            let request = Fixtures.request(.lineItem, lineItems: "[\(offset)]")
            _ = account.take(request, offset: offset, now: time)
            _ = account.hear(.accepted, at: time)
        }
        var request = Fixtures.request(.lineItem, lineItems: "[3]")
        request.purchaseKey = PurchaseKey("c1.x")
        request.deadline = time
        _ = account.take(request, offset: 3, now: time)
        account.current?.search = search
        return account
    }

    private static func answers(_ effects: [ReportEffect]) -> [PurchaseAnswer] {
        effects.compactMap { effect in
            guard case .answered(let answer) = effect else {
                return nil
            }
            return answer
        }
    }

    /// As texts of Swift the two ids are equal.
    @Test func `takes two line items for two whose ids only look the same`() {
        let time = Fixtures.received
        let ids = ["caf\u{e9}", "cafe\u{301}"]
        var account = Self.searching(nil)
        _ = account.hear(
            .rejected(.refused),
            at: time,
            httpStatus: 400,
            errors: ids.map { AppleError(code: 1, fieldName: "lineItemId", lineItemID: $0) }
        )
        #expect(account.current?.search?.open.map(\.utf8.count) == [5, 6])
        let held = [Array(ids[0].utf8): true, Array(ids[1].utf8): false]
        let answers = Self.answers(account.hear(.found(held), at: time))
        #expect(answers.map { $0.verified.map(\.utf8.count) } == [[5]])
    }

    @Test func `names no report for what an earlier version has found`() {
        var account = Self.searching(LineItemSearch(number: 1, open: ["b"], verified: ["a"]))
        let own = account.current?.identifier ?? ""
        let effects = account.hear(.found([Array("b".utf8): true]), at: Fixtures.received)
        let answers = Self.answers(effects)
        #expect(answers.map(\.verified) == [["a", "b"]])
        // As where nothing is known of it: the report's own.
        #expect(answers.map(\.holders) == [[own, "\(Fixtures.id.text)#1"]])
    }

    /// Apple answers 400 where it has no report under an identifier, and may answer 200 with none.
    @Test func `takes each answer about a report for a step, and no other`() {
        let time = Fixtures.received
        var account = Self.searching(LineItemSearch(number: 3, open: ["b"]))
        _ = account.hear(.again(isDoubtful: true, notBefore: nil), at: time)
        #expect(account.current?.failureCount == 1)
        account.current?.nextAttemptAt = nil
        _ = account.hear(.notHeld, at: time, httpStatus: 400)
        #expect(account.current?.search?.number == 2 && account.current?.failureCount == 0)
        _ = account.hear(.again(isDoubtful: true, notBefore: nil), at: time, httpStatus: 404)
        account.current?.nextAttemptAt = nil
        _ = account.hear(.again(isDoubtful: true, notBefore: nil), at: time, httpStatus: 500)
        #expect(account.current?.failureCount == 2)
        account.current?.nextAttemptAt = nil
        _ = account.hear(.found([:]), at: time)
        #expect(account.current?.search?.number == 1 && account.current?.failureCount == 0)
    }
}
