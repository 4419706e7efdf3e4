import Testing
import TokenDomain

@testable import TokenWire

/// The short way through a value of `tokens.decoded.v1` says what the long one says, or nothing.
@Suite struct `A decoded value in its plain form` {
    private static let token = TokenDecoded(
        token: ExternalPurchaseToken(
            externalPurchaseID: TokenID("SANDBOX_a-1"),
            appAppleID: 123_456_789_012_345_678,
            bundleID: "com.example",
            tokenType: .services,
            tokenCreationDate: Timestamp(milliseconds: 1_750_000_000_000),
            tokenExpirationDate: Timestamp(milliseconds: 1_760_000_000_000)
        ),
        customer: CustomerID("c1.x"),
        receivedAt: Timestamp(milliseconds: 7),
        text: "abc_-"
    )

    private static func value(_ token: TokenDecoded) -> [UInt8] {
        var value: [UInt8] = []
        token.write(to: &value)
        return value
    }

    @Test func `is what decode writes`() throws {
        let value = Self.value(Self.token)
        let read = DecodedFields.readPlain(value.span)
        let (fields, keptEnd) = try #require(read)
        let text = { (range: Range<Int>) in String(decoding: value[range], as: UTF8.self) }
        #expect(fields.token.externalPurchaseID.map(text) == "SANDBOX_a-1")
        #expect(fields.token.bundleID.map(text) == "com.example")
        #expect(fields.token.tokenType.map(text) == "SERVICES")
        #expect(fields.customer.map(text) == "c1.x")
        #expect(fields.token.appAppleID == 123_456_789_012_345_678)
        #expect(fields.token.tokenCreationDate == 1_750_000_000_000)
        #expect(fields.token.tokenExpirationDate == 1_760_000_000_000)
        #expect(fields.receivedAt == 7)
        #expect(text(0..<keptEnd).hasSuffix(",\"receivedAt\":7"))
        #expect(text(keptEnd..<value.count) == ",\"token\":\"abc_-\"}")
    }

    @Test func `lacks what the token lacks`() throws {
        var token = Self.token
        token.token.tokenType = nil
        token.token.tokenExpirationDate = nil
        token.customer = nil
        let value = Self.value(token)
        let read = DecodedFields.readPlain(value.span)
        let fields = try #require(read).fields
        #expect(fields.token.tokenType == nil)
        #expect(fields.token.tokenExpirationDate == nil)
        #expect(fields.customer == nil)
    }

    /// One byte too few, too many or another one: never understood where the scanner refuses it.
    @Test func `is understood only where the scanner reads the same`() throws {
        let value = Self.value(Self.token)
        var understoodCount = 0
        for index in value.indices {
            var damaged = [Array(value[..<index]), value, value]
            damaged[1].remove(at: index)
            for byte in [0x00, 0x20, 0x22, 0x30, 0x2d, 0x5c, 0x7d, 0x80, 0xff] as [UInt8] {
                damaged[2][index] = byte
                for bytes in damaged {
                    guard let fields = DecodedFields.readPlain(bytes.span)?.fields else {
                        continue
                    }
                    understoodCount += 1
                    let read = try TokenDecoded(reading: bytes.span)
                    #expect(Self.value(read) == bytes)
                    #expect(read.receivedAt.milliseconds == fields.receivedAt)
                    #expect(read.token.appAppleID == fields.token.appAppleID)
                }
            }
        }
        #expect(understoodCount > 0)
    }

    @Test(arguments: [
        ("\"environment\":\"sandbox\"", "\"environment\":\"production\""),
        ("\"customer\":\"c1.x\"", "\"customer\":\"\""),
        ("\"appAppleId\":123456789012345678", "\"appAppleId\":1234567890123456789"),
        ("\"receivedAt\":7", "\"receivedAt\":07"), ("\"receivedAt\":7", "\"receivedAt\":-7"),
        ("\"receivedAt\":7", "\"receivedAt\":7.0"), ("com.example", "com.\\u0065xample"),
        ("SANDBOX_a-1", "é"), ("}", ",\"more\":1}"), ("}", "} "), ("{", "{ "),
    ])
    func `is none where one thing differs`(there: String, instead: String) {
        let text = String(decoding: Self.value(Self.token), as: UTF8.self)
        #expect(text.contains(there))
        let bytes = Array(text.replacing(there, with: instead).utf8)
        #expect(DecodedFields.readPlain(bytes.span) == nil)
    }
}
