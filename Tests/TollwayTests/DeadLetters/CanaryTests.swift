import Foundation
import Kafka
import StageRuntime
import Testing
import TokenDomain

@testable import tollway

@Suite(
    .serialized,
    .enabled(if: DeadLetterWorld.isKafkaThere, DeadLetterWorld.skipped)
)
struct `A canary` {
    /// First the apps file lacks what the dead letters are about; then it has it.
    @Test func `stops the rest where it fails again, and lets it go where it does well`() throws {
        let world = try DeadLetterWorld()
        let folder = try TemporaryFolder()
        var maker = DeadLetterMaker(prefix: world.prefix, seed: 9)
        try maker.write([.unknownApp], each: 60, to: world.settings)

        try decoding(world, folder, apps: [1]) {
            let run = try world.dlq("replay", "--canary", "10", "--yes", "-o", "json")
            #expect(run.exitCode == 5, "\(run.talk)")
            #expect(run.talk.contains("of which 10 failed again"))
            #expect(try run.object()["sent"] as? Int == 10)
        }
        #expect(try world.records(of: .tokensReceived).count == 10)
        let last = try world.records(of: .audit).map { try $0.json() }
            .max { ($0["part"] as? Int ?? 0) < ($1["part"] as? Int ?? 0) }
        #expect(last?["state"] as? String == "stopped", "or the run seems to be at it for ever")
        #expect(last?["count"] as? Int == 0 && last?["runCount"] as? Int == 10)
        // Fifty never went; ten came back, and say so.
        #expect(try world.dlq("count").output == "60\n")
        #expect(try world.dlq("count", "--attempts", "2").output == "10\n")
        let again = try world.records(of: .deadLetters(.decode))
            .filter { $0.headers["tollway.dlq.replay_count"] == "1" }
        #expect(again.count == 10)

        try decoding(world, folder, apps: DeadLetterMaker.apps) {
            let run = try world.dlq("replay", "--canary", "10", "--yes", "-o", "json")
            #expect(run.exitCode == 0, "\(run.talk)")
            #expect(run.talk.contains("of which 0 failed again"))
            #expect(try run.object()["sent"] as? Int == 60)
        }
        #expect(try world.dlq("count").exitCode == 3)
    }

    @Test(arguments: [(apps: [], exit: 5, "stopped"), (DeadLetterMaker.apps, 0, "finished")])
    func `stands in the audit as it did where nothing comes after it`(
        apps: [Int64],
        exit: Int,
        state: String
    ) throws {
        let world = try DeadLetterWorld()
        let folder = try TemporaryFolder()
        var maker = DeadLetterMaker(prefix: world.prefix, seed: 9)
        try maker.write([.unknownApp], each: 10, to: world.settings)
        try decoding(world, folder, apps: apps + [1]) {
            let run = try world.dlq("replay", "--canary", "20", "--yes")
            #expect(Int(run.exitCode) == exit, "\(run.talk)")
        }
        let states = try world.records(of: .audit).map { try $0.json() }
            .sorted { ($0["part"] as? Int ?? 0) < ($1["part"] as? Int ?? 0) }
            .map { $0["state"] as? String }
        #expect(states == ["running", state])
    }

    /// Runs a decode worker that knows these apps.
    private func decoding(
        _ world: DeadLetterWorld,
        _ folder: TemporaryFolder,
        apps: [Int64],
        _ body: () throws -> Void
    ) throws {
        let list = apps.map { "{\"appAppleId\":\($0),\"bundleId\":\"com.example.\($0)\"}" }
        let file = try folder.file(
            "apps.json",
            Data("{\"apps\":[\(list.joined(separator: ","))]}".utf8)
        )
        let worker = Process()
        worker.executableURL = try TollwayProcess.folder.appendingPathComponent("tollway-decode")
        worker.environment = world.environment.merging([
            "TOLLWAY_APPS_FILE": file.path, "TOLLWAY_ADMIN_LISTEN": "127.0.0.1:0",
            "TOLLWAY_INSTANCE": "test",
        ]) { $1 }
        worker.standardInput = FileHandle.nullDevice
        worker.standardOutput = FileHandle.nullDevice
        worker.standardError = FileHandle.nullDevice
        try worker.run()
        defer {
            worker.terminate()
            worker.waitUntilExit()
        }
        try body()
    }
}
