internal import Synchronization

/// What the probes say of a worker.
///
/// Any thread may call it.
///
/// Alive: the loop turned lately. Started: from its settings and its folder on; it may wait for
/// Kafka then. Ready: it is alive and can take work now. Apple being away is a condition: shown, and
/// no reason to fail any of the three.
package final class Health: Sendable {
    /// A loop without progress for so long is stuck; a call that may hang has a watchdog below it.
    package static let stuckAfterMilliseconds: Int64 = 60_000

    package struct Answer: Equatable, Sendable {
        package var isGood: Bool
        /// One line a check, for `?verbose`.
        package var lines: [String]
    }

    private struct State {
        var beatAt: Int64
        var isStarted = false
        var notReadyBecause: String? = "starting"
        var conditions: [String: String] = [:]
    }

    private let now: @Sendable () -> Int64
    private let state: Mutex<State>

    /// - Parameter now: monotonic milliseconds.
    package init(now: @escaping @Sendable () -> Int64 = { WallClock.monotonicMilliseconds() }) {
        self.now = now
        state = Mutex(State(beatAt: now()))
    }

    /// The loop turned.
    package func beat() {
        let time = now()
        state.withLock { $0.beatAt = time }
    }

    package func setStarted() {
        state.withLock { $0.isStarted = true }
    }

    /// It can take work now; without partitions, too.
    package func setReady() {
        state.withLock { $0.notReadyBecause = nil }
    }

    /// - Parameter reason: shown in the probe's answer, such as `restoring` or `stopping`.
    package func setNotReady(because reason: String) {
        state.withLock { $0.notReadyBecause = reason }
    }

    /// Something outside is wrong (Apple or the broker away, a lane stopped); nil: right again.
    package func setCondition(_ name: StaticString, _ sentence: String?) {
        state.withLock { $0.conditions["\(name)"] = sentence }
    }

    package func hasCondition(_ name: StaticString) -> Bool {
        state.withLock { $0.conditions["\(name)"] != nil }
    }

    /// For how long the loop has not turned; never negative.
    package var idleMilliseconds: Int64 {
        let time = now()
        return max(0, time - state.withLock { $0.beatAt })
    }

    package var live: Answer {
        let age = idleMilliseconds
        let isGood = age < Self.stuckAfterMilliseconds
        let verdict = isGood ? "ok" : "failed"
        return Answer(isGood: isGood, lines: ["loop: \(verdict), last turn \(age) ms ago"])
    }

    package var started: Answer {
        let isStarted = state.withLock { $0.isStarted }
        return Answer(isGood: isStarted, lines: ["started: \(isStarted ? "ok" : "not yet")"])
    }

    package var ready: Answer {
        let isLive = live.isGood
        let state = state.withLock { $0 }
        // Where nobody asks for liveness (systemd, compose) this alone shows a loop that hangs.
        let reason = state.notReadyBecause ?? (isLive ? nil : "the loop does not turn")
        let lines =
            ["ready: \(reason ?? "ok")"]
            + state.conditions.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" }
        return Answer(isGood: reason == nil && state.isStarted, lines: lines)
    }
}
