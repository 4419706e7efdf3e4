import Foundation
import Kafka
import StageRuntime
import Testing
import TokenDomain

@testable import tollway

/// Replays that are killed and doubled while they run, from a seed.
///
/// `REPLAY_SEED`, `REPLAY_LETTERS` and `REPLAY_KILLS` make it another, larger or longer.
@Suite(
    .serialized,
    .enabled(if: DeadLetterWorld.isKafkaThere, DeadLetterWorld.skipped)
)
struct `A replay that is killed` {
    private static let environment = ProcessInfo.processInfo.environment
    private static let seed = environment["REPLAY_SEED"].flatMap { UInt64($0) } ?? 1
    private static let deadLetterCount = environment["REPLAY_LETTERS"].flatMap { Int($0) } ?? 1_500
    private static let killCount = environment["REPLAY_KILLS"].flatMap { Int($0) } ?? 5

    /// Kills run after run at random moments, lets two run against each other, and counts.
    @Test func `sends each dead letter once, whatever happens to it`() throws {
        let world = try DeadLetterWorld()
        var maker = DeadLetterMaker(prefix: world.prefix, seed: Self.seed)
        try maker.write([.unknownApp, .rejected], each: Self.deadLetterCount, to: world.settings)
        var generator = SeededGenerator(seed: Self.seed)
        var killedCount = 0
        var takenOverCount = 0
        for round in 0..<Self.killCount {
            // Slow enough that a run lasts until it is killed.
            let rate =
                Self.deadLetterCount / 20 + Int(generator.next() % UInt64(Self.deadLetterCount / 5))
            let before = try world.recordCount(of: .audit)
            let first = try start(world, rate: rate)
            let second = round % 2 == 1 ? try start(world, rate: rate) : nil
            // Most kills are to hit a run at work; some, before it has begun.
            if generator.next() % 8 != 0 {
                try awaitWork(world, from: before, of: first)
            }
            wait(milliseconds: Int(generator.next() % 1_200))
            for process in [first, second].compactMap({ $0 }) {
                if process.isRunning, generator.next() % 4 != 0 {
                    kill(process.processIdentifier, SIGKILL)
                    killedCount += 1
                } else if process.isRunning {
                    process.interrupt()
                }
                process.waitUntilExit()
                takenOverCount += process.terminationStatus == 75 ? 1 : 0
            }
        }
        let end = try world.dlq("replay", "--yes", "-o", "json")
        #expect([0, 3].contains(end.exitCode), "\(end.talk)")

        let seed: Comment = "REPLAY_SEED=\(Self.seed)"
        #expect(killedCount > 0, seed)
        try expectOnce(world, .deadLetters(.decode), .tokensReceived, seed)
        try expectOnce(world, .deadLetters(.report), .reportsRequested, seed)
        let settled = try world.records(of: .deadLetterReplays)
        #expect(settled.count == 2 * Self.deadLetterCount, seed)
        #expect(Set(settled.map(\.key)).count == 2 * Self.deadLetterCount, seed)
        let audit = try world.records(of: .audit).map { try $0.json()["count"] as? Int ?? 0 }
        #expect(audit.reduce(0, +) == 2 * Self.deadLetterCount, seed)
        print("\(killedCount) killed, \(takenOverCount) taken over, \(audit.count) transactions")
    }

    /// Each kill comes as soon as a transaction's records can be read: if the results of the dead
    /// letters were not committed with them, the next run would send them again.
    @Test func `at the moment its dead letters are seen knows of them`() throws {
        let world = try DeadLetterWorld()
        var maker = DeadLetterMaker(prefix: world.prefix, seed: Self.seed)
        try maker.write([.unknownApp], each: Self.deadLetterCount, to: world.settings)
        let admin = try world.openAdmin()
        defer { admin.close() }
        let target = Topic.tokensReceived.name(prefix: world.prefix)
        func seenCount() throws -> Int64 {
            try admin.lastStableOffsets(ofTopic: target).reduce(0, +)
        }
        for _ in 0..<Self.killCount {
            let before = try seenCount()
            let process = try start(world, rate: Self.deadLetterCount / 10)
            while process.isRunning, try seenCount() <= before {}
            kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
        }
        #expect(try world.dlq("replay", "--yes").exitCode == 0)
        try expectOnce(world, .deadLetters(.decode), .tokensReceived, "REPLAY_SEED=\(Self.seed)")
    }

