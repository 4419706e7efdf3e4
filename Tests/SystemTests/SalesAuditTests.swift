import Foundation
import Testing
import TokenDomain

@testable import purchases
@testable import tollway

/// What the audits of a storm must find, each by one thing that is wrong.
@Suite struct `The audit of a storm's sales` {
    /// A buy that was restated, one that was not owed until its token came, and one that was refused.
    private static func evidence() -> SalesEvidence {
        var evidence = SalesEvidence()
        let events = [("a", "buy"), ("a", "restate"), ("b", "buy"), ("c", "buy")]
        for (offset, (id, type)) in events.enumerated() {
            evidence.received["\(topic)/0/\(offset)"] = SalesEvidence.Event(
                lineItemID: id,
                type: type,
                value: Array("{\"lineItemId\":\"\(id)\",\"type\":\"\(type)\"}".utf8)
            )
        }
        evidence.outcomes = [
            outcome("a", .buy, .reported, revision: 1),
            outcome("b", .buy, .notOwed, revision: 1),
            outcome("a", .restate, .reported, revision: 2),
            outcome("b", .buy, .reported, revision: 1),
            outcome("c", .buy, .rejected, revision: 1),
        ]
        evidence.deadLetters = [
            SalesEvidence.DeadLetterRecord(
                origin: "\(topic)/0/3",
                code: "purchases.unknown_app",
                value: Array("{\"lineItemId\":\"c\",\"type\":\"buy\"}".utf8)
            )
        ]
        for (id, revision) in [("a", 2), ("b", 1)] {
            evidence.apple[id] = SalesEvidence.AppleItem(
                versionCount: revision,
                item: ["lineItemId": id, "netAmountTaxExclusive": revision]
            )
            evidence.book[id] = booked(id, revision)
        }
        evidence.requests = [
            request("1", "accepted"), request("2", "accepted"), request("1", "refused"),
        ]
        evidence.askedCounts = ["t": 2]
        evidence.answeredCounts = ["t": 2]
        return evidence
    }

    @Test func `finds nothing where all agree`() {
        #expect(SalesAudit(Self.evidence()).differences == [])
    }

    private typealias Harm = @Sendable (inout SalesEvidence) -> Void

    private static let harms: [(sentence: String, harm: Harm)] = [
        ("a is reported 2 times, and Apple has 3", { $0.apple["a"]?.versionCount = 3 }),
        ("a is reported 2 times, and Apple has 0", { $0.apple["a"] = nil }),
        ("b is reported 0 times, and Apple has 1", { $0.outcomes.remove(at: 3) }),
        ("a is reported as revisions [1, 1]", { $0.outcomes[2].revision = 1 }),
        (
            "a is with Apple another",
            { $0.apple["a"]?.item = ["lineItemId": "a", "netAmountTaxExclusive": 7] }
        ),
        ("b is in the book at revision 0", { $0.book["b"] = nil }),
        ("a is in the book at revision 3", { $0.book["a"]?.revision = 3 }),
        ("a is in the book under another", { $0.book["a"]?.live?.requestIdentifier = "x" }),
        ("a is retracted on one side only", { $0.book["a"]?.live?.isRetracted = true }),
        ("d is live in the book", { $0.book["d"] = booked("d", 1) }),
        ("more outcomes than events: 1: c buy: 1", { $0.outcomes.append($0.outcomes[4]) }),
        (
            "stored and never settled: 1: e buy",
            {
                $0.received["\(topic)/0/4"] = SalesEvidence.Event(
                    lineItemID: "e",
                    type: "buy",
                    value: []
                )
            }
        ),
        ("is no record of a sale", { $0.deadLetters[0].origin = "\(topic)/0/9" }),
        ("is a dead letter twice", { $0.deadLetters.append($0.deadLetters[0]) }),
        ("is not the record byte for byte", { $0.deadLetters[0].value.append(32) }),
        ("is rejected in the ledger, and no", { $0.deadLetters.removeAll() }),
        ("is a dead letter, and not in the ledger", { $0.outcomes.remove(at: 4) }),
        ("still held: 1: a", { $0.book["a"]?.changeNext = 2 }),
        ("still held: 1: b (rate)", { $0.book["b"]?.wait = .rate }),
        ("t: 2 and 1", { $0.answeredCounts["t"] = 1 }),
        ("2: codes [1]", { $0.requests.insert(request("2", "refused"), at: 1) }),
        ("3: codes [1]", { $0.requests.append(request("3", "refused")) }),
    ]

    @Test(arguments: harms.indices)
    func `finds what is wrong`(index: Int) {
        var evidence = Self.evidence()
        let (sentence, harm) = Self.harms[index]
        harm(&evidence)
        let differences = SalesAudit(evidence).differences
        #expect(differences.contains { $0.contains(sentence) }, "\(sentence): \(differences)")
    }

    // MARK: The account

    private struct Told {
        var stored: [SalesEvidence.Event] = []
        var outcomes: [PurchaseOutcome] = []
        var deadLetters: [(lineItemID: String, code: String)] = []
        var apple: [String: DemoItem] = [:]
        var refused: [String: String] = [:]

