import Kafka
import Testing
import TokenDomain
import TokenWire

@testable import tollway

@Suite struct `Reports that Apple has accepted` {
    private static let token = TokenID("t-1")

    /// What a replay asks of a request, and of its patch.
    private func question(
        _ status: ReportStatus,
        _ items: [String],
        under number: Int?,
        patchedFrom failedNumber: Int? = nil
    ) throws -> LedgerQuestion.Report {
        var value: [UInt8] = []
        ReportRequested(
            externalPurchaseID: Self.token,
            appAppleID: 1,
            bundleID: "com.example.1",
            status: status,
            requestIdentifier: number.map { LedgerMaker.identifier($0).uppercased() },
            lineItems: items.isEmpty ? nil : "[" + items.joined(separator: ",") + "]"
        ).write(to: &value)
        var subject = SubjectReader().read(value.span)
        subject.failedIdentifier = failedNumber.map { LedgerMaker.identifier($0) }
        let question = DeadLetterJudge.question(.reportsRequested, failedAt: 1, subject)
        guard case .report(let report)? = question else {
            preconditionFailure("a request for a report is asked about")
        }
        return report
    }

    private func skipReason(
        _ question: LedgerQuestion.Report,
        _ ledger: [ReportOutcome]
    ) throws -> SkipReason? {
        var accepted = AcceptedReports()
        accepted.ask(question)
        for outcome in ledger {
            var value: [UInt8] = []
            outcome.write(to: &value)
            try accepted.absorb(value.span, of: question.token)
        }
        return accepted.skipReason(question)
    }

    /// The ledger has NO_LINE_ITEM under 1, or LINE_ITEM with one sale.
    @Test(
        arguments: [
            (.noLineItem, [], 1, false, .alreadyAccepted), (.noLineItem, [], 2, false, nil),
            (.lineItem, ["a"], 1, false, .identifierConflict), (.lineItem, ["a"], 2, false, nil),
            (.lineItem, ["a"], nil, false, nil), (.noLineItem, [], nil, false, nil),
            (.lineItem, ["a"], 1, true, .alreadyAccepted),
            (.lineItem, ["b"], 1, true, .identifierConflict),
            (.lineItem, ["a", "b"], 1, true, .identifierConflict),
            (.lineItem, ["b"], 2, true, nil), (.lineItem, ["b"], nil, true, nil),
            // Under no identifier may it follow.
            (.noLineItem, [], 1, true, .orderRules), (.noLineItem, [], nil, true, .orderRules),
        ] as [(ReportStatus, [String], Int?, Bool, SkipReason?)]
    )
    func `hold back the same report, and another under the same identifier`(
        status: ReportStatus,
        items: [String],
        number: Int?,
        hasSales: Bool,
        why: SkipReason?
    ) throws {
        let question = try question(status, items.map { LedgerMaker.item($0) }, under: number)
        let accepted = LedgerMaker.outcome(1, items: hasSales ? [LedgerMaker.item("a")] : [])
        #expect(try skipReason(question, [accepted]) == why)
        let rejected = LedgerMaker.outcome(1, outcome: .rejected)
        #expect(try skipReason(question, [rejected]) == nil)
    }

    @Test func `hold back the same report in another spelling`() throws {
        let items = ["a", "b"].map { LedgerMaker.item($0) }
        let same = try question(.lineItem, [" " + items[1], items[0]], under: 1)
        #expect(try skipReason(same, [LedgerMaker.outcome(1, items: items)]) == .alreadyAccepted)
    }

    @Test func `hold back the same report whose identifier a patch takes away`() throws {
        let accepted = LedgerMaker.outcome(1, items: [LedgerMaker.item("a")])
        let same = try question(.lineItem, [LedgerMaker.item("a")], under: nil, patchedFrom: 1)
        #expect(try skipReason(same, [accepted]) == .alreadyAccepted)
        let other = try question(.lineItem, [LedgerMaker.item("b")], under: nil, patchedFrom: 1)
        #expect(try skipReason(other, [accepted]) == nil)
    }

    /// Whoever corrects a refused report by hand, under a new identifier, is not told of it twice.
    @Test(
        arguments: [
            (.hold, .noLineItem, .alreadyAccepted), (.unreported, .noLineItem, .alreadyAccepted),
            (.duplicate, .duplicateToken, .alreadyAccepted),
            // Sales are reports of their own, and so are a month's and what was asked for.
            (.hold, .lineItem, nil), (.month, .noLineItem, nil), (.request, .noLineItem, nil),
        ] as [(ReportReason, ReportStatus, SkipReason?)]
    )
    func `hold back what the token owed by itself`(
        reason: ReportReason,
        status: ReportStatus,
        why: SkipReason?
    ) throws {
        var refused = LedgerMaker.outcome(2, outcome: .rejected)
        refused.reason = reason.rawValue
        let items = status == .lineItem ? [LedgerMaker.item("a")] : []
        let question = try question(status, items, under: 2)
        #expect(try skipReason(question, [refused]) == nil)
        #expect(try skipReason(question, [refused, LedgerMaker.outcome(1)]) == why)
    }
}
