/// Where a string's content lies, without its quotes.
struct JSONStringRange {
    var start: Int
    var end: Int
    var hasEscape: Bool
}

/// What a number turned out to be.
enum JSONNumber: Equatable {
    case integer(Int64)
    /// Plain digits, but outside `Int64`.
    case integerOutOfRange
    /// With a fraction or an exponent: valid, and never read.
    case fractional
}

extension JSONScanner {
    /// Takes a string at its opening quote; validates escapes, surrogates and UTF-8.
    mutating func takeString() throws(WireFault) -> JSONStringRange {
        guard current == UInt8(ascii: "\"") else {
            throw .notJSON(byteIndex: position)
        }
        position += 1
        var range = JSONStringRange(start: position, end: position, hasEscape: false)
        while true {
            position = unsafe JSONString.plainEnd(bytes, from: position)
            switch current {
            case UInt8(ascii: "\""):
                range.end = position
                position += 1
                return range
            case UInt8(ascii: "\\"):
                range.hasEscape = true
                position = unsafe JSONString.escapeEnd(bytes, from: position) ?? refused()
            case 0x80...:
                position = unsafe JSONString.scalarEnd(bytes, from: position) ?? refused()
            default:
                throw .notJSON(byteIndex: position)
            }
            guard position >= 0 else {
                position = -1 - position
                throw .notJSON(byteIndex: position)
            }
        }
    }

    /// Marks the position as refused without losing it.
    private func refused() -> Int { -1 - position }

    /// Takes a number by the grammar of RFC 8259, section 6.
    mutating func takeNumber() throws(WireFault) -> JSONNumber {
        let isNegative = current == UInt8(ascii: "-")
        if isNegative {
            position += 1
        }
        guard isDigit(current) else {
            throw .notJSON(byteIndex: position)
        }
        var value: Int64 = 0
        var isInRange = true
        if current == UInt8(ascii: "0") {
            position += 1
            guard !isDigit(current) else {
                throw .notJSON(byteIndex: position)
            }
        }
        while isDigit(current) {
            let digit = Int64(current - UInt8(ascii: "0"))
            let (product, tooMany) = value.multipliedReportingOverflow(by: 10)
            let (sum, tooLarge) =
                isNegative
                ? product.subtractingReportingOverflow(digit)
                : product.addingReportingOverflow(digit)
            isInRange = isInRange && !tooMany && !tooLarge
            value = sum
            position += 1
        }
        var isFractional = false
        if current == UInt8(ascii: ".") {
            isFractional = true
            position += 1
            try takeDigits()
        }
        if current | 0x20 == UInt8(ascii: "e") {
            isFractional = true
            position += 1
            if current == UInt8(ascii: "+") || current == UInt8(ascii: "-") {
                position += 1
            }
            try takeDigits()
        }
        if isFractional {
            return .fractional
        }
        return isInRange ? .integer(value) : .integerOutOfRange
    }

    private mutating func takeDigits() throws(WireFault) {
        guard isDigit(current) else {
            throw .notJSON(byteIndex: position)
        }
        while isDigit(current) {
            position += 1
        }
    }

    mutating func takeLiteral(_ literal: StaticString) throws(WireFault) {
        for index in 0..<literal.utf8CodeUnitCount {
            guard unsafe current == literal.utf8Start[index] else {
                throw .notJSON(byteIndex: position)
            }
            position += 1
        }
    }

    private func isDigit(_ byte: UInt8) -> Bool {
        byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9")
    }
}
