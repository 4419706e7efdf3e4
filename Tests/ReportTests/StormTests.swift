import Simulation
import StageRuntime
import Testing
import TokenDomain

@testable import report

/// Goal: whatever happens to the worker, to the log and on the way to Apple, every token ends as
/// exactly one accepted report and exactly one line of the ledger.
///
/// Method: one to three instances; crashes, lost disks, aborts, late outcomes, lost requests and
/// answers, 429, 401 and 500, drawn from the seed; then a calm end.
@Suite struct `Any storm` {
    @Test(arguments: UInt64(0)..<60)
    func `ends with every token reported once`(seed: UInt64) throws {
        let bench = ReportBench(seed: seed)
        var generator = SeededGenerator(seed: seed ^ 0xbad)
        var isStormy = true
        bench.latency = Milliseconds(Int64.random(in: 0...3_000, using: &generator))
        bench.script = { call in
            guard isStormy else {
                return .answered
            }
            switch Int.random(in: 0..<20, using: &generator) {
            case 0, 1: return .answerLost
            case 2, 3: return .requestLost
            case 4: return .notSent
            case 5: return .status(500)
            case 6: return .status(503, retryAfter: call.at + .seconds(20))
            case 7: return .status(429, retryAfter: call.at + .seconds(5))
            case 8: return .status(401)
            case 9: return .status(429)
            default: return .answered
            }
        }
        bench.cluster.faults.abortOneIn = 8
        bench.cluster.faults.outcomeDelayMax = 3
        bench.cluster.faults.inquiryDelayOneIn = 3
        let tokens = (0..<40).map { bench.id($0, sandbox: $0 % 5 == 0) }
        var waiting = tokens
        bench.launch(0)
        for _ in 0..<60 {
            if !waiting.isEmpty, Bool.random(using: &generator) {
                let token = waiting.removeFirst()
                let role: TokenRole =
                    Bool.random(using: &generator) ? .primary : .duplicate(of: bench.id(9_999))
                bench.distinct(token, role)
                if Bool.random(using: &generator) {
                    bench.notice(token)
                }
                if Bool.random(using: &generator) {
                    bench.distinct(token, role)
                }
            }
            let number = Int.random(in: 0..<3, using: &generator)
            switch Int.random(in: 0..<6, using: &generator) {
            case 0 where bench.instances[number] != nil:
                bench.crash(number)
                if Bool.random(using: &generator) {
                    bench.loseDisk(number)
                }
            case 1 where bench.instances[number] == nil:
                bench.launch(number)
            default:
                break
            }
            for _ in 0..<Int.random(in: 0...20, using: &generator) {
                for number in bench.instances.keys.sorted() {
                    _ = try bench.instances[number]?.loop.step(waitMilliseconds: 0)
                }
            }
            bench.clock.now =
                bench.clock.now + .seconds(Int64.random(in: 0...30, using: &generator))
        }
        for token in waiting {
            bench.distinct(token)
        }
        isStormy = false
        bench.cluster.faults.abortOneIn = 0
        if bench.instances[0] == nil {
            bench.launch(0)
        }
        try bench.pass(.days(2))
        let statuses = bench.appleStore.statuses
        for token in tokens {
            #expect(statuses[token.text]?.count == 1, "seed \(seed)")
        }
        #expect(bench.appleStore.accepted.count == tokens.count, "seed \(seed)")
        let outcomes = try bench.outcomes()
        #expect(outcomes.count == tokens.count, "seed \(seed)")
        #expect(outcomes.allSatisfy { $0.outcome != .rejected }, "seed \(seed)")
        #expect(Set(outcomes.map(\.externalPurchaseID)).count == tokens.count, "seed \(seed)")
        #expect(bench.deadLetters().isEmpty, "seed \(seed)")
    }
}
