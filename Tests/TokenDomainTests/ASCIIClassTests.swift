import Testing

@testable import TokenDomain

struct `A text of one kind of characters` {
    private static let base64URL = Set(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8
    )
    private static let lowerHex = Set("0123456789abcdef".utf8)

    @Test func `is recognised at every place of a customer`() {
        let good = Array("c1.".utf8) + Array(repeating: UInt8(ascii: "A"), count: 43)
        for byte in UInt8.min...UInt8.max {
            for place in 3..<CustomerID.byteCount - 1 {
                var text = good
                text[place] = byte
                let isWellFormed = CustomerID.isWellFormed(text.span)
                #expect(isWellFormed == Self.base64URL.contains(byte), "\(byte) at \(place)")
            }
        }
    }

    @Test func `is recognised at every place of a trace parent`() {
        let good = Array("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".utf8)
        for byte in UInt8.min...UInt8.max {
            for place in good.indices where place > 1 && good[place] != UInt8(ascii: "-") {
                var text = good
                text[place] = byte
                let isValid = TraceParent.isValid(text.span)
                #expect(isValid == Self.lowerHex.contains(byte), "\(byte) at \(place)")
            }
        }
    }
}
