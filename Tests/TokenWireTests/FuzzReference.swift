import Foundation

/// What Foundation makes of a text, after the conversion that its base64 needs.
struct Reference {
    enum Outcome {
        case empty
        case notBase64
        case notJSON
        case object([String: Any])
    }

    let outcome: Outcome
    let json: [UInt8]

    init(_ text: [UInt8]) {
        let blanks: Set<UInt8> = [0x20, 0x09, 0x0a, 0x0b, 0x0c, 0x0d]
        var trimmed = text[...]
        while let first = trimmed.first, blanks.contains(first) {
            trimmed.removeFirst()
        }
        while let last = trimmed.last, blanks.contains(last) {
            trimmed.removeLast()
        }
        guard !trimmed.isEmpty else {
            outcome = .empty
            json = []
            return
        }
        for _ in 0..<2 where trimmed.last == UInt8(ascii: "=") {
            trimmed.removeLast()
        }
        var standard = trimmed.map { (byte) -> UInt8 in
            switch byte {
            case UInt8(ascii: "-"), UInt8(ascii: " "): UInt8(ascii: "+")
            case UInt8(ascii: "_"): UInt8(ascii: "/")
            default: byte
            }
        }
        // Foundation takes padding in places where there must be none.
        let isPadded = standard.contains(UInt8(ascii: "="))
        standard += Array(repeating: UInt8(ascii: "="), count: (4 - standard.count % 4) % 4)
        guard !isPadded, trimmed.count % 4 != 1, let data = Data(base64Encoded: Data(standard))
        else {
            outcome = .notBase64
            json = []
            return
        }
        json = Array(data)
        do {
            let object = try JSONSerialization.jsonObject(with: data, options: .fragmentsAllowed)
            outcome = (object as? [String: Any]).map { .object($0) } ?? .notJSON
        } catch {
            outcome = .notJSON
        }
    }

    var shown: String {
        String(decoding: json, as: UTF8.self).debugDescription
    }

    // MARK: Known differences

    /// Texts that Foundation reads and design refuses.
    var isFoundationLaxer: Bool {
        hasOtherEncoding || levels > 16 || repeatsAName || hasTrailingComma
    }

    /// Texts that Foundation refuses and RFC 8259 allows: numbers that no `Double` holds.
    var isFoundationStricter: Bool {
        numbers.contains { Double($0).map { !$0.isFinite } ?? false }
    }

    /// Whether a fraction, an exponent or a bool stands somewhere: Foundation makes numbers of them.
    var hasNoPlainNumber: Bool {
        let text = String(decoding: json, as: UTF8.self)
        return text.contains("true") || text.contains("false")
            || numbers.contains { $0.contains { ".eE".contains($0) } }
    }

    private var numbers: [String] {
        json.split { !Array("0123456789+-.eE".utf8).contains($0) }
            .map { String(decoding: $0, as: UTF8.self) }
    }

    /// Foundation guesses UTF-16 and UTF-32 from a byte order mark or from zeros, and skips the mark
    /// of UTF-8.
    private var hasOtherEncoding: Bool {
        json.starts(with: [0xef, 0xbb, 0xbf]) || json.starts(with: [0xff, 0xfe])
            || json.starts(with: [0xfe, 0xff]) || json.prefix(4).contains(0)
    }

    /// Foundation lets a comma stand after the last member.
    private var hasTrailingComma: Bool {
        var isAfterComma = false
        for byte in json {
            switch byte {
            case UInt8(ascii: ","): isAfterComma = true
            case 0x20, 0x09, 0x0a, 0x0d: break
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                if isAfterComma {
                    return true
                }
            default: isAfterComma = false
            }
        }
        return false
    }

    /// Objects and arrays inside one another; Foundation allows 512.
    private var levels: Int {
        var level = 0
        var deepest = 0
        var isInString = false
        var isEscaped = false
        for byte in json {
            switch byte {
            case _ where isEscaped: isEscaped = false
            case UInt8(ascii: "\\"): isEscaped = isInString
            case UInt8(ascii: "\""): isInString.toggle()
            case UInt8(ascii: "{") where !isInString, UInt8(ascii: "[") where !isInString:
                level += 1
                deepest = max(deepest, level)
            case UInt8(ascii: "}") where !isInString, UInt8(ascii: "]") where !isInString:
                level -= 1
            default: break
            }
        }
        return deepest
    }

    /// Foundation keeps one of two members with one name.
    private var repeatsAName: Bool {
        let text = String(decoding: json, as: UTF8.self).replacing(#"\u0049"#, with: "I")
        return [
            "appAppleId", "bundleId", "tokenCreationDate", "externalPurchaseId", "tokenType",
            "tokenExpirationDate",
        ].contains { text.ranges(of: "\"\($0)\"").count > 1 }
    }
}
