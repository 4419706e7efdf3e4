import Testing
import TokenDomain
import TokenWire

@Suite struct `The JSON of a token` {
    static let required =
        #""appAppleId":1,"bundleId":"b","tokenCreationDate":2,"externalPurchaseId":"i""#

    @Test(arguments: [
        ("{\(required)}", nil, nil),
        ("\t{\(required)\r\n }\n", nil, nil),
        (#"{\#(required),"tokenType":null,"tokenExpirationDate":null}"#, nil, nil),
        (#"{\#(required),"tokenType":""}"#, TokenType(text: ""), nil),
        (#"{\#(required),"tokenType":"NEW_ONE"}"#, TokenType(text: "NEW_ONE"), nil),
        (#"{\#(required),"tokenType":"SERVICES"}"#, .services, nil),
        (#"{\#(required),"tokenType":"\u0053ERVICES"}"#, .services, nil),
        (#"{\#(required),"tokenExpirationDate":2}"#, nil, 2),
        (#"{\#(required),"tokenExpirationDate":9223372036854775807}"#, nil, Int64.max),
        (#"{"x":[{"y":[1.5e-3,true,"\ud83d\ude00é"]}],\#(required),"z":null,"z":{}}"#, nil, nil),
    ])
    func `may look like this`(json: String, type: TokenType?, expiration: Int64?) throws {
        #expect(
            try decode(json)
                == ExternalPurchaseToken(
                    externalPurchaseID: TokenID("i"),
                    appAppleID: 1,
                    bundleID: "b",
                    tokenType: type,
                    tokenCreationDate: Timestamp(milliseconds: 2),
                    tokenExpirationDate: expiration.map { Timestamp(milliseconds: $0) }
                )
        )
    }

    @Test func `has names and texts that may be escaped`() throws {
        let token = try decode(
            #"{"appApple\u0049d":1,"bundleId":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00","#
                + #""tokenCreationDate":2,"externalPurchaseId":"SANDBO\u0058\u0000"}"#
        )
        #expect(token.bundleID == "\"\\/\u{8}\u{c}\n\r\t\u{e9}\u{1f600}")
        #expect(token.externalPurchaseID.text == "SANDBOX\u{0}")
        #expect(token.environment == .sandbox)
    }

    static let integers: [(String, DecodeFault?)] = [
        ("1", nil),
        ("123456789012345678", nil),
        ("1234567890123456789", nil),
        ("9223372036854775807", nil),
        ("9223372036854775808", .outOfRange(field: "")),
        ("99999999999999999999", .outOfRange(field: "")),
        ("18446744073709551617", .outOfRange(field: "")),
        ("0", .outOfRange(field: "")),
        ("-0", .outOfRange(field: "")),
        ("-1", .outOfRange(field: "")),
        ("-9223372036854775808", .outOfRange(field: "")),
        ("1.0", .wrongType(field: "")),
        ("1e3", .wrongType(field: "")),
        ("1E+3", .wrongType(field: "")),
        ("-1.5e-7", .wrongType(field: "")),
        ("1e99999", .wrongType(field: "")),
        (#""1""#, .wrongType(field: "")),
        ("true", .wrongType(field: "")),
        ("false", .wrongType(field: "")),
        ("[1]", .wrongType(field: "")),
        ("{}", .wrongType(field: "")),
        ("null", .missing(field: "")),
    ]

    @Test(arguments: ["appAppleId", "tokenCreationDate", "tokenExpirationDate"], integers)
    func `has integers in plain digits`(field: String, row: (text: String, fault: DecodeFault?)) {
        var values = ["appAppleId": "1", "tokenCreationDate": "1"]
        values[field] = row.text
        var json = #"{"bundleId":"b","externalPurchaseId":"i""#
        for (name, value) in values {
            json += #","\#(name)":\#(value)"#
        }
        let isOptional = field == "tokenExpirationDate"
        guard let fault = row.fault, !(isOptional && row.text == "null") else {
            #expect(throws: Never.self) { try decode(json + "}") }
            return
        }
        #expect(throws: named(fault, field)) { try decode(json + "}") }
    }

    @Test(arguments: [
        ("appAppleId", DecodeFault.missing(field: "appAppleId")),
        ("bundleId", .missing(field: "bundleId")),
        ("tokenCreationDate", .missing(field: "tokenCreationDate")),
        ("externalPurchaseId", .missing(field: "externalPurchaseId")),
    ])
    func `has four fields that must be there`(field: String, fault: DecodeFault) {
        let without = Self.required.split(separator: ",").filter { !$0.contains(field) }
        #expect(throws: fault) { try decode("{\(without.joined(separator: ","))}") }
        let null = without + [#""\#(field)":null"#]
        #expect(throws: fault) { try decode("{\(null.joined(separator: ","))}") }
    }

    @Test(arguments: [
        (#""bundleId":"""#, DecodeFault.outOfRange(field: "bundleId")),
        (#""bundleId":1"#, .wrongType(field: "bundleId")),
        (#""bundleId":true"#, .wrongType(field: "bundleId")),
        (#""externalPurchaseId":"""#, .outOfRange(field: "externalPurchaseId")),
        (#""externalPurchaseId":-1"#, .wrongType(field: "externalPurchaseId")),
        (#""externalPurchaseId":["i"]"#, .wrongType(field: "externalPurchaseId")),
    ])
    func `has texts that say something`(member: String, fault: DecodeFault) {
        let name = member.prefix { $0 != ":" }
        let others = Self.required.split(separator: ",").filter { !$0.hasPrefix(name) }
        #expect(throws: fault) {
            try decode("{\((others + [member[...]]).joined(separator: ","))}")
        }
    }

    @Test(arguments: [
        (#""tokenType":1"#, DecodeFault.wrongType(field: "tokenType")),
        (#""tokenType":{}"#, .wrongType(field: "tokenType")),
        (#""tokenExpirationDate":1"#, .outOfRange(field: "tokenExpirationDate")),
    ])
    func `has a type that is a text, and does not end before it begins`(
        member: String,
        fault: DecodeFault
    ) {
        #expect(throws: fault) { try decode("{\(Self.required),\(member)}") }
    }

    @Test(arguments: [
        "", " ", "{", "}", "[]", "null", "1", #""i""#,
        "{\(required),}", "{,\(required)}", "{\(required)", "{\(required)}}", "{\(required)}{}",
        "{\(required) \"x\":1}", "{\(required),\"x\"}", "{\(required),\"x\":}",
        "{\(required),x:1}", "{\(required),'x':1}", "{\(required),\"x\":01}",
        "{\(required),\"x\":+1}", "{\(required),\"x\":.5}", "{\(required),\"x\":1.}",
        "{\(required),\"x\":-}", "{\(required),\"x\":1e}", "{\(required),\"x\":1e+}",
        "{\(required),\"x\":NaN}", "{\(required),\"x\":tru}", "{\(required),\"x\":nulL}",
        "{\(required),\"x\":[1,]}", "{\(required),\"x\":[1 2]}", "{\(required),\"x\":[}",
        "{\(required),\"x\":\"a}", "{\(required),\"x\":\"\\a\"}", "{\(required),\"x\":\"\\u12g4\"}",
        "{\(required),\"x\":\"a\tb\"}", "{\(required),\"x\":\"a\u{1f}b\"}",
        "{\(required),\"x\":\"\\ud800\"}", "{\(required),\"x\":\"\\udc00\"}",
        "{\(required),\"x\":\"\\ud800\\ud800\"}", "{\(required),\"x\":\"\\ud800x\"}",
        "{\(required),\"\\ud800\":1}", "{\(required)}\u{0}", "\u{feff}{\(required)}",
        "{\(required)}//", "{\(required)/**/}", "{\(required),\u{b}\"x\":1}",
        "{\(required),\"appAppleId\":1}", "{\(required),\"appAppleId\":null}",
        "{\(required),\"bundleId\":\"b\"}", "{\(required),\"tokenCreationDate\":2}",
        "{\(required),\"externalPurchaseId\":\"i\"}", "{\(required),\"bundle\\u0049d\":\"b\"}",
        "{\(required),\"tokenType\":null,\"tokenType\":\"A\"}",
        "{\(required),\"tokenExpirationDate\":3,\"tokenExpirationDate\":3}",
    ])
    func `is refused in any other form`(json: String) {
        #expect(refusesAsJSON(Array(json.utf8)))
    }

    static let invalidUTF8: [[UInt8]] = [
        [0x80], [0xc0, 0x80], [0xc1, 0xbf], [0xc3], [0xe0, 0x80, 0x80], [0xe0, 0x9f, 0xbf],
        [0xed, 0xa0, 0x80], [0xed, 0xbf, 0xbf], [0xe2, 0x82], [0xf0, 0x8f, 0xbf, 0xbf],
        [0xf4, 0x90, 0x80, 0x80], [0xf5, 0x80, 0x80, 0x80], [0xf0, 0x9f, 0x98], [0xff],
    ]

    @Test(arguments: invalidUTF8)
    func `is strict UTF-8, also in what nobody reads`(bytes: [UInt8]) {
        for text in ["\"x\":\"\u{1}\"", "\"\u{1}\":1"] {
            let json = Array("{\(Self.required),\(text)}".utf8)
            let parts = json.split(separator: 1, omittingEmptySubsequences: false)
            #expect(refusesAsJSON(Array(parts[0] + bytes + parts[1])))
        }
    }

    @Test func `is not UTF-16`() {
        let bytes = "{\(Self.required)}".utf16.flatMap { [UInt8($0 & 0xff), UInt8($0 >> 8)] }
        #expect(refusesAsJSON(bytes))
    }

    @Test func `has at most 16 levels`() throws {
        func nested(_ levels: Int) -> String {
            let inner = levels - 1
            return "{\(Self.required),\"x\":\(String(repeating: "[", count: inner))"
                + "\(String(repeating: "]", count: inner))}"
        }
        #expect(try decode(nested(16)).appAppleID == 1)
        #expect(refusesAsJSON(Array(nested(17).utf8)))
    }

    private func refusesAsJSON(_ json: [UInt8]) -> Bool {
        do throws(DecodeFault) {
            _ = try decodeToken(Array(Base64URL.encode(json.span).utf8).span)
            return false
        } catch {
            switch error {
            case .notJSON: return true
            // No JSON at all is no text at all.
            case .empty: return json.isEmpty
            default: return false
            }
        }
    }

    private func decode(_ json: String) throws(DecodeFault) -> ExternalPurchaseToken {
        try decodeToken(Array(Base64URL.encode(Array(json.utf8).span).utf8).span)
    }

    private func named(_ fault: DecodeFault, _ field: String) -> DecodeFault {
        switch fault {
        case .missing: .missing(field: field)
        case .wrongType: .wrongType(field: field)
        default: .outOfRange(field: field)
        }
    }
}
