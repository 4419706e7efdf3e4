import Foundation
import Testing

@testable import tollway

@Suite struct `Two tollway up that start at the same moment` {
    @Test func `are kept apart on one Kafka under one prefix`() throws {
        let folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("tollway-up-lock-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
        defer {
            #expect(throws: Never.self) { try FileManager.default.removeItem(at: folder) }
        }
        func take(_ cluster: String, _ prefix: String) throws -> RunLock? {
            try GivenKafka.lock(cluster: cluster, prefix: prefix, in: folder)
        }
        let first = try #require(try take("a", "one."))
        let failure = try #require(throws: CommandFailure.self) {
            try take("a", "one.")
        }
        #expect(failure.exit == .tryAgain && failure.code == "up.running")
        try #require(try take("b", "one.")).release()
        try #require(try take("a", "two.")).release()
        first.release()
        try #require(try take("a", "one.")).release()
        // Where the name is taken by what is no file of ours.
        try FileManager.default.createDirectory(
            at: folder.appendingPathComponent("tollway-up-\(getuid())-c-one.lock"),
            withIntermediateDirectories: false
        )
        #expect(try take("c", "one.") == nil)
    }
}
