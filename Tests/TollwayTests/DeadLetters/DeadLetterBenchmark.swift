import Foundation
import Kafka
import Testing
import TokenDomain

@testable import tollway

private let deadLetterCount =
    ProcessInfo.processInfo.environment["BENCHMARK_LETTERS"].flatMap { Int($0) } ?? 0

/// How long it takes to look at many dead letters and to send them back, with how much memory.
///
/// It asserts no time; it prints them. The command is that of `BENCHMARK_TOLLWAY`, a release build:
///
///     BENCHMARK_LETTERS=1000000 BENCHMARK_TOLLWAY=.build/release/tollway \
///         swift test --filter DeadLetterBenchmark
@Suite(
    .serialized,
    .enabled(if: deadLetterCount > 0 && DeadLetterWorld.isKafkaThere, "set BENCHMARK_LETTERS")
)
struct DeadLetterBenchmark {
    private static let tollway = ProcessInfo.processInfo.environment["BENCHMARK_TOLLWAY"]

    @Test func `groups and replays`() throws {
        let world = try DeadLetterWorld(partitionCount: 12)
        var maker = DeadLetterMaker(prefix: world.prefix, seed: 1)
        try maker.write(
            [.unknownApp, .notBase64URL],
            each: deadLetterCount / 2,
            to: world.settings
        )
        try run(world, ["groups"])
        try run(world, ["count", "--grep", "nowhere"])
        try run(world, ["replay", "--yes"])
        try run(world, ["groups", "--all"])
        #expect(try world.records(of: .tokensReceived).count == deadLetterCount / 2 * 2)
    }

    private func run(_ world: DeadLetterWorld, _ arguments: [String]) throws {
        let process = try TollwayProcess.make(["dlq"] + arguments, environment: world.environment)
        if let tollway = Self.tollway {
            process.executableURL = URL(fileURLWithPath: tollway)
        }
        process.standardInput = FileHandle.nullDevice
        let clock = ContinuousClock()
        let start = clock.now
        try process.run()
        process.waitUntilExit()
        var usage = rusage()
        unsafe getrusage(__rusage_who_t(RUSAGE_CHILDREN.rawValue), &usage)
        print(
            "dlq \(arguments.joined(separator: " ")): exit \(process.terminationStatus),"
                + " \(clock.now - start), at most \(usage.ru_maxrss / 1_024) MB so far,"
                + " \(deadLetterCount) dead letters"
        )
    }
}
