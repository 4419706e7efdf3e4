/// An exchange rate in decimal digits: never a binary fraction, which would not be the rate.
///
/// Source: Apple, "exchangeRate"; Q22 of the notes on Apple's API: plain digits, at most 18 of them
/// significant.
package struct ExchangeRate: Hashable, Sendable, CustomStringConvertible {
    package static let digitCountMax = 18
    /// Digits behind the point.
    ///
    /// No currency is worth so little.
    package static let scaleMax = 30

    /// Why a number is no rate.
    package enum Fault: Error, Equatable, Sendable {
        case notANumber
        /// Zero or less.
        case notPositive
        /// More than ``digitCountMax`` significant digits, or more than ``scaleMax`` behind the
        /// point.
        case tooManyDigits
    }

    /// The significant digits as one integer that does not end in zero behind the point.
    private let digits: UInt64
    /// How many of them stand behind the point.
    private let scale: Int

    /// Reads a JSON number: also with an exponent, which programs write for small rates.
    ///
    /// - Parameters:
    ///   - text: the number alone.
    ///   - isRounded: whether one of more digits is rounded half up to ``digitCountMax`` of them,
    ///     instead of refused.
    /// - Throws: what is wrong with the number.
    package init(utf8 text: [UInt8], isRounded: Bool = false) throws(Fault) {
        var reader = Reader(text: text)
        let isNegative = reader.take("-")
        try reader.takeDigits(isBehindPoint: false)
        if reader.take(".") {
            try reader.takeDigits(isBehindPoint: true)
        }
        if reader.take("e") || reader.take("E") {
            try reader.takeExponent()
        }
        guard reader.isAtEnd else {
            throw .notANumber
        }
        guard !isNegative, reader.digits > 0 else {
            throw .notPositive
        }
        var (digits, scale) = (reader.digits, reader.scale)
        if isRounded, reader.firstLeftOut ?? 0 >= 5 {
            digits += 1
        }
        while scale > 0, digits % 10 == 0 {
            digits /= 10
            scale -= 1
        }
        while scale < 0 {
            guard digits < Self.limit / 10 else {
                throw .tooManyDigits
            }
            digits *= 10
            scale += 1
        }
        guard isRounded || !reader.isTooLong, digits < Self.limit, scale <= Self.scaleMax else {
            throw .tooManyDigits
        }
        self.digits = digits
        self.scale = scale
    }

    package init(_ text: some StringProtocol) throws(Fault) {
        try self.init(utf8: Array(text.utf8))
    }

    /// 10 to the power of ``digitCountMax``.
    private static let limit: UInt64 = 1_000_000_000_000_000_000

    /// What an amount is in the other currency, rounded half away from zero to a thousandth.
    ///
    /// - Parameter amount: not negative.
    /// - Returns: nil beyond `Int64`.
    package func convert(_ amount: Milliunits) -> Milliunits? {
        precondition(amount >= .zero, "amounts are checked before they are converted")
        // Below 2^63 * 10^18, which 128 bits hold.
        let product = UInt128(amount.count) * UInt128(digits)
        var divisor: UInt128 = 1
        for _ in 0..<scale {
            divisor *= 10
        }
        let (quotient, rest) = product.quotientAndRemainder(dividingBy: divisor)
        return Int64(exactly: rest >= divisor - rest ? quotient + 1 : quotient).map {
            Milliunits($0)
        }
    }

    /// Plain digits with a point where one is needed: no exponent.
    package var text: String {
        let all = String(digits)
        guard scale > 0 else {
            return all
        }
        let padded = String(repeating: "0", count: max(0, scale + 1 - all.utf8.count)) + all
        return "\(padded.dropLast(scale)).\(padded.suffix(scale))"
    }

    package var description: String { text }

    /// Takes a number apart, digit by digit.
    private struct Reader {
        let text: [UInt8]
        private var position = 0
        private(set) var digits: UInt64 = 0
        private(set) var scale = 0
        private(set) var isTooLong = false
        /// The first digit behind those that are kept.
        private(set) var firstLeftOut: UInt64?

        init(text: [UInt8]) {
            self.text = text
        }

        var isAtEnd: Bool { position == text.count }

        mutating func take(_ byte: Unicode.Scalar) -> Bool {
            guard position < text.count, text[position] == UInt8(ascii: byte) else {
                return false
            }
            position += 1
            return true
        }

        private mutating func takeDigit() -> UInt64? {
            guard position < text.count,
                case UInt8(ascii: "0")...UInt8(ascii: "9") = text[position]
            else {
                return nil
            }
            position += 1
            return UInt64(text[position - 1] - UInt8(ascii: "0"))
        }

        mutating func takeDigits(isBehindPoint: Bool) throws(Fault) {
            var count = 0
            while let digit = takeDigit() {
                count += 1
                if digits < ExchangeRate.limit / 10 {
                    digits = digits * 10 + digit
                    scale += isBehindPoint ? 1 : 0
                } else {
                    firstLeftOut = firstLeftOut ?? digit
                    isTooLong = isTooLong || digit > 0
                    scale -= isBehindPoint ? 0 : 1
                }
            }
            guard count > 0 else {
                throw .notANumber
            }
        }

        mutating func takeExponent() throws(Fault) {
            let isNegative = take("-")
            if !isNegative {
                _ = take("+")
            }
            guard var exponent = takeDigit().map({ Int($0) }) else {
                throw .notANumber
            }
            while let digit = takeDigit() {
                // Far beyond every rate; what is more is not counted.
                exponent = min(1_000, exponent * 10 + Int(digit))
            }
            scale += isNegative ? exponent : -exponent
        }
    }
}