        /// What a pipeline without a fault says of the sales.
        init(_ sales: DemoSales) {
            apple = sales.items.filter { $0.value.versionCount > 0 }
            for sale in sales.sales {
                if case .refused(let code) = sale.end {
                    refused[sale.line] = code
                } else {
                    store(sale)
                }
            }
        }

        mutating func store(_ sale: DemoSale) {
            stored.append(
                SalesEvidence.Event(lineItemID: sale.lineItemID, type: sale.type, value: [])
            )
            let type = PurchaseEvent.Kind(rawValue: sale.type) ?? .buy
            switch sale.end {
            case .reported: outcomes.append(outcome(sale.lineItemID, type, .reported, revision: 1))
            case .notOwed: outcomes.append(outcome(sale.lineItemID, type, .notOwed, revision: 1))
            case .repeated, .refused: break
            case .deadLetter(let code):
                var rejected = outcome(sale.lineItemID, type, .rejected, revision: 1)
                rejected.reason = code
                outcomes.append(rejected)
                deadLetters.append((sale.lineItemID, code))
            }
        }

        func account(_ sales: DemoSales) -> StormSales {
            StormSales(
                truth: sales,
                refused: refused,
                stored: stored,
                outcomes: outcomes,
                deadLetters: deadLetters,
                apple: apple
            )
        }
    }

    @Test func `closes where every sale is what it was made to be`() {
        let sales = DemoSales(roundCount: 2, seed: 3, now: now.milliseconds)
        let account = Told(sales).account(sales)
        #expect(account.differences == [])
        #expect(account.inexactIDs.isEmpty)
    }

    @Test func `does not close where a sale is lost, doubled, or another`() throws {
        let sales = DemoSales(roundCount: 2, seed: 3, now: now.milliseconds)
        let harms: [(inout Told) -> Void] = [
            { $0.stored.removeLast() },
            { $0.stored.append(.init(lineItemID: "x", type: "buy", value: [])) },
            { $0.outcomes.removeFirst() },
            { $0.outcomes.append($0.outcomes[0]) },
            { $0.deadLetters.removeFirst() },
            { $0.deadLetters.append($0.deadLetters[0]) },
            { $0.apple.removeValue(forKey: "sale-1") },
            { $0.apple["sale-1"]?.versionCount += 1 },
            { $0.refused.removeAll() },
        ]
        for (index, harm) in harms.enumerated() {
            var told = Told(sales)
            harm(&told)
            #expect(!told.account(sales).differences.isEmpty, "harm \(index)")
        }
    }

    @Test func `takes an event that the door stored twice for what it is`() throws {
        let sales = DemoSales(roundCount: 2, seed: 3, now: now.milliseconds)
        var told = Told(sales)
        for sale in sales.sales where sale.type == "buy" && sale.end == .reported {
            told.stored.append(.init(lineItemID: sale.lineItemID, type: "buy", value: []))
        }
        let retraction = try #require(sales.sales.first { $0.type == "retract" })
        told.store(retraction)
        told.apple[retraction.lineItemID]?.versionCount += 1
        let account = told.account(sales)
        #expect(account.differences == [])
        #expect(account.inexactIDs.contains(retraction.lineItemID))
        #expect(account.inexactIDs.count < 5)
    }

    @Test func `counts a sale that was reopened once`() {
        let outcomes = SalesAudit.final(Self.evidence().outcomes)
        #expect(outcomes.map(\.lineItemID) == ["a", "b", "a", "c"])
        #expect(outcomes[1].outcome == .reported)
    }
}

// MARK: What everybody says

private let now = Timestamp(milliseconds: 1_760_000_000_000)
private let topic = "storm.purchases.received.v1"

private func outcome(
    _ id: String,
    _ type: PurchaseEvent.Kind,
    _ outcome: PurchaseOutcome.Outcome,
    revision: Int
) -> PurchaseOutcome {
    PurchaseOutcome(
        lineItemID: id,
        revision: revision,
        type: type,
        outcome: outcome,
        externalPurchaseID: nil,
        requestIdentifier: "\(id)-\(revision)",
        reason: outcome == .rejected ? "purchases.unknown_app" : "accepted",
        errors: [],
        item: "{\"lineItemId\":\"\(id)\",\"netAmountTaxExclusive\":\(revision)}",
        receivedAt: now,
        settledAt: now
    )
}

private func booked(_ id: String, _ revision: Int) -> BookedItem {
    guard let euro = AlphaCode("EUR") else {
        preconditionFailure("three letters are a code")
    }
    var item = BookedItem(touchedAt: now)
    item.standing = .live
    item.revision = revision
    item.live = BookedItem.Live(
        token: TokenID("t"),
        terms: ReportingTerms(currency: euro, rate: nil),
        reported: Milliunits(Int64(revision)),
        requestIdentifier: "\(id)-\(revision)",
        days: 0,
        isRetracted: false
    )
    return item
}

private func request(_ identifier: String, _ outcome: String) -> SalesEvidence.Request {
    SalesEvidence.Request(
        method: "PUT",
        status: outcome == "accepted" ? 200 : 400,
        outcome: outcome,
        requestIdentifier: identifier,
        errorCodes: outcome == "accepted" ? [] : [1],
        at: now.milliseconds
    )
}
