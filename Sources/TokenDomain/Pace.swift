/// How fast one lane may send: a token bucket of one, this replica's share of the app's rate, and
/// a factor that gives way when Apple says 429 and comes back slowly.
package struct Pace: Equatable, Sendable {
    /// What the bucket may hold beyond one: the loop wakes in steps of milliseconds, and what came
    /// due within one step must not be lost at high rates.
    package static let grainMilliseconds = 20.0
    /// A 429 takes a tenth of the rate away: a lane at its limit then stays above 95 % of it.
    package static let decrease = 0.9
    package static let factorMin = 0.02
    /// Share of the full rate that comes back each second; at 0.2 % one 429 in 50 s is the price.
    package static let increasePerSecond = 0.002

    /// Requests per second for the app and environment, over all replicas.
    package var rate: Double
    /// This replica's part: its partitions of all; zero between revoke and restore.
    package var share: Double
    package private(set) var factor = 1.0
    private var bucket = 1.0
    private var filledAt: Timestamp?
    private var decreasedAt: Timestamp?

    /// The rate is above zero.
    package init(rate: Double, share: Double = 1) {
        precondition(rate > 0, "a lane has a rate")
        self.rate = rate
        self.share = share
    }

    /// What is allowed now, per second.
    package var requestsPerSecond: Double { rate * share * factor }

    /// Takes one turn, if there is one.
    package mutating func take(now: Timestamp) -> Bool {
        fill(now: now)
        // A hair less than one is one: sums of fractions are not exact.
        guard bucket > 0.999 else {
            return false
        }
        bucket = max(bucket - 1, 0)
        return true
    }

    /// When the next turn comes; nil while this replica has no share.
    package func nextTurn(now: Timestamp) -> Timestamp? {
        guard requestsPerSecond > 0 else {
            return nil
        }
        var filled = self
        filled.fill(now: now)
        guard filled.bucket <= 0.999 else {
            return now
        }
        let wait = ((1 - filled.bucket) / requestsPerSecond * 1_000).rounded(.up)
        return now + Milliseconds(Int64(min(max(wait, 1), 3_600_000)))
    }

    /// Apple said 429.
    ///
    /// Answers to requests sent before the last decrease say nothing new.
    package mutating func rateLimited(sentAt: Timestamp, now: Timestamp) {
        if let decreasedAt, sentAt < decreasedAt {
            return
        }
        fill(now: now)
        factor = max(factor * Self.decrease, Self.factorMin)
        decreasedAt = now
        bucket = 0
    }

    private mutating func fill(now: Timestamp) {
        guard let filledAt else {
            self.filledAt = now
            return
        }
        // A clock that was set back brings nothing and takes nothing.
        let seconds = Double(max((now - filledAt).count, 0)) / 1_000
        self.filledAt = now
        factor = min(factor + seconds * Self.increasePerSecond, 1)
        let capacity = max(requestsPerSecond * Self.grainMilliseconds / 1_000, 1)
        bucket = min(bucket + seconds * requestsPerSecond, capacity)
    }
}
