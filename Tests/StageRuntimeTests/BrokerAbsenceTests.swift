import Synchronization
import Telemetry
import Testing

@testable import StageRuntime

@Suite struct `An absence of Kafka` {
    /// Looks five times a second.
    private final class Bench {
        private static let stepMilliseconds: Int64 = 200

        private final class Written: Sendable {
            let lines = Mutex<[String]>([])
        }

        private let written = Written()
        private var now: Int64 = 0
        private var absence = BrokerAbsence()

        var lines: [String] { written.lines.withLock { $0 } }

        /// What comes by turns is found at each look, one code after the other.
        func look(_ codes: [String?], forSeconds seconds: Int) {
            let log = Log(worker: "decode", format: .json, now: { 0 }) { [written] line in
                written.lines.withLock { $0.append(line) }
            }
            for _ in 0..<Int64(seconds) * 1_000 / Self.stepMilliseconds {
                for code in codes {
                    absence.found(code, log, now: now)
                }
                now += Self.stepMilliseconds
            }
        }

        func expect(_ words: [String], _ location: SourceLocation = #_sourceLocation) {
            #expect(
                lines.count == words.count && zip(lines, words).allSatisfy { $0.contains($1) },
                "\(lines)",
                sourceLocation: location
            )
        }
    }

    private static let away = "\"Kafka is away; waiting\",\"code\":\"DOWN\""
    private static let back = "\"the broker answers\""

    @Test func `is logged once as it begins and once as it ends, and not after that`() {
        let bench = Bench()
        bench.look([nil], forSeconds: 90)
        bench.expect([])
        bench.look(["DOWN"], forSeconds: 90)
        bench.expect([Self.away])
        bench.look([nil], forSeconds: 90)
        bench.expect([Self.away, Self.back])
    }

    /// Whatever was not told for its minute is told once that is over, where it lasts.
    @Test func `is logged once a minute where it comes and goes, and as it is in the end`() {
        let bench = Bench()
        bench.look(["DOWN", nil], forSeconds: 50)
        bench.expect([Self.away, Self.back])
        bench.look(["DOWN"], forSeconds: 100)
        bench.expect([Self.away, Self.back, Self.away])
        bench.look([nil, "DOWN"], forSeconds: 50)
        bench.look([nil], forSeconds: 100)
        #expect(bench.lines.last?.contains(Self.back) == true)
    }

    @Test func `is logged with a new cause`() {
        let bench = Bench()
        bench.look(["DOWN"], forSeconds: 30)
        bench.look(["REFUSED"], forSeconds: 90)
        bench.expect([Self.away, "\"code\":\"REFUSED\""])
    }
}
