import AppStoreAPI
import Kafka
import Simulation
import StageRuntime
import Testing
import TokenDomain
import TokenWire

@testable import report

@Suite struct `Reports that carry sales` {
    private static let key = "c1.x"

    private static func item(_ id: String, amount: Int = 1_000) -> String {
        let date = ReportBench.start.milliseconds
        return #"{"lineItemId":"\#(id)","creationDate":\#(date),"amountTaxInclusive":\#(amount)}"#
    }

    private static func items(_ ids: String..., amount: Int = 1_000) -> String {
        "[" + ids.map { item($0, amount: amount) }.joined(separator: ",") + "]"
    }

    private func known(_ ids: String...) -> ScriptedApple.Fate {
        .refused(ids.map { AppleError(code: 1, fieldName: "lineItemId", lineItemID: $0) })
    }

    private func sell(_ bench: ReportBench, _ number: Int, _ lineItems: String) {
        bench.request(
            bench.id(number),
            .lineItem,
            lineItems: lineItems,
            purchaseKey: Self.key
        )
    }

    @Test func `are answered by the purchase key, and end the token's own debt`() throws {
        let bench = ReportBench()
        bench.launch()
        bench.distinct(bench.id(1), customer: Self.key)
        sell(bench, 1, Self.items("a", "b"))
        try bench.pass(.days(3))
        #expect(bench.appleStore.statuses == [bench.id(1).text: ["LINE_ITEM"]])
        let outcome = try #require(try bench.outcomes().first)
        let (key, answer) = try #require(try bench.answers().first)
        #expect(key == Self.key && answer.lineItemIDs == ["a", "b"])
        #expect(answer.outcome == .accepted && answer.errors.isEmpty && answer.reason == nil)
        #expect(answer.requestIdentifier == outcome.requestIdentifier)
        #expect(answer.externalPurchaseID == bench.id(1))
        #expect(outcome.details.purchaseKey == PurchaseKey(Self.key))
        #expect(try bench.answers().count == 1)
    }

    @Test func `are looked for also where Apple says more of others first`() throws {
        let bench = ReportBench()
        bench.launch()
        sell(bench, 1, Self.items("a"))
        try bench.pass(.minutes(1))
        let others = (0...ReportIntent.refusalCountMax).map { "x\($0)" }
        bench.script = { call in
            guard call.isSend else {
                return .answered
            }
            let refused = others.map {
                AppleError(code: 12, fieldName: "netAmountTaxExclusive", lineItemID: $0)
            }
            let held = AppleError(code: 1, fieldName: "lineItemId", lineItemID: "a")
            return .refused(refused + [held])
        }
        sell(bench, 1, "[" + (others + ["a"]).map { Self.item($0) }.joined(separator: ",") + "]")
        try bench.pass(.minutes(1))
        let answer = try #require(try bench.answers().last?.answer)
        #expect(answer.outcome == .rejected && answer.verifiedLineItemIDs == ["a"])
    }

    @Test func `make no dead letter where Apple refuses them, and go anew when asked`() throws {
        let bench = ReportBench()
        let errors = [AppleError(code: 12, fieldName: "netAmountTaxExclusive", lineItemID: "a")]
        bench.script = { _ in .refused(errors) }
        bench.launch()
        sell(bench, 1, Self.items("a", "b"))
        try bench.pass(.minutes(1))
        let refused = try #require(try bench.answers().first?.answer)
        #expect(refused.outcome == .rejected && refused.errors == errors)
        #expect(refused.reason == "report.rejected" && refused.lineItemIDs == ["a", "b"])
        #expect(try bench.outcomes().map(\.outcome) == [.rejected])
        bench.script = { _ in .answered }
        sell(bench, 1, Self.items("b"))
        try bench.pass(.minutes(1))
        #expect(try bench.answers().map(\.answer.outcome) == [.rejected, .accepted])
        #expect(bench.deadLetters().isEmpty && bench.tally.deadLetterCodes.isEmpty)
    }

