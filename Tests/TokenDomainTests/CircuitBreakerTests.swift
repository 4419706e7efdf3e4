import Testing
import TokenDomain

@Suite struct `The breaker of a lane` {
    static let now = Timestamp(milliseconds: 1_768_003_200_000)

    /// Hears the answer to the probe, if one is under way.
    static func hear(
        _ word: CircuitBreaker.Outcome,
        _ breaker: inout CircuitBreaker,
        isProbe: Bool = true,
        at time: Timestamp = now
    ) -> CircuitBreaker.Change? {
        breaker.record(word, isProbe: isProbe, now: time)
    }

    @Test func `signs again once, then stops, then probes at doubling intervals`() {
        var breaker = CircuitBreaker()
        let bad = CircuitBreaker.Outcome.trouble(.unauthorized, until: nil)
        breaker.started(now: Self.now)
        expect(Self.hear(bad, &breaker), .resigning)
        #expect(breaker.opensAt(now: Self.now) == Self.now)
        // What was on its way says nothing new.
        expect(Self.hear(bad, &breaker), nil)
        breaker.started(now: Self.now)
        #expect(breaker.opensAt(now: Self.now) == nil)
        var time = Self.now
        expect(Self.hear(bad, &breaker, at: time), .stopped(.unauthorized))
        for seconds: Int64 in [5, 10, 20, 40, 80, 160, 300, 300] {
            #expect(breaker.opensAt(now: time) == time + .seconds(seconds))
            time = time + .seconds(seconds)
            breaker.started(now: time)
            expect(Self.hear(bad, &breaker, at: time), nil)
        }
        time = time + .minutes(5)
        breaker.started(now: time)
        expect(Self.hear(.fine, &breaker, at: time), .reopened)
        #expect(breaker.state == .open)
    }

    /// The probe under way was signed before: its answer says nothing of the mended key.
    @Test func `probes once more at once where something changed while it was probed`() {
        var breaker = CircuitBreaker()
        let bad = CircuitBreaker.Outcome.trouble(.misdirected, until: nil)
        breaker.started(now: Self.now)
        expect(Self.hear(bad, &breaker), .stopped(.misdirected))
        let probe = Self.now + .seconds(5)
        breaker.started(now: probe)
        breaker.probeSoon()
        #expect(breaker.opensAt(now: probe) == nil)
        expect(Self.hear(bad, &breaker, at: probe), nil)
        #expect(breaker.opensAt(now: probe) == probe)
        // Once.
        breaker.started(now: probe)
        expect(Self.hear(bad, &breaker, at: probe), nil)
        #expect(breaker.opensAt(now: probe) == probe + .seconds(20))
    }

    @Test func `is stopped once the request with a new signature has no good answer either`() {
        var breaker = CircuitBreaker()
        breaker.started(now: Self.now)
        expect(Self.hear(.trouble(.unauthorized, until: nil), &breaker), .resigning)
        #expect(!breaker.isStopped)
        breaker.started(now: Self.now)
        #expect(!breaker.isStopped)
        expect(Self.hear(.inconclusive, &breaker), .stopped(.unauthorized))
        #expect(breaker.isStopped)
        let probe = Self.now + .seconds(5)
        #expect(breaker.opensAt(now: Self.now) == probe)
        breaker.started(now: probe)
        #expect(breaker.isStopped)
        expect(Self.hear(.trouble(.unauthorized, until: nil), &breaker, at: probe), nil)
        breaker.started(now: probe + .seconds(10))
        expect(Self.hear(.fine, &breaker, at: probe + .seconds(10)), .reopened)
        #expect(!breaker.isStopped)
    }

