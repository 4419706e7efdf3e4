import CText
import Foundation
import Testing
import TokenDomain
import TokenWire

@Suite struct `Base64 in C` {
    @Test func `goes there and back at every length`() throws {
        var generator = SeededGenerator(seed: 7)
        for count in 0..<300 {
            let bytes = (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
            let text = Base64URL.encode(bytes.span)
            let expected = Data(bytes).base64EncodedString()
                .replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
            #expect(text == expected)
            #expect(try Base64URL.decodeStrict(Array(text.utf8).span) == bytes)
            let standard = Array(Data(bytes).base64EncodedString().utf8)
            #expect(try Base64.decodeStandard(standard.span) == bytes)
            for either in [Array(text.utf8), standard.filter { $0 != UInt8(ascii: "=") }] {
                for level in 0...ctext_level_best() {
                    #expect(decode(either, alphabet: 2, level: level).bytes == bytes)
                }
            }
        }
    }

    @Test(arguments: [
        ("A", 1), ("AA=", 2), ("AA==", 2), ("AB", 1), ("AAB", 2), ("AA+A", 2), ("AA/A", 2),
        ("A A", 1), ("AAAA\n", 4), ("=", 0),
    ])
    func `for signatures takes nothing but the canonical form`(text: String, byteIndex: Int) {
        #expect(throws: Base64Fault(byteIndex: byteIndex)) {
            try Base64URL.decodeStrict(Array(text.utf8).span)
        }
    }

    @Test(arguments: [
        ("AA", 2), ("AAA", 3), ("AA=", 3), ("AAAA=", 5), ("AB==", 1), ("AAB=", 2), ("AA-A", 2),
        ("AA_A", 2), ("====", 0), ("A===", 1), ("AA\nAA==", 7), ("AA=A", 2),
    ])
    func `for certificates takes exact padding`(text: String, byteIndex: Int) {
        #expect(throws: Base64Fault(byteIndex: byteIndex)) {
            try Base64.decodeStandard(Array(text.utf8).span)
        }
    }

    /// Every level must agree with the scalar one, byte for byte and on where it stops.
    @Test func `is the same at every level of instructions`() {
        var generator = SeededGenerator(seed: 11)
        let alphabets = [
            "-_", "+/", "-_+/ ",
        ].map { Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789\($0)".utf8) }
        for round in 0..<20_000 {
            let alphabet = round % 3
            let count = Int.random(in: 0...200, using: &generator)
            var text = (0..<count).map { _ in
                alphabets[alphabet].randomElement(using: &generator) ?? 0
            }
            if round % 2 == 0, count > 0 {
                let place = Int.random(in: 0..<count, using: &generator)
                text[place] = UInt8.random(in: .min ... .max, using: &generator)
            }
            let scalar = decode(text, alphabet: alphabet, level: 0)
            for level in 0...ctext_level_best() {
                let decoded = decode(text, alphabet: alphabet, level: level)
                #expect(decoded.stop == scalar.stop, "seed 11, round \(round), level \(level)")
                #expect(decoded.bytes == scalar.bytes, "seed 11, round \(round), level \(level)")
            }
        }
    }

    private func decode(
        _ text: [UInt8],
        alphabet: Int,
        level: Int32
    ) -> (stop: Int, bytes: [UInt8]) {
        var out = [UInt8](repeating: 0xaa, count: text.count / 4 * 3 + 3 + Int(CTEXT_SLACK))
        let stop = unsafe ctext_base64_decode_at(level, &out, text, text.count, Int32(alphabet))
        guard stop == text.count else {
            return (stop, [])
        }
        return (stop, Array(out.prefix(stop / 4 * 3 + max(0, stop % 4 - 1))))
    }
}

@Suite struct `What is seen while a token is decoded` {
    @Test func `is the same at every level of instructions`() {
        var generator = SeededGenerator(seed: 13)
        let common = Array(#"""aZ{}:, "#.utf8) + [0x09, 0x0a]
        let rare = common + Array("\\".utf8) + [0x80, 0xff, 0x00, 0x1f, 0x7f]
        for round in 0..<20_000 {
            let count = Int.random(in: 0...300, using: &generator)
            let bytes = (0..<count).map { _ in
                (round % 2 == 0 ? common : rare).randomElement(using: &generator) ?? 0
            }
            let text = Array(Base64URL.encode(bytes.span).utf8)
            for level in 0...ctext_level_best() {
                #expect(
                    look(text, byteCount: count, level: level) == expected(bytes),
                    "seed 13, round \(round), level \(level)"
                )
            }
        }
    }

    private struct Seen: Equatable {
        var bytes: [UInt8]
        var controlCount = 0
        var isSpecial = false
        var quotes: [UInt64]
    }

    private func expected(_ bytes: [UInt8]) -> Seen {
        let wordCount = (bytes.count + 63) / 64
        var seen = Seen(bytes: bytes, quotes: Array(repeating: 0, count: wordCount) + [.max])
        for (index, byte) in bytes.enumerated() {
            if byte == UInt8(ascii: "\"") {
                seen.quotes[index / 64] |= 1 << UInt64(index % 64)
            }
            seen.controlCount += byte < 0x20 ? 1 : 0
            seen.isSpecial = seen.isSpecial || byte == UInt8(ascii: "\\") || byte >= 0x80
        }
        return seen
    }

    private func look(_ text: [UInt8], byteCount: Int, level: Int32) -> Seen {
        var out = [UInt8](repeating: 0xaa, count: byteCount + 3 + Int(CTEXT_SLACK))
        var quotes = [UInt64](repeating: 0, count: (byteCount + 63) / 64 + 1)
        var plain = ctext_plain()
        let stop = unsafe ctext_token_decode_at(
            level,
            &out,
            &quotes,
            &plain,
            text,
            text.count,
            byteCount
        )
        return Seen(
            bytes: stop == text.count ? Array(out.prefix(byteCount)) : [],
            controlCount: plain.control_count,
            isSpecial: plain.is_special != 0,
            quotes: quotes
        )
    }
}
