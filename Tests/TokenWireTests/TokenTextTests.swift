import Testing
import TokenDomain
import TokenWire

@Suite struct `The text of a token` {
    /// What the JSON in the texts below says.
    static let json =
        #"{"appAppleId":1,"bundleId":"b","tokenCreationDate":2,"externalPurchaseId":"?>~~"}"#

    static func encoded(_ json: String = json) -> String {
        Base64URL.encode(Array(json.utf8).span)
    }

    @Test(arguments: [
        (" \t\r\n\u{b}\u{c}", " \n"),
        ("", "="),
        ("", "=="),
        ("\n", "==\n"),
    ])
    func `may have outer white space and padding`(before: String, after: String) throws {
        let token = try decode(before + Self.encoded() + after)
        #expect(token.externalPurchaseID.text == "?>~~")
    }

    @Test func `may be in either alphabet, and a form may have made blanks of it`() throws {
        let url = Self.encoded(Self.json + "\n")
        #expect(url.contains("-") || url.contains("_"))
        let expected = try decode(url)
        let standard = url.replacing("-", with: "+").replacing("_", with: "/")
        #expect(try decode(standard) == expected)
        #expect(try decode(standard.replacing("+", with: " ")) == expected)
        #expect(try decode(url.replacing("-", with: " ")) == expected)
    }

    @Test func `may end in bits of no byte`() throws {
        // One byte left over: two characters, four bits too many.
        let text = Self.encoded("{}\n ")
        #expect(text.utf8.count % 4 == 2)
        let last = text.utf8.last ?? 0
        let stray = String(text.dropLast()) + String(decoding: [last + 1], as: UTF8.self)
        #expect(throws: DecodeFault.missing(field: "appAppleId")) { try decode(stray) }
    }

    @Test(arguments: [
        ("", DecodeFault.empty),
        (" \t\r\n", .empty),
        ("A", .notBase64URL(byteIndex: 1)),
        ("AAAAA", .notBase64URL(byteIndex: 5)),
        ("AA===", .notBase64URL(byteIndex: 2)),
        ("===", .notBase64URL(byteIndex: 0)),
        ("A=A", .notBase64URL(byteIndex: 1)),
        ("AAA\nAAAA", .notBase64URL(byteIndex: 3)),
        ("AAA\tAAAA", .notBase64URL(byteIndex: 3)),
        ("AAAA.AAA", .notBase64URL(byteIndex: 4)),
        ("AAA\u{e9}AA", .notBase64URL(byteIndex: 3)),
        ("  AAA*", .notBase64URL(byteIndex: 3)),
        ("%41AAA", .notBase64URL(byteIndex: 0)),
        ("AA\u{0}A", .notBase64URL(byteIndex: 2)),
        ("=", .notJSON(byteIndex: 0)),
        ("AAAA", .notJSON(byteIndex: 0)),
    ])
    func `is refused`(text: String, fault: DecodeFault) {
        #expect(throws: fault) { try decode(text) }
    }

    /// Behind the end of a token lie the bytes of one before it; a reader that goes on there leaves
    /// its memory, which the address sanitizer finds.
    @Test func `ends where it ends, whatever the one before it left behind`() {
        var left = [UInt8](repeating: UInt8(ascii: " "), count: 3_072)
        left[129] = UInt8(ascii: ",")
        left[192] = UInt8(ascii: "\"")
        let foreign = String(Base64URL.encode(left.span).dropLast()) + "!"
        let endless = #"{"externalPurchaseId":""# + String(repeating: "a", count: 67)
        var reader = TokenReader()
        var faults: [DecodeFault] = []
        for text in [foreign, Self.encoded(endless)] {
            do throws(DecodeFault) {
                try reader.read(Array(text.utf8).span)
            } catch {
                faults.append(error)
            }
        }
        #expect(faults == [.notBase64URL(byteIndex: 4_095), .notJSON(byteIndex: 90)])
    }

    @Test func `has at most 4,096 bytes, padding counted and white space not`() throws {
        let byteCount = DecodeFault.textByteCountMax
        // 4,095 and 4,096 characters hold 3,071 and 3,072 bytes.
        for (jsonByteCount, padding) in [(3_072, ""), (3_071, "="), (3_070, "==")] {
            let text = Self.encoded(padded(to: jsonByteCount)) + padding
            #expect(text.utf8.count == byteCount)
            #expect(try decode(" \(text)\n").appAppleID == 1)
        }
        let tooLong = DecodeFault.tooLong(byteCount: byteCount + 1, byteCountMax: byteCount)
        #expect(throws: tooLong) { try decode(Self.encoded(padded(to: 3_071)) + "==") }
        #expect(throws: tooLong) { try decode(String(repeating: "*", count: byteCount + 1)) }
    }

    private func padded(to byteCount: Int) -> String {
        Self.json + String(repeating: " ", count: byteCount - Self.json.utf8.count)
    }

    private func decode(_ text: String) throws(DecodeFault) -> ExternalPurchaseToken {
        try decodeToken(Array(text.utf8).span)
    }
}
