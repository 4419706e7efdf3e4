internal import TokenDomain

/// A day on which reports of a lane must be at Apple, or become due.
struct DueDay: Hashable {
    enum Kind {
        /// Due now, with its deadline on that day.
        case deadline
        /// Held, and due from that day on.
        case falling
    }

    /// Further ahead, and further back, all count for one day.
    static let daysAhead: Int64 = 31
    private static let milliseconds: Int64 = 86_400_000

    var lane: Lane
    var kind: Kind
    /// Since 1970, UTC.
    var number: Int64

    init(_ lane: Lane, _ kind: Kind, at time: Timestamp, today: Int64) {
        self.lane = lane
        self.kind = kind
        number = min(max(Self.number(of: time), today - 1), today + Self.daysAhead)
    }

    static func number(of time: Timestamp) -> Int64 {
        time.milliseconds / milliseconds
    }

    var start: Timestamp { Timestamp(milliseconds: number * Self.milliseconds) }
}