    /// Another deployment has sent the token's first report, or the request names an identifier.
    @Test(arguments: [false, true])
    func `raise an alarm where Apple holds another report under their identifier`(
        isNamed: Bool
    ) throws {
        let bench = ReportBench()
        bench.launch()
        #expect(bench.metric("report_identifier_conflicts_total") == 0)
        let identifier = ReportPolicy.identifier(bench.id(1), 1)
        if isNamed {
            sell(bench, 1, Self.items("a"))
            try bench.pass(.minutes(1))
        } else {
            let body = ReportRequestBody(
                requestIdentifier: identifier,
                externalPurchaseID: bench.id(1),
                status: .noLineItem
            )
            let foreign = ScriptedApple.Held(
                externalPurchaseID: bench.id(1).text,
                status: "NO_LINE_ITEM",
                body: body
            )
            #expect(bench.appleStore.accept(foreign, as: identifier))
        }
        bench.request(
            bench.id(1),
            .lineItem,
            identifier: isNamed ? identifier : nil,
            lineItems: Self.items("b"),
            purchaseKey: Self.key
        )
        try bench.pass(.minutes(1))
        let answer = try #require(try bench.answers().last).answer
        #expect(answer.reason == "report.identifier_conflict")
        #expect(answer.errors.isEmpty)
        #expect(bench.metric("report_identifier_conflicts_total") == 1)
        let line =
            isNamed
            ? "a request names an identifier under which Apple has accepted another report"
            : "Apple holds another report under an identifier of ours"
        #expect(bench.logLines.with(line).count == 1)
        #expect(bench.deadLetters().isEmpty)
    }

    @Test func `are answered where they may not be sent`() throws {
        let bench = ReportBench()
        bench.launch()
        bench.distinct(bench.id(1), .duplicate(of: bench.id(9)))
        bench.distinct(bench.id(2))
        bench.distinct(
            bench.id(3),
            .duplicate(of: bench.id(2)),
            expiration: ReportBench.start + .days(365)
        )
        try bench.pass(.minutes(1))
        sell(bench, 1, Self.items("a"))
        bench.request(
            bench.id(2),
            .lineItem,
            lineItems: Self.items("b"),
            app: 2,
            purchaseKey: Self.key
        )
        sell(bench, 3, Self.items("c"))
        sell(bench, 2, "[1]")
        bench.request(bench.id(2), .lineItem, purchaseKey: Self.key)
        try bench.pass(.minutes(1))
        let answers = try bench.answers().map(\.answer)
        func answer(_ ids: [String], _ number: Int) -> PurchaseAnswered? {
            answers.first {
                $0.lineItemIDs == ids && $0.externalPurchaseID == bench.id(number)
            }
        }
        // Apple has it as a duplicate, or will: the primary carries the sales.
        #expect(answer(["a"], 1)?.reason == "report.is_duplicate")
        #expect(answer(["a"], 1)?.primaryExternalPurchaseID == bench.id(9))
        #expect(answer(["c"], 3)?.primaryExternalPurchaseID == bench.id(2))
        #expect(answer(["b"], 2)?.reason == "report.app_mismatch")
        #expect(answers.count { $0.reason == "report.line_items" } == 2)
        #expect(answers.allSatisfy { $0.outcome == .rejected && $0.errors.isEmpty })
        #expect(answers.count == 5 && bench.deadLetters().isEmpty)
        #expect(bench.appleStore.statuses == [bench.id(1).text: ["DUPLICATE_TOKEN"]])
    }

    @Test func `that become no report are not answered with the identifier of the next one`() throws
    {
        let bench = ReportBench()
        bench.launch()
        bench.distinct(bench.id(2))
        bench.distinct(
            bench.id(3),
            .duplicate(of: bench.id(2)),
            expiration: ReportBench.start + .days(365)
        )
        sell(bench, 3, Self.items("c"))
        try bench.pass(.days(4))
        let answer = try #require(try bench.answers().first?.answer)
        #expect(answer.reason == "report.is_duplicate")
        #expect(bench.appleStore.statuses[bench.id(3).text] == ["DUPLICATE_TOKEN"])
        let reported = try bench.outcomes().map(\.requestIdentifier)
        #expect(!reported.contains(answer.requestIdentifier))
    }

