import AppStoreAPI
import Testing
import TokenDomain

@Suite struct `A body from Apple` {
    private func body(_ text: String) -> AppleBody { AppleBody(Array(text.utf8)) }

    @Test func `acknowledges a report`() {
        let body = body(#"{"requestIdentifier":"5b0c","new":1}"#)
        #expect(body.requestIdentifier == "5b0c")
        #expect(body.errors == nil)
        #expect(body.report == nil)
    }

    @Test func `holds a report`() {
        let body = body(#"{"report":{"status":"LINE_ITEM"}}"#)
        #expect(body.report?["status"]?.text == "LINE_ITEM")
        #expect(body.requestIdentifier == nil)
        #expect(self.body(#"{"report":7}"#).report == nil)
    }

    static let reasons: [(String, [AppleError]?)] = [
        // The list that the report endpoint gives.
        (
            """
            {"errors":[{"errorCode":1,"errorMessage":"m","fieldName":"requestIdentifier"},
             {"errorCode":36,"errorMessage":"m","fieldName":"creationDate","lineItemId":"L"}]}
            """,
            [
                AppleError(code: 1, fieldName: "requestIdentifier", lineItemID: nil),
                AppleError(code: 36, fieldName: "creationDate", lineItemID: "L"),
            ]
        ),
        // One bare object: account tokens, and perhaps the report that is not found.
        (
            #"{"errorCode":4040005,"errorMessage":"m"}"#,
            [AppleError(code: 4_040_005, fieldName: nil, lineItemID: nil)]
        ),
        (
            #"{"errorCode":3,"errorMessage":"m","fieldName":"requestIdentifier"}"#,
            [AppleError(code: 3, fieldName: "requestIdentifier", lineItemID: nil)]
        ),
        // What is odd about one reason takes nothing from the others.
        (
            #"{"errors":[null,7,{},{"errorCode":"1"},{"errorCode":26,"fieldName":null}]}"#,
            [AppleError(code: 26, fieldName: nil, lineItemID: nil)]
        ),
        (#"{"errors":[]}"#, nil), (#"{"errors":[{}]}"#, nil),
        (#"{"errors":{"errorCode":1}}"#, nil), (#"{"errorCode":1.5}"#, nil), ("{}", nil),
        ("[]", nil), ("", nil), ("null", nil), ("<html>502</html>", nil), ("{\"errors\":[", nil),
    ]

    @Test(arguments: reasons.indices)
    func `gives its reasons, whatever its shape`(row: Int) {
        let (text, errors) = Self.reasons[row]
        #expect(body(text).errors == errors, "\(text)")
    }

    @Test func `gives no more reasons than one can earn`() {
        let one = #"{"errorCode":5}"#
        let many = repeatElement(one, count: 5_000).joined(separator: ",")
        #expect(body("{\"errors\":[\(many)]}").errors?.count == AppleBody.errorCountMax)
    }

    /// Apple's order is documented nowhere, and this one says that it has the report.
    @Test func `gives the reasons of the report itself before those of its line items`() {
        let items = (0..<100).map { "{\"errorCode\":1,\"lineItemId\":\"\($0)\"}" }
        let own = #"{"errorCode":1,"fieldName":"requestIdentifier"}"#
        let errors = body("{\"errors\":[\(items.joined(separator: ",")),\(own)]}").errors ?? []
        #expect(errors.count == AppleBody.errorCountMax)
        #expect(errors.contains { $0.fieldName == "requestIdentifier" })
    }
}
