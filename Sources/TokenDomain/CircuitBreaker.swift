/// The circuit breaker of a lane: open, or stopped because something is wrong with its key, its role
/// or its address, and then probed with one request at a time.
///
/// A 429 is the ``RateLimiter``'s.
/// A lane that is stopped listens to its probe alone: other requests in flight were sent before, and
/// their responses say nothing about now. A clock that is set back makes no wait longer.
package struct CircuitBreaker: Equatable, Sendable {
    /// First wait before a stopped lane is probed; doubles with each probe that fails.
    package static let probeFirst = Milliseconds.seconds(5)
    package static let probeMax = Milliseconds.minutes(5)

    package enum State: Equatable, Sendable {
        case open
        /// One request may go at `probeAt`, signed anew. `interval` is zero for the one retry that
        /// follows a first 401 at once.
        case stopped(LaneTrouble, probeAt: Timestamp, interval: Milliseconds)
        /// `isAnotherWanted`: something changed on our side since it was sent.
        case probing(LaneTrouble, interval: Milliseconds, isAnotherWanted: Bool = false)
    }

    /// What is logged and counted.
    package enum Change: Equatable, Sendable {
        /// Sign again, at once.
        case resigning
        /// Alarms, and once more where a probe finds another trouble. The key is loaded again before
        /// each probe.
        case stopped(LaneTrouble)
        case reopened
    }

    /// What an answer says about the lane, or about its key.
    package enum Outcome: Equatable, Sendable {
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
        case .stopped(_, let probeAt, let interval):
            now < probeAt + -interval ? now : max(probeAt, now)
        case .probing: nil
        }
    }

    /// Whether the next request is a lone probe.
    package var isProbe: Bool {
        switch state {
        case .stopped: true
        case .open, .probing: false
        }
    }

    /// Whether the lane has been found to be in trouble: not while one bad signature is all there is.
    package var isStopped: Bool {
        switch state {
        case .stopped(_, _, let interval), .probing(_, let interval, _): interval.count > 0
        case .open: false
        }
    }

    /// A request starts.
    ///
    /// It must be allowed to.
    package mutating func started(now: Timestamp) {
        precondition(opensAt(now: now).map { $0 <= now } == true, "a closed lane sends nothing")
        if case .stopped(let trouble, _, let interval) = state {
            state = .probing(trouble, interval: interval)
        }
    }

    /// An answer came.
    ///
    /// `isProbe`: it belongs to the request that was started while the lane was stopped.
    package mutating func record(_ outcome: Outcome, isProbe: Bool, now: Timestamp) -> Change? {
        switch state {
        case .stopped: return nil
        case .probing where !isProbe: return nil
        case .open, .probing: break
        }
        switch outcome {
        case .fine, .trouble(.rateLimited, _):
            // A 429 comes after the key was accepted: it ends a probe too.
            return succeed()
        case .inconclusive:
            guard case .probing(let trouble, let interval, _) = state else {
                return nil
            }
            return fail(trouble, again: interval, after: interval, now: now)
        case .trouble(let trouble, _):
            return fail(trouble, now: now)
        }
    }

    /// The request that was a probe will have no answer: its partition is gone.
    package mutating func abandonProbe(now: Timestamp) {
        if case .probing(let trouble, let interval, _) = state {
            state = .stopped(trouble, probeAt: now, interval: interval)
        }
    }

    /// The clock was set back: a wait keeps what was left of it.
    package mutating func clockWasSetBack(by setBack: Milliseconds) {
        if case .stopped(let trouble, let probeAt, let interval) = state {
            state = .stopped(trouble, probeAt: probeAt + -setBack, interval: interval)
        }
    }

    /// Something changed on our side: a stopped lane is probed with its next request, one that is being
    /// probed once more where that probe fails.
    package mutating func probeSoon() {
        switch state {
        case .stopped(let trouble, _, let interval):
            state = .stopped(trouble, probeAt: Timestamp(milliseconds: 0), interval: interval)
        case .probing(let trouble, let interval, _):
            state = .probing(trouble, interval: interval, isAnotherWanted: true)
        case .open: break
        }
    }

    private mutating func succeed() -> Change? {
        guard case .probing(_, let interval, _) = state else {
            return nil
        }
        state = .open
        return interval.count > 0 ? .reopened : nil
    }

    private mutating func fail(_ trouble: LaneTrouble, now: Timestamp) -> Change? {
        guard case .probing(_, let interval, _) = state else {
            if trouble == .unauthorized {
                // Once, with a new signature; other requests in flight wait for their responses.
                stop(trouble, after: Milliseconds(0), now: now)
                return .resigning
            }
            stop(trouble, after: Self.probeFirst, now: now)
            return .stopped(trouble)
        }
        let next = Milliseconds(min(interval.count * 2, Self.probeMax.count))
        return fail(trouble, again: interval, after: next, now: now)
    }

    /// A probe failed, sent `interval` after the one before: the first of them is logged, and each
    /// that finds another trouble than the one before it.
    private mutating func fail(
        _ trouble: LaneTrouble,
        again interval: Milliseconds,
        after wait: Milliseconds,
        now: Timestamp
    ) -> Change? {
        let before = state
        stop(trouble, after: max(wait, Self.probeFirst), now: now)
        if interval.count > 0, case .probing(trouble, _, _) = before {
            return nil
        }
        return .stopped(trouble)
    }

    private mutating func stop(_ trouble: LaneTrouble, after wait: Milliseconds, now: Timestamp) {
        var probeAt = now + wait
        if case .probing(_, _, isAnotherWanted: true) = state {
            probeAt = Timestamp(milliseconds: 0)
        }
        state = .stopped(trouble, probeAt: probeAt, interval: wait)
    }
}

extension CircuitBreaker.Outcome {
    /// What it says about the app's key, which every endpoint of the lane shares.
    package var ofKey: CircuitBreaker.Outcome {
        switch self {
        case .trouble(.unauthorized, _), .trouble(.noKey, _), .inconclusive: self
        // Apple knew who asked.
        case .fine, .trouble(.rateLimited, _): .fine
        case .trouble(.misdirected, _): .inconclusive
        }
    }

    /// What it says about the endpoint.
    package var ofEndpoint: CircuitBreaker.Outcome {
        switch self {
        case .trouble(.unauthorized, _), .trouble(.noKey, _): .inconclusive
        case .fine, .inconclusive, .trouble: self
        }
    }

    /// What the meaning of a report's answer says about its lane.
    package init(_ answer: ReportAnswer) {
        switch answer {
        case .lane(let trouble, let until): self = .trouble(trouble, until: until)
        case .again, .nothingSaid: self = .inconclusive
        case .accepted, .verified, .verify, .notHeld, .found, .serialise, .futureDate, .rejected:
            self = .fine
        }
    }
}
