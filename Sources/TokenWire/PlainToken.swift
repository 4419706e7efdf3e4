/// A token's JSON in the form in which Apple writes it, read in one pass over the places of quotes.
///
/// Only the known names, each once; strings of plain ASCII without escapes; positive integers of at
/// most 18 digits; all that is required is there. A text of any other form is not understood here,
/// valid or not, and goes to ``TokenMembers``, which alone knows the faults.
@safe
struct PlainToken {
    /// What lies where in the decoded bytes.
    struct Fields {
        var externalPurchaseID = 0..<0
        var bundleID = 0..<0
        /// Absent where there is no `tokenType`; an empty one is a range without bytes.
        var tokenType: Range<Int>?
        var appAppleID: Int64 = 0
        var tokenCreationDate: Int64 = 0
        var tokenExpirationDate: Int64?
    }

    /// The text, a zero byte behind it, and 127 bytes more that may be read.
    private let bytes: UnsafePointer<UInt8>
    private let quotes: UnsafePointer<UInt64>
    private let count: Int
    private var position = 0
    /// Control characters passed as white space: if these were all, none stands in a string.
    private var passedControlCount = 0

    private init(bytes: UnsafePointer<UInt8>, quotes: UnsafePointer<UInt64>, count: Int) {
        unsafe self.bytes = bytes
        unsafe self.quotes = quotes
        self.count = count
    }

    /// Reads a text without backslashes, all ASCII.
    ///
    /// - Parameters:
    ///   - bytes: the text, a zero byte and 127 bytes more.
    ///   - quotes: a bit for each byte that is a quote, and one word more with all bits set.
    ///   - count: the length of the text.
    ///   - controlCount: how many bytes below 0x20 there are in it.
    /// - Returns: nil where the text is of another form.
    @inline(__always)
    static func read(
        _ bytes: UnsafePointer<UInt8>,
        quotes: UnsafePointer<UInt64>,
        count: Int,
        controlCount: Int
    ) -> Fields? {
        var reader = unsafe PlainToken(bytes: bytes, quotes: quotes, count: count)
        guard let fields = reader.fields(), reader.passedControlCount == controlCount else {
            return nil
        }
        return fields
    }

    @inline(__always)
    private mutating func fields() -> Fields? {
        var fields = Fields()
        var seen = 0
        guard take(UInt8(ascii: "{")) else {
            return nil
        }
        repeat {
            guard let key = string(), take(UInt8(ascii: ":")) else {
                return nil
            }
            skipBlanks()
            let bit = 1 << (key.count & 31)
            guard seen & bit == 0 else {
                return nil
            }
            seen |= bit
            // Every known name has a length of its own.
            switch key.count {
            case 10:
                guard matches(key, "appAppleId"), let value = integer() else {
                    return nil
                }
                fields.appAppleID = value
            case 8:
                guard matches(key, "bundleId"), let value = string(), !value.isEmpty else {
                    return nil
                }
                fields.bundleID = value
            case 17:
                guard matches(key, "tokenCreationDate"), let value = integer() else {
                    return nil
                }
                fields.tokenCreationDate = value
            case 18:
                guard matches(key, "externalPurchaseId"), let value = string(), !value.isEmpty
                else {
                    return nil
                }
                fields.externalPurchaseID = value
            case 9:
                guard matches(key, "tokenType"), let value = string() else {
                    return nil
                }
                fields.tokenType = value
            case 19:
                guard matches(key, "tokenExpirationDate"), let value = integer() else {
                    return nil
                }
                fields.tokenExpirationDate = value
            default:
                return nil
            }
        } while take(UInt8(ascii: ","))
        let required = 1 << 10 | 1 << 8 | 1 << 17 | 1 << 18
        guard take(UInt8(ascii: "}")), seen & required == required,
            fields.tokenExpirationDate ?? .max >= fields.tokenCreationDate
        else {
            return nil
        }
        skipBlanks()
        return position == count ? fields : nil
    }

    // MARK: Lexemes

    @inline(__always)
    private mutating func skipBlanks() {
        // The zero behind the text ends it.
        while true {
            let byte = unsafe bytes[position]
            guard byte <= 0x20, byte == 0x20 || byte == 0x0a || byte == 0x09 || byte == 0x0d else {
                return
            }
            passedControlCount &+= byte < 0x20 ? 1 : 0
            position &+= 1
        }
    }

    @inline(__always)
    private mutating func take(_ byte: UInt8) -> Bool {
        skipBlanks()
        guard unsafe bytes[position] == byte else {
            return false
        }
        position &+= 1
        return true
    }

