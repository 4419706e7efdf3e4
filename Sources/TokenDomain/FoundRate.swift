/// The rate that Apple was found to allow: multiplicative decrease at a 429, and an increase that is
/// slow near the rate of the last 429 and fast far from it, as CUBIC's.
///
/// Decreases help only where the rate is the reason for the 429s. Where a series of decreases does not
/// end them, it is something else (one of Apple's servers that has less to give, somebody else's
/// load): the rate from before the series is taken up again. Several replicas see each other's
/// refusals as such, and a search is refused more than a rate that is nearly right, so a series must
/// be long before that is believed, and longer where more than few are refused.
struct FoundRate: Equatable, Sendable {
    /// What a 429 takes away of the rate that Apple was seen to take.
    private static let decrease = 0.05
    /// One 429 leaves at least this part of the rate, and all of them together this one.
    private static let partMin = 0.25
    private static let floor = 0.005
    /// Up to so many times the rate before the last 429, few 429s say only that it is still right.
    private static let knownMax = 1.5
    /// The rate before a 429 is back after twice the time since the one before, within these.
    private static let recoveryMin = Milliseconds.seconds(5)
    private static let recoveryMax = Milliseconds.seconds(60)
    private static let recoveryCount = 100.0
    /// 429s are few up to this part of the answers, of which the mean forgets what is older than so many.
    private static let fewMax = 0.05
    private static let meanCountMax = 256.0
    /// As above; where more are refused than this, it is the rate.
    private static let someMax = 0.25

    /// For so long after that, no 429 decreases anything, unless it must be the rate.
    private static let patienceMin = Milliseconds.seconds(10)
    private static let patienceMax = Milliseconds.minutes(2)

    /// Decreases of which none had time to recover.
    private struct Series: Equatable {
        /// So many do not help; fewer where they take the rate below this part of the first one's.
        let countMax, deepCountMax: Int
        let deepPart: Double
        /// The rate before the first, and how many.
        var start = 0.0, count = 0

        mutating func begin(at rate: Double, if isNew: Bool) {
            (start, count) = isNew ? (rate, 0) : (start, count)
        }

        /// Whether the decreases, this one among them, did not help.
        mutating func isHelpless(with rate: Double) -> Bool {
            count += 1
            return count >= (rate < start * deepPart ? deepCountMax : countMax)
        }
    }

    /// The rate before the last 429, since when it is less, and how long its way back takes.
    private var ceiling = 0.0
    private var cutAt: Timestamp?
    private var recovery = recoveryMin
    /// The part of the answers that were 429, and of how many; it begins with one of ten.
    private var (refusedPart, meanCount) = (0.1, 10.0)
    /// While few of the answers are 429, and while some are.
    private var few = Series(countMax: 20, deepCountMax: 4, deepPart: 0.4)
    private var some = Series(countMax: .max, deepCountMax: 10, deepPart: 0.25)
    private var patience = patienceMin
    private var patientUntil: Timestamp?
    /// Requests that Apple took in the clock's second of the last one, and in the second before.
    private var second: Int64 = 0
    private var (count, countBefore) = (0, 0)

    /// Whether few requests are refused of late.
    var areFew: Bool { refusedPart <= Self.fewMax }

    /// At most `rate`, the limit that we were given.
    func value(of rate: Double, now: Timestamp) -> Double {
        guard let cutAt else {
            return rate
        }
        let way = Double(max((now - cutAt).count, 0)) / Double(recovery.count) - 1
        return min(max(ceiling * (1 + Self.decrease * way * way * way), rate * Self.floor), rate)
    }

    /// Every answer that says whether Apple takes requests, also a 429 that begins no hold.
    mutating func answered(isRefused: Bool, now: Timestamp) {
        let second = now.milliseconds / 1_000
        if second != self.second {
            (countBefore, count) = (second == self.second + 1 ? count : 0, 0)
            self.second = second
        }
        count += isRefused ? 0 : 1
        meanCount = min(meanCount + 1, Self.meanCountMax)
        refusedPart += ((isRefused ? 1 : 0) - refusedPart) / meanCount
    }

    /// Nothing is sent until the end of the hold, and nothing grows.
    mutating func refused(of rate: Double, share: Double, heldUntil: Timestamp, now: Timestamp) {
        let areSome = refusedPart <= Self.someMax
        if areSome, let patientUntil, now < patientUntil {
            return
        }
        let before = 1 - Double(now.milliseconds % 1_000) / 1_000
        let taken = Double(count) + before * Double(countBefore)
        // Of a few, one more or less is chance. A little less, for the search to end soon.
        let found = max(taken, min(taken + 1, 10)) / share * (areFew ? 1 : 1 - Self.decrease)
        let rateBefore = value(of: rate, now: now)
        let isEarly = cutAt.map { now - $0 < recovery } ?? false
        // Where the ceiling is known, a replica that took less had stood still, or little to send.
        let isKnown = areFew && cutAt != nil && rateBefore <= ceiling * Self.knownMax
        ceiling = isKnown ? rateBefore : max(min(rateBefore, found), rateBefore * Self.partMin)
        few.begin(at: areFew ? rateBefore : ceiling, if: !areFew || !isEarly)
        some.begin(at: rateBefore, if: areFew || !areSome || !isEarly)
        let areHelpless = (few.isHelpless(with: ceiling), some.isHelpless(with: ceiling))
        guard areHelpless == (false, false) else {
            return beginPatience(at: areHelpless.0 ? few.start : some.start, now: now)
        }
        let way = min(Milliseconds(2 * (now - (cutAt ?? now)).count), Self.recoveryMax)
        var least = Self.timeToRecover(at: ceiling * share)
        if refusedPart > Self.someMax / 2 {
            // So the rate fell far, and so many requests would take hours, long after Apple is well.
            least = min(least, max(Self.timeToRecover(at: rate * share), Self.recoveryMax))
        }
        recovery = max(way, least, areFew ? recovery : Self.recoveryMin)
        cutAt = heldUntil
    }

    private static func timeToRecover(at rate: Double) -> Milliseconds {
        Milliseconds(Int64(recoveryCount / rate * 1_000))
    }

    /// Takes up the rate from before the series, from which it grows; longer each time in a row.
    private mutating func beginPatience(at rate: Double, now: Timestamp) {
        (ceiling, recovery) = (rate, Self.recoveryMin)
        some.begin(at: rate, if: true)
        cutAt = now + -recovery
        let isFirst = patientUntil.map { now - $0 >= Self.patienceMax } ?? true
        let longer = min(Milliseconds(2 * patience.count), Self.patienceMax)
        patience = isFirst ? Self.patienceMin : longer
        patientUntil = now + patience
    }

    mutating func clockWasSetBack(by setBack: Milliseconds) {
        cutAt = cutAt.map { $0 + -setBack }
        patientUntil = patientUntil.map { $0 + -setBack }
    }
}
