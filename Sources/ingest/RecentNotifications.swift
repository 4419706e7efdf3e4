/// The notifications that were taken in a short while ago, so that a repeat is known as one.
///
/// Who holds a genuine notification can send it for ever. Apple sends one again only where it was not
/// taken, an hour later at the earliest: by then it is no repeat any more, wherever the first one got.
struct RecentNotifications {
    /// One is remembered for this long, and twice as long at most, in milliseconds.
    static let milliseconds: Int64 = 600_000
    /// Of each of two generations, some 600 KiB; where more come the older one goes early.
    static let countMax = 32_768

    /// What is known of the copies that came before.
    enum Copies {
        /// None has the broker's receipt: all may be lost.
        case taken
        case stored
    }

    private var younger: [UInt64: Copies] = [:]
    private var older: [UInt64: Copies] = [:]
    private var begunAt: Int64

    /// `now` is monotonic milliseconds, here and below.
    init(now: Int64) {
        begunAt = now
    }

    /// What is known of an identity; nil where it was not inserted lately.
    mutating func copies(of identity: UInt64, now: Int64) -> Copies? {
        while now - begunAt >= Self.milliseconds, !(younger.isEmpty && older.isEmpty) {
            turn(at: begunAt + Self.milliseconds)
        }
        return younger[identity] ?? older[identity]
    }

    mutating func insert(_ identity: UInt64, now: Int64) {
        if younger.isEmpty && older.isEmpty {
            begunAt = now
        } else if younger.count == Self.countMax {
            turn(at: now)
        }
        younger[identity] = .taken
    }

    /// Notes that the broker has one; of what is forgotten nothing is noted.
    mutating func noteStored(_ identity: UInt64) {
        if younger[identity] != nil {
            younger[identity] = .stored
        } else if older[identity] != nil {
            older[identity] = .stored
        }
    }

    private mutating func turn(at time: Int64) {
        older = younger
        younger = [:]
        begunAt = time
    }
}
