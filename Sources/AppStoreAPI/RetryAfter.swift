package import TokenDomain

/// `Retry-After` as Apple means it: the UNIX milliseconds at which the next request is allowed.
///
/// Source: Identifying rate limits; the other forms are accepted in defence.
package enum RetryAfter {
    /// An hour, in which Apple counts, and some minutes of difference between clocks.
    package static let waitMax = Milliseconds.minutes(65)

    /// From here on an integer is a time in milliseconds, from 10^9 on one in seconds.
    private static let millisecondsMin: Int64 = 100_000_000_000
    private static let secondsMin: Int64 = 1_000_000_000

    /// When to try again.
    ///
    /// - Parameters:
    ///   - text: the header's value: milliseconds or seconds since 1970, seconds to wait, or a date.
    ///   - now: nothing earlier comes out, and nothing later than ``waitMax`` from it.
    /// - Returns: nil where the text is none of these: as if the header were missing.
    package static func read(_ text: String, now: Timestamp) -> Timestamp? {
        let trimmed = text.utf8.drop { isBlank($0) }
        let bytes = Array(trimmed.reversed().drop { isBlank($0) }.reversed())
        guard !bytes.isEmpty, let time = integer(bytes, now: now) ?? HTTPDate.read(bytes) else {
            return nil
        }
        return min(max(time, now), now + waitMax)
    }

    private static func integer(_ bytes: [UInt8], now: Timestamp) -> Timestamp? {
        guard bytes.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else {
            return nil
        }
        // More digits than fit are a time far away, which is cut to the longest wait.
        let value = Int64(String(decoding: bytes, as: UTF8.self)) ?? .max
        return switch value {
        case millisecondsMin...: Timestamp(milliseconds: value)
        case secondsMin...: Timestamp(milliseconds: value * 1_000)
        default: now + .seconds(value)
        }
    }

    private static func isBlank(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t")
    }
}
