package import TokenDomain

/// A date in an HTTP header, in any of its three forms.
///
///     Sun, 06 Nov 1994 08:49:37 GMT
///     Sunday, 06-Nov-94 08:49:37 GMT
///     Sun Nov  6 08:49:37 1994
///
/// Source: RFC 9110, 5.6.7
package enum HTTPDate {
    /// Reads a date; nil where it is none.
    ///
    /// The day of the week is not compared with the date.
    package static func read(_ bytes: [UInt8]) -> Timestamp? {
        let words = bytes.split { byte in
            byte == UInt8(ascii: " ") || byte == UInt8(ascii: ",") || byte == UInt8(ascii: "-")
        }
        switch words.count {
        case 6 where Array(words[5]) == Array("GMT".utf8):
            return date(day: words[1], month: words[2], year: words[3], time: words[4])
        case 5:
            return date(day: words[2], month: words[1], year: words[4], time: words[3])
        default:
            return nil
        }
    }

    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    private static func date(
        day: ArraySlice<UInt8>,
        month: ArraySlice<UInt8>,
        year: ArraySlice<UInt8>,
        time: ArraySlice<UInt8>
    ) -> Timestamp? {
        let clock = time.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false)
        guard let day = number(day), (1...31).contains(day),
            let month = months.firstIndex(of: String(decoding: month, as: UTF8.self)),
            let year = fullYear(year),
            clock.count == 3,
            let hour = number(clock[0]), hour < 24,
            let minute = number(clock[1]), minute < 60,
            // 60 is a leap second.
            let second = number(clock[2]), second <= 60
        else {
            return nil
        }
        let days = daysSince1970(year: year, month: month + 1, day: day)
        return Timestamp(
            milliseconds: (((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000
        )
    }

    /// Two digits are the years 1970 to 2069.
    private static func fullYear(_ digits: ArraySlice<UInt8>) -> Int64? {
        switch (digits.count, number(digits)) {
        case (4, let year?): year
        case (2, let year?): year + (year < 70 ? 2_000 : 1_900)
        default: nil
        }
    }

    private static func number(_ digits: ArraySlice<UInt8>) -> Int64? {
        guard (1...4).contains(digits.count),
            digits.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) })
        else {
            return nil
        }
        return Int64(String(decoding: digits, as: UTF8.self))
    }

    /// Days from 1970-01-01 in the Gregorian calendar; years begin in March, so that the day of the
    /// leap year comes last.
    private static func daysSince1970(year: Int64, month: Int, day: Int64) -> Int64 {
        let year = month > 2 ? year : year - 1
        let monthFromMarch = Int64((month + 9) % 12)
        let dayOfYear = (153 * monthFromMarch + 2) / 5 + day - 1
        let leapDays = year / 4 - year / 100 + year / 400
        return year * 365 + leapDays + dayOfYear - 719_468
    }
}
