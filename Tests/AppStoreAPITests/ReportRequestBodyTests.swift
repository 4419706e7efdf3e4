import Testing
import TokenDomain

@testable import AppStoreAPI

@Suite struct `A report's body` {
    @Test func `is written as Apple documents it`() throws {
        let plain = ReportRequestBody(
            requestIdentifier: "5b0c",
            externalPurchaseID: TokenID(#"SANDBOX_"1""#),
            status: .noLineItem
        )
        #expect(
            String(decoding: plain.bytes, as: UTF8.self)
                == #"{"requestIdentifier":"5b0c","externalPurchaseId":"SANDBOX_\"1\"","#
                + #""status":"NO_LINE_ITEM"}"#
        )
        #expect(plain.newestCreationDate == nil)
        let items = #"[ {"creationDate":2,"exchangeRate":1.10},{"creationDate":7},{"x":1} ]"#
        let report = try ReportRequestBody(
            requestIdentifier: "5b0c",
            externalPurchaseID: TokenID("a"),
            lineItems: items
        )
        #expect(
            String(decoding: report.bytes, as: UTF8.self)
                == #"{"requestIdentifier":"5b0c","externalPurchaseId":"a","status":"LINE_ITEM","#
                + #""lineItems":\#(items)}"#
        )
        #expect(report.newestCreationDate == Timestamp(milliseconds: 7))
    }

    private func body(items: String) throws -> ReportRequestBody {
        try ReportRequestBody(
            requestIdentifier: "r",
            externalPurchaseID: TokenID("a"),
            lineItems: items
        )
    }

    @Test(arguments: ["", "{}", "[1]", "[{}", "null", #"[{}],"x":[{}]"#, "[{},null]"])
    func `takes a JSON array of objects and nothing else`(items: String) {
        #expect(throws: ReportRequestFault.lineItemsNotAnArray) { try body(items: items) }
    }

    /// Apple "may" say which line item, and "usually" which field.
    @Test(
        arguments: [
            (1, "lineItemId", nil, #"[{"lineItemId":"a"}]"#, "lineItemId", "a"),
            (1, "lineItemId", "b", #"[{"lineItemId":"a"}]"#, "lineItemId", "b"),
            (1, "lineItemId", nil, #"[{"lineItemId":"a"},{"lineItemId":"b"}]"#, "lineItemId", nil),
            (1, nil, nil, #"[{"lineItemId":"a"}]"#, nil, nil),
            (3, nil, nil, nil, "externalPurchaseId", nil),
            (3, nil, nil, #"[{"lineItemId":"a"}]"#, "externalPurchaseId", nil),
            (3, "requestIdentifier", nil, nil, "requestIdentifier", nil),
            // It may mean what the item refers to, or the item itself.
            (3, nil, nil, #"[{"lineItemId":"a","referenceLineItemId":"b"}]"#, nil, nil),
            (3, nil, nil, #"[{"lineItemId":"a","restatement":true}]"#, nil, nil),
            (3, nil, "a", #"[{"lineItemId":"a"}]"#, nil, "a"), (4, nil, nil, nil, nil, nil),
        ] as [(Int64, String?, String?, String?, String?, String?)]
    )
    func `completes a reason where only one thing can be meant`(
        code: Int64,
        field: String?,
        item: String?,
        items: String?,
        completedField: String?,
        completedItem: String?
    ) throws {
        let body =
            try items.map { try self.body(items: $0) }
            ?? ReportRequestBody(
                requestIdentifier: "r",
                externalPurchaseID: TokenID("t"),
                status: .noLineItem
            )
        let error = AppleError(code: code, fieldName: field, lineItemID: item)
        #expect(
            body.completed(error)
                == AppleError(code: code, fieldName: completedField, lineItemID: completedItem)
        )
    }

    @Test func `has 1 to 100 line items`() throws {
        func items(_ count: Int) -> String {
            "[" + repeatElement("{}", count: count).joined(separator: ",") + "]"
        }
        _ = try body(items: items(1))
        _ = try body(items: items(100))
        #expect(throws: ReportRequestFault.lineItemCount(0, countMax: 100)) {
            try body(items: items(0))
        }
        #expect(throws: ReportRequestFault.lineItemCount(101, countMax: 100)) {
            try body(items: items(101))
        }
    }

    @Test func `has 256 KiB at most`() throws {
        func items(_ count: Int) -> String {
            #"[{"x":"\#(String(repeating: "x", count: count))"}]"#
        }
        let rest = try body(items: items(0)).bytes.count
        let room = ReportRequestBody.byteCountMax - rest
        #expect(try body(items: items(room)).bytes.count == ReportRequestBody.byteCountMax)
        #expect(throws: ReportRequestFault.self) { try body(items: items(room + 1)) }
        #expect(throws: ReportRequestFault.self) { try body(items: items(2 * room)) }
    }
}

@Suite struct `The report that Apple holds` {
    static let first = """
        {"lineItemId":"1","creationDate":1760000000000,"amountTaxExclusive":4126,
         "exchangeRate":1.10,"restatement":false}
        """
    static let second = #"{"lineItemId":"2","eventType":"BUY","quantity":1}"#
    static let sent = """
        {"requestIdentifier":"5b0c1a52-4f0e-4a55-9f1e-7f6a0c1d2e3f","externalPurchaseId":"a1",
         "status":"LINE_ITEM","lineItems":[\(first),\(second)]}
        """

    private func isOurs(_ change: (String) -> String) throws -> Bool {
        let sent = try #require(JSONValue(Array(Self.sent.utf8)))
        let held = try #require(JSONValue(Array(change(Self.sent).utf8)))
        return ReportComparison.isSame(sent: sent, held: held)
    }

    static let same: [(String, @Sendable (String) -> String)] = [
        ("as it was", { $0 }),
        ("identifier in capitals", { $0.replacing("5b0c1a52", with: "5B0C1A52") }),
        ("numbers spelt otherwise", { $0.replacing("4126", with: "4126.0") }),
        ("a rate with fewer zeros", { $0.replacing("1.10", with: "1.1") }),
        ("a rate that was a double", { $0.replacing("1.10", with: "1.1000000000000001") }),
        ("a default left out", { $0.replacing(#","restatement":false"#, with: "") }),
        (
            "a default put in",
            { $0.replacing(#""quantity""#, with: #""erroneouslySubmitted":false,"quantity""#) }
        ),
        ("a null put in", { $0.replacing(#""quantity""#, with: #""taxCountry":null,"quantity""#) }),
        (
            "Apple's own addition",
            { $0.replacing(#""quantity""#, with: #""acceptedDate":5,"quantity""#) }
        ),
        ("an addition at the top", { $0.replacing(#""status""#, with: #""state":"OK","status""#) }),
        (
            "line items in another order",
            { $0.replacing("\(first),\(second)", with: "\(second),\(first)") }
        ),
    ]

    @Test func `differs field by field, with both values`() throws {
        let sent = try #require(JSONValue(Array(Self.sent.utf8)))
        func differences(_ change: (String) -> String) throws -> [ReportDifference] {
            let held = try #require(JSONValue(Array(change(Self.sent).utf8)))
            return ReportComparison.differences(sent: sent, held: held)
        }
        for (name, change) in Self.same {
            #expect(try differences(change).isEmpty, "\(name)")
        }
        for (name, change) in Self.other {
            #expect(try !differences(change).isEmpty, "\(name)")
        }
        let amount = try differences { $0.replacing("4126", with: "4126.5") }
        #expect(amount.map(\.field) == ["amountTaxExclusive"])
        #expect(amount[0].lineItemID == "1")
        #expect(amount[0].ours == "4126" && amount[0].apples == "4126.5")
        let gone = try differences { $0.replacing(",\(Self.second)", with: "") }
        #expect(gone.map(\.field) == ["lineItemId"] && gone[0].apples == nil)
    }

    @Test(arguments: [
        ("0", "0"), ("-0", "0"), ("10", "10"), ("1.10", "1.1"), ("-0.005", "-0.005"),
        ("1e3", "1000"), ("1e99", "1e99"), ("12.5e-1", "1.25"),
    ])
    func `is shown with its own digits`(literal: String, text: String) {
        #expect(DecimalNumber(literal: Array(literal.utf8)).text == text)
    }

    @Test(arguments: same.indices)
    func `is ours`(row: Int) throws {
        let (name, change) = Self.same[row]
        #expect(try isOurs(change), "\(name)")
    }

    static let other: [(String, @Sendable (String) -> String)] = [
        ("another identifier", { $0.replacing("5b0c1a52", with: "5b0c1a53") }),
        ("no identifier", { $0.replacing("requestIdentifier", with: "requestIdentity") }),
        ("another token", { $0.replacing(#""a1""#, with: #""A1""#) }),
        ("another status", { $0.replacing("LINE_ITEM", with: "NO_LINE_ITEM") }),
        ("another amount", { $0.replacing("4126", with: "4126.5") }),
        ("another rate", { $0.replacing("1.10", with: "1.11") }),
        ("a text for a number", { $0.replacing("4126", with: #""4126""#) }),
        ("a line item less", { $0.replacing(",\(second)", with: "") }),
        ("a line item more", { $0.replacing("}]}", with: #"},{"lineItemId":"3"}]}"#) }),
        ("no line items", { $0.prefix { $0 != "[" } + "null}" }),
        ("one line item twice", { $0.replacing(#""lineItemId":"2""#, with: #""lineItemId":"1""#) }),
        ("a field left out", { $0.replacing(#""eventType":"BUY","#, with: "") }),
        (
            "a field put in",
            { $0.replacing(#""quantity""#, with: #""taxCountry":"ESP","quantity""#) }
        ),
        ("a flag set", { $0.replacing("false", with: "true") }),
    ]

    @Test(arguments: other.indices)
    func `is another`(row: Int) throws {
        let (name, change) = Self.other[row]
        #expect(change(Self.sent) != Self.sent, "\(name): nothing was changed")
        #expect(try !isOurs(change), "\(name)")
    }

    /// As texts of Swift the two ids are equal.
    @Test func `has each line item under its own id, byte for byte`() throws {
        let ids = ["caf\u{e9}", "cafe\u{301}"]
        func report(_ items: [(id: String, quantity: Int)]) throws -> JSONValue {
            let list = items.map { #"{"lineItemId":"\#($0.id)","quantity":\#($0.quantity)}"# }
            let text = #"{"requestIdentifier":"r","lineItems":[\#(list.joined(separator: ","))]}"#
            return try #require(JSONValue(Array(text.utf8)))
        }
        let sent = try report([(ids[0], 1), (ids[1], 2)])
        let held = try report([(ids[1], 3), (ids[0], 1)])
        #expect(
            ReportComparison.itemsHeld(sent: sent, held: held)
                == [Array(ids[0].utf8): true, Array(ids[1].utf8): false]
        )
        #expect(ReportComparison.differences(sent: sent, held: held).map(\.field) == ["quantity"])
    }

    @Test func `without line items is ours with none, or an empty list`() throws {
        let text = #"{"requestIdentifier":"r","externalPurchaseId":"a","status":"NO_LINE_ITEM"}"#
        let sent = try #require(JSONValue(Array(text.utf8)))
        for list in ["[]", "null"] {
            let held = text.dropLast() + #","lineItems":\#(list)}"#
            let value = try #require(JSONValue(Array(held.utf8)))
            #expect(ReportComparison.isSame(sent: sent, held: value))
        }
        #expect(ReportComparison.isSame(sent: sent, held: sent))
    }
}
