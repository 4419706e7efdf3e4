/// How fast one lane may send.
///
/// Time is cut into slots, as many a second as the app may have requests, and the seconds belong to
/// the partitions in turn, and so to the replicas that own them. As every replica reads the same
/// seconds off the clock, all of them together send at even distances, no second holds more requests
/// than the rate allows, and each second is one replica's alone: what Apple refuses in it is told to
/// the one who sent too much, and what replicas found out need not be the same. A replica whose clock
/// is off still keeps its own share.
///
/// Where Apple counts by the second, ``SecondCount`` finds how many slots a second has. Any other
/// 429 takes slots away; they come back as answers come in.
package struct Pace: Equatable, Sendable {
    /// A slot may be used so much later than it began, or until the next one begins.
    ///
    /// The loop wakes in steps of milliseconds and is busy at times: what came due meanwhile is not
    /// lost. Who did not ask for so long rested, and begins with a burst of one.
    package static let lateMax = Milliseconds(200)
    /// A 429 takes away this part of the rate.
    package static let decrease = 0.05
    /// One that comes soon after another: the guess was far off.
    package static let decreaseAgain = 0.15
    package static let factorMin = 0.02
    /// The rate before a 429 is tried again after so many requests that Apple took, one second
    /// counting as one more for the whole app: so about one request in 400 is refused while Apple's
    /// limit lies below ours.
    package static let probeCount = 400.0

    /// What a rate is kept by.
    package enum Keeping: Equatable, Sendable {
        /// By the second: slots not used are gone.
        case second
        /// By the clock's hour: what was not used of this hour is caught up, at up to
        /// ``catchUp`` times the rate.
        case hour
    }

    package static let catchUp = 3.0

    /// Requests per second for the app and environment, over all replicas.
    package var rate: Double
    package let keeping: Keeping
    /// Which partitions are this replica's, by number; none between revoke and restore.
    private var isOwned: [Bool] = []
    private var ownedCount = 0
    /// From one second to the next it goes so many partitions on, so that neighbours, which mostly
    /// have one owner, lie apart.
    private var stride: Int64 = 1

    /// Where the last slot used or passed over began.
    private var passed = 0.0
    /// When a turn was asked for last.
    private var askedAt = 0.0
    /// Parts of a turn saved up while slots are taken away.
    private var saved = 1.0

    /// The factor at the last 429, and what that took away of it.
    private var ceiling = 1.0
    private var dropped = 0.0
    private var decreasedAt: Timestamp?
    /// Requests that Apple took since.
    private var acceptedCount = 0.0

    private var second = SecondCount()

    /// The clock's hour, and what may still be sent in it: only where the rate is kept by the hour.
    private var hour: Int64?
    private var allowance = 1.0
    private var allowedAt: Timestamp?

    /// The rate is above zero.
    ///
    /// Nothing is sent until ``share(_:of:)`` says which slots are ours.
    package init(rate: Double, keeping: Keeping = .second) {
        precondition(rate > 0, "a lane has a rate")
        self.rate = rate
        self.keeping = keeping
    }

    /// Takes the slots of these partitions.
    package mutating func share(_ partitions: [Int32], of partitionCount: Int) {
        isOwned = Array(repeating: false, count: max(partitionCount, 0))
        for partition in partitions where isOwned.indices.contains(Int(partition)) {
            isOwned[Int(partition)] = true
        }
        ownedCount = isOwned.count(where: \.self)
        stride = Self.stride(of: Int64(isOwned.count))
    }

    /// About the golden section of the count, and without a divisor in common with it.
    private static func stride(of count: Int64) -> Int64 {
        var stride = max(Int64((Double(count) * 0.382).rounded()), 1)
        while true {
            var (divisor, rest) = (count, stride)
            while rest != 0 {
                (divisor, rest) = (rest, divisor % rest)
            }
            if divisor <= 1 {
                return stride
            }
            stride += 1
        }
    }

    /// This replica's part of the rate.
    package var share: Double {
        isOwned.isEmpty ? 0 : Double(ownedCount) / Double(isOwned.count)
    }

    /// What is allowed now, per second.
    package func requestsPerSecond(now: Timestamp) -> Double {
        rateFound(now: now) * share
    }

    /// The same for all replicas, as far as this one knows.
    package func rateFound(now: Timestamp) -> Double {
        min(rate, slotsPerSecond) * factor(now: now)
    }

    /// Takes one turn, if there is one.
    package mutating func take(now: Timestamp) -> Bool {
        guard ownedCount > 0 else {
            return false
        }
        allow(now: now)
        let time = Double(now.milliseconds)
        passed = lastPassed(time)
        if isRested(time) {
            passed = max(passed, time - slotMilliseconds)
        }
        askedAt = time
        if asks(now: now) {
            second.started(now: now, isQuestion: true)
            return true
        }
        var slot = firstSlot(now: now)
        while start(of: slot) <= time {
            passed = start(of: slot)
            if isOwn(period(at: passed)), isInTime(passed, time), isGranted(now: now) {
                second.started(now: now, isQuestion: false)
                return true
            }
            slot += 1
        }
        return false
    }

    /// Whether a turn could have been asked for long before.
    private func isRested(_ time: Double) -> Bool {
        let late = Double(Self.lateMax.count)
        guard !(0...late).contains(time - askedAt) else {
            return false
        }
        // Nobody asks in the seconds of others.
        let dueAt = start(of: ownSlot(from: slot(from: askedAt)))
        return time < askedAt || time - dueAt > late
    }

    /// Where a second is known to hold no more than its slots, what is late is lost: in the next one
    /// it would be refused, or another in its stead.
    private func isInTime(_ start: Double, _ time: Double) -> Bool {
        second.count == nil || period(at: start) == period(at: time)
    }

    /// Whether one request more than the slots may go now; none where the hour is kept as well.
    private func asks(now: Timestamp) -> Bool {
        second.asks && keeping == .second && isOwn(period(at: Double(now.milliseconds)))
    }

    /// When the next turn may come; nil while this replica has no share.
    package func nextTurn(now: Timestamp) -> Timestamp? {
        guard ownedCount > 0 else {
            return nil
        }
        guard !asks(now: now) else {
            return now
        }
        let allowed = slot(from: nextAllowance(now: now))
        let slot = ownSlot(from: max(firstSlot(now: now), allowed))
        return max(now, Timestamp(milliseconds: Int64(start(of: slot).rounded(.up))))
    }

    /// Nothing might be sent until then, whatever waited: the slots before are gone.
    package mutating func rested(until time: Timestamp) {
        passed = max(passed, Double(time.milliseconds))
    }

    /// Apple took a request.
    package mutating func accepted(sentAt: Timestamp, now: Timestamp) {
        acceptedCount += 1
        if isOwn(period(at: Double(sentAt.milliseconds))) {
            second.accepted(sentAt: sentAt, ownRate: rateMax, now: now)
        }
    }

    /// Apple said 429, and until when, if it did.
    ///
    /// Answers to requests sent before the last decrease say nothing new.
    package mutating func rateLimited(sentAt: Timestamp, until: Timestamp?, now: Timestamp) {
        let countBefore = second.count
        let isOwn = isOwn(period(at: Double(sentAt.milliseconds)))
        let isExplained = second.refused(
            sentAt: sentAt,
            until: until,
            isOwn: isOwn,
            now: now
        )
        if isExplained {
            if second.count != countBefore {
                // What was taken away before the count was known was taken away for it.
                decreasedAt = nil
            }
            return
        }
        if let decreasedAt, sentAt < decreasedAt, decreasedAt <= now {
            return
        }
        let isSoon = decreasedAt != nil && recovery(now: now) < 0.1
        ceiling = max(factor(now: now), Self.factorMin)
        dropped = isSoon ? Self.decreaseAgain : Self.decrease
        decreasedAt = now
        acceptedCount = 0
        saved = 0
    }

    // MARK: The factor

    /// What the answers leave of the rate: back at the old one after ``probeCount``, flat around it,
    /// and ever faster beyond.
    package func factor(now: Timestamp) -> Double {
        guard decreasedAt != nil else {
            return 1
        }
        let distance = recovery(now: now) - 1
        let grown = ceiling * (1 + dropped * distance * distance * distance)
        return min(max(grown, Self.factorMin), 1)
    }

    /// How far the way back is: 0 at the 429, 1 where the old rate is reached.
    private func recovery(now: Timestamp) -> Double {
        guard let decreasedAt else {
            return 0
        }
        let seconds = Double(max((now - decreasedAt).count, 0)) / 1_000
        return (acceptedCount + seconds * share) / Self.probeCount
    }

    // MARK: Slots

    /// What the slots are laid out for before Apple's answers are heard.
    private var rateMax: Double {
        keeping == .hour ? rate * Self.catchUp : rate
    }

    private var slotsPerSecond: Double {
        second.count.map { min(Double($0), rateMax) } ?? rateMax
    }

    private var slotMilliseconds: Double {
        1_000 / slotsPerSecond
    }

    /// In the middle of its time: a clock that is off by less than half a slot stays in the second.
    ///
    /// Earlier where the second is known to be full with its slots: a request takes its time.
    private var slotOffset: Double { second.count == nil ? 0.5 : 0.25 }

    private func start(of slot: Int64) -> Double {
        (Double(slot) + slotOffset) * slotMilliseconds + Double(second.phase)
    }

    /// The first slot that does not begin before a time.
    private func slot(from time: Double) -> Int64 {
        Int64(((time - Double(second.phase)) / slotMilliseconds - slotOffset).rounded(.up))
    }

    // MARK: Periods

    /// What belongs to one partition: a second, or a slot where that is longer.
    private var periodMilliseconds: Double {
        max(slotMilliseconds, 1_000)
    }

    private func period(at time: Double) -> Int64 {
        Int64(((time - Double(second.phase)) / periodMilliseconds).rounded(.down))
    }

    private func start(ofPeriod period: Int64) -> Double {
        Double(period) * periodMilliseconds + Double(second.phase)
    }

    /// The first slot of this replica that is not before another; it has a partition.
    private func ownSlot(from first: Int64) -> Int64 {
        var slot = first
        var period = period(at: start(of: slot))
        while !isOwn(period) {
            period += 1
            slot = max(slot, self.slot(from: start(ofPeriod: period)))
        }
        return slot
    }

    /// Each round of all partitions begins one further on: whatever repeats with it meets all.
    private func isOwn(_ period: Int64) -> Bool {
        let count = Int64(isOwned.count)
        guard ownedCount > 0, period >= 0 else {
            return false
        }
        return isOwned[Int((period % count * stride + period / count) % count)]
    }

    /// The first slot that may still be used.
    private func firstSlot(now: Timestamp) -> Int64 {
        let time = Double(now.milliseconds)
        let late = max(Double(Self.lateMax.count), slotMilliseconds)
        let oldest = slot(from: time - late)
        // A hundredth of a slot more: what began at `passed` itself counts as passed.
        return max(slot(from: lastPassed(time) + slotMilliseconds / 100), oldest)
    }

    /// A clock that was set back brings one slot: they begin anew from here.
    private func lastPassed(_ time: Double) -> Double {
        passed <= time ? passed : time - slotMilliseconds
    }

    private mutating func isGranted(now: Timestamp) -> Bool {
        // A hair less than one is one: sums of fractions are not exact.
        guard keeping == .second || allowance > 0.999 else {
            return false
        }
        saved = min(saved + factor(now: now), 2)
        guard saved > 0.999 else {
            return false
        }
        saved -= 1
        allowance -= 1
        return true
    }

    /// When the hour allows one more, in milliseconds; 0 where it does, or no hour is kept.
    private func nextAllowance(now: Timestamp) -> Double {
        // Where the clock was set back, the next ``take(now:)`` begins to count anew.
        guard keeping == .hour, allowance <= 0.999, let allowedAt, allowedAt <= now else {
            return 0
        }
        return Double(allowedAt.milliseconds) + (1 - allowance) / (rate * share) * 1_000
    }

    /// Adds what this hour allows by now; what the last one left is gone.
    private mutating func allow(now: Timestamp) {
        guard keeping == .hour else {
            return
        }
        let hourMilliseconds = Milliseconds.hours(1).count
        let thisHour = now.milliseconds / hourMilliseconds
        defer {
            hour = thisHour
            allowedAt = now
        }
        guard let hour, let allowedAt else {
            return
        }
        var from = allowedAt
        if hour != thisHour {
            allowance = 0
            from = Timestamp(milliseconds: thisHour * hourMilliseconds)
        }
        allowance += Double(max((now - from).count, 0)) / 1_000 * rate * share
    }
}
