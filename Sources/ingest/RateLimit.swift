/// A token bucket: so many a second, and a burst after a rest.
struct RateLimit {
    private let perSecond: Double
    private let burst: Double
    private var level: Double
    private var filledAt: Int64

    /// `now` is monotonic milliseconds.
    init(perSecond: Double, burst: Double, now: Int64) {
        self.perSecond = perSecond
        self.burst = burst
        level = burst
        filledAt = now
    }

    /// Whether one more may pass now.
    mutating func take(now: Int64) -> Bool {
        level = min(burst, level + Double(max(0, now - filledAt)) / 1_000 * perSecond)
        filledAt = max(filledAt, now)
        guard level >= 1 else {
            return false
        }
        level -= 1
        return true
    }
}
