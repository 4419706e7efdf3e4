/// A JSON number by its value: `1`, `1.0` and `10e-1` are one.
///
/// It is compared and read, never computed with, so that no digit of Apple's or ours is lost.
package struct DecimalNumber: Hashable, Sendable {
    /// An exponent further from zero than this is taken for this.
    static let exponentMax = 1_000_000

    private var isNegative = false
    /// Values 0…9, neither beginning nor ending with 0; none for the number 0.
    private var digits: [UInt8] = []
    /// The power of ten that the last digit stands for.
    private var exponent = 0

    /// Reads a number.
    ///
    /// - Parameter literal: by the grammar of RFC 8259, section 6, already checked.
    init(literal: some Collection<UInt8>) {
        var rest = literal[...]
        if rest.first == UInt8(ascii: "-") {
            isNegative = true
            rest = rest.dropFirst()
        }
        var fractionCount = 0
        var isFraction = false
        while let byte = rest.first, byte | 0x20 != UInt8(ascii: "e") {
            rest = rest.dropFirst()
            guard byte != UInt8(ascii: ".") else {
                isFraction = true
                continue
            }
            fractionCount += isFraction ? 1 : 0
            digits.append(byte - UInt8(ascii: "0"))
        }
        exponent = Self.exponent(rest.dropFirst()) - fractionCount
        normalize()
    }

    /// The number, if it is whole and within `Int64`.
    package var integer: Int64? {
        // 19 digits are the most that fit; a longer one overflows below in any case.
        guard exponent >= 0, digits.count + exponent <= 19 else {
            return nil
        }
        var value: Int64 = 0
        for digit in digits + [UInt8](repeating: 0, count: exponent) {
            let (product, tooMany) = value.multipliedReportingOverflow(by: 10)
            let (sum, tooLarge) =
                isNegative
                ? product.subtractingReportingOverflow(Int64(digit))
                : product.addingReportingOverflow(Int64(digit))
            guard !tooMany, !tooLarge else {
                return nil
            }
            value = sum
        }
        return value
    }

    /// Its digits, with a decimal point where it has a fraction; far from zero with an exponent.
    package var text: String {
        let sign = isNegative ? "-" : ""
        let plain = digits.map { "\($0)" }.joined()
        guard (-30...30).contains(exponent) else {
            return sign + plain + "e\(exponent)"
        }
        guard exponent < 0 else {
            return plain.isEmpty ? "0" : sign + plain + String(repeating: "0", count: exponent)
        }
        let padded = String(repeating: "0", count: max(0, 1 - exponent - plain.count)) + plain
        return sign + padded.dropLast(-exponent) + "." + padded.suffix(-exponent)
    }

    /// The nearest double; infinite where the number is too large for one.
    package var double: Double {
        let text = (isNegative ? "-" : "") + digits.map { "\($0)" }.joined() + "e\(exponent)"
        return digits.isEmpty ? 0 : Double(text) ?? .infinity
    }

    private static func exponent(_ literal: some Collection<UInt8>) -> Int {
        var value = 0
        for byte in literal where byte != UInt8(ascii: "+") && byte != UInt8(ascii: "-") {
            value = min(value * 10 + Int(byte - UInt8(ascii: "0")), exponentMax)
        }
        return literal.first == UInt8(ascii: "-") ? -value : value
    }

    private mutating func normalize() {
        while digits.last == 0 {
            digits.removeLast()
            exponent += 1
        }
        digits = Array(digits.drop { $0 == 0 })
        if digits.isEmpty {
            (isNegative, exponent) = (false, 0)
        }
    }
}
