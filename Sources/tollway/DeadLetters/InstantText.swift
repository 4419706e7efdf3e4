internal import TokenDomain

/// Points in time as headers and operators write them.
enum InstantText {
    static let expected =
        "a time such as 2026-03-01T12:00:00Z or 2026-03-01, or how long ago, such as 90m, 12h or 7d"

    /// Reads RFC 3339: `2026-03-01T12:00:00.000Z`, the fraction optional, an offset for the `Z`.
    ///
    /// - Returns: UNIX milliseconds; nil where it is anything else.
    static func read(_ text: Span<UInt8>) -> Int64? {
        guard text.count >= 20, let day = day(text), text[10] == UInt8(ascii: "T"),
            text[13] == UInt8(ascii: ":"), text[16] == UInt8(ascii: ":"),
            let hour = number(text, 11, 2), let minute = number(text, 14, 2),
            let second = number(text, 17, 2), hour < 24, minute < 60, second <= 60
        else {
            return nil
        }
        var position = 19
        var fraction: Int64 = 0
        if text[position] == UInt8(ascii: ".") {
            position += 1
            var scale: Int64 = 100
            let start = position
            while position < text.count, let digit = number(text, position, 1) {
                fraction += digit * scale
                scale /= 10
                position += 1
            }
            guard position > start else {
                return nil
            }
        }
        guard let offset = offset(text, position) else {
            return nil
        }
        return ((day * 24 + hour) * 60 + minute - offset) * 60_000 + second * 1_000 + fraction
    }

    /// Minutes east of Greenwich; the text ends behind them.
    private static func offset(_ text: Span<UInt8>, _ position: Int) -> Int64? {
        guard position < text.count else {
            return nil
        }
        switch text[position] {
        case UInt8(ascii: "Z"), UInt8(ascii: "z"):
            return position + 1 == text.count ? 0 : nil
        case UInt8(ascii: "+"), UInt8(ascii: "-"):
            guard position + 6 == text.count, text[position + 3] == UInt8(ascii: ":"),
                let hours = number(text, position + 1, 2),
                let minutes = number(text, position + 4, 2), hours < 24, minutes < 60
            else {
                return nil
            }
            return (hours * 60 + minutes) * (text[position] == UInt8(ascii: "-") ? -1 : 1)
        default:
            return nil
        }
    }

    /// Days since 1970 of the date that the text begins with.
    static func day(_ text: Span<UInt8>) -> Int64? {
        guard text[4] == UInt8(ascii: "-"), text[7] == UInt8(ascii: "-"),
            let year = number(text, 0, 4), let month = number(text, 5, 2),
            let day = number(text, 8, 2), (1...12).contains(month), day >= 1
        else {
            return nil
        }
        let calendarMonth = CalendarMonth(number: year * 12 + month - 1)
        let date = calendarMonth.start + .days(day - 1)
        return date < calendarMonth.adding(1).start ? date.milliseconds / 86_400_000 : nil
    }

    private static func number(_ text: Span<UInt8>, _ start: Int, _ count: Int) -> Int64? {
        DecimalText.read(text.extracting(start..<start + count))
    }
}

/// Spans of time as a table has room for them: `12s`, `3m`, `5h`, `2d`.
enum AgeText {
    static func of(_ span: Milliseconds) -> String {
        let seconds = max(span.count, 0) / 1_000
        return switch seconds {
        case ..<100: "\(seconds)s"
        case ..<6_000: "\(seconds / 60)m"
        case ..<172_800: "\(seconds / 3_600)h"
        default: "\(seconds / 86_400)d"
        }
    }

    /// `3h ago`, `in 2d`.
    static func relative(_ time: Timestamp, now: Timestamp) -> String {
        time <= now ? "\(of(now - time)) ago" : "in \(of(time - now))"
    }
}

/// Whole numbers in plain digits, read from bytes.
enum DecimalText {
    /// Nil for anything but 1 to 18 digits.
    static func read(_ text: Span<UInt8>) -> Int64? {
        guard (1...18).contains(text.count) else {
            return nil
        }
        var value: Int64 = 0
        for index in text.indices {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(text[index]) else {
                return nil
            }
            value = value * 10 + Int64(text[index] - UInt8(ascii: "0"))
        }
        return value
    }
}
