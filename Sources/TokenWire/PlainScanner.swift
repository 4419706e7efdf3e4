internal import Glibc
internal import TokenDomain

/// Reads JSON in the very form in which programs write it: strings of plain ASCII without escapes,
/// positive integers of at most 18 digits, members in a known order.
///
/// Whatever is of another form, valid or not, is not understood here and goes to ``JSONScanner``, which
/// alone knows the faults.
@safe
struct PlainScanner {
    private static let integerDigitCountMax = 18

    private let bytes: UnsafeBufferPointer<UInt8>
    private(set) var position = 0
    /// What stands before the next member: the brace of its object, or a comma.
    private var separator = UInt8(ascii: "{")
    /// Whether a member was not understood.
    private var isOtherForm = false

    private let allowsBlanks: Bool

    /// With `allowsBlanks` one may stand before a name, and one behind its colon.
    @inline(__always)
    init(_ bytes: UnsafeBufferPointer<UInt8>, allowsBlanks: Bool = false) {
        unsafe self.bytes = bytes
        self.allowsBlanks = allowsBlanks
    }

    var isAtEnd: Bool { unsafe position == bytes.count }

    @inline(__always)
    mutating func take(_ text: StaticString) -> Bool {
        let count = text.utf8CodeUnitCount
        guard unsafe position + count <= bytes.count, let base = unsafe bytes.baseAddress,
            unsafe memcmp(base + position, text.utf8Start, count) == 0
        else {
            return false
        }
        position += count
        return true
    }

    /// The content of a string whose quote was taken, and the quote behind it.
    @inline(__always)
    mutating func string(byteCountMax: Int = .max) -> Range<Int>? {
        let start = position
        let end = unsafe JSONString.plainEnd(bytes, from: start)
        guard unsafe end < bytes.count && bytes[end] == UInt8(ascii: "\""),
            end - start <= byteCountMax
        else {
            return nil
        }
        position = end + 1
        return start..<end
    }

    @inline(__always)
    mutating func integer() -> Int64? {
        var value: Int64 = 0
        let start = position
        while unsafe position < bytes.count {
            let digit = unsafe bytes[position] &- UInt8(ascii: "0")
            guard digit < 10 else {
                break
            }
            guard position - start < Self.integerDigitCountMax else {
                return nil
            }
            value = value &* 10 &+ Int64(digit)
            position += 1
        }
        // A zero in front is another form, if it is a number at all.
        guard position > start, unsafe bytes[start] != UInt8(ascii: "0") else {
            return nil
        }
        return value
    }
}

/// Members in the order in which a message declares them; an empty text is of another form.
extension PlainScanner: MemberCoder {
    @inline(__always)
    mutating func text(_ name: StaticString, _ slot: inout Range<Int>?, atMost limit: TextLimit?) {
        guard take(name: name) else {
            return
        }
        guard takeByte(UInt8(ascii: "\"")),
            let range = string(byteCountMax: limit?.byteCountMax ?? .max), !range.isEmpty
        else {
            return isOtherForm = true
        }
        slot = range
    }

    @inline(__always)
    mutating func integer(_ name: StaticString, _ slot: inout Int64?) {
        guard take(name: name) else {
            return
        }
        guard let value = integer() else {
            return isOtherForm = true
        }
        slot = value
    }

    @inline(__always)
    mutating func environment(of id: Range<Int>?) {
        guard let id, take(name: "environment") else {
            return isOtherForm = true
        }
        let environment = AppleEnvironment(
            ofExternalPurchaseID: unsafe Span(_unsafeElements: bytes).extracting(id)
        )
        let isTaken =
            switch environment {
            case .production: take("\"production\"")
            case .sandbox: take("\"sandbox\"")
            }
        isOtherForm = isOtherForm || !isTaken
    }

    /// Whether the object and the text end here, and all before was understood.
    mutating func isWhole() -> Bool { !isOtherForm && take("}") && isAtEnd }

    /// A member's name and colon with what stands before them; nothing where another name stands there.
    @inline(__always)
    private mutating func take(name: StaticString) -> Bool {
        let before = position
        guard takeByte(separator) else {
            return false
        }
        skipBlank()
        guard takeByte(UInt8(ascii: "\"")), take(name), takeByte(UInt8(ascii: "\"")),
            takeByte(UInt8(ascii: ":"))
        else {
            position = before
            return false
        }
        skipBlank()
        separator = UInt8(ascii: ",")
        return true
    }

    @inline(__always)
    private mutating func takeByte(_ byte: UInt8) -> Bool {
        guard unsafe position < bytes.count && bytes[position] == byte else {
            return false
        }
        position += 1
        return true
    }

    @inline(__always)
    private mutating func skipBlank() {
        if allowsBlanks {
            _ = takeByte(UInt8(ascii: " "))
        }
    }
}
