/// A token bucket: so much a second, and a burst after a rest.
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

    /// Whether so much may pass now, at most a burst; what passes is taken.
    mutating func take(_ amount: Int, now: Int64) -> Bool {
        guard milliseconds(until: amount, now: now) == 0 else {
            return false
        }
        level -= Double(amount)
        return true
    }

    /// How long until so much may pass; 0 where it may now.
    mutating func milliseconds(until amount: Int, now: Int64) -> Int64 {
        precondition(Double(amount) <= burst, "what is taken at once fits into the bucket")
        level = min(burst, level + Double(max(0, now - filledAt)) / 1_000 * perSecond)
        filledAt = max(filledAt, now)
        let missing = Double(amount) - level
        return missing <= 0 ? 0 : Int64((missing / perSecond * 1_000).rounded(.up))
    }
}
