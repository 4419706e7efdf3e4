internal import Glibc

/// The two clocks of a process, for what is shown to people and probes.
///
/// The rules get theirs handed in.
package enum WallClock {
    /// UNIX milliseconds, UTC.
    package static func nowMilliseconds() -> Int64 { read(CLOCK_REALTIME) }

    /// Milliseconds since some point in the past; never goes back.
    package static func monotonicMilliseconds() -> Int64 { read(CLOCK_MONOTONIC) }

    /// As ``monotonicMilliseconds()``, for what is shorter.
    package static func monotonicNanoseconds() -> UInt64 {
        var time = timespec()
        let status = unsafe clock_gettime(CLOCK_MONOTONIC, &time)
        precondition(status == 0, "the system has no such clock")
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    /// Processor time of the process, user and system.
    static func processorSeconds() -> Double { Double(read(CLOCK_PROCESS_CPUTIME_ID)) / 1_000 }

    /// RFC 3339 of UNIX milliseconds, in UTC: `2026-03-01T12:00:00.000Z`.
    ///
    /// Years 0000 to 9999; what lies outside is clamped.
    package static func rfc3339(milliseconds: Int64) -> String {
        let clamped = min(max(milliseconds, -62_167_219_200_000), 253_402_300_799_999)
        let day = Int((Double(clamped) / 86_400_000).rounded(.down))
        let inDay = Int(clamped) - day * 86_400_000
        let date = civilDate(daysSince1970: day)
        let clock = [
            padded(inDay / 3_600_000, 2), padded(inDay / 60_000 % 60, 2),
            padded(inDay / 1_000 % 60, 2),
        ].joined(separator: ":")
        return "\(padded(date.year, 4))-\(padded(date.month, 2))-\(padded(date.day, 2))"
            + "T\(clock).\(padded(inDay % 1_000, 3))Z"
    }

    private static func read(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        let status = unsafe clock_gettime(clock, &time)
        precondition(status == 0, "the system has no such clock")
        return Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000
    }

    /// Howard Hinnant's `civil_from_days`: exact for the whole proleptic Gregorian calendar.
    private static func civilDate(
        daysSince1970 days: Int
    ) -> (year: Int, month: Int, day: Int) {
        let shifted = days + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra =
            (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthIndex = (5 * dayOfYear + 2) / 153
        let month = monthIndex < 10 ? monthIndex + 3 : monthIndex - 9
        let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
        return (year, month, dayOfYear - (153 * monthIndex + 2) / 5 + 1)
    }

    private static func padded(_ number: Int, _ width: Int) -> String {
        let digits = String(number)
        return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }
}
