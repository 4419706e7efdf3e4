import Foundation
import Testing

@testable import AppStoreAPI

@Suite struct `JSON by meaning` {
    @Test(arguments: [
        ("1", "1.0"), ("1", "10e-1"), ("1", "0.1e+1"), ("100", "1E2"), ("0", "-0"), ("0", "0.000"),
        ("0", "0e99999999999999999999"), ("-1.50", "-1.5"), ("1.10", "1.1"),
        ("123456789012345678901234567890", "12345678901234567890123456789e1"),
        (#"{"a":1,"b":[2,3]}"#, #" { "b" : [ 2.0 , 3 ] , "a" : 1e0 } "#),
        (#""\u0061""#, #""a""#), (#"{"a":1,"a":2}"#, #"{"a":2}"#),
    ])
    func `is the same`(left: String, right: String) {
        let (left, right) = (JSONValue(Array(left.utf8)), JSONValue(Array(right.utf8)))
        #expect(left != nil)
        #expect(left == right)
    }

    @Test(arguments: [
        ("1", "10"), ("1", "-1"), ("0.1", "0.10000000000000001"), ("1e400", "2e400"),
        ("1", #""1""#),
        ("[1,2]", "[2,1]"), ("[1]", "[1,null]"), ("true", "1"), ("null", "false"), ("{}", "[]"),
        (#"{"a":1}"#, #"{"a":1,"b":null}"#), (#""a""#, #""A""#),
    ])
    func `is another`(left: String, right: String) {
        let (left, right) = (JSONValue(Array(left.utf8)), JSONValue(Array(right.utf8)))
        #expect(left != nil && right != nil)
        #expect(left != right)
    }

    @Test(arguments: ["", "{", "nul", "[1,]", "{\"a\":}", "\u{feff}{}", "1 2", "'a'", "NaN"])
    func `is none`(text: String) {
        #expect(JSONValue(Array(text.utf8)) == nil)
    }

    @Test(
        arguments: [
            ("9223372036854775807", Int64.max), ("-9223372036854775808", .min), ("0", 0),
            ("1700000000000.0", 1_700_000_000_000), ("17e11", 1_700_000_000_000),
        ] as [(String, Int64?)] + [
            ("9223372036854775808", nil), ("-9223372036854775809", nil), ("0.5", nil),
            ("1e19", nil),
            ("1e999999999", nil), ("1e-999999999", nil), ("\"1\"", nil), ("true", nil),
        ]
    )
    func `gives a whole number or none`(text: String, integer: Int64?) {
        #expect(JSONValue(Array(text.utf8))?.integer == integer)
    }

    @Test(arguments: [
        "0", "1", "-1.5", "0.1", "1e308", "123456.789", "5e-324", "0.12345678901234567890123",
        "1e-400", "-0.0",
    ])
    func `gives the double that everybody gives`(text: String) throws {
        let number = DecimalNumber(literal: Array(text.utf8))
        #expect(number.double == Double(text))
    }

    @Test func `reads null as absent in an object`() throws {
        let value = try #require(JSONValue(Array(#"{"a":null,"b":false}"#.utf8)))
        #expect(value["a"] == nil)
        #expect(value["b"]?.flag == false)
        #expect(value["c"] == nil)
        #expect(value.members?.count == 2)
    }
}
