extension RateLimiter {
    /// What a rate is kept by.
    package enum Keeping: Sendable {
        case second
        /// As ``HourQuota`` says.
        case hour
    }
}

/// What the clock's hour still allows, where Apple keeps a rate by the hour.
///
/// What was not used of the hour is caught up; what the last one left is gone.
package struct HourQuota: Equatable, Sendable {
    /// So many times the rate may be sent while there is something to be caught up.
    package static let catchUp = 3.0

    private var hour: Int64?
    private var allowance = 1.0
    private var allowedAt = Timestamp(milliseconds: 0)

    package init() {}

    /// A hair less than one is one: sums of fractions are not exact.
    private var isEmpty: Bool { allowance <= 0.999 }

    package mutating func take() {
        allowance -= 1
    }

    /// Adds what has become allowed by now.
    package mutating func allow(_ requestsPerSecond: Double, now: Timestamp) {
        let length = Milliseconds.hours(1).count
        let thisHour = now.milliseconds / length
        if let hour {
            if hour != thisHour {
                allowance = 0
                allowedAt = Timestamp(milliseconds: thisHour * length)
            }
            allowance += Double(max((now - allowedAt).count, 0)) / 1_000 * requestsPerSecond
        }
        hour = thisHour
        allowedAt = now
    }

    /// When it allows the next request.
    package func nextSend(_ requestsPerSecond: Double, now: Timestamp) -> Timestamp {
        // Where the clock was set back, the next ``allow(_:now:)`` begins to count anew.
        guard isEmpty, allowedAt <= now else {
            return now
        }
        let wait = (1 - allowance) / requestsPerSecond * 1_000
        return allowedAt + Milliseconds(Int64(wait.rounded(.up)))
    }
}
