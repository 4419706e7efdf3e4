package import TokenDomain

/// Spans of time as settings and options have them: `300ms`, `30s`, `15m`, `24h`, and `7d` where
/// days are what one thinks in.
package enum DurationText {
    /// The longest span anything of ours may wait.
    package static let max = Milliseconds.days(400)
    package static let expected = "a time such as 300ms, 30s, 15m or 24h, at most 9600h"
    package static let expectedWithDays = "a time such as 30s, 15m, 24h or 7d, at most 400d"

    /// Reads one whole number and its unit; nil where it is anything else, or beyond ``max``.
    package static func read(_ text: String, withDays: Bool = false) -> Milliseconds? {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        guard !digits.isEmpty, let count = Int64(digits) else {
            return nil
        }
        let unit: Int64
        switch text[digits.endIndex...] {
        case "ms": unit = 1
        case "s": unit = 1_000
        case "m": unit = 60_000
        case "h": unit = 3_600_000
        case "d" where withDays: unit = 86_400_000
        default: return nil
        }
        let (span, overflow) = count.multipliedReportingOverflow(by: unit)
        guard !overflow, span <= max.count else {
            return nil
        }
        return Milliseconds(span)
    }
}
