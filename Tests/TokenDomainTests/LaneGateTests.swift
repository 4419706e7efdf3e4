import Testing
import TokenDomain

@Suite struct `The gate of a lane` {
    static let now = Timestamp(milliseconds: 1_768_003_200_000)

    /// Hears the answer to the probe, if one is under way.
    static func hear(
        _ word: LaneGate.Word,
        _ gate: inout LaneGate,
        isProbe: Bool = true,
        at time: Timestamp = now
    ) -> LaneGate.Change? {
        gate.heard(word, isProbe: isProbe, now: time)
    }

    @Test func `signs again once, then stops, then probes at doubling intervals`() {
        var gate = LaneGate()
        let bad = LaneGate.Word.trouble(.unauthorized, until: nil)
        gate.started(now: Self.now)
        expect(Self.hear(bad, &gate), .resigning)
        #expect(gate.opensAt(now: Self.now) == Self.now)
        // What was on its way says nothing new.
        expect(Self.hear(bad, &gate), nil)
        gate.started(now: Self.now)
        #expect(gate.opensAt(now: Self.now) == nil)
        var time = Self.now
        expect(Self.hear(bad, &gate, at: time), .stopped(.unauthorized))
        for seconds: Int64 in [5, 10, 20, 40, 80, 160, 300, 300] {
            #expect(gate.opensAt(now: time) == time + .seconds(seconds))
            time = time + .seconds(seconds)
            gate.started(now: time)
            expect(Self.hear(bad, &gate, at: time), nil)
        }
        time = time + .minutes(5)
        gate.started(now: time)
        expect(Self.hear(.fine, &gate, at: time), .reopened)
        #expect(gate.state == .open)
    }

    @Test func `opens again after one bad signature`() {
        var gate = LaneGate()
        gate.started(now: Self.now)
        _ = Self.hear(.trouble(.unauthorized, until: nil), &gate)
        gate.started(now: Self.now)
        expect(Self.hear(.fine, &gate), nil)
        #expect(gate.state == .open)
    }

    @Test func `lets a 429 end a probe, and is not stopped by one`() {
        var gate = LaneGate()
        let limited = LaneGate.Word.trouble(.rateLimited, until: nil)
        expect(Self.hear(limited, &gate, isProbe: false), nil)
        #expect(gate.state == .open)
        _ = Self.hear(.trouble(.misdirected, until: nil), &gate)
        gate.started(now: Self.now + .seconds(5))
        expect(Self.hear(limited, &gate, at: Self.now + .seconds(6)), .reopened)
        #expect(gate.state == .open)
    }

    @Test func `stops at once for a redirect and probes again after a probe without answer`() {
        var gate = LaneGate()
        let lost = LaneGate.Word.trouble(.misdirected, until: nil)
        expect(Self.hear(lost, &gate), .stopped(.misdirected))
        let probe = Self.now + .seconds(5)
        #expect(gate.opensAt(now: Self.now) == probe && gate.isProbe)
        gate.started(now: probe)
        expect(Self.hear(.inconclusive, &gate, at: probe), nil)
        #expect(gate.opensAt(now: probe) == probe + .seconds(5))
        gate.started(now: probe + .seconds(5))
        gate.forgotProbe(now: probe + .seconds(6))
        let later = probe + .seconds(6)
        #expect(gate.opensAt(now: later) == later)
    }

    @Test func `listens to its probe alone while it is stopped`() {
        var gate = LaneGate()
        let bad = LaneGate.Word.trouble(.unauthorized, until: nil)
        gate.started(now: Self.now)
        gate.started(now: Self.now)
        expect(Self.hear(bad, &gate, isProbe: false), .resigning)
        // Sent before the key went bad, answered after.
        expect(Self.hear(.fine, &gate, isProbe: false), nil)
        #expect(gate.isProbe)
        gate.started(now: Self.now)
        expect(Self.hear(.fine, &gate, isProbe: false), nil)
        expect(Self.hear(bad, &gate, isProbe: false), nil)
        #expect(gate.opensAt(now: Self.now) == nil)
        expect(Self.hear(bad, &gate), .stopped(.unauthorized))
    }

    @Test func `waits no longer for a clock that was set back`() {
        let before = Self.now + .days(-1)
        var stopped = LaneGate()
        _ = Self.hear(.trouble(.misdirected, until: nil), &stopped)
        #expect(stopped.opensAt(now: before) == before)
        stopped.started(now: before)
        _ = Self.hear(.trouble(.misdirected, until: nil), &stopped, at: before)
        #expect(stopped.opensAt(now: before) == before + .seconds(10))
    }

    @Test func `is probed at its next turn once something changed on our side`() {
        var gate = LaneGate()
        gate.probeSoon()
        #expect(gate.state == .open)
        _ = Self.hear(.trouble(.noKey, until: nil), &gate)
        gate.probeSoon()
        #expect(gate.opensAt(now: Self.now) == Self.now && gate.isProbe)
        gate.started(now: Self.now)
        expect(Self.hear(.fine, &gate), .reopened)
    }
}
