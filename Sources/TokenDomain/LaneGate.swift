/// Whether a lane sends at all: open, held by Apple's 429, or stopped because something is wrong
/// with its key, its role or its address, and then probed with one request at a time.
package struct LaneGate: Equatable, Sendable {
    /// First wait before a stopped lane is probed; doubles with each probe that fails.
    package static let probeFirst = Milliseconds.seconds(5)
    package static let probeMax = Milliseconds.minutes(5)

    package enum State: Equatable, Sendable {
        case open
        case held(until: Timestamp)
        /// One request may go at `probeAt`, signed anew. `interval` is zero for the one retry that
        /// follows a first 401 at once.
        case stopped(LaneTrouble, probeAt: Timestamp, interval: Milliseconds)
        case probing(LaneTrouble, interval: Milliseconds)
    }

    /// What a person should hear of.
    package enum Change: Equatable, Sendable {
        case held(until: Timestamp)
        /// Sign again, at once.
        case resigning
        /// Alarms. The key is loaded again before each probe.
        case stopped(LaneTrouble)
        case reopened
    }

    /// What an answer says about the lane.
    package enum Word: Equatable, Sendable {
        /// Apple read the request.
        case fine
        /// Nothing is known: 5xx, a timeout, no connection.
        case inconclusive
        case trouble(LaneTrouble, until: Timestamp?)
    }

    package private(set) var state = State.open

    package init() {}

    /// When a request may start; nil while a probe is under way.
    package func opensAt(now: Timestamp) -> Timestamp? {
        switch state {
        case .open: now
        case .held(let until): max(until, now)
        case .stopped(_, let probeAt, _): max(probeAt, now)
        case .probing: nil
        }
    }

    /// Whether the next request is a lone probe.
    package var isProbe: Bool {
        switch state {
        case .stopped: true
        case .open, .held, .probing: false
        }
    }

    /// A request starts.
    ///
    /// It must be allowed to.
    package mutating func started(now: Timestamp) {
        switch state {
        case .open:
            break
        case .held(let until):
            precondition(until <= now, "a held lane sends nothing")
            state = .open
        case .stopped(let trouble, let probeAt, let interval):
            precondition(probeAt <= now, "a stopped lane is probed in its time")
            state = .probing(trouble, interval: interval)
        case .probing:
            preconditionFailure("one probe at a time")
        }
    }

    /// An answer came.
    ///
    /// A 429 without `Retry-After` holds until `retryAt`.
    package mutating func heard(_ word: Word, retryAt: Timestamp, now: Timestamp) -> Change? {
        switch word {
        case .fine:
            return hearFine()
        case .inconclusive:
            if case .probing(let trouble, let interval) = state {
                stop(trouble, after: max(interval, Self.probeFirst), now: now)
            }
            return nil
        case .trouble(.rateLimited, let until):
            return hold(until: until ?? retryAt)
        case .trouble(let trouble, _):
            return hear(trouble, now: now)
        }
    }

    /// The request that was a probe will have no answer: its partition is gone.
    package mutating func forgotProbe(now: Timestamp) {
        if case .probing(let trouble, let interval) = state {
            state = .stopped(trouble, probeAt: now, interval: interval)
        }
    }

    private mutating func hearFine() -> Change? {
        switch state {
        case .open, .held:
            // A 200 that was on its way when Apple said 429 does not end the hold.
            return nil
        case .stopped(_, _, let interval), .probing(_, let interval):
            state = .open
            return interval.count > 0 ? .reopened : nil
        }
    }

    private mutating func hold(until: Timestamp) -> Change? {
        switch state {
        case .open, .probing:
            // To be told to slow down is to be let in.
            state = .held(until: until)
            return .held(until: until)
        case .held(let earlier):
            state = .held(until: max(earlier, until))
            return nil
        case .stopped:
            return nil
        }
    }

    private mutating func hear(_ trouble: LaneTrouble, now: Timestamp) -> Change? {
        switch state {
        case .open, .held:
            if trouble == .unauthorized {
                // Once, with a new signature; whatever else is on its way waits for its answer.
                state = .stopped(trouble, probeAt: now, interval: Milliseconds(0))
                return .resigning
            }
            stop(trouble, after: Self.probeFirst, now: now)
            return .stopped(trouble)
        case .stopped:
            // An answer to a request that was on its way already.
            return nil
        case .probing(_, let interval):
            let next = Milliseconds(min(interval.count * 2, Self.probeMax.count))
            stop(trouble, after: max(next, Self.probeFirst), now: now)
            return interval.count == 0 ? .stopped(trouble) : nil
        }
    }

    private mutating func stop(_ trouble: LaneTrouble, after wait: Milliseconds, now: Timestamp) {
        state = .stopped(trouble, probeAt: now + wait, interval: wait)
    }
}

extension LaneGate.Word {
    /// What the meaning of a report's answer says about its lane.
    package init(_ answer: ReportAnswer) {
        switch answer {
        case .lane(let trouble, let until): self = .trouble(trouble, until: until)
        case .again: self = .inconclusive
        case .accepted, .verified, .verify, .notHeld, .serialise, .futureDate, .rejected:
            self = .fine
        }
    }
}
