/// Notices that the wall clock was set back between two looks at it.
package struct ClockWatch: Sendable {
    /// The clock may be slewed or stand still; less than this is no jump.
    private static let backMin = Milliseconds.seconds(1)

    private var lookedAt: Timestamp?

    package init() {}

    /// By how much the clock was set back since the last look; nil where it was not.
    package mutating func setBack(now: Timestamp) -> Milliseconds? {
        defer { lookedAt = now }
        return lookedAt.map { $0 - now }.flatMap { $0 > Self.backMin ? $0 : nil }
    }
}
