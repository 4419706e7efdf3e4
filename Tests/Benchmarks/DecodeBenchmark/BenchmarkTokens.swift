import TokenDomain
import TokenWire

/// Tokens by chance, mixed as `tollway-bench` mixes its input: three apps, a fifth of the JSON with blanks,
/// half of the texts padded where they can be, some from the sandbox, some without an end.
struct BenchmarkTokens {
    static let apps: [(appAppleID: Int64, bundleID: String)] = [
        (1_234_567_890, "com.example"), (1_700_000_123, "com.example.mu"),
        (6_450_000_007, "com.example.video"),
    ]

    private(set) var arena: [UInt8] = []
    /// Where each token begins, and where the last one ends.
    private(set) var bounds = [0]

    init(seed: UInt64, count: Int) {
        var generator = SeededGenerator(seed: seed)
        for _ in 0..<count {
            let chance = generator.next()
            let app = Self.apps[Int(chance % 3)]
            let (colon, comma) = (chance >> 8) % 5 == 0 ? (": ", ", ") : (":", ",")
            let created = 1_700_000_000_000 + Int64(generator.next() % 100_000_000_000)
            let sandbox = (chance >> 16) % 10 == 0 ? "SANDBOX_" : ""
            var members: [(String, String)] = [
                ("appAppleId", "\(app.appAppleID)"), ("bundleId", "\"\(app.bundleID)\""),
                ("tokenCreationDate", "\(created)"),
                ("externalPurchaseId", "\"\(sandbox)\(Self.uuid(&generator))\""),
                ("tokenType", "\"SERVICES\""),
            ]
            if (chance >> 24) % 10 != 0 {
                members.append(("tokenExpirationDate", "\(created + 31_536_000_000)"))
            }
            let texts = members.map { "\"\($0)\"\(colon)\($1)" }
            Base64URL.encode(Array("{\(texts.joined(separator: comma))}".utf8).span, to: &arena)
            while chance >> 32 & 1 == 0, (arena.count - (bounds.last ?? 0)) % 4 != 0 {
                arena.append(UInt8(ascii: "="))
            }
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
