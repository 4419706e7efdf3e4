import TokenDomain

/// One text that is a token, nearly a token, or nothing of the kind; all of it follows from a seed.
struct FuzzInput {
    let seed: UInt64
    private(set) var text: [UInt8] = []
    private var generator: SeededGenerator

    init(seed: UInt64) {
        self.seed = seed
        generator = SeededGenerator(seed: seed)
        var bytes = chance(8) ? noise() : object(depth: 1)
        if chance(2) {
            mutate(&bytes, times: 1 + pick(3), among: Self.jsonBytes)
        }
        var text = encoded(bytes)
        if chance(5) {
            mutate(&text, times: 1 + pick(2), among: Self.textBytes)
        }
        self.text = text
    }

    // MARK: Chance

    private mutating func pick(_ bound: Int) -> Int { Int(generator.next() % UInt64(bound)) }
    private mutating func chance(_ oneIn: Int) -> Bool { pick(oneIn) == 0 }
    private mutating func one<Element>(_ elements: [Element]) -> Element {
        elements[pick(elements.count)]
    }

    // MARK: JSON

    private static let jsonBytes =
        Array(#"{}[]",:\ue0123456789+-.EtrufalsnN/ "#.utf8)
        + [0x00, 0x09, 0x0a, 0x0d, 0x1f, 0x7f, 0x80, 0xbf, 0xc3, 0xa9, 0xe2, 0xed, 0xf0, 0xff]
    private static let textBytes = Array("AZaz09-_+/= =\n\t.*%".utf8) + [0x00, 0x80, 0xc3]
    private static let names = [
        "appAppleId", "bundleId", "tokenCreationDate", "externalPurchaseId", "tokenType",
        "tokenExpirationDate",
    ]
    private static let strings = [
        "", "com.example", "SERVICES", "ACQUISITION", "SANDBOX_1", #"\u0041\n"#, #"\""#, "é",
        #"\ud83d\ude00"#, #"\ud83d"#, #"\ude00x"#, "\u{1f600}", #"\/\b\f\r\t\\"#, #"\u0000"#,
        "00000000-0000-0000-0000-000000000000", #"\x"#, #"\u12"#, "\u{7f}", "a\tb",
    ]
    private static let numbers = [
        "0", "-0", "1", "-1", "7", "1234567890", "1706169600000", "1782432000000",
        "9223372036854775807", "9223372036854775808", "-9223372036854775808",
        "123456789012345678", "1234567890123456789", "18446744073709551615",
        "18446744073709551616", "1.0", "1.5", "1e3", "1E-2", "01", "-", "1.", "1e", "+1", ".5",
    ]
    private static let blanks = ["", "", "", "", " ", "\n", "\t", "\r\n", "  \n\t", "\u{b}"]

    private mutating func object(depth: Int) -> [UInt8] {
        var members: [[UInt8]] = []
        if depth == 1 {
            for (index, name) in Self.names.enumerated() where index < 4 ? !chance(24) : chance(2) {
                members.append(member(name, plain(index), depth))
            }
            if chance(3) {
                members.shuffle(using: &generator)
            }
        }
        while chance(depth == 1 ? 3 : 2) {
            members.append(member(one(["x", "", "\u{e9}", "appAppleID"]), nil, depth))
        }
        if chance(40) {
            members.append(member(one(Self.names), nil, depth))
        }
        let comma = blank() + [UInt8(ascii: ",")] + blank()
        return blank() + Array("{".utf8) + blank() + Array(members.joined(separator: comma))
            + blank() + Array("}".utf8) + blank()
    }

    /// A value as Apple would write it, most of the time.
    private mutating func plain(_ field: Int) -> [UInt8]? {
        guard !chance(12) else {
            return nil
        }
        switch field {
        case 0: return Array(one(["1234567890", "1"]).utf8)
        case 2: return Array(one(["1706169600000", "1750896000000"]).utf8)
        case 5: return Array(one(["1706173200000", "1782432000000", "1"]).utf8)
        case 4: return Array(one([#""SERVICES""#, #""ACQUISITION""#, #""""#]).utf8)
        default: return Array("\"\(one(Self.strings))\"".utf8)
        }
    }

    private mutating func member(_ name: String, _ value: [UInt8]?, _ depth: Int) -> [UInt8] {
        let name = chance(30) ? name.replacing("I", with: #"\u0049"#) : name
        return Array("\"\(name)\"".utf8) + blank() + [UInt8(ascii: ":")] + blank()
            + (value ?? self.value(depth))
    }

    private mutating func value(_ depth: Int) -> [UInt8] {
        switch pick(9) {
        case 0, 1: return Array("\"\(one(Self.strings))\"".utf8)
        case 2, 3: return Array(one(Self.numbers).utf8)
        case 4: return Array(one(["true", "false", "null", "null", "nul", "True"]).utf8)
        case 5 where depth < 4: return object(depth: depth + 1)
        case 6 where depth < 4:
            let elements = (0..<pick(3)).map { _ in value(depth + 1) }
            return Array("[".utf8) + Array(elements.joined(separator: Array(",".utf8)))
                + Array("]".utf8)
        case 7 where chance(6):
            let levels = 12 + pick(8)
            return Array(
                (String(repeating: "[", count: levels)
                    + String(repeating: "]", count: levels)).utf8
            )
        default: return Array("\(Int64(bitPattern: generator.next()) >> Int64(pick(60)))".utf8)
        }
    }

    private mutating func blank() -> [UInt8] {
        chance(4) ? Array(one(Self.blanks).utf8) : []
    }

    private mutating func noise() -> [UInt8] {
        (0..<pick(40)).map { _ in UInt8(truncatingIfNeeded: generator.next()) }
    }

    // MARK: Text

    private mutating func encoded(_ bytes: [UInt8]) -> [UInt8] {
        let alphabet =
            Array(
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789".utf8
            ) + Array(one(["-_", "+/", " /", "-/"]).utf8)
        var text: [UInt8] = []
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let group = bytes[start..<min(start + 3, bytes.count)]
            let word = group.reduce(0) { $0 << 8 | UInt32($1) } << (8 * UInt32(3 - group.count))
            for place in 0...group.count {
                text.append(alphabet[Int(word >> UInt32(18 - 6 * place) & 63)])
            }
        }
        switch pick(8) {
        case 0: text += Array("=".utf8)
        case 1: text += Array("==".utf8)
        case 2 where text.count % 4 > 0:
            text += Array(repeating: UInt8(ascii: "="), count: 4 - text.count % 4)
        case 3: text = Array(" \n".utf8) + text + Array("\t ".utf8)
        default: break
        }
        return text
    }

    private mutating func mutate(_ bytes: inout [UInt8], times: Int, among choices: [UInt8]) {
        for _ in 0..<times where !bytes.isEmpty {
            let place = pick(bytes.count)
            switch pick(6) {
            case 0: bytes.remove(at: place)
            case 1: bytes.insert(one(choices), at: place)
            case 2:
                bytes.insert(
                    contentsOf: bytes[place..<min(place + pick(40), bytes.count)],
                    at: place
                )
            case 3 where chance(3): bytes.removeSubrange(place...)
            case 4: bytes[place] ^= 1 << UInt8(pick(8))
            default: bytes[place] = one(choices)
            }
        }
    }
}
