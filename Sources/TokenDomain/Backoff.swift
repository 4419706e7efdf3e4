/// How long to wait before trying again: full jitter, so that what failed together does not come
/// back together.
package struct Backoff: Equatable, Sendable {
    /// The longest wait after the first failure; doubles with each further one.
    package var base: Milliseconds
    /// No wait is longer.
    package var cap: Milliseconds

    package init(base: Milliseconds = .seconds(1), cap: Milliseconds = .minutes(5)) {
        precondition(base.count > 0 && cap >= base, "a back-off grows from its base to its cap")
        self.base = base
        self.cap = cap
    }

    /// The longest wait after `failureCount` failures in a row.
    package func ceiling(failureCount: Int) -> Milliseconds {
        let doublings = min(max(failureCount - 1, 0), 40)
        let (grown, overflow) = base.count.multipliedReportingOverflow(by: 1 << Int64(doublings))
        return overflow ? cap : min(Milliseconds(grown), cap)
    }

    /// A wait between 1 ms and the ceiling, each as likely as any other.
    package func delay(
        failureCount: Int,
        using generator: inout some RandomNumberGenerator
    ) -> Milliseconds {
        Milliseconds(
            Int64.random(in: 1...ceiling(failureCount: failureCount).count, using: &generator)
        )
    }
}
