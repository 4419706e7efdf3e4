/// A day of the UTC calendar, counted from 1970-01-01.
package struct CalendarDay: Hashable, Comparable, Sendable {
    package let number: Int64

    /// Reads `2026-03-01`; nil for anything else.
    package init?(iso text: some StringProtocol) {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 3, parts[0].utf8.count == 4, parts[1].utf8.count == 2,
            parts[2].utf8.count == 2, let year = Int64(parts[0]), let month = Int64(parts[1]),
            let day = Int64(parts[2]), year >= 1_970, (1...12).contains(month),
            (1...Self.dayCount(year: year, month: month)).contains(day)
        else {
            return nil
        }
        let start = CalendarMonth(number: year * 12 + month - 1).start
        number = start.milliseconds / 86_400_000 + day - 1
    }

    /// Its first millisecond.
    package var start: Timestamp { Timestamp(milliseconds: number * 86_400_000) }

    package static func < (left: CalendarDay, right: CalendarDay) -> Bool {
        left.number < right.number
    }

    private static func dayCount(year: Int64, month: Int64) -> Int64 {
        let this = CalendarMonth(number: year * 12 + month - 1)
        return (this.adding(1).start - this.start).count / 86_400_000
    }
}

extension Timestamp {
    /// The same day of the month and time of day a year later; of 29 February, 1 March.
    package var yearLater: Timestamp {
        let month = CalendarMonth(of: self)
        let next = month.adding(12)
        let lengthOfNext = next.adding(1).start - next.start
        let intoMonth = self - month.start
        return intoMonth < lengthOfNext ? next.start + intoMonth : next.adding(1).start
    }
}
