import Foundation
import HTTPServer
import Kafka
import Testing
import TokenDomain
import TokenWire

@testable import ingest

@Suite struct `The door of sales` {
    typealias Case = `The door of ingest`.Case

    static let now = Timestamp(milliseconds: 1_760_000_000_000)
    static let sale = #"""
        "lineItemId":"sale-1","appAppleId":7,"creationDate":1699990000000,"productIdentifier":"p.1",\#
        "taxCountry":"DEU","pricingCurrency":"EUR","amountTaxInclusive":4990,"taxAmount":797
        """#
    /// HMAC-SHA-256 of `alice@example.com` with the key `customer-key-16b`.
    static let alice = "c1.P_1O96EW6DJGO5qYus7XAOhHyftOEf0WTrfWm_Fbs4k"

    private func admit(
        _ body: String,
        isBatch: Bool = false,
        takesCustomers: Bool = true
    ) throws -> [(key: String, event: PurchaseEvent, text: String)] {
        var door = try `The door of ingest`.door(takesCustomers: takesCustomers)
        var outputs = OutputBatch()
        let type = isBatch ? "application/x-ndjson" : "application/json"
        let request = Case(name: "", path: "/v1/purchases", body: body)
            .with("Content-Type", type).with("X-Request-Id", "r-1").request
        let admission: Door.Admission?
        do throws(Problem) {
            admission = try door.admit(
                request,
                isBusy: nil,
                now: 0,
                receivedAt: Self.now,
                to: &outputs
            )
        } catch {
            #expect(outputs.arena.isEmpty && outputs.outputs.isEmpty)
            throw error
        }
        #expect(admission?.route == .purchases)
        #expect(admission?.recordCount == outputs.outputs.count)
        return try outputs.outputs.map { output in
            #expect(Worker.ingest.targets[output.topic] == .purchasesReceived)
            #expect(output.timestampMilliseconds == Self.now.milliseconds)
            let value = Array(outputs.arena[output.value.indices])
            return (
                String(decoding: outputs.arena[output.key.indices], as: UTF8.self),
                // As `purchases` reads it.
                try PurchaseEvent.read(value.span, from: .topic, now: Self.now),
                String(decoding: value, as: UTF8.self)
            )
        }
    }

    @Test func `stores a sale under its customer, whom it replaces`() throws {
        let records = try admit(#"{"customer":"alice@example.com",\#(Self.sale)}"#)
        let (key, event, text) = try #require(records.first)
        #expect(key == Self.alice && event.customer?.text == Self.alice)
        #expect(!text.contains("alice"))
        #expect(event.lineItemID == "sale-1" && event.appAppleID == 7 && event.kind == .buy)
        #expect(event.amountTaxInclusive == Milliunits(4_990) && event.taxAmount == Milliunits(797))
        #expect(event.receivedAt == Self.now && event.requestID == "r-1")
    }

    @Test func `stores a sale without customer under its token`() throws {
        let records = try admit(#"{"externalPurchaseId":"SANDBOX_1",\#(Self.sale)}"#)
        #expect(records.map(\.key) == ["SANDBOX_1"])
        #expect(records.first?.event.environment == .sandbox)
    }

    /// What a platform sends besides might be about persons.
    @Test func `stores nothing that it does not know, and believes no times of others`() throws {
        let records = try admit(
            #"{"customer":"alice@example.com","email":"alice","receivedAt":1,"requestId":"x","#
                + #""nested":{"customer":"alice"},\#(Self.sale)}"#
        )
        let (_, event, text) = try #require(records.first)
        #expect(!text.contains("alice") && !text.contains("nested"))
        #expect(event.receivedAt == Self.now && event.requestID == "r-1")
    }

    @Test func `takes a batch of lines`() throws {
        let lines = (1...3).map { number in
            "{\"customer\":\"c\(number)\","
                + Self.sale.replacing("sale-1", with: "sale-\(number)") + "}"
        }
        let records = try admit(lines.joined(separator: "\n\n"), isBatch: true)
        #expect(records.map(\.event.lineItemID) == ["sale-1", "sale-2", "sale-3"])
        #expect(Set(records.map(\.key)).count == 3)
    }

    @Test func `names every fault of the lines, by line, field and rule, and takes none`() throws {
        let body = """
            {"customer":"a",\(Self.sale)}

