internal import TokenDomain

/// Apple fails the requests of one queue, one after another: HTTP 5xx, no answer, or a proxy's.
///
/// The first failure after a good answer begins a spell. It is an outage, which is logged, once so
/// many have failed over so long a time: a short hiccup fails all that is in flight, and is none. An
/// outage ends with good answers that no failure follows, so that one good answer in the middle is
/// no recovery.
struct FailureSpell: Equatable {
    static let failureCountMin = 5
    static let spanMin = Milliseconds.seconds(10)
    /// Good answers in a row that end an outage at once; fewer do after ``quietSpan``.
    static let goodCountMin = 10
    static let quietSpan = Milliseconds.seconds(30)
    /// Kinds of failure named in ``reason``.
    private static let namedKindCountMax = 3

    enum Change: Equatable {
        case began
        case ended(failureCount: Int, lasted: Milliseconds)
    }

    /// When the first request that failed was sent; nil outside of a spell.
    private(set) var since: Timestamp?
    private(set) var isOutage = false
    private(set) var failureCount = 0
    private var counts: [String: Int] = [:]
    /// The first good answer since the last failure.
    private var goodSince: Timestamp?
    private var goodCount = 0

    /// `text` says how: `HTTP 500`, `timeout`.
    mutating func failed(_ text: String, sentAt: Timestamp, now: Timestamp) -> Change? {
        let since = since ?? sentAt
        self.since = since
        failureCount += 1
        counts[text, default: 0] += 1
        goodSince = nil
        goodCount = 0
        guard !isOutage, failureCount >= Self.failureCountMin, now - since >= Self.spanMin else {
            return nil
        }
        isOutage = true
        return .began
    }

    mutating func answered(now: Timestamp) -> Change? {
        guard since != nil else {
            return nil
        }
        guard isOutage else {
            self = FailureSpell()
            return nil
        }
        goodSince = goodSince ?? now
        goodCount += 1
        return goodCount >= Self.goodCountMin ? end() : nil
    }

    /// What time alone changes.
    ///
    /// Where nothing is due, no request is sent, so it is unknown whether an outage goes on.
    mutating func look(isDue: Bool, now: Timestamp) -> Change? {
        if let goodSince, now - goodSince >= Self.quietSpan {
            return end()
        }
        if goodSince == nil, !isDue {
            self = FailureSpell()
        }
        return nil
    }

    /// The clock was set back: what has lasted stays as long.
    mutating func clockWasSetBack(by setBack: Milliseconds) {
        since = since.map { $0 + -setBack }
        goodSince = goodSince.map { $0 + -setBack }
    }

    /// Whether nothing has been answered well for longer than a hiccup lasts, however little was sent.
    func isFailing(now: Timestamp) -> Bool {
        isOutage || since.map { now - $0 >= Self.spanMin } == true
    }

    /// How long the outage has lasted; zero where there is none.
    func lasted(now: Timestamp) -> Milliseconds {
        guard isOutage, let since else {
            return Milliseconds(0)
        }
        return max(now - since, Milliseconds(0))
    }

    /// `HTTP 500 ×87, timeout ×3`: the failures since the last good answer, the most frequent first;
    /// nil where there are none.
    var reason: String? {
        guard !counts.isEmpty else {
            return nil
        }
        return counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
            .prefix(Self.namedKindCountMax)
            .map { "\($0.key) ×\($0.value)" }
            .joined(separator: ", ")
    }

    private mutating func end() -> Change? {
        guard let since, let goodSince else {
            return nil
        }
        defer { self = FailureSpell() }
        let lasted = max(goodSince - since, Milliseconds(0))
        return .ended(failureCount: failureCount, lasted: lasted)
    }
}
