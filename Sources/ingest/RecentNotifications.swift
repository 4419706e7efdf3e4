/// The notifications that were stored a short while ago, so that a repeat is known as one.
///
/// Who holds a genuine notification can send it for ever. Apple sends one again only where it was not
/// taken, an hour later at the earliest: by then it is no repeat any more, wherever the first one got.
struct RecentNotifications {
    /// One is remembered for this long, and twice as long at most, in milliseconds.
    static let milliseconds: Int64 = 600_000
    /// Of each of two generations, half a mebibyte; where more come the older one goes early.
    static let countMax = 32_768

    private var younger: Set<UInt64> = []
    private var older: Set<UInt64> = []
    private var begunAt: Int64

    /// `now` is monotonic milliseconds, here and below.
    init(now: Int64) {
        begunAt = now
    }

    /// Whether one of this identity was inserted lately.
    mutating func contains(_ identity: UInt64, now: Int64) -> Bool {
        while now - begunAt >= Self.milliseconds, !(younger.isEmpty && older.isEmpty) {
            turn(at: begunAt + Self.milliseconds)
        }
        return younger.contains(identity) || older.contains(identity)
    }

    mutating func insert(_ identity: UInt64, now: Int64) {
        if younger.isEmpty && older.isEmpty {
            begunAt = now
        } else if younger.count == Self.countMax {
            turn(at: now)
        }
        younger.insert(identity)
    }

    private mutating func turn(at time: Int64) {
        older = younger
        younger = []
        begunAt = time
    }
}
