/// The rate that Apple was found to allow: multiplicative decrease at a 429, and an increase that is
/// slow near the rate of the last 429 and fast far from it, as CUBIC's.
///
/// Decreases help only where the rate is the reason for the 429s. Where few requests are refused, and
/// a series of decreases does not end that, it is something else (one of Apple's servers that has
/// less to give, somebody else's load): the rate from before the series is taken up again. Several
/// replicas see each other's refusals as such, so a series must be long before that is believed.
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
    /// A series of so many decreases, to less than this part of its first rate, did not help; nor did
    /// one of so many, however far it went.
    private static let seriesCountMin = 4
    private static let helplessPart = 0.4
    private static let seriesCountMax = 20
    /// For so long after that, few 429s decrease nothing.
    private static let patienceMin = Milliseconds.seconds(10)
    private static let patienceMax = Milliseconds.minutes(2)

    /// The rate before the last 429, since when it is less, and how long its way back takes.
    private var ceiling = 0.0
    private var cutAt: Timestamp?
    private var recovery = recoveryMin
    /// The part of the answers that were 429, and of how many; it begins with one of ten.
    private var refusedPart = 0.1
    private var meanCount = 10.0
    /// The rate before the first of the decreases of which none had time to recover.
    private var seriesStart = 0.0
    private var seriesCount = 0
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
        look(at: now)
        count += isRefused ? 0 : 1
        meanCount = min(meanCount + 1, Self.meanCountMax)
        refusedPart += ((isRefused ? 1 : 0) - refusedPart) / meanCount
    }

    /// Nothing is sent until the end of the hold, and nothing grows.
    mutating func refused(of rate: Double, share: Double, heldUntil: Timestamp, now: Timestamp) {
        if areFew, let patientUntil, now < patientUntil {
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
        if !areFew || !isEarly {
            (seriesStart, seriesCount) = (areFew ? rateBefore : ceiling, 0)
        }
        seriesCount += 1
        let isDeep = ceiling < seriesStart * Self.helplessPart
        guard seriesCount < (isDeep ? Self.seriesCountMin : Self.seriesCountMax) else {
            return beginPatience(now: now)
        }
        let way = min(Milliseconds(2 * (now - (cutAt ?? now)).count), Self.recoveryMax)
        let least = Milliseconds(Int64(Self.recoveryCount / (ceiling * share) * 1_000))
        recovery = max(way, least, areFew ? recovery : Self.recoveryMin)
        cutAt = heldUntil
    }

    /// Takes up the rate from before the series, from which it grows; longer each time in a row.
    private mutating func beginPatience(now: Timestamp) {
        (ceiling, recovery) = (seriesStart, Self.recoveryMin)
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

    private mutating func look(at now: Timestamp) {
        let second = now.milliseconds / 1_000
        if second != self.second {
            (countBefore, count) = (second == self.second + 1 ? count : 0, 0)
            self.second = second
        }
    }
}
