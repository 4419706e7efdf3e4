/// How many requests Apple takes within one second, where it counts by the second.
///
/// A replica is alone in its seconds (``Pace``). So the place of a refused request among those sent
/// in its second is the limit itself: where the fourth is refused, three are allowed, and then three
/// are sent. One request more in a second, ever more seldom, asks whether the limit has risen.
///
/// Limits by the minute or the hour, and refusals that do not say until when, are none of it.
package struct SecondCount: Equatable, Sendable {
    /// Requests that Apple takes before the first question.
    package static let questionFirst = 150
    /// Each question that was refused makes the next one wait so many times as long, up to a last.
    package static let questionGrowth = 4
    package static let questionLast = 12_800
    /// After a question that was granted the next one follows soon.
    package static let questionSoon = 15
    /// Refused in so many seconds in a row at a place that was granted before: the limit has fallen.
    package static let refusedMax = 3
    /// The same at a place that never was: once may be the chance of a request that a neighbour sent
    /// late.
    package static let refusedNewMax = 2
    /// Refusals above one in fifty, beyond so many, are no chance: somebody else sends too, or the
    /// clocks differ.
    package static let strayMax = 4.0
    private static let strayPerAccepted = 0.02

    private static let second = Milliseconds.seconds(1)
    /// How long a request's place is remembered, and of how many.
    private static let memory = Milliseconds.seconds(3)
    private static let memoryCountMax = 16_384

    /// Slots a second; nil where our own rate is all that is known.
    package private(set) var count: Int?
    /// Where in our second Apple's begins, in milliseconds; and as the last refusal told it.
    package private(set) var phase: Int64 = 0
    private var phaseTold: Int64 = 0

    /// When requests were sent, the earliest first.
    private var sent: [Timestamp] = []
    /// So many of one second were granted since the count is what it is.
    private var granted = 0
    /// At which place at most requests were refused in how many seconds, none there granted since;
    /// and until when the last time.
    private var refusedPlace: Int?
    private var refusedCount = 0
    private var refusedUntil: Timestamp?
    private var strayCount = 0.0
    /// Answers to what was sent before tell of another count.
    private var changedAt = Timestamp(milliseconds: .min)

    private var questionAfter = questionFirst
    private var isRaised = false
    private var acceptedSinceQuestion = 0

    package init() {}

    /// Whether this second may have one request more than it has slots.
    package var asks: Bool {
        count != nil && acceptedSinceQuestion >= (isRaised ? Self.questionSoon : questionAfter)
    }

    /// A request starts; as the question, where it is one more.
    package mutating func started(now: Timestamp, isQuestion: Bool) {
        if isQuestion {
            acceptedSinceQuestion = 0
        }
        if let first = sent.first,
            sent.count == Self.memoryCountMax
                || !(Milliseconds(0)...Milliseconds(2 * Self.memory.count)).contains(now - first)
        {
            sent.removeAll { !(Milliseconds(0)...Self.memory).contains(now - $0) }
        }
        if sent.count < Self.memoryCountMax {
            sent.append(now)
        }
    }

    /// Apple took a request of one of our seconds; `ownRate` is the limit that we were given.
    package mutating func accepted(sentAt: Timestamp, ownRate: Double, now: Timestamp) {
        guard !isOutdated(sentAt: sentAt, now: now) else {
            return
        }
        acceptedSinceQuestion += 1
        strayCount = max(strayCount - Self.strayPerAccepted, 0)
        let start = Timestamp(milliseconds: sentAt.milliseconds - offset(of: sentAt))
        let place = sent.count { $0 >= start && $0 < sentAt }
        granted = max(granted, place + 1)
        if let refusedPlace, place >= refusedPlace {
            forgetRefusals()
        }
        if let count, granted > count {
            raise(to: granted, ownRate: ownRate, at: sentAt)
        }
    }

    /// Apple said 429.
    ///
    /// `isOwn` tells whether the request was sent in a second of ours.
    /// - Returns: whether there is nothing more to it: the count explains it, or chance.
    package mutating func refused(
        sentAt: Timestamp,
        until: Timestamp?,
        isOwn: Bool,
        now: Timestamp
    ) -> Bool {
        guard let until, until > now, until - now <= Self.second else {
            return false
        }
        if isOutdated(sentAt: sentAt, now: now) || until == refusedUntil {
            return true
        }
        refusedUntil = until
        strayCount += 1
        guard isInPhase(until) else {
            return false
        }
        let start = until + -Self.second
        if isOwn, sentAt >= start {
            let place = sent.count { $0 >= start && $0 <= sentAt } - 1
            learn(place: place, now: now)
        }
        return strayCount <= Self.strayMax
    }

    /// Whether an answer tells of another count; a clock that was set back since makes none so.
    private func isOutdated(sentAt: Timestamp, now: Timestamp) -> Bool {
        sentAt <= changedAt && changedAt <= now
    }

    private mutating func learn(place: Int, now: Timestamp) {
        guard place >= 1 else {
            return
        }
        if let count, place >= count {
            // The question, or what was sent late.
            questionAfter = min(questionAfter * Self.questionGrowth, Self.questionLast)
            isRaised = false
            return
        }
        refusedCount += 1
        // Chance strikes too early, never too late.
        refusedPlace = max(refusedPlace ?? place, place)
        if refusedCount >= (place < granted ? Self.refusedMax : Self.refusedNewMax) {
            lower(to: refusedPlace ?? place, now: now)
        }
    }

    /// Apple's seconds begin where two refusals in a row say that one ends.
    private mutating func isInPhase(_ until: Timestamp) -> Bool {
        let told = Self.part(of: until.milliseconds)
        guard told != phase else {
            return true
        }
        if told == phaseTold {
            phase = told
            granted = 0
            forgetRefusals()
        }
        phaseTold = told
        return false
    }

    private mutating func lower(to place: Int, now: Timestamp) {
        if isRaised {
            questionAfter = min(questionAfter * Self.questionGrowth, Self.questionLast)
        }
        isRaised = false
        count = place
        changedAt = now
        granted = min(granted, place)
        acceptedSinceQuestion = 0
        strayCount = max(strayCount - Double(refusedCount), 0)
        forgetRefusals()
    }

    private mutating func raise(to granted: Int, ownRate: Double, at time: Timestamp) {
        changedAt = time
        acceptedSinceQuestion = 0
        if Double(granted) < ownRate {
            count = granted
            isRaised = true
        } else {
            count = nil
            isRaised = false
            questionAfter = Self.questionFirst
        }
    }

    private mutating func forgetRefusals() {
        refusedPlace = nil
        refusedCount = 0
    }

    /// How long Apple's second of a time has lasted then, in milliseconds.
    private func offset(of time: Timestamp) -> Int64 {
        Self.part(of: time.milliseconds - phase)
    }

    private static func part(of milliseconds: Int64) -> Int64 {
        let part = milliseconds % second.count
        return part < 0 ? part + second.count : part
    }
}
