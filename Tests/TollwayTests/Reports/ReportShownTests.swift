import AppStoreAPI
import Foundation
import Testing
import TokenDomain

@testable import HTTPClient
@testable import tollway

@Suite struct `A report that Apple was asked for` {
    private static let lane = Lane(appAppleID: 1, environment: .production)

    private func page(_ answers: [Lane: HTTPClientResponse.Answer], isInLedger: Bool = true)
        -> ReportShown
    {
        var page = ReportShown(
            identifier: LedgerMaker.identifier(1),
            apple: AppleHolding(answers: answers)
        )
        if isInLedger {
            page.claims = [.init(outcome: LedgerMaker.outcome(1), position: "t/0/0")]
        }
        return page
    }

    private func answer(
        _ status: Int,
        _ body: String = "",
        isCut: Bool = false
    ) -> HTTPClientResponse.Answer {
        HTTPClientResponse.Answer(
            status: status,
            headerLines: [],
            body: Array(body.utf8),
            isCut: isCut,
            httpMajorVersion: 2
        )
    }

    private var notFound: HTTPClientResponse.Answer {
        answer(400, #"{"errors":[{"errorCode":3,"errorMessage":"NotFoundError"}]}"#)
    }

    @Test func `is not held only where Apple says so`() {
        let held = page([Self.lane: notFound])
        #expect(held.text.contains("does not hold it, although the ledger says so"))
        #expect(held.json.contains(#""isHeld":false"#) && !held.isRight)
        let other = Lane(appAppleID: 2, environment: .production)
        let rows: [([Lane: HTTPClientResponse.Answer], String)] = [
            ([other: notFound], "was not asked: app 1 is not in TOLLWAY_APPS_FILE"),
            ([Self.lane: answer(404)], "HTTP 404 without a report"),
            (
                [Self.lane: answer(400, #"{"errors":[{"errorCode":7}]}"#)],
                "HTTP 400 without a report"
            ),
            ([Self.lane: answer(200, "{", isCut: true)], "HTTP 200 with a body that is too long"),
        ]
        for (answers, sentence) in rows {
            let page = page(answers)
            #expect(page.text.contains("Apple     not known: " + sentence), "\(page.text)")
            #expect(page.json.contains(#""isHeld":null"#) && page.json.contains(#""isEqual":null"#))
            #expect(!page.isRight)
        }
    }

    /// What the runbook of an identifier conflict asks for.
    @Test func `is compared with one that was rejected, where Apple holds it`() {
        let claim = AppleReports.Claim(
            outcome: LedgerMaker.outcome(1, outcome: .rejected),
            position: "t/0/0"
        )
        let body =
            #"{"report":{"requestIdentifier":"\#(LedgerMaker.identifier(1))","#
            + #""externalPurchaseId":"t-1","status":"STATUS"}}"#
        let other = Lane(appAppleID: 2, environment: .production)
        let rows: [(lane: Lane, status: String, sentence: String, isRight: Bool)] = [
            (Self.lane, "UNRECOGNIZED_TOKEN", "holds it otherwise:", false),
            (Self.lane, "NO_LINE_ITEM", "holds this very report", true),
            (other, "NO_LINE_ITEM", "holds a report under it that the ledger has not", false),
        ]
        for row in rows {
            let answer = answer(200, body.replacing("STATUS", with: row.status))
            var page = ReportShown(
                identifier: LedgerMaker.identifier(1),
                apple: AppleHolding(
                    report: AppleBody(answer.body).report,
                    lane: row.lane,
                    answers: [Self.lane: notFound, other: notFound].merging([row.lane: answer]) {
                        $1
                    }
                )
            )
            page.claims = [claim]
            #expect(page.text.contains("Apple     " + row.sentence), "\(page.text)")
            #expect(page.json.contains(#""isHeld":true"#), "\(page.json)")
            #expect(page.isRight == row.isRight)
            page.claims = []
            #expect(!page.isRight, "the ledger has no such report")
        }
        // As it should be: Apple refused it.
        var page = page([Self.lane: notFound], isInLedger: false)
        page.claims = [claim]
        #expect(page.text.contains("holds nothing under it") && page.isRight)
    }

    private static func claim(at settledAt: Timestamp) -> AppleReports.Claim {
        .init(outcome: LedgerMaker.outcome(1, settledAt: settledAt), position: "t/0/0")
    }

    /// Goal: a report that ends between the readings of ledger and state is known.
    @Test func `is looked for in the ledger again where report's state has it no more`() throws {
        for asked in [1, 2] {
            var readCount = 0
            let page = try ReportShown(
                identifier: LedgerMaker.identifier(1),
                token: TokenID("t-1"),
                askApple: { nil },
                readLedger: { _ in
                    readCount += 1
                    return readCount < asked ? [] : [Self.claim(at: Timestamp(milliseconds: 1))]
                },
                readState: { _ in nil }
            )
            #expect(page.isKnown && page.claims.count == 1)
            #expect(readCount == asked)
        }
    }

    /// Goal: Apple, asked before it was sent the report, is asked again; of an older one it is not.
    @Test(arguments: [(secondsAgo: 0.0, 2), (3_600, 1)])
    func `is asked for again where it was settled since`(secondsAgo: Double, count: Int) throws {
        let milliseconds = Int64((Date().timeIntervalSince1970 - secondsAgo) * 1_000)
        var askedCount = 0
        let page = try ReportShown(
            identifier: LedgerMaker.identifier(1),
            token: TokenID("t-1"),
            askApple: {
                askedCount += 1
                let body =
                    #"{"report":{"requestIdentifier":"\#(LedgerMaker.identifier(1))","#
                    + #""externalPurchaseId":"t-1","status":"NO_LINE_ITEM"}}"#
                let answer = askedCount == 1 ? self.notFound : self.answer(200, body)
                return AppleHolding(
                    report: AppleBody(answer.body).report,
                    lane: Self.lane,
                    answers: [Self.lane: answer]
                )
            },
            readLedger: { _ in [Self.claim(at: Timestamp(milliseconds: milliseconds))] },
            readState: { _ in nil }
        )
        #expect(askedCount == count)
        #expect(page.isRight == (count == 2), "\(page.text)")
    }

    @Test func `is unknown to Apple as far as all answered`() {
        let sandbox = Lane(appAppleID: 1, environment: .sandbox)
        let all = page([Self.lane: notFound, sandbox: notFound], isInLedger: false)
        #expect(all.text.hasSuffix("Apple     holds nothing under it\n"))
        #expect(all.json.contains(#""isHeld":false"#) && all.isRight)
        let some = page([Self.lane: notFound, sandbox: answer(404)], isInLedger: false)
        #expect(some.text.contains("as far as is known\n          app 1 (sandbox): HTTP 404"))
        #expect(some.json.contains(#""isHeld":null"#) && !some.isRight)
    }
}
