import Foundation
import Kafka
import StageRuntime
import Testing

/// A worker that no broker lets in is started again where its password or certificate was replaced.
@Suite struct `The files that a Kafka client reads at its start` {
    private let path = FileManager.default.temporaryDirectory
        .appendingPathComponent("login-\(UUID().uuidString)").path

    private func write(_ text: String) throws {
        try Data(text.utf8).write(to: URL(fileURLWithPath: path), options: .atomic)
    }

    @Test func `end a worker when one has changed and it is refused, and not else`() throws {
        try write("old")
        var settings = KafkaSettings(bootstrapServers: "127.0.0.1:1", clientID: "t")
        settings.files = ["TOLLWAY_KAFKA_SASL_PASSWORD_FILE": path]
        let files = LoginFiles(of: settings)
        #expect(files.end(refusal: nil) == nil)
        // The broker alone is wrong: a restart mends nothing.
        #expect(files.end(refusal: "no") == nil)
        try FileManager.default.removeItem(atPath: path)
        #expect(files.end(refusal: "no") == nil)
        try write("new")
        #expect(files.end(refusal: nil) == nil)
        let end = try #require(files.end(refusal: "the broker does not take these credentials"))
        #expect(end.exitCode == 75)
        #expect(end.sentence.contains(path) && end.sentence.hasSuffix("these credentials"))
        try FileManager.default.removeItem(atPath: path)
    }
}
