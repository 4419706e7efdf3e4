import TokenDomain
import TokenWire

/// Tokens as Apple writes them, 198 bytes of JSON in 264 characters, all different.
struct BenchmarkTokens {
    private(set) var arena: [UInt8] = []
    /// Where each token begins, and where the last one ends.
    private(set) var bounds = [0]

    init(seed: UInt64, count: Int) {
        var generator = SeededGenerator(seed: seed)
        for _ in 0..<count {
            let created = 1_700_000_000_000 + Int64(generator.next() % 100_000_000_000)
            var json = Array(
                """
                {"appAppleId":123456789,"bundleId":"com.app",\
                "tokenCreationDate":\(created),\
                "externalPurchaseId":"\(Self.uuid(&generator))",\
                "tokenType":"SERVICES","tokenExpirationDate":\(created + 31_536_000_000)}
                """.utf8
            )
            json += Array(repeating: UInt8(ascii: "\n"), count: 198 - json.count)
            Base64URL.encode(json.span, to: &arena)
            bounds.append(arena.count)
        }
    }

    private static func uuid(_ generator: inout SeededGenerator) -> String {
        let digits =
            String(generator.next() | 1 << 63, radix: 16)
            + String(generator.next() | 1 << 63, radix: 16)
        var text = ""
        for (index, digit) in digits.enumerated() {
            text += [8, 12, 16, 20].contains(index) ? "-\(digit)" : "\(digit)"
        }
        return text
    }
}
