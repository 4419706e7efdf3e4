import Synchronization
import Telemetry
import Testing

@testable import StageRuntime

@Suite struct `An absence of Kafka` {
    private final class Bench: Sendable {
        let lines = Mutex<[String]>([])
        let time = Mutex<Int64>(0)

        func log() -> Log {
            Log(
                worker: "decode",
                format: .json,
                now: { self.time.withLock { $0 } },
                write: { line in self.lines.withLock { $0.append(line) } }
            )
        }

        func count(_ message: String) -> Int {
            lines.withLock { $0.count { $0.contains("\"\(message)\"") } }
        }
    }

    /// 90 seconds of five looks each, then as long without it.
    @Test func `is logged once as it begins and once as it ends, and not after that`() {
        let bench = Bench()
        let log = bench.log()
        var absence = BrokerAbsence()
        func look(_ code: String?) {
            for _ in 0..<450 {
                absence.found(code, log)
                bench.time.withLock { $0 += 200 }
                log.writeWithheld()
            }
        }
        look(nil)
        #expect(bench.count("the broker answers") == 0)
        look("_ALL_BROKERS_DOWN")
        #expect(bench.count("Kafka is away; waiting") == 1)
        #expect(bench.count("the broker answers") == 0)
        look(nil)
        #expect(bench.count("Kafka is away; waiting") == 1)
        #expect(bench.count("the broker answers") == 1)
    }

    @Test func `is logged once a minute where it comes and goes all the time`() {
        let bench = Bench()
        let log = bench.log()
        var absence = BrokerAbsence()
        for _ in 0..<250 {
            absence.found("REFUSED", log)
            absence.found(nil, log)
            bench.time.withLock { $0 += 200 }
        }
        #expect(bench.count("Kafka is away; waiting") == 1)
        #expect(bench.count("the broker answers") == 1)
    }
}
