/// A JSON text as Apple's side reads it: numbers keep their literal, members their order.
///
/// The simulator reads and writes JSON with this type alone, so that it shares neither a parser nor
/// a parser's mistakes with the programs it judges.
indirect enum JSONValue: Equatable, Sendable {
    case null
    case bool(Bool)
    /// The literal as it stood in the text, so that 1 and 1.0 and 10^0 stay different.
    case number(String)
    case string(String)
    case array([JSONValue])
    case object([JSONMember])

    /// The value of a member, unless it is null; of a repeated name the last, as most servers read.
    subscript(_ name: String) -> JSONValue? {
        guard case .object(let members) = self else { return nil }
        guard let value = members.last(where: { $0.name == name })?.value else { return nil }
        return value == .null ? nil : value
    }

    var text: String? {
        if case .string(let text) = self { text } else { nil }
    }

    var flag: Bool? {
        if case .bool(let flag) = self { flag } else { nil }
    }

    /// Plain digits within int64; no fraction, no exponent.
    var integer: Int64? {
        if case .number(let literal) = self { Int64(literal) } else { nil }
    }

    var elements: [JSONValue]? {
        if case .array(let elements) = self { elements } else { nil }
    }

    /// Whether a member is absent, null, or of the type that `read` reads.
    func mayHave<Value>(_ name: String, _ read: (JSONValue) -> Value?) -> Bool {
        self[name].map { read($0) != nil } ?? true
    }

    static func integer(_ value: some BinaryInteger) -> JSONValue {
        .number(String(value))
    }

    static func strings(_ values: [String]) -> JSONValue {
        .array(values.map { .string($0) })
    }
}

struct JSONMember: Equatable, Sendable {
    var name: String
    var value: JSONValue

    init(_ name: String, _ value: JSONValue) {
        self.name = name
        self.value = value
    }

    /// A member for a value that may be missing.
    static func present(_ name: String, _ value: JSONValue?) -> [JSONMember] {
        value.map { [JSONMember(name, $0)] } ?? []
    }
}

extension JSONValue {
    /// The compact text of the value.
    var bytes: [UInt8] {
        var output: [UInt8] = []
        write(to: &output)
        return output
    }

    func write(to output: inout [UInt8]) {
        switch self {
        case .null: output.append(contentsOf: "null".utf8)
        case .bool(let flag): output.append(contentsOf: (flag ? "true" : "false").utf8)
        case .number(let literal): output.append(contentsOf: literal.utf8)
        case .string(let text): Self.write(text, to: &output)
        case .array(let elements):
            output.append(UInt8(ascii: "["))
            for (index, element) in elements.enumerated() {
                if index > 0 { output.append(UInt8(ascii: ",")) }
                element.write(to: &output)
            }
            output.append(UInt8(ascii: "]"))
        case .object(let members):
            output.append(UInt8(ascii: "{"))
            for (index, member) in members.enumerated() {
                if index > 0 { output.append(UInt8(ascii: ",")) }
                Self.write(member.name, to: &output)
                output.append(UInt8(ascii: ":"))
                member.value.write(to: &output)
            }
            output.append(UInt8(ascii: "}"))
        }
    }

    private static func write(_ text: String, to output: inout [UInt8]) {
        output.append(UInt8(ascii: "\""))
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"):
                output.append(UInt8(ascii: "\\"))
                output.append(byte)
            case 0..<0x20:
                let digits = Array("0123456789abcdef".utf8)
                output.append(contentsOf: "\\u00".utf8)
                output.append(digits[Int(byte >> 4)])
                output.append(digits[Int(byte & 15)])
            default: output.append(byte)
            }
        }
        output.append(UInt8(ascii: "\""))
    }
}