            {"customer":"a","lineItemId":"x"
            {"customer":"a",\(Self.sale.replacing("DEU", with: "XXX").replacing("EUR", with: "eur"))}
            """
        let problem = try #require(throws: Problem.self) { try admit(body, isBatch: true) }
        #expect(problem.status == 400 && problem.code == "ingest.bad_lines")
        #expect(problem.detail == "2 of 3 lines are wrong; nothing was stored.")
        #expect(problem.lines.map(\.number) == [3, 4, 4])
        #expect(
            problem.lines.map(\.code) == [
                "purchases.not_json", "purchases.unknown_currency", "purchases.unknown_country",
            ]
        )
        let object = try JSONSerialization.jsonObject(with: Data(problem.body)) as? [String: Any]
        let last = try #require((object?["lines"] as? [[String: Any]])?.last)
        #expect(last["field"] as? String == "taxCountry")
        #expect(last["rule"] as? String == "unknown_country")
        #expect(
            last["detail"] as? String == "Send a country code of ISO 3166-1 alpha-3, as DEU."
        )
    }

    @Test func `names every fault of a single sale`() throws {
        let problem = try #require(throws: Problem.self) { try admit(#"{"lineItemId":"x"}"#) }
        #expect(problem.status == 400 && problem.code == "purchases.missing_field")
        #expect(problem.detail == "\(problem.lines.count) rules are broken; nothing was stored.")
        let fields = problem.lines.compactMap(\.field)
        #expect(fields.contains("customer") && fields.contains("creationDate"))
        #expect(problem.lines.allSatisfy { $0.number == 1 && $0.rule == "missing_field" })
        let one = try #require(throws: Problem.self) { try admit("{") }
        #expect(one.code == "purchases.not_json" && one.lines.count == 1)
    }

    /// 500 lines of some ten faults each.
    @Test func `names no more faults than its limit`() throws {
        let body = String(repeating: "{\"lineItemId\":\"x\"}\n", count: 500)
        let problem = try #require(throws: Problem.self) { try admit(body, isBatch: true) }
        #expect(problem.lines.count == Problem.lineCountMax)
        #expect(problem.detail.hasPrefix("500 of 500"))
    }

    @Test func `refuses a customer where there is no key to replace it`() throws {
        let problem = try #require(throws: Problem.self) {
            try admit(#"{"customer":"a",\#(Self.sale)}"#, takesCustomers: false)
        }
        #expect(problem.status == 400 && problem.code == "ingest.customer_refused")
        let records = try admit(
            #"{"externalPurchaseId":"t",\#(Self.sale)}"#,
            takesCustomers: false
        )
        #expect(records.map(\.key) == ["t"])
    }

    @Test(
        arguments: [
            ("no key", "Authorization", nil, 401), ("a form", "Content-Type", "text/plain", 415),
            ("compressed", "Content-Encoding", "gzip", 415),
        ] as [(String, String, String?, Int)]
    )
    func `has the manners of the door of tokens`(
        name: String,
        header: String,
        value: String?,
        status: Int
    ) throws {
        var door = try `The door of ingest`.door()
        var outputs = OutputBatch()
        let request = Case(name: name, path: "/v1/purchases", body: "{}").with(header, value)
            .request
        let problem = try #require(throws: Problem.self) {
            try door.admit(request, isBusy: nil, now: 0, receivedAt: Self.now, to: &outputs)
        }
        #expect(problem.status == status)
    }
}
