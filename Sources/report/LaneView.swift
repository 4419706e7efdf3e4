internal import TokenDomain

/// What the lanes look like from outside, as of the last measure.
struct LaneView {
    /// How much the newest answer weighs in the mean.
    private static let newestShare = 0.05
    /// What one instance's processor sends at least, so that a fast Apple makes no promise that a
    /// core cannot keep; design section 2 has measured some five times as many on one connection.
    static let processorRequestsPerSecond = 3_000.0

    /// Mean time from a request to its answer; nil before the first.
    private(set) var answerSeconds: Double?
    /// Of the most urgent that is due in each queue, where something is.
    var deadlines: [SendQueue: Timestamp] = [:]
    private(set) var usefulReplicaBound = 1
    /// Whether a queue with something ready has as many requests under way as it may.
    private(set) var isFull = false

    mutating func answered(after wait: Milliseconds) {
        let seconds = Double(max(wait.count, 0)) / 1_000
        answerSeconds = answerSeconds.map { $0 + (seconds - $0) * Self.newestShare } ?? seconds
    }

    /// How many instances Apple's rate keeps busy: what all lanes with something ready may send,
    /// by what one instance can.
    mutating func bound(
        rates: [SendQueue: Double],
        flightCounts: [SendQueue: Int],
        flightCountMax: Int
    ) {
        let waiting = rates.filter { deadlines[$0.key] != nil }
        // A queue has so many requests under way at once, each for as long as an answer takes.
        let inFlight = (waiting.values.max() ?? 0) * (answerSeconds ?? 0) / Double(flightCountMax)
        let processor = waiting.values.reduce(0, +) / Self.processorRequestsPerSecond
        usefulReplicaBound = max(Int(max(inFlight, processor).rounded(.up)), 1)
        isFull = waiting.keys.contains { flightCounts[$0, default: 0] >= flightCountMax }
    }
}
