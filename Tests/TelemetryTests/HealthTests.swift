import Synchronization
import Telemetry
import Testing

@Suite struct `The health of a worker` {
    private final class Clock: Sendable {
        let time = Mutex<Int64>(0)
        func advance(_ milliseconds: Int64) { time.withLock { $0 += milliseconds } }
    }

    private func bench() -> (Health, Clock) {
        let clock = Clock()
        return (Health(now: { clock.time.withLock { $0 } }), clock)
    }

    @Test func `calls a loop dead that did not turn for its time, and alive when it turns again`() {
        let (health, clock) = bench()
        clock.advance(Health.stuckAfterMilliseconds - 1)
        #expect(health.live.isGood)
        clock.advance(1)
        #expect(!health.live.isGood)
        health.beat()
        #expect(health.live.isGood)
    }

    @Test func `is ready only after it started and until it says otherwise`() {
        let (health, _) = bench()
        health.setReady()
        #expect(!health.ready.isGood)
        health.setStarted()
        #expect(health.ready.isGood)
        health.setNotReady(because: "stopping")
        #expect(!health.ready.isGood)
        #expect(health.ready.lines == ["ready: stopping"])
    }

    @Test func `is not ready while its loop hangs`() {
        let (health, clock) = bench()
        health.setStarted()
        health.setReady()
        clock.advance(Health.stuckAfterMilliseconds - 1)
        #expect(health.ready.isGood)
        clock.advance(1)
        #expect(!health.ready.isGood)
        #expect(health.ready.lines == ["ready: the loop does not turn"])
        health.beat()
        #expect(health.ready.isGood)
    }

    @Test func `shows Prometheus for how long the loop has not turned`() {
        let (health, clock) = bench()
        let metrics = Metrics()
        ProcessMetrics.register(in: metrics, worker: "decode", health: health)
        func line() -> Substring? {
            String(decoding: metrics.render(), as: UTF8.self).split(separator: "\n")
                .first { $0.hasPrefix("tollway_loop_idle_seconds ") }
        }
        clock.advance(61_500)
        #expect(line() == "tollway_loop_idle_seconds 61.5")
        health.beat()
        #expect(line() == "tollway_loop_idle_seconds 0")
    }

    /// Goal: a file that was damaged, and is read again, is seen before the next start fails for it.
    @Test func `shows Prometheus that a file cannot be read again`() {
        let (health, _) = bench()
        let metrics = Metrics()
        ProcessMetrics.register(in: metrics, worker: "report", health: health)
        func isRefused() -> Bool {
            String(decoding: metrics.render(), as: UTF8.self).split(separator: "\n")
                .contains("tollway_file_refused 1")
        }
        #expect(!isRefused())
        for condition in ["settings", "rates"] as [StaticString] {
            health.setCondition(condition, "line 3 is no key")
            #expect(isRefused())
            health.setCondition(condition, nil)
            #expect(!isRefused())
        }
        health.setCondition("apple", "fails")
        #expect(!isRefused())
    }

    @Test func `shows that Apple is away and fails nothing for it`() {
        let (health, _) = bench()
        health.setStarted()
        health.setReady()
        health.setCondition("apple", "no answer since 12:00")
        #expect(health.ready.isGood && health.live.isGood && health.started.isGood)
        #expect(health.ready.lines == ["ready: ok", "apple: no answer since 12:00"])
        health.setCondition("apple", nil)
        #expect(health.ready.lines == ["ready: ok"])
    }
}

@Suite struct `The admin port's answers` {
    private func answer(
        _ path: String,
        of health: Health = Health(),
        method: String = "GET",
        query: String = ""
    ) -> AdminResponder.Answer {
        let metrics = Metrics()
        metrics.counter("a_total", help: "A.").add()
        let responder = AdminResponder(
            metrics: metrics,
            health: health,
            status: { Array("{}".utf8) }
        )
        return responder.answer(method: method, path: path, query: query)
    }

    @Test(arguments: [
        ("/livez", 200), ("/readyz", 503), ("/startupz", 503), ("/metrics", 200),
        ("/debug/status", 200), ("/", 404), ("/livez/", 404), ("", 404),
    ])
    func `know their pages`(path: String, status: Int) {
        #expect(answer(path).status == status)
    }

    @Test(arguments: ["POST", "PUT", "DELETE", "get", "BREW"])
    func `refuse other methods than GET and HEAD`(method: String) {
        let refusal = answer("/metrics", method: method)
        #expect(refusal.status == 405)
        #expect(refusal.allow == "GET, HEAD")
    }

    @Test func `are short, and say more when asked or when something is wrong`() {
        let health = Health()
        #expect(answer("/livez", of: health).body == Array("ok\n".utf8))
        #expect(
            String(decoding: answer("/livez", of: health, query: "verbose").body, as: UTF8.self)
                .hasPrefix("loop: ok, last turn")
        )
        #expect(answer("/readyz", of: health).body == Array("ready: starting\n".utf8))
    }
}