    /// The content of a string; nil where it has no end in the text.
    ///
    /// Then the word behind the last one ends the search. The position must not follow there: what
    /// lies behind the text is of an earlier token, and ``quotes`` may have no such word any more.
    @inline(__always)
    private mutating func string() -> Range<Int>? {
        guard take(UInt8(ascii: "\"")) else {
            return nil
        }
        let start = position
        var word = start >> 6
        var bits = unsafe quotes[word] & (~0 &<< UInt64(start & 63))
        while bits == 0 {
            word &+= 1
            bits = unsafe quotes[word]
        }
        let end = word << 6 | bits.trailingZeroBitCount
        guard end < count else {
            return nil
        }
        position = end &+ 1
        return unsafe Range(uncheckedBounds: (start, end))
    }

    /// A positive integer of at most 18 digits; whatever else follows is not taken.
    @inline(__always)
    private mutating func integer() -> Int64? {
        let first = unsafe bytes[position]
        guard first >= UInt8(ascii: "1"), first <= UInt8(ascii: "9") else {
            return nil
        }
        var value: UInt64 = 0
        var word = load(position)
        var digitCount = Self.digitCount(word)
        var total = digitCount
        if digitCount == 8 {
            value = Self.value(ofDigits: word)
            word = load(position &+ 8)
            digitCount = Self.digitCount(word)
            total = 8 &+ digitCount
            if digitCount == 8 {
                value = value &* 100_000_000 &+ Self.value(ofDigits: word)
                word = load(position &+ 16)
                digitCount = Self.digitCount(word)
                total = 16 &+ digitCount
            }
        }
        guard total <= 18 else {
            return nil
        }
        if digitCount > 0 {
            // The digits move to the top; zeros fill in before them.
            let shift = UInt64(64 &- 8 &* digitCount)
            let aligned = word &<< shift | (0x3030_3030_3030_3030 & ~(~0 &<< shift))
            value = value &* Self.powerOfTen(digitCount) &+ Self.value(ofDigits: aligned)
        }
        position &+= total
        return Int64(truncatingIfNeeded: value)
    }

    // MARK: Eight bytes at once

    @inline(__always)
    private func load(_ index: Int) -> UInt64 {
        unsafe UInt64(
            littleEndian: UnsafeRawPointer(bytes + index).loadUnaligned(as: UInt64.self)
        )
    }

    /// Whether a name of 8 to 24 bytes stands there; its length was already compared.
    @inline(__always)
    private func matches(_ key: Range<Int>, _ name: StaticString) -> Bool {
        let count = name.utf8CodeUnitCount
        let expected = unsafe UnsafeRawPointer(name.utf8Start)
        let last = unsafe expected.loadUnaligned(fromByteOffset: count - 8, as: UInt64.self)
        let first = unsafe expected.loadUnaligned(as: UInt64.self)
        var difference = load(key.lowerBound) ^ UInt64(littleEndian: first)
        difference |= load(key.upperBound &- 8) ^ UInt64(littleEndian: last)
        if count > 16 {
            let middle = unsafe expected.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
            difference |= load(key.lowerBound &+ 8) ^ UInt64(littleEndian: middle)
        }
        return difference == 0
    }

    /// How many of eight bytes are digits before the first that is none.
    @inline(__always)
    private static func digitCount(_ word: UInt64) -> Int {
        let values = word ^ 0x3030_3030_3030_3030
        // A carry out of a byte marks only what lies behind a byte that is marked rightly.
        let marks = ((values &+ 0x7676_7676_7676_7676) | values) & 0x8080_8080_8080_8080
        return marks.trailingZeroBitCount >> 3
    }

    /// The number that eight digits make, the first in the lowest byte.
    @inline(__always)
    private static func value(ofDigits word: UInt64) -> UInt64 {
        var value = ((word & 0x0f0f_0f0f_0f0f_0f0f) &* 2561) &>> 8
        value = ((value & 0x00ff_00ff_00ff_00ff) &* 6_553_601) &>> 16
        value = ((value & 0x0000_ffff_0000_ffff) &* 42_949_672_960_001) &>> 32
        return value
    }

    @inline(__always)
    private static func powerOfTen(_ exponent: Int) -> UInt64 {
        switch exponent {
        case 1: 10
        case 2: 100
        case 3: 1_000
        case 4: 10_000
        case 5: 100_000
        case 6: 1_000_000
        case 7: 10_000_000
        default: 100_000_000
        }
    }
}
