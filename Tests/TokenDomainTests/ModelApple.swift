import TokenDomain

/// How a model of Apple counts requests; nobody knows how Apple does.
enum Counting: Equatable, CustomStringConvertible {
    /// Windows of the clock, whose beginning the lanes do not know.
    case windows(Milliseconds)
    /// Any second that one cares to look at.
    case slidingSecond
    /// Tokens that come at the limit; so many may be saved up.
    case bucket(Double)

    var description: String {
        switch self {
        case .windows(let length): "windows of \(length.count) ms"
        case .slidingSecond: "a sliding second"
        case .bucket(let size): "a bucket of \(Int(size))"
        }
    }
}

/// Apple as it limits one app, in milliseconds of its own clock.
struct ModelApple {
    enum Answer: Equatable {
        case taken
        case refused(retryAt: Double?)
    }

    let counting: Counting
    /// Requests a second.
    var limit: Double
    var isBare = false
    /// Refuses everything.
    var isStorm = false
    /// Refuses one request of so many, however fast they come, for a second.
    var refusedEvery: Int?
    private var arrivalCount = 0
    /// When the windows begin.
    var phase = 0.0
    private var window = -1.0
    private var count = 0
    private var taken: [Double] = []
    private var tokens: Double?
    private var filledAt = 0.0

    init(_ counting: Counting, limit: Double, isBare: Bool) {
        self.counting = counting
        self.limit = limit
        self.isBare = isBare
    }

    mutating func answer(at time: Double) -> Answer {
        guard !isStorm else {
            return refused(until: time + 5_000)
        }
        arrivalCount += 1
        if let refusedEvery, arrivalCount.isMultiple(of: refusedEvery) {
            return refused(until: time + 1_000)
        }
        switch counting {
        case .windows(let length):
            let length = Double(length.count)
            let current = ((time - phase) / length).rounded(.down)
            if current != window {
                (window, count) = (current, 0)
            }
            guard Double(count) < (limit * length / 1_000).rounded(.down) else {
                return refused(until: (window + 1) * length + phase)
            }
            count += 1
        case .slidingSecond:
            taken.removeAll { $0 <= time - 1_000 }
            guard Double(taken.count) < limit else {
                return refused(until: taken[0] + 1_000)
            }
            taken.append(time)
        case .bucket(let size):
            let filled = min((tokens ?? size) + (time - filledAt) * limit / 1_000, size)
            filledAt = time
            tokens = max(filled - 1, filled < 1 ? filled : 0)
            guard filled >= 1 else {
                return refused(until: time + (1 - filled) / limit * 1_000)
            }
        }
        return .taken
    }

    private func refused(until: Double) -> Answer { .refused(retryAt: isBare ? nil : until) }
}
