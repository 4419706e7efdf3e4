import AppStoreAPI
import Testing
import TokenDomain

@Suite struct `Retry-After` {
    /// 2025-10-09T08:53:20Z.
    static let now = Timestamp(milliseconds: 1_760_000_000_000)

    /// The header, and how many milliseconds from now it means.
    static let understood: [(String, Int64)] = [
        // Apple's own form: UNIX milliseconds.
        ("1760000060000", 60_000),
        ("1760000000001", 1),
        ("1759999999999", 0),
        ("100000000000", 0),
        ("1760003900000", 3_900_000),
        ("1760003900001", 3_900_000),
        ("9223372036854775807", 3_900_000),
        ("99999999999999999999999", 3_900_000),
        // UNIX seconds.
        ("1760000060", 60_000),
        ("1000000000", 0),
        ("99999999999", 3_900_000),
        // Seconds to wait.
        ("0", 0),
        ("30", 30_000),
        (" 30\t", 30_000),
        ("3900", 3_900_000),
        ("3901", 3_900_000),
        ("999999999", 3_900_000),
        // Dates, in the three forms of RFC 9110.
        ("Thu, 09 Oct 2025 08:54:20 GMT", 60_000),
        ("Thursday, 09-Oct-25 08:54:20 GMT", 60_000),
        ("Thu Oct  9 08:54:20 2025", 60_000),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0),
        ("Fri, 29 Feb 2052 00:00:00 GMT", 3_900_000),
    ]

    @Test(arguments: understood)
    func `is understood in every form`(text: String, wait: Int64) {
        #expect(
            RetryAfter.read(text, now: Self.now)
                == Timestamp(milliseconds: Self.now.milliseconds + wait)
        )
    }

    @Test(arguments: [
        "", " ", "-5", "+5", "1.5", "1e3", "soon", "0x10", "30 s", "1760000060000,1760000060000",
        "Thu, 09 Oct 2025 08:54:20 PST", "Thu, 32 Oct 2025 08:54:20 GMT",
        "Thu, 09 Okt 2025 08:54:20 GMT", "Thu, 09 Oct 2025 24:00:00 GMT",
        "Thu, 09 Oct 2025 08:60:00 GMT", "Thu, 09 Oct 2025 08:54 GMT", "Thu, 09 Oct 2025",
        "Thu, 09 Oct 20250 08:54:20 GMT", "Thu, -9 Oct 2025 08:54:20 GMT x", "٣٠",
    ])
    func `is as if missing in any other`(text: String) {
        #expect(RetryAfter.read(text, now: Self.now) == nil)
    }

    @Test(arguments: [
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Tue, 29 Feb 2000 23:59:59 GMT", 951_868_799_000),
        ("Wed, 01 Mar 2000 00:00:00 GMT", 951_868_800_000),
        ("Thu, 31 Dec 1998 23:59:60 GMT", 915_148_800_000),
        ("Friday, 31-Dec-99 23:59:59 GMT", 946_684_799_000),
        ("Thu, 31 Dec 2099 12:00:00 GMT", 4_102_401_600_000),
    ])
    func `reads dates as the calendar has them`(text: String, milliseconds: Int64) {
        // A little before the date, so that nothing is cut off.
        let now = Timestamp(milliseconds: milliseconds - 1_000)
        #expect(RetryAfter.read(text, now: now) == Timestamp(milliseconds: milliseconds))
    }
}