    /// The key of an app is refused, and then the app leaves the apps file, and comes back.
    @Test func `says what it is stopped by now where that is another trouble, and once`() {
        var breaker = CircuitBreaker()
        expect(Self.hear(.trouble(.misdirected, until: nil), &breaker), .stopped(.misdirected))
        var time = Self.now
        let probes: [(CircuitBreaker.Outcome, CircuitBreaker.Change?)] = [
            (.trouble(.unauthorized, until: nil), .stopped(.unauthorized)),
            (.trouble(.unauthorized, until: nil), nil),
            (.trouble(.noKey, until: nil), .stopped(.noKey)),
            // Nothing is known: the trouble is still the one that was logged.
            (.inconclusive, nil), (.trouble(.noKey, until: nil), nil),
            (.trouble(.unauthorized, until: nil), .stopped(.unauthorized)), (.fine, .reopened),
        ]
        for (outcome, change) in probes {
            time = time + CircuitBreaker.probeMax
            breaker.started(now: time)
            expect(Self.hear(outcome, &breaker, at: time), change)
        }
    }

    @Test func `opens again after one bad signature`() {
        var breaker = CircuitBreaker()
        breaker.started(now: Self.now)
        _ = Self.hear(.trouble(.unauthorized, until: nil), &breaker)
        breaker.started(now: Self.now)
        expect(Self.hear(.fine, &breaker), nil)
        #expect(breaker.state == .open)
    }

    @Test func `lets a 429 end a probe, and is not stopped by one`() {
        var breaker = CircuitBreaker()
        let limited = CircuitBreaker.Outcome.trouble(.rateLimited, until: nil)
        expect(Self.hear(limited, &breaker, isProbe: false), nil)
        #expect(breaker.state == .open)
        _ = Self.hear(.trouble(.misdirected, until: nil), &breaker)
        breaker.started(now: Self.now + .seconds(5))
        expect(Self.hear(limited, &breaker, at: Self.now + .seconds(6)), .reopened)
        #expect(breaker.state == .open)
    }

    @Test func `stops at once for a redirect and probes again after a probe without answer`() {
        var breaker = CircuitBreaker()
        let lost = CircuitBreaker.Outcome.trouble(.misdirected, until: nil)
        expect(Self.hear(lost, &breaker), .stopped(.misdirected))
        let probe = Self.now + .seconds(5)
        #expect(breaker.opensAt(now: Self.now) == probe && breaker.isProbe)
        breaker.started(now: probe)
        expect(Self.hear(.inconclusive, &breaker, at: probe), nil)
        #expect(breaker.opensAt(now: probe) == probe + .seconds(5))
        breaker.started(now: probe + .seconds(5))
        breaker.abandonProbe(now: probe + .seconds(6))
        let later = probe + .seconds(6)
        #expect(breaker.opensAt(now: later) == later)
    }

    @Test func `listens to its probe alone while it is stopped`() {
        var breaker = CircuitBreaker()
        let bad = CircuitBreaker.Outcome.trouble(.unauthorized, until: nil)
        breaker.started(now: Self.now)
        breaker.started(now: Self.now)
        expect(Self.hear(bad, &breaker, isProbe: false), .resigning)
        // Sent before the key went bad, answered after.
        expect(Self.hear(.fine, &breaker, isProbe: false), nil)
        #expect(breaker.isProbe)
        breaker.started(now: Self.now)
        expect(Self.hear(.fine, &breaker, isProbe: false), nil)
        expect(Self.hear(bad, &breaker, isProbe: false), nil)
        #expect(breaker.opensAt(now: Self.now) == nil)
        expect(Self.hear(bad, &breaker), .stopped(.unauthorized))
    }

    @Test func `waits no longer for a clock that was set back`() {
        let before = Self.now + .days(-1)
        var stopped = CircuitBreaker()
        _ = Self.hear(.trouble(.misdirected, until: nil), &stopped)
        #expect(stopped.opensAt(now: before) == before)
        stopped.started(now: before)
        _ = Self.hear(.trouble(.misdirected, until: nil), &stopped, at: before)
        #expect(stopped.opensAt(now: before) == before + .seconds(10))
    }

    @Test func `is probed at its next turn once something changed on our side`() {
        var breaker = CircuitBreaker()
        breaker.probeSoon()
        #expect(breaker.state == .open)
        _ = Self.hear(.trouble(.noKey, until: nil), &breaker)
        breaker.probeSoon()
        #expect(breaker.opensAt(now: Self.now) == Self.now && breaker.isProbe)
        breaker.started(now: Self.now)
        expect(Self.hear(.fine, &breaker), .reopened)
    }
}
