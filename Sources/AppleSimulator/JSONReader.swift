/// Why a text is no JSON; the byte is where reading stopped.
struct JSONFault: Error, Equatable {
    let byteIndex: Int
}

extension JSONValue {
    /// Reads one RFC 8259 text in UTF-8, with nothing but white space around it.
    ///
    /// - Throws: ``JSONFault`` at the first byte that does not belong, also where the nesting goes
    ///   deeper than 32.
    init(reading bytes: [UInt8]) throws(JSONFault) {
        var reader = JSONReader(bytes: bytes)
        self = try reader.document()
    }
}

private struct JSONReader {
    static let depthMax = 32

    let bytes: [UInt8]
    var index = 0

    init(bytes: [UInt8]) {
        self.bytes = bytes
    }

    mutating func document() throws(JSONFault) -> JSONValue {
        let value = try value(depth: 0)
        skipBlanks()
        guard index == bytes.count else { throw fault }
        return value
    }

    private var fault: JSONFault { JSONFault(byteIndex: index) }

    private var next: UInt8? { index < bytes.count ? bytes[index] : nil }

    private mutating func skipBlanks() {
        while let byte = next, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 {
            index += 1
        }
    }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard next == byte else { return false }
        index += 1
        return true
    }

    private mutating func value(depth: Int) throws(JSONFault) -> JSONValue {
        guard depth <= Self.depthMax else { throw fault }
        skipBlanks()
        switch next {
        case UInt8(ascii: "{"): return try object(depth: depth)
        case UInt8(ascii: "["): return try array(depth: depth)
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "t"): return try word("true", .bool(true))
        case UInt8(ascii: "f"): return try word("false", .bool(false))
        case UInt8(ascii: "n"): return try word("null", .null)
        default: return .number(try number())
        }
    }

    private mutating func word(
        _ text: StaticString,
        _ value: JSONValue
    ) throws(JSONFault) -> JSONValue {
        for byte in text.description.utf8 {
            guard take(byte) else { throw fault }
        }
        return value
    }

    private mutating func object(depth: Int) throws(JSONFault) -> JSONValue {
        index += 1
        var members: [JSONMember] = []
        skipBlanks()
        if take(UInt8(ascii: "}")) { return .object(members) }
        while true {
            skipBlanks()
            guard next == UInt8(ascii: "\"") else { throw fault }
            let name = try string()
            skipBlanks()
            guard take(UInt8(ascii: ":")) else { throw fault }
            members.append(JSONMember(name, try value(depth: depth + 1)))
            skipBlanks()
            if take(UInt8(ascii: "}")) { return .object(members) }
            guard take(UInt8(ascii: ",")) else { throw fault }
        }
    }

    private mutating func array(depth: Int) throws(JSONFault) -> JSONValue {
        index += 1
        var elements: [JSONValue] = []
        skipBlanks()
        if take(UInt8(ascii: "]")) { return .array(elements) }
        while true {
            elements.append(try value(depth: depth + 1))
            skipBlanks()
            if take(UInt8(ascii: "]")) { return .array(elements) }
            guard take(UInt8(ascii: ",")) else { throw fault }
        }
    }

    private mutating func number() throws(JSONFault) -> String {
        let start = index
        _ = take(UInt8(ascii: "-"))
        if !take(UInt8(ascii: "0")) { try digits() }
        if take(UInt8(ascii: ".")) { try digits() }
        if take(UInt8(ascii: "e")) || take(UInt8(ascii: "E")) {
            if !take(UInt8(ascii: "+")) { _ = take(UInt8(ascii: "-")) }
            try digits()
        }
        return String(decoding: bytes[start..<index], as: UTF8.self)
    }

    private mutating func digits() throws(JSONFault) {
        let start = index
        while let byte = next, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) { index += 1 }
        guard index > start else { throw fault }
    }

    private mutating func string() throws(JSONFault) -> String {
        index += 1
        let start = index
        // Most strings hold no escape and are taken as they stand.
        while let byte = next, byte != UInt8(ascii: "\""), byte != UInt8(ascii: "\\"), byte >= 0x20
        {
            index += 1
        }
        if next == UInt8(ascii: "\"") {
            defer { index += 1 }
            return try text(bytes[start..<index])
        }
        var content = Array(bytes[start..<index])
        while let byte = next {
            index += 1
            switch byte {
            case UInt8(ascii: "\""): return try text(content[...])
            case UInt8(ascii: "\\"): try escape(into: &content)
            case 0..<0x20: throw fault
            default: content.append(byte)
            }
        }
        throw fault
    }

    private func text(_ content: ArraySlice<UInt8>) throws(JSONFault) -> String {
        guard let text = String(validating: content, as: UTF8.self) else { throw fault }
        return text
    }

    private mutating func escape(into content: inout [UInt8]) throws(JSONFault) {
        guard let byte = next else { throw fault }
        index += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): content.append(byte)
        case UInt8(ascii: "b"): content.append(0x08)
        case UInt8(ascii: "f"): content.append(0x0C)
        case UInt8(ascii: "n"): content.append(0x0A)
        case UInt8(ascii: "r"): content.append(0x0D)
        case UInt8(ascii: "t"): content.append(0x09)
        case UInt8(ascii: "u"): try content.append(contentsOf: unicodeEscape())
        default: throw fault
        }
    }

    private mutating func unicodeEscape() throws(JSONFault) -> [UInt8] {
        var scalar = try fourHexDigits()
        if (0xD800..<0xDC00).contains(scalar) {
            guard take(UInt8(ascii: "\\")), take(UInt8(ascii: "u")) else { throw fault }
            let low = try fourHexDigits()
            guard (0xDC00..<0xE000).contains(low) else { throw fault }
            scalar = 0x10000 + (scalar - 0xD800) << 10 + (low - 0xDC00)
        }
        guard let unicode = Unicode.Scalar(scalar) else { throw fault }
        return Array(String(Character(unicode)).utf8)
    }

    private mutating func fourHexDigits() throws(JSONFault) -> UInt32 {
        guard index + 4 <= bytes.count else { throw fault }
        let digits = bytes[index..<index + 4]
        guard digits.allSatisfy({ Character(Unicode.Scalar($0)).isHexDigit }),
            let value = UInt32(String(decoding: digits, as: UTF8.self), radix: 16)
        else { throw fault }
        index += 4
        return value
    }
}