    @Test func `that Apple has all are refused as a report and told by what holds them`() throws {
        let bench = ReportBench()
        bench.launch()
        sell(bench, 1, Self.items("a"))
        sell(bench, 1, Self.items("b"))
        sell(bench, 1, Self.items("c"))
        try bench.pass(.minutes(1))
        bench.script = { $0.isSend ? self.known("b", "a") : .answered }
        sell(bench, 1, Self.items("a", "b"))
        try bench.pass(.minutes(1))
        let answer = try #require(try bench.answers().last?.answer)
        // Apple never held this report: the ledger has each line item once.
        #expect(answer.outcome == .rejected && answer.verifiedLineItemIDs == ["b", "a"])
        #expect(
            answer.verifiedRequestIdentifiers
                == [2, 1].map { ReportPolicy.identifier(bench.id(1), $0) }
        )
        let outcomes = try bench.outcomes().map(\.outcome)
        #expect(outcomes == [.accepted, .accepted, .accepted, .rejected])
        #expect(bench.deadLetters().isEmpty)
        // The newest first, and none that is not needed.
        let asked = bench.instances[0]?.apple.calls.filter { !$0.isSend }.map(\.requestIdentifier)
        #expect(
            asked == [3, 2, 1].map { ReportPolicy.identifier(bench.id(1), $0) }
        )
        #expect(bench.appleStore.accepted.count == 3)
    }

    /// The account begins with number 1 again, under which Apple has other reports.
    @Test func `are found under numbers that the account does not know of any more`() throws {
        let before = ReportBench()
        before.launch()
        sell(before, 1, Self.items("z"))
        sell(before, 1, Self.items("a", "b"))
        try before.pass(.minutes(1))
        let held = before.appleStore.held
        #expect(held.count == 2)
        let bench = ReportBench()
        for (identifier, report) in held {
            #expect(bench.appleStore.accept(report, as: identifier))
        }
        bench.launch()
        bench.script = { call in
            call.isSend && held[call.requestIdentifier] == nil
                ? self.known(call.requestIdentifier == self.identifier(bench, 3) ? "b" : "a")
                : .answered
        }
        for items in [Self.items("a", "b"), Self.items("a"), Self.items("b")] {
            sell(bench, 1, items)
            try bench.pass(.minutes(1))
        }
        // It goes on selling, and remembers that.
        bench.script = { _ in .answered }
        sell(bench, 1, Self.items("c"))
        try bench.pass(.minutes(1))
        #expect(try bench.answers().last?.answer.outcome == .accepted)
        bench.script = { $0.isSend ? self.known("a") : .answered }
        sell(bench, 1, Self.items("a"))
        try bench.pass(.minutes(1))
        let answers = try bench.answers().map(\.answer).filter { $0.outcome == .rejected }
        #expect(
            answers.prefix(2).allSatisfy { $0.reason == "report.identifier_conflict" }
        )
        #expect(answers.suffix(2).map(\.verifiedLineItemIDs) == [["b"], ["a"]])
        #expect(
            answers.suffix(2).map(\.verifiedRequestIdentifiers)
                == [[identifier(bench, 2)], [identifier(bench, 2)]]
        )
    }

    private func identifier(_ bench: ReportBench, _ number: Int) -> String {
        ReportPolicy.identifier(bench.id(1), number)
    }

    /// Somebody has told of it by hand; Apple says so, and not by which report.
    @Test func `that are retracted already are told by what retracted them`() throws {
        let bench = ReportBench()
        bench.launch()
        let retraction = #"[{"lineItemId":"a","erroneouslySubmitted":true}]"#
        bench.request(bench.id(1), .lineItem, lineItems: retraction)
        try bench.pass(.minutes(1))
        bench.script = { call in
            call.isSend
                ? .refused([
                    AppleError(code: 30, fieldName: "erroneouslySubmitted", lineItemID: "a")
                ]) : .answered
        }
        sell(bench, 1, retraction)
        try bench.pass(.minutes(1))
        let answer = try #require(try bench.answers().last?.answer)
        #expect(answer.verifiedRequestIdentifiers == [identifier(bench, 1)])
    }

    @Test func `tell which line items Apple has as they were sent, and which otherwise`() throws {
        let bench = ReportBench()
        bench.launch()
        sell(bench, 1, Self.items("a", "b"))
        sell(bench, 1, Self.items("b", amount: 2_000))
        try bench.pass(.minutes(1))
        bench.script = { call in
            call.isSend ? self.known("a", "b", "x") : .answered
        }
        // What "b" says now is what the newest report that has it does not.
        sell(bench, 1, Self.items("a", "b", "x", "new"))
        try bench.pass(.minutes(1))
        let answer = try #require(try bench.answers().last?.answer)
        #expect(answer.outcome == .rejected && answer.reason == "report.rejected")
        #expect(answer.verifiedLineItemIDs == ["a"])
        #expect(answer.verifiedRequestIdentifiers == [ReportPolicy.identifier(bench.id(1), 1)])
        #expect(answer.errors.compactMap(\.lineItemID) == ["a", "b", "x"])
        #expect(bench.deadLetters().isEmpty)
    }

    @Test func `look for line items across crashes, and through what Apple cannot answer`() throws {
        let bench = ReportBench(seed: 3)
        bench.latency = .seconds(1)
        bench.launch()
        for number in 0..<5 {
            sell(bench, 1, Self.items("i\(number)"))
        }
        try bench.pass(.minutes(2))
        var failureCount = 0
        bench.script = { call in
            guard !call.isSend else {
                return self.known("i0")
            }
            failureCount += 1
            return failureCount % 2 == 1 ? .status(500) : .answered
        }
        sell(bench, 1, Self.items("i0"))
        for _ in 0..<6 {
            try bench.pass(.seconds(2))
            bench.crash()
            bench.loseDisk()
            bench.launch()
        }
        try bench.pass(.hours(1))
        #expect(try bench.answers().last?.answer.verifiedLineItemIDs == ["i0"])
        #expect(try bench.answers().count == 6 && bench.outcomes().count == 6)
    }
}

