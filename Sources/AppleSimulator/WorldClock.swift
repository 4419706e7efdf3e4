/// The time of the simulated App Store: real time, moved and made faster at will.
///
/// Tokens, line items and notifications live by it. JWTs and rate limits live by real time, since
/// those who call do.
package struct WorldClock: Equatable, Sendable {
    /// Up to the end of the year 9999; what is later is no time that anybody means.
    package static let settable: ClosedRange<UnixMilliseconds> = 0...253_402_300_799_999

    private var realStart: UnixMilliseconds = 0
    private var worldStart: UnixMilliseconds = 0
    /// World milliseconds per real millisecond; 0 stands still.
    package private(set) var rate: Double = 1

    package init() {}

    package func now(real: UnixMilliseconds) -> UnixMilliseconds {
        worldStart + UnixMilliseconds(Double(real - realStart) * rate)
    }

    package mutating func set(
        now world: UnixMilliseconds,
        rate: Double,
        real: UnixMilliseconds
    ) {
        realStart = real
        worldStart = world
        self.rate = rate
    }

    /// Real milliseconds until the world's clock shows a time; nil where it never will.
    func realDelay(until world: UnixMilliseconds, real: UnixMilliseconds) -> Int64? {
        let distance = world - now(real: real)
        guard distance > 0 else { return 0 }
        guard rate > 0 else { return nil }
        return Int64(exactly: (Double(distance) / rate).rounded(.up))
    }
}
