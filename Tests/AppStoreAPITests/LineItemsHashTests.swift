import Testing
import TokenDomain

@testable import AppStoreAPI

@Suite struct `The hash of line items` {
    private static let text = #"[{"lineItemId":"a","quantity":10,"x":[1,2]},{"lineItemId":"b"}]"#

    @Test(arguments: [
        #"[ {"lineItemId" : "a", "quantity":10,"x":[1, 2]}, {"lineItemId":"b"} ]"#,
        #"[{"quantity":1e1,"x":[1.0,2],"lineItemId":"\u0061"},{"lineItemId":"b"}]"#,
        #"[{"lineItemId":"b"},{"lineItemId":"a","quantity":10,"x":[1,2]}]"#,
        #"[{"lineItemId":"a","quantity":10,"x":[1,2],"restatement":false},"#
            + #"{"lineItemId":"b","taxCountry":null}]"#,
    ])
    func `is the same in every spelling`(text: String) {
        #expect(ReportPolicy.lineItemsHash(text) == ReportPolicy.lineItemsHash(Self.text))
    }

    @Test(arguments: [
        #"[{"lineItemId":"a","quantity":11,"x":[1,2]},{"lineItemId":"b"}]"#,
        #"[{"lineItemId":"a","quantity":"10","x":[1,2]},{"lineItemId":"b"}]"#,
        #"[{"lineItemId":"a","quantity":10,"x":[2,1]},{"lineItemId":"b"}]"#,
        #"[{"lineItemId":"a","quantity":10,"x":[1,2],"restatement":true},{"lineItemId":"b"}]"#,
        #"[{"lineItemId":"a","quantity":10,"x":[1,2]}]"#,
        #"[{"lineItemId":"a","quantity":10,"x":[1,2]},{"lineItemId":"b"},{"lineItemId":"b"}]"#,
        "[]", "",
    ])
    func `is another where they say something else`(text: String) {
        #expect(ReportPolicy.lineItemsHash(text) != ReportPolicy.lineItemsHash(Self.text))
    }
}