@Suite struct `A token that Apple does not know` {
    private static let unknown = ScriptedApple.Fate.refused([
        AppleError(code: 3, fieldName: "externalPurchaseId", lineItemID: nil)
    ])

    @Test func `is told once by its customer, and its debt is a dead letter all the same`() throws {
        let bench = ReportBench()
        bench.script = { _ in Self.unknown }
        bench.launch()
        bench.distinct(bench.id(1), customer: "c1.x")
        bench.request(
            bench.id(1),
            .lineItem,
            lineItems: #"[{"lineItemId":"a"}]"#,
            purchaseKey: "c1.x"
        )
        try bench.pass(.minutes(1))
        let (key, refused) = try #require(try bench.refusedTokens().first)
        #expect(key == "c1.x" && refused.customer == CustomerID("c1.x"))
        #expect(refused.externalPurchaseID == bench.id(1))
        #expect(try bench.answers().map(\.answer.reason) == ["report.rejected"])
        #expect(bench.deadLetters().isEmpty)
        try bench.pass(.days(2))
        #expect(bench.deadLetters().count == 1)
        #expect(try bench.refusedTokens().count == 1)
    }

    @Test func `is reported by its id without a customer, and again for each who brings it`() throws
    {
        let bench = ReportBench()
        bench.script = { _ in Self.unknown }
        bench.launch()
        bench.request(bench.id(1), .noLineItem)
        try bench.pass(.minutes(1))
        #expect(try bench.refusedTokens().map(\.key) == [bench.id(1).text])
        bench.distinct(bench.id(1), customer: "c1.x")
        try bench.pass(.minutes(1))
        bench.distinct(bench.id(1), customer: "c1.x")
        try bench.pass(.minutes(1))
        bench.distinct(bench.id(1), customer: "c1.y")
        try bench.pass(.minutes(1))
        #expect(
            try bench.refusedTokens().map(\.key) == [bench.id(1).text, "c1.x", "c1.y"]
        )
        #expect(bench.tally.committed.count(of: .repeated, app: 1) == 2)
    }

    /// It was sent first with one customer, then with another and the dates of their own token.
    @Test func `is told by every customer whose it was said to be`() throws {
        let bench = ReportBench()
        bench.script = { _ in Self.unknown }
        bench.launch()
        for customer in ["c1.x", "c1.y", "c1.z", "c1.y"] {
            bench.distinct(bench.id(1), customer: customer)
        }
        try bench.pass(.minutes(1))
        #expect(try bench.refusedTokens().isEmpty)
        bench.notice(bench.id(1))
        try bench.pass(.minutes(1))
        let told = try bench.refusedTokens()
        #expect(told.map(\.key).sorted() == ["c1.x", "c1.y", "c1.z"])
        #expect(told.allSatisfy { $0.refused.customer?.text == $0.key })
    }

    @Test func `is told by the customer of each sale that is refused for it`() throws {
        let bench = ReportBench()
        bench.script = { _ in Self.unknown }
        bench.launch()
        bench.distinct(bench.id(1), customer: "c1.x")
        for key in ["c1.y", "c1.x", "c1.z", bench.id(1).text] {
            bench.request(
                bench.id(1),
                .lineItem,
                lineItems: #"[{"lineItemId":"a"}]"#,
                purchaseKey: key
            )
            try bench.pass(.minutes(1))
        }
        let told = try bench.refusedTokens()
        #expect(told.map(\.key).sorted() == [bench.id(1).text, "c1.x", "c1.y", "c1.z"])
        #expect(
            told.allSatisfy { key, refused in
                key == refused.customer?.text ?? refused.externalPurchaseID.text
            }
        )
    }

    /// It was asked for too early, or elsewhere: the dead letter of it was replayed.
    @Test func `is known after all where Apple accepts it, to all who were told`() throws {
        let bench = ReportBench()
        bench.script = { _ in Self.unknown }
        bench.launch()
        bench.distinct(bench.id(1), customer: "c1.x")
        bench.distinct(bench.id(1), customer: "c1.y")
        for key in ["c1.z", bench.id(1).text] {
            bench.request(
                bench.id(1),
                .lineItem,
                lineItems: #"[{"lineItemId":"a"}]"#,
                purchaseKey: key
            )
            try bench.pass(.minutes(1))
        }
        bench.distinct(bench.id(1), customer: "c1.late")
        try bench.pass(.minutes(1))
        let told = try bench.refusedTokens()
        let keys = ["c1.late", "c1.x", "c1.y", "c1.z", bench.id(1).text].sorted()
        #expect(told.map(\.key).sorted() == keys)
        #expect(told.allSatisfy { $0.refused.withdrawnAt == nil })
        bench.script = { _ in .answered }
        bench.request(bench.id(1), .noLineItem)
        try bench.pass(.minutes(1))
        let withdrawn = try bench.refusedTokens().filter { $0.refused.withdrawnAt != nil }
        #expect(withdrawn.map(\.key).sorted() == keys)
        // It is news once.
        bench.request(bench.id(1), .noLineItem)
        try bench.pass(.minutes(1))
        #expect(try bench.refusedTokens().count == told.count + withdrawn.count)
    }

    @Test func `is no other refusal`() throws {
        let bench = ReportBench()
        bench.script = { _ in
            .refused([AppleError(code: 3, fieldName: "referenceLineItemId", lineItemID: "a")])
        }
        bench.launch()
        bench.distinct(bench.id(1), .duplicate(of: bench.id(9)))
        try bench.pass(.minutes(1))
        #expect(bench.deadLetters().count == 1)
        #expect(try bench.refusedTokens().isEmpty)
    }
}

