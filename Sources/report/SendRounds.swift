internal import TokenDomain

/// When requests are started: in rounds, so that one turn of the loop, and what it finds in the
/// processor's caches, serves several of them, and several answers.
///
/// The time of day is cut into spans, and each has one round: at once where something may be sent,
/// and again with the beginning of the next. None is shortly before a second, at which Apple's count
/// begins anew, and no span begins with one: each second gets the same requests as if each were sent
/// in its own turn, also where a loop wakes late.
struct SendRounds {
    /// While as many requests are under way as may be, answers are collected for so long.
    static let crowdedRest = Milliseconds(2)

    /// A loop wakes so late at most, in milliseconds, and still sends in the second it meant.
    private static let lateMax: Int64 = 20

    /// A whole number of them is a second.
    private let span: Milliseconds
    /// When the next round may be, after one that started something; past where it may be now.
    private var next = Timestamp(milliseconds: 0)

    init(span: Milliseconds) {
        precondition(span.count > 0 && 1_000 % span.count == 0, "rounds are in step with seconds")
        self.span = span
    }

    /// When the next round may be: now, at the beginning of the next span, or of the next second's.
    func turn(now: Timestamp) -> Timestamp {
        // A clock that was set back must not put it off.
        let turn = next > now && next - now <= span ? next : now
        let untilSecond = 1_000 - turn.milliseconds % 1_000
        return untilSecond < Self.lateMax
            ? turn + Milliseconds(untilSecond + span.count / 2) : turn
    }

    /// Something was started, and nothing but its turn keeps back what is left.
    mutating func started(now: Timestamp) {
        let (length, half) = (span.count, span.count / 2)
        let begun = (now.milliseconds - half) / length * length + half
        next = Timestamp(milliseconds: begun + length)
    }

    /// A request that ends makes room for one that waits: answers are taken almost at once.
    mutating func isCrowded(now: Timestamp) {
        next = now + Self.crowdedRest
    }
}
