/// A pull parser: RFC 8259 in strict UTF-8, the whole text valid, also what is skipped.
///
/// It is lent to a closure and lives no longer than the bytes it reads.
///
///     try JSONScanner.scanObject(bytes) { (key, scanner) throws(WireFault) in
///         switch key {
///         case "token": try scanner.fill(&token)
///         default: try scanner.skip()
///         }
///     }
///
/// A byte order mark, UTF-16, raw control characters in strings, lone surrogates, trailing commas
/// and a second value are refused. Numbers other than integers are validated and skipped, not read.
@safe
package struct JSONScanner: ~Copyable {
    /// Objects and arrays inside one another; an outermost one counts as 1.
    package static let depthMax = 16

    package enum Kind: Equatable, Sendable {
        case object, array, string, number, bool, null
    }

    /// Valid while the closure of ``scan(_:_:)`` runs; nothing copies it out.
    let bytes: UnsafeBufferPointer<UInt8>
    package internal(set) var position = 0
    private var depth = 0
    /// Whether a container was just begun: no comma stands before its first entry.
    private var isFirst = false
    /// The field whose value is read now: for the faults.
    private(set) var field = JSONKey("")
    /// What the last value that was read was to be.
    private(set) var expected: Kind?
    /// Of the object that is read by its declared members.
    var members = Members()

    private init(_ bytes: UnsafeBufferPointer<UInt8>) {
        unsafe self.bytes = bytes
    }

    /// Reads one whole text.
    ///
    /// - Throws: what `body` throws, or ``WireFault/notJSON(byteIndex:)`` where something follows.
    package static func scan<Value>(
        _ text: Span<UInt8>,
        _ body: (inout JSONScanner) throws(WireFault) -> Value
    ) throws(WireFault) -> Value {
        try unsafe text.withUnsafeBufferPointer { (bytes) throws(WireFault) -> Value in
            var scanner = unsafe JSONScanner(bytes)
            let value = try body(&scanner)
            scanner.skipBlanks()
            guard scanner.position == bytes.count else {
                throw .notJSON(byteIndex: scanner.position)
            }
            return value
        }
    }

    /// Reads one whole text that is an object; `member` reads or skips each value.
    package static func scanObject(
        _ text: Span<UInt8>,
        _ member: (JSONKey, inout JSONScanner) throws(WireFault) -> Void
    ) throws(WireFault) {
        try scan(text) { (scanner) throws(WireFault) in
            try scanner.beginObject()
            while let key = try scanner.nextKey() {
                try member(key, &scanner)
            }
        }
    }

    // MARK: Structure

    /// What the next value is, unread.
    ///
    /// Literals are not yet checked.
    package mutating func peekKind() throws(WireFault) -> Kind {
        skipBlanks()
        switch current {
        case UInt8(ascii: "{"): return .object
        case UInt8(ascii: "["): return .array
        case UInt8(ascii: "\""): return .string
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return .number
        case UInt8(ascii: "t"), UInt8(ascii: "f"): return .bool
        case UInt8(ascii: "n"): return .null
        default: throw .notJSON(byteIndex: position)
        }
    }

    package mutating func beginObject() throws(WireFault) {
        try expect(.object)
        try descend()
    }

    /// The next member's name, its value still to be read or skipped; nil where the object ended.
    package mutating func nextKey() throws(WireFault) -> JSONKey? {
        guard let range = try takeName() else {
            return nil
        }
        return field(named: range)
    }

    /// As ``nextKey()``, but the whole name as text: for members of any name that are to be kept.
    package mutating func nextName() throws(WireFault) -> String? {
        guard let range = try takeName() else {
            return nil
        }
        _ = field(named: range)
        return unsafe String(
            decoding: range.hasEscape ? unescaped(range) : Array(slice(range)),
            as: UTF8.self
        )
    }

    /// Takes a name and its colon.
    private mutating func takeName() throws(WireFault) -> JSONStringRange? {
        guard try hasNext(before: UInt8(ascii: "}")) else {
            return nil
        }
        skipBlanks()
        let range = try takeString()
        skipBlanks()
        guard current == UInt8(ascii: ":") else {
            throw .notJSON(byteIndex: position)
        }
        position += 1
        return range
    }

    private mutating func field(named range: JSONStringRange) -> JSONKey {
        field =
            unsafe range.hasEscape
            ? unescaped(range).withUnsafeBufferPointer { unsafe JSONKey($0) }
            : JSONKey(slice(range))
        return field
    }

    package mutating func beginArray() throws(WireFault) {
        try expect(.array)
        try descend()
    }

    /// Whether another element follows, to be read or skipped; false where the array ended.
    package mutating func nextElement() throws(WireFault) -> Bool {
        try hasNext(before: UInt8(ascii: "]"))
    }

    private mutating func descend() throws(WireFault) {
        depth += 1
        guard depth <= Self.depthMax else {
            throw .tooDeep(byteIndex: position)
        }
        position += 1
        isFirst = true
    }

    private mutating func hasNext(before end: UInt8) throws(WireFault) -> Bool {
        skipBlanks()
        if current == end {
            position += 1
            depth -= 1
            isFirst = false
            return false
        }
        if isFirst {
            isFirst = false
            return true
        }
        guard current == UInt8(ascii: ",") else {
            throw .notJSON(byteIndex: position)
        }
        position += 1
        return true
    }

    // MARK: Values

    /// A string, unescaped.
    package mutating func string() throws(WireFault) -> String {
        try expect(.string)
        let range = try takeString()
        guard range.hasEscape else {
            return unsafe String(decoding: slice(range), as: UTF8.self)
        }
        return String(decoding: unescaped(range), as: UTF8.self)
    }

    /// A string, unescaped, as UTF-8.
    package mutating func stringBytes() throws(WireFault) -> [UInt8] {
        try expect(.string)
        let range = try takeString()
        return unsafe range.hasEscape ? unescaped(range) : Array(slice(range))
    }

    /// Where the content of a string lies, escapes and all.
    mutating func stringPlace() throws(WireFault) -> Range<Int> {
        try expect(.string)
        let range = try takeString()
        return range.start..<range.end
    }

    /// An integer in plain digits.
    ///
    /// - Throws: ``WireFault/wrongType(field:)`` for a fraction or an exponent,
    ///   ``WireFault/outOfRange(field:)`` outside `Int64`.
    package mutating func integer() throws(WireFault) -> Int64 {
        try expect(.number)
        switch try takeNumber() {
        case .integer(let value): return value
        case .integerOutOfRange: throw .outOfRange(field: field.text)
        case .fractional: throw .wrongType(field: field.text)
        }
    }

    package mutating func bool() throws(WireFault) -> Bool {
        try expect(.bool)
        let value = current == UInt8(ascii: "t")
        try takeLiteral(value ? "true" : "false")
        return value
    }

    /// Takes a null, if one is next.
    package mutating func takeNull() throws(WireFault) -> Bool {
        guard try peekKind() == .null else {
            return false
        }
        try takeLiteral("null")
        return true
    }

    /// Any value, its bytes as they stand, validated.
    package mutating func raw() throws(WireFault) -> [UInt8] {
        skipBlanks()
        let start = position
        try skip()
        return unsafe Array(bytes[start..<position])
    }

    /// A value of a kind, its bytes as they stand, validated.
    package mutating func raw(_ kind: Kind) throws(WireFault) -> [UInt8] {
        try expect(kind)
        return try raw()
    }

    /// Passes over one value of any kind, which must be valid all the same.
    package mutating func skip() throws(WireFault) {
        switch try peekKind() {
        case .string: _ = try takeString()
        case .number: _ = try takeNumber()
        case .bool: _ = try bool()
        case .null: _ = try takeNull()
        case .object:
            try beginObject()
            while try nextKey() != nil {
                try skip()
            }
        case .array:
            try beginArray()
            while try nextElement() {
                try skip()
            }
        }
    }

    private mutating func expect(_ kind: Kind) throws(WireFault) {
        expected = kind
        guard try peekKind() == kind else {
            throw .wrongType(field: field.text)
        }
    }

    /// The name of the member that is read now: for a caller's own faults.
    package var fieldName: String { field.text }

    // MARK: Bytes

    /// The byte at the position; 0, which no JSON text has, at the end.
    var current: UInt8 {
        unsafe position < bytes.count ? bytes[position] : 0
    }

    mutating func skipBlanks() {
        while true {
            switch current {
            case UInt8(ascii: " "), UInt8(ascii: "\n"), UInt8(ascii: "\r"), UInt8(ascii: "\t"):
                position += 1
            default:
                return
            }
        }
    }

    private func slice(_ string: JSONStringRange) -> UnsafeBufferPointer<UInt8> {
        unsafe UnsafeBufferPointer(rebasing: bytes[string.start..<string.end])
    }

    private func unescaped(_ string: JSONStringRange) -> [UInt8] {
        unsafe [UInt8](unsafeUninitializedCapacity: string.end - string.start) { buffer, count in
            unsafe count = JSONString.unescape(slice(string), into: buffer)
        }
    }
}