@Suite struct `A duplicate whose primary Apple does not know` {
    private func duplicate(_ bench: ReportBench) {
        bench.distinct(
            bench.id(2),
            .duplicate(of: bench.id(1)),
            expiration: ReportBench.start + .days(365)
        )
    }

    private func promote(_ bench: ReportBench) {
        bench.distinct(
            bench.id(2),
            promotedFrom: bench.id(1),
            receivedAt: ReportBench.start
        )
    }

    @Test func `owes what a primary owes, from its own receipt`() throws {
        let bench = ReportBench()
        bench.launch()
        duplicate(bench)
        try bench.pass(.hours(1))
        promote(bench)
        promote(bench)
        try bench.pass(.hours(22))
        #expect(bench.appleStore.accepted.isEmpty)
        try bench.pass(.hours(2))
        #expect(bench.appleStore.statuses == [bench.id(2).text: ["NO_LINE_ITEM"]])
        #expect(bench.metric(#"report_promotions_total{outcome="late"}"#) == 0)
        // What came in once is one token, promoted or not.
        #expect(bench.tally.committed.count(of: .repeated, app: 1) == 0)
        #expect(bench.tally.committed.count(of: .reported, app: 1) == 1)
    }

    @Test(arguments: [false, true])
    func `owes what a primary owes where Apple refused it as a duplicate`(isReplayed: Bool) throws {
        let bench = ReportBench()
        let errors = [AppleError(code: 8, fieldName: "status", lineItemID: nil)]
        bench.script = { _ in .refused(errors) }
        bench.launch()
        duplicate(bench)
        try bench.pass(.hours(49))
        let deadLetter = try #require(bench.deadLetters().first)
        bench.script = { _ in .answered }
        bench.distinct(bench.id(2), promotedFrom: bench.id(1), receivedAt: bench.clock.now)
        try bench.pass(.minutes(1))
        if isReplayed {
            bench.append(.reportsRequested, bench.id(2)) { $0 += deadLetter.value }
        }
        try bench.pass(.hours(25))
        #expect(bench.appleStore.statuses == [bench.id(2).text: ["NO_LINE_ITEM"]])
        #expect(bench.deadLetters().count == 1)
        // Taken once more, as by a replay.
        let tally = bench.tally.committed
        #expect(tally.count(of: .accepted, app: 1) == 1)
        #expect(tally.count(of: .deadLetter, app: 1) == 1)
        #expect(tally.count(of: .reported, app: 1) == 1)
    }

