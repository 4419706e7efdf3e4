internal import TokenWire

/// JSON as a tree, compared by meaning: the order of members and the spelling of numbers are nothing.
///
/// For what Apple says to us, where unknown members and values are kept. What is read on the hot
/// path goes through ``JSONScanner`` without a tree.
package enum JSONValue: Hashable, Sendable {
    /// Of a member that stands twice the last one counts, as with every common reader.
    case object([String: JSONValue])
    case array([JSONValue])
    case string(String)
    case number(DecimalNumber)
    case bool(Bool)
    case null

    /// Reads one whole text; nil where it is not valid JSON (RFC 8259, strict UTF-8, depth ≤ 16).
    package init?(_ text: Span<UInt8>) {
        do throws(WireFault) {
            self = try JSONScanner.scan(text) { (scanner) throws(WireFault) in
                try Self.read(&scanner)
            }
        } catch {
            // The position of the fault is of no use: the text is Apple's, or it is forged.
            return nil
        }
    }

    package init?(_ text: [UInt8]) {
        self.init(text.span)
    }

    private static func read(_ scanner: inout JSONScanner) throws(WireFault) -> JSONValue {
        switch try scanner.peekKind() {
        case .object:
            var members: [String: JSONValue] = [:]
            try scanner.beginObject()
            while let name = try scanner.nextName() {
                members[name] = try read(&scanner)
            }
            return .object(members)
        case .array:
            var elements: [JSONValue] = []
            try scanner.beginArray()
            while try scanner.nextElement() {
                elements.append(try read(&scanner))
            }
            return .array(elements)
        case .string: return .string(try scanner.string())
        case .number: return .number(DecimalNumber(literal: try scanner.raw()))
        case .bool: return .bool(try scanner.bool())
        case .null:
            _ = try scanner.takeNull()
            return .null
        }
    }

    /// A member of an object; nil where it is absent or null, and where this is no object.
    package subscript(_ name: String) -> JSONValue? {
        guard case .object(let members) = self, let value = members[name], value != .null else {
            return nil
        }
        return value
    }

    package var members: [String: JSONValue]? {
        guard case .object(let members) = self else {
            return nil
        }
        return members
    }

    package var elements: [JSONValue]? {
        guard case .array(let elements) = self else {
            return nil
        }
        return elements
    }

    package var text: String? {
        guard case .string(let text) = self else {
            return nil
        }
        return text
    }

    /// A whole number within `Int64`.
    package var integer: Int64? {
        guard case .number(let number) = self else {
            return nil
        }
        return number.integer
    }

    package var flag: Bool? {
        guard case .bool(let flag) = self else {
            return nil
        }
        return flag
    }
}
