import Foundation
import Glibc
import Kafka
import LocalKafka
import RecordLogContract
import Testing

@Suite(
    .enabled(
        if: FileManager.default.isExecutableFile(atPath: "/usr/bin/openssl"),
        "needs the openssl command (Debian: openssl)"
    )
)
struct `A broker that wants to see our certificate` {
    /// With TLS 1.3 the client is through before the broker has judged it.
    @Test func `is not taken for one that does not answer`() async throws {
        try await onThread {
            let folder = FileManager.default.temporaryDirectory
                .appendingPathComponent("tollway-test-\(UUID().uuidString)")
            try FileManager.default.createDirectory(
                at: folder,
                withIntermediateDirectories: false
            )
            defer {
                #expect(throws: Never.self) { try FileManager.default.removeItem(at: folder) }
            }
            let key = folder.appendingPathComponent("key.pem").path
            let certificate = folder.appendingPathComponent("certificate.pem").path
            let making = try Self.openSSL([
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                "-nodes", "-keyout", key, "-out", certificate, "-days", "2",
                "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
            ])
            making.waitUntilExit()
            try #require(making.terminationStatus == 0)
            let address = "127.0.0.1:\(try FreePorts.take(count: 1)[0])"
            let broker = try Self.openSSL([
                "s_server", "-accept", address, "-quiet", "-tls1_3", "-Verify", "1",
                "-cert", certificate, "-key", key,
            ])
            defer {
                // Not SIGTERM: the test's threads block it, and children inherit that.
                kill(broker.processIdentifier, SIGKILL)
                broker.waitUntilExit()
            }
            let settings = KafkaSettings(
                bootstrapServers: address,
                clientID: "test",
                extra: ["security.protocol": "ssl", "ssl.ca.location": certificate]
            )
            let world = KafkaWorld(bootstrapServers: address, settings: settings)
            let producer = try KafkaProducer(settings: settings, targets: ["t"])
            defer { producer.close(deadlineMilliseconds: 0) }
            let refusal = try until(world, "nobody said that the broker refuses us") {
                _ = try producer.takeReceipts()
                return producer.loginRefusal
            }
            #expect(refusal.contains("no TLS with the broker"))
            #expect(refusal.contains("certificate required"))
        }
    }

    private static func openSSL(_ arguments: [String]) throws -> Process {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/openssl")
        process.arguments = arguments
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        return process
    }
}