    @Test func `is withdrawn as a duplicate where Apple has not heard of it`() throws {
        let bench = ReportBench()
        bench.script = { _ in .notSent }
        bench.launch()
        duplicate(bench)
        try bench.pass(.hours(49))
        promote(bench)
        try bench.pass(.minutes(1))
        bench.script = { _ in .answered }
        try bench.pass(.hours(2))
        #expect(bench.appleStore.statuses == [bench.id(2).text: ["NO_LINE_ITEM"]])
        #expect(bench.metric(#"report_promotions_total{outcome="late"}"#) == 0)
        #expect(try bench.outcomes().map(\.status) == [.noLineItem])
    }

    /// Apple has answered before the promotion is read, or its answer was lost.
    @Test(arguments: [false, true])
    func `is alarmed and never reported again where Apple has it`(isAnswerLost: Bool) throws {
        let bench = ReportBench()
        bench.script = { isAnswerLost && $0.isSend ? .answerLost : .answered }
        bench.latency = isAnswerLost ? .minutes(5) : Milliseconds(0)
        bench.launch()
        duplicate(bench)
        try bench.pass(.minutes(48 * 60 + 1))
        promote(bench)
        bench.notice(bench.id(2), "ACTIVE_TOKEN_REMINDER")
        try bench.pass(.days(3))
        #expect(bench.appleStore.statuses == [bench.id(2).text: ["DUPLICATE_TOKEN"]])
        #expect(bench.metric(#"report_promotions_total{outcome="late"}"#) == 1)
        #expect(
            bench.logLines.with(
                "a token is the first of its period now, and Apple has it as a duplicate"
            ).count == 1
        )
    }
}

