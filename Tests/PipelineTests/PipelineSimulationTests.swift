import Foundation
import Testing
import TokenDomain

/// Goal: every token let in ends as exactly one accepted report or exactly one dead letter, and
/// every sale as Apple must hold it, as not owed or as one dead letter, whatever happens.
///
/// Method: the door and all five stages in one thread, on a cluster in memory, a clock that the test
/// turns and Apple's simulator without sockets; inputs, lives of customers, crashes, repeats,
/// outages, lost answers, lost disks and rebalances are drawn from a seed; then calm, tokens that
/// come late, and the account.
///
/// `SIMULATION_SEED=<n> swift test --filter Pipeline` plays one seed again;
/// `SIMULATION_SEEDS=<n>` plays that many.
@Suite struct `The whole pipeline in one thread` {
    private static let seedsPerCase: UInt64 = 25
    /// Found a fault once.
    private static let keptSeeds: [UInt64] = [509]

    private static var seeds: [Range<UInt64>] {
        let environment = ProcessInfo.processInfo.environment
        if let seed = environment["SIMULATION_SEED"].flatMap(UInt64.init) {
            return [seed..<seed + 1]
        }
        let count = environment["SIMULATION_SEEDS"].flatMap(UInt64.init) ?? 200
        let ranges = stride(from: 0, to: count, by: Int(seedsPerCase)).map {
            $0..<min($0 + seedsPerCase, count)
        }
        return ranges + keptSeeds.map { $0..<$0 + 1 }
    }

    /// Apple refuses it 20 seconds after it came: before the others, between them, or after them.
    @Test(arguments: 0..<3, [[0, 0, 0], [60, 0, 0], [0, 60, 0], [60, 60, 0]] as [[Int64]])
    func `gives a period its first real token, wherever a forged one stands`(
        forgedIndex: Int,
        gaps: [Int64]
    ) throws {
        let pipeline = try SimulatedPipeline(seed: UInt64(forgedIndex))
        try pipeline.calm()
        try pipeline.feedForgedPeriod(
            forgedIndex: forgedIndex,
            gaps: gaps.map { Milliseconds.seconds($0) }
        )
        try pipeline.calm()
        let differences = try pipeline.differences()
        #expect(differences.isEmpty, "\(differences.joined(separator: "; "))")
    }

    /// What no seed plays, no seed proves.
    @Test func `plays everything that can happen to a sale`() throws {
        var ends: Set<String> = []
        var overlapCount = 0
        for seed in UInt64(20)..<36 {
            let pipeline = try SimulatedPipeline(seed: seed)
            try pipeline.playToTheEnd()
            ends.formUnion(try pipeline.ends())
            overlapCount += pipeline.apple.foreignOverlapCount
        }
        let expected: Set = [
            "buy reported", "refund reported", "restate reported", "retract reported",
            "START reported", "RENEWAL reported", "refund retracted", "reopened",
            "buy not_owed", "refund not_owed", "RENEWAL not_owed", "buy rejected", "verified",
            "several tokens", "a refused token",
        ]
        #expect(expected.subtracting(ends).sorted() == [])
        // A worker's report met one that is still before Apple, of the worker before it.
        #expect(overlapCount > 0)
    }

    @Test(arguments: Self.seeds)
    func `tells Apple about every token and sale exactly once`(seeds: Range<UInt64>) throws {
        for seed in seeds {
            let pipeline = try SimulatedPipeline(seed: seed)
            try pipeline.playToTheEnd()
            let differences = try pipeline.differences()
            #expect(
                differences.isEmpty,
                """
                seed \(seed): \(differences.prefix(5).joined(separator: "; "))
                again: SIMULATION_SEED=\(seed) swift test --filter Pipeline
                """
            )
        }
    }
}
