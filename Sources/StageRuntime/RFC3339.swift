package import TokenDomain

/// Times as people read them in headers and on screens: `2026-11-21T12:34:56.789Z`.
package enum RFC3339 {
    /// The UTC text of a time, with milliseconds; years outside 0…9999 are clamped.
    package static func text(of time: Timestamp) -> String {
        let range: ClosedRange<Int64> = -62_167_219_200_000...253_402_300_799_999
        let milliseconds = min(max(time.milliseconds, range.lowerBound), range.upperBound)
        let dayLength: Int64 = 86_400_000
        var days = milliseconds / dayLength
        var rest = milliseconds % dayLength
        if rest < 0 {
            rest += dayLength
            days -= 1
        }
        let (year, month, day) = civil(daysSince1970: days)
        return "\(padded(year, 4))-\(padded(month, 2))-\(padded(day, 2))T"
            + "\(padded(rest / 3_600_000, 2)):\(padded(rest / 60_000 % 60, 2)):"
            + "\(padded(rest / 1_000 % 60, 2)).\(padded(rest % 1_000, 3))Z"
    }

    /// The proleptic Gregorian date of a day number: years of 146,097-day eras that begin in March,
    /// so that the leap day comes last.
    private static func civil(daysSince1970: Int64) -> (Int64, Int64, Int64) {
        let shifted = daysSince1970 + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, day)
    }

    private static func padded(_ number: Int64, _ width: Int) -> String {
        let digits = String(number)
        return String(repeating: "0", count: max(width - digits.count, 0)) + digits
    }
}