@Suite struct `The ledger of reports` {
    @Test func `says what was told, until when, and how late it was`() throws {
        let bench = ReportBench()
        bench.launch()
        bench.distinct(bench.id(1))
        try bench.pass(.hours(25))
        let details = try #require(try bench.outcomes().last?.details)
        let token = bench.token(bench.id(1))
        #expect(details.tokenCreationDate == token.tokenCreationDate)
        #expect(details.tokenExpirationDate == token.tokenExpirationDate)
        #expect(details.deadline == ReportBench.start + .days(366))
        #expect(
            details.lateBySeconds == 0 && details.lineItems == nil && details.purchaseKey == nil
        )
        #expect(bench.metric(#"reports_late_total{app="1",status="NO_LINE_ITEM"}"#) == nil)
    }

    @Test func `counts what is late by its token, an hour and a bit of a second`() throws {
        let bench = ReportBench()
        let end = ReportBench.start + .hours(2)
        let deadline = ReportBench.start + .hours(1)
        bench.script = { $0.at < end ? .status(503, retryAfter: end + Milliseconds(1)) : .answered }
        bench.launch()
        bench.distinct(bench.id(1), .duplicate(of: bench.id(9)))
        bench.distinct(bench.id(2, sandbox: true), .duplicate(of: bench.id(9)))
        try bench.pass(.hours(3))
        let outcomes = try bench.outcomes()
        #expect(outcomes.map(\.details.deadline) == [deadline, deadline])
        for outcome in outcomes {
            let late = (outcome.settledAt - deadline).count
            #expect(outcome.details.lateBySeconds == (late + 999) / 1_000 && late > 3_600_000)
        }
        // The sandbox has no deadline that anybody minds.
        #expect(bench.metric(#"reports_late_total{app="1",status="DUPLICATE_TOKEN"}"#) == 1)
    }

    /// `purchases` heard of the token before `dedupe` passed it on.
    @Test func `has the dates of a token whose sale is reported first`() throws {
        let bench = ReportBench()
        bench.clock.now = ReportBench.start + .days(370)
        bench.launch()
        let token = bench.token(bench.id(1))
        let date = (ReportBench.start + .days(364)).milliseconds
        bench.request(
            bench.id(1),
            .lineItem,
            lineItems: #"[{"lineItemId":"a","creationDate":\#(date)}]"#,
            purchaseKey: "c1.x",
            token: token
        )
        try bench.pass(.minutes(1))
        bench.distinct(bench.id(1))
        try bench.pass(.minutes(1))
        #expect(try bench.outcomes().count == 1)
        let details = try #require(try bench.outcomes().first?.details)
        #expect(details.tokenCreationDate == token.tokenCreationDate)
        #expect(details.tokenExpirationDate == token.tokenExpirationDate)
        #expect(details.deadline == ReportBench.start + .days(366))
        #expect(try #require(details.lateBySeconds) >= 4 * 86_400)
        #expect(bench.metric(#"reports_late_total{app="1",status="LINE_ITEM"}"#) == 1)
    }

    /// The bench starts on 10 January: a sale of that month is due on 15 February, and one of
    /// December on 15 January.
    @Test func `knows the deadline of sales, of new ones alone`() throws {
        let bench = ReportBench()
        bench.launch()
        let day = Milliseconds.days(1).count
        func item(_ id: String, _ days: Int64, _ rest: String = "") -> String {
            let date = ReportBench.start.milliseconds + days * day
            return #"{"lineItemId":"\#(id)","creationDate":\#(date)\#(rest)}"#
        }
        let lists = [
            "[\(item("a", 0)),\(item("b", -30))]", "[\(item("c", -1))]",
            "[\(item("d", -90, #","restatement":true"#))]",
        ]
        for lineItems in lists {
            bench.request(bench.id(1), .lineItem, lineItems: lineItems)
        }
        try bench.pass(.minutes(1))
        let details = try bench.outcomes().map(\.details)
        #expect(details.map(\.lineItems) == lists)
        let deadlines: [Timestamp?] = [
            ReportBench.start + .days(6), ReportBench.start + .days(37), nil,
        ]
        #expect(details.map(\.deadline) == deadlines)
        #expect(details.allSatisfy { $0.lateBySeconds == 0 })
    }

    /// Of a sale of December, which is due before its token is.
    @Test func `names the deadline that the dead letter of a refused report has`() throws {
        let bench = ReportBench()
        bench.launch()
        bench.script = { _ in .refused([AppleError(code: 8, fieldName: nil, lineItemID: nil)]) }
        bench.distinct(bench.id(1))
        let date = (ReportBench.start + .days(-30)).milliseconds
        let lineItems = #"[{"lineItemId":"a","creationDate":\#(date)}]"#
        bench.request(bench.id(1), .lineItem, lineItems: lineItems)
        try bench.pass(.minutes(1))
        let details = try #require(try bench.outcomes().first?.details)
        #expect(details.deadline == ReportBench.start + .days(6))
        let deadLetter = try #require(bench.deadLetters().first)
        let request = try ReportRequested(reading: deadLetter.value.span)
        #expect(request.deadline == details.deadline)
    }
}
