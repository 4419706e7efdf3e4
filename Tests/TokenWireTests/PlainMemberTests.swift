import CText
import Testing

@testable import TokenWire

/// The short way through an object of one text says what the long one says, or nothing.
@Suite struct `An object of one plain text` {
    private static let object = Array("{\"token\":\"eyJhcHBBcHBsZUlkIjoxMjM0NTY3ODkwfQ\"}".utf8)

    private static func short(_ object: [UInt8]) -> Range<Int>? {
        PlainMember.text(after: "{\"token\":\"", of: object.span)
    }

    /// Where the scanner finds the one text; nil where it refuses the object or finds another.
    private static func long(_ object: [UInt8]) -> Range<Int>? {
        var found: [Range<Int>] = []
        do throws(WireFault) {
            try JSONScanner.scanObject(object.span) { (key, scanner) throws(WireFault) in
                guard case "token" = key, try scanner.peekKind() == .string else {
                    found = [0..<0, 0..<0]
                    return try scanner.skip()
                }
                let start = scanner.position
                try scanner.skip()
                found.append(start + 1..<scanner.position - 1)
            }
        } catch {
            return nil
        }
        return found.count == 1 ? found[0] : nil
    }

    @Test func `lies between its quotes`() {
        #expect(Self.short(Self.object) == 10..<Self.object.count - 2)
        #expect(Self.short(Array("{\"token\":\"\"}".utf8)) == 10..<10)
    }

    @Test(arguments: [
        "", "{", "{\"token\":\"}", "{\"token\":\"", "{\"token\": \"a\"}", " {\"token\":\"a\"}",
        "{\"token\":\"a\"} ", "{\"token\":\"a\"}\r", "{\"token\":\"a\",\"b\":\"\"}",
        "{\"token\":\"\\n\"}", "{\"token\":\"\\\"}", "{\"token\":\"é\"}", "{\"token\":\"a\"b\"}",
        "{\"Token\":\"a\"}", "{\"token\":null}", "[\"token\",\"a\"]",
    ])
    func `is nothing else`(_ object: String) {
        #expect(Self.short(Array(object.utf8)) == nil)
    }

    /// Every byte in every place, and every length.
    @Test func `is found only where the scanner finds the same`() {
        for index in Self.object.indices {
            for byte in UInt8.min...UInt8.max {
                var other = Self.object
                other[index] = byte
                if let text = Self.short(other) {
                    #expect(Self.long(other) == text, "byte \(byte) at \(index)")
                }
            }
            #expect(Self.short(Array(Self.object[..<index])) == nil)
        }
    }

    /// Blocks of sixteen and what is left of them.
    @Test func `ends at the first byte that is not plain`() {
        let plain = { (byte: UInt8) in
            byte >= 0x20 && byte < 0x80 && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
        }
        for count in 0..<50 {
            for index in 0..<count {
                for byte in UInt8.min...UInt8.max {
                    var text = [UInt8](repeating: UInt8(ascii: "x"), count: count)
                    text[index] = byte
                    let end = unsafe ctext_plain_end(text, 0, count)
                    #expect(end == (plain(byte) ? count : index))
                }
                let text = [UInt8](repeating: 0, count: count)
                #expect(unsafe ctext_plain_end(text, index, count) == index)
            }
        }
    }
}
