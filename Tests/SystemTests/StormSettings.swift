import Foundation

/// How long and how hard, from the environment of whoever runs the tests.
///
/// `Deploy/chaos.sh` sets it; none of it reaches the programs under test.
struct StormSettings {
    var seed: UInt64
    var tokenCount: Int
    /// Faults in one round, a pair of kills counted twice.
    var faultCount: Int
    /// Which kinds of them.
    var faults: [Storm.Fault]
    /// Where the programs lie; nil: beside the tests.
    var programs: URL?
    /// Where logs, state and Kafka's data stay for the reader; nil: removed.
    var keptFolder: URL?

    init(environment: [String: String] = ProcessInfo.processInfo.environment) {
        seed = environment["CHAOS_SEED"].flatMap { UInt64($0) } ?? 1
        tokenCount = environment["CHAOS_TOKENS"].flatMap { Int($0) } ?? 2_000
        faultCount = environment["CHAOS_FAULTS"].flatMap { Int($0) } ?? 40
        let kinds = (environment["CHAOS_KINDS"] ?? "").split(separator: ",")
            .compactMap { Storm.Fault(rawValue: String($0)) }
        faults = kinds.isEmpty ? Storm.Fault.ofWorkers : kinds
        programs = environment["CHAOS_PROGRAMS"].map { URL(fileURLWithPath: $0) }
        keptFolder = environment["CHAOS_KEEP"].map { URL(fileURLWithPath: $0) }
    }
}
