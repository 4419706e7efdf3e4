/// A month of the UTC calendar, counted from year 0: reports are due by the month.
package struct CalendarMonth: Hashable, Comparable, Sendable {
    package var number: Int64

    package init(number: Int64) {
        self.number = number
    }

    /// After all others.
    static let last = CalendarMonth(number: .max)

    /// The month that a time lies in, in the proleptic Gregorian calendar.
    package init(of time: Timestamp) {
        let days = Self.floorDivide(time.milliseconds, 86_400_000)
        // Years that begin in March: the leap day comes last, and eras of 400 years repeat.
        let shifted = days + 719_468
        let era = Self.floorDivide(shifted, 146_097)
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        number = (era * 400 + yearOfEra) * 12 + monthFromMarch + 2
    }

    /// Its first millisecond; the first or last there is, where it lies beyond `Int64`: a date of
    /// others may be any.
    package var start: Timestamp {
        let fromMarch = number - 2
        let year = Self.floorDivide(fromMarch, 12)
        let monthFromMarch = fromMarch - year * 12
        let era = Self.floorDivide(year, 400)
        let yearOfEra = year - era * 400
        let dayOfYear = (153 * monthFromMarch + 2) / 5
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        let days = era * 146_097 + dayOfEra - 719_468
        let (milliseconds, overflow) = days.multipliedReportingOverflow(by: 86_400_000)
        guard !overflow else {
            return Timestamp(milliseconds: days > 0 ? .max : .min)
        }
        return Timestamp(milliseconds: milliseconds)
    }

    package func adding(_ count: Int64) -> CalendarMonth {
        CalendarMonth(number: number + count)
    }

    package static func < (left: CalendarMonth, right: CalendarMonth) -> Bool {
        left.number < right.number
    }

    private static func floorDivide(_ number: Int64, _ divisor: Int64) -> Int64 {
        let quotient = number / divisor
        return number % divisor < 0 ? quotient - 1 : quotient
    }
}