    /// The newer goes on, the older says so and stops; between them each dead letter goes once.
    @Test func `is safe from two terminals at once`() throws {
        let world = try DeadLetterWorld()
        var maker = DeadLetterMaker(prefix: world.prefix, seed: Self.seed)
        try maker.write([.unknownApp], each: Self.deadLetterCount, to: world.settings)
        // So fast that much goes while the second looks at what went: what it thinks is open then
        // is not any more when it has the name.
        let first = try start(world, rate: Self.deadLetterCount / 20)
        try awaitWork(world, from: 0, of: first)
        let second = try start(world, rate: nil)
        second.waitUntilExit()
        first.waitUntilExit()
        #expect(second.terminationStatus == 0)
        #expect(first.terminationStatus == 75)
        try expectOnce(world, .deadLetters(.decode), .tokensReceived, "two terminals")
    }

    /// Also in the pause after a canary's only transaction, which said that the run goes on.
    @Test(arguments: [nil, 19])
    func `by Ctrl-C ends between two transactions and says so`(canary: Int?) throws {
        let world = try DeadLetterWorld()
        var maker = DeadLetterMaker(prefix: world.prefix, seed: Self.seed)
        try maker.write([.unknownApp], each: 500, to: world.settings)
        // A canary of less than a transaction's 20 is written at its end.
        let process = try start(world, rate: canary == nil ? 20 : 100, canary: canary)
        try awaitWork(world, from: 0, of: process)
        process.interrupt()
        process.waitUntilExit()
        #expect(process.terminationStatus == 130)
        let sent = try world.records(of: .tokensReceived).count
        #expect(sent > 0 && sent < 500)
        let last = try world.records(of: .audit).map { try $0.json() }
            .max { ($0["part"] as? Int ?? 0) < ($1["part"] as? Int ?? 0) }
        #expect(last?["state"] as? String == "interrupted")
        #expect(last?["runCount"] as? Int == sent)
        #expect(try world.dlq("replay", "--yes").exitCode == 0)
        try expectOnce(world, .deadLetters(.decode), .tokensReceived, "Ctrl-C")
    }

    private func expectOnce(
        _ world: DeadLetterWorld,
        _ source: Topic,
        _ target: Topic,
        _ comment: Comment
    ) throws {
        let deadLetters = try world.records(of: source)
        let back = try world.records(of: target)
        #expect(back.count == deadLetters.count, comment)
        func marks(_ records: [DeadLetterWorld.Record]) -> Set<String> {
            Set(
                records.map {
                    "\($0.key ?? "-")|\($0.value ?? "-")|\($0.headers["traceparent"] ?? "-")"
                }
            )
        }
        #expect(marks(back) == marks(deadLetters), comment)
    }

    /// Until a run has sent something, or has ended.
    private func awaitWork(
        _ world: DeadLetterWorld,
        from recordCount: Int64,
        of process: Process
    ) throws {
        let limit = ContinuousClock.now + .seconds(60)
        while process.isRunning, ContinuousClock.now < limit,
            try world.recordCount(of: .audit) <= recordCount
        {
            wait(milliseconds: 20)
        }
    }

    private func start(
        _ world: DeadLetterWorld,
        rate: Int?,
        canary: Int? = nil
    ) throws -> Process {
        let process = try TollwayProcess.make(
            ["dlq", "replay", "--yes"] + (rate.map { ["--rate", "\($0)"] } ?? [])
                + (canary.map { ["--canary", "\($0)"] } ?? []),
            environment: world.environment
        )
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        return process
    }

    /// Lets the processes run on; no assertion rests on how long it takes.
    private func wait(milliseconds: Int) {
        _ = poll(nil, 0, Int32(milliseconds))
    }
}
