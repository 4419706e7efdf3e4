import Foundation

/// How long and how hard, from the environment of the tests.
///
/// `Deploy/chaos.sh` sets it; none of it reaches the programs under test.
struct StormSettings {
    var seed: UInt64
    var tokenCount: Int
    /// How often every kind of sale is sold: 33 events each time.
    var saleRoundCount: Int { max(tokenCount / 400, 1) }
    /// Between two posts at the door: the stream should last as long as the storm.
    var pauseMilliseconds: Int
    /// Records written to Kafka beside the stream in every round, all of them repeats: so that
    /// workers die in the middle of work, not between two batches.
    var repeatsPerTurn: Int
    /// Faults in one round.
    var faultCount: Int
    /// SIGKILLs in one round, of workers and of Kafka: it goes on until there were so many.
    var killCountMin: Int
    /// Which kinds of them; one that is named twice is drawn twice as often.
    var faults: [StormFaultKind]
    /// Kafka nodes, 1 or 3.
    var nodeCount: Int
    /// Nothing changed for so long after the storm: what is missing will not come.
    var patienceSeconds: Int
    /// Where the programs lie; nil: beside the tests.
    var programs: URL?
    /// Where logs, state and Kafka's data stay for the reader; nil: removed.
    var keptFolder: URL?

    /// Whether somebody chose: then the storm is theirs alone.
    static var isAskedFor: Bool { ProcessInfo.processInfo.environment["CHAOS_SEED"] != nil }

    init(environment: [String: String] = ProcessInfo.processInfo.environment) {
        let isAskedFor = environment["CHAOS_SEED"] != nil
        func number(_ name: String, _ usual: Int) -> Int {
            environment[name].flatMap { Int($0) } ?? usual
        }
        seed = environment["CHAOS_SEED"].flatMap { UInt64($0) } ?? 1
        tokenCount = number("CHAOS_TOKENS", 8_000)
        pauseMilliseconds = number("CHAOS_PAUSE_MS", 30)
        faultCount = number("CHAOS_FAULTS", 45)
        killCountMin = number("CHAOS_KILLS", isAskedFor ? 0 : 40)
        repeatsPerTurn = number("CHAOS_REPEATS", 5)
        patienceSeconds = number("CHAOS_PATIENCE", 150)
        nodeCount = number("CHAOS_NODES", 1)
        let kinds = (environment["CHAOS_KINDS"] ?? "").split(separator: ",")
            .compactMap { StormFaultKind(rawValue: String($0)) }
        let usual = StormFaultKind.usual + (isAskedFor ? StormFaultKind.slow : [])
        faults = kinds.isEmpty ? usual : kinds
        programs = environment["CHAOS_PROGRAMS"].map { URL(fileURLWithPath: $0) }
        keptFolder = environment["CHAOS_KEEP"].map { URL(fileURLWithPath: $0) }
    }
}
