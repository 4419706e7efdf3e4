import Crypto
import Foundation
import HTTPClient
import HTTPServer
import Glibc
import Kafka
import LocalKafka
import MessageExamples
import Testing

@testable import ingest

/// The built program, from its environment to its exit code.
@Suite(.serialized) struct `The program tollway-ingest` {
    private func make(_ environment: [String: String]) throws -> (process: Process, talk: Pipe) {
        let process = Process()
        process.executableURL = try #require(Bundle.main.executableURL)
            .deletingLastPathComponent().appendingPathComponent("tollway-ingest")
        process.environment = environment.merging(
            ["TOLLWAY_ADMIN_LISTEN": "127.0.0.1:0", "TOLLWAY_INGEST_LISTEN": "127.0.0.1:0"]
        ) { given, _ in given }
        let talk = Pipe()
        process.standardError = talk
        return (process, talk)
    }

    private func file(_ content: String) throws -> String {
        let file = FileManager.default.temporaryDirectory
            .appendingPathComponent("tollway-test-\(UUID().uuidString)")
        try Data(content.utf8).write(to: file)
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file.path)
        return file.path
    }

    /// What makes it refuse, and the setting that its sentence names.
    struct Refusal: CustomTestStringConvertible, Sendable {
        var testDescription: String
        var environment: [String: String]
        /// Becomes the file that this setting names.
        var content: String?
        var fileSetting = "TOLLWAY_INGEST_KEYS_FILE"
        var setting: String
    }

    @Test(arguments: [
        Refusal(
            testDescription: "a door open to all",
            environment: ["TOLLWAY_INGEST_LISTEN": "0.0.0.0:0"],
            setting: "TOLLWAY_INGEST_LISTEN"
        ),
        Refusal(
            testDescription: "an address that is not ours",
            environment: ["TOLLWAY_INGEST_LISTEN": "203.0.113.1:1"],
            content: "0123456789abcdef",
            setting: "TOLLWAY_INGEST_LISTEN"
        ),
        Refusal(
            testDescription: "no keys in the file",
            environment: [:],
            content: "\n",
            setting: "TOLLWAY_INGEST_KEYS_FILE"
        ),
        Refusal(
            testDescription: "three keys",
            environment: [:],
            content: "0123456789abcdef\n1123456789abcdef\n2123456789abcdef\n",
            setting: "TOLLWAY_INGEST_KEYS_FILE"
        ),
        Refusal(
            testDescription: "a file that is not there",
            environment: ["TOLLWAY_INGEST_CUSTOMER_KEY_FILE": "/nowhere"],
            setting: "TOLLWAY_INGEST_CUSTOMER_KEY_FILE"
        ),
        Refusal(
            testDescription: "roots that are none",
            environment: [:],
            content: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            fileSetting: "TOLLWAY_APPLE_ROOTS_FILE",
            setting: "TOLLWAY_APPLE_ROOTS_FILE"
        ),
        Refusal(
            testDescription: "a range of addresses that is none",
            environment: ["TOLLWAY_INGEST_NOTIFICATION_SOURCES": "17.1.0.0/8"],
            setting: "TOLLWAY_INGEST_NOTIFICATION_SOURCES"
        ),
        Refusal(
            testDescription: "a setting nobody knows",
            environment: ["TOLLWAY_INGEST_KEY_FILE": "x"],
            setting: "TOLLWAY_INGEST_KEY_FILE"
        ),
    ])
    func `does not start, and says why in one line`(refusal: Refusal) throws {
        var environment = refusal.environment
        if let content = refusal.content {
            environment[refusal.fileSetting] = try file(content)
        }
        let (process, talk) = try make(environment)
        try process.run()
        let text = String(decoding: talk.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        #expect(process.terminationStatus == 2)
        #expect(text.contains(refusal.setting), "\(text)")
        #expect(text.split(separator: "\n").count == 1, "\(text)")
        #expect(!text.contains("0123456789abcdef"))
    }

    /// What the program answers to a post.
    private func status(_ path: String, _ body: String, port: UInt16, key: String? = nil) throws
        -> Int?
    {
        let client = try HTTPClient(userAgent: "test")
        defer { client.close() }
        _ = client.submit(
            HTTPClientRequest(
                method: "POST",
                url: "http://127.0.0.1:\(port)\(path)",
                headers: [("Content-Type", "application/json")]
                    + (key.map { [("Authorization", "Bearer \($0)")] } ?? []),
                body: Array(body.utf8)
            )
        )
        var status: Int?
        let end = ContinuousClock.now + .seconds(20)
        while client.inFlightCount > 0, ContinuousClock.now < end {
            var entry = pollfd(fd: client.wakeDescriptor, events: Int16(POLLIN), revents: 0)
            _ = unsafe poll(&entry, 1, 100)
            client.run()
            for response in client.takeResponses() {
                if case .answered(let answer) = response.outcome {
                    status = answer.status
                }
            }
        }
        return status
    }

    /// The same, again until it is `wanted`: Kafka and the topics must be found first.
    private func status(_ wanted: Int, _ body: String, port: UInt16, key: String? = nil) throws
        -> Int?
    {
        let end = ContinuousClock.now + .seconds(20)
        var status: Int?
        while status != wanted, ContinuousClock.now < end {
            status = try self.status("/v1/tokens", body, port: port, key: key)
        }
        return status
    }

    private func makeBroker() throws -> MockBroker {
        try MockBroker(topics: [
            "tollway.tokens.received.v1": 4, "tollway.notifications.received.v1": 1,
            "tollway.account-tokens.requested.v1": 1, "tollway.purchases.received.v1": 1,
        ])
    }

    /// Goal: what the settings say of who may send is what the door asks for.
    @Test(arguments: [("17.0.0.0/8", 403), ("17.0.0.0/8,127.0.0.0/8", 400)])
    func `asks for a key, and takes notifications from those that may send`(
        sources: String,
        status: Int
    ) throws {
        let broker = try makeBroker()
        defer { broker.close() }
        // A port that was free a moment ago.
        let port = try HTTPServer(listen: ListenAddress(host: "127.0.0.1", port: 0)).port
        let roots = try SignedPayloads().authority.rootPEM
        let (process, talk) = try make([
            "TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrapServers,
            "TOLLWAY_INGEST_LISTEN": "127.0.0.1:\(port)",
            "TOLLWAY_INGEST_KEYS_FILE": try file("0123456789abcdef\n"),
            "TOLLWAY_APPLE_ROOTS_FILE": try file(String(decoding: roots, as: UTF8.self)),
            "TOLLWAY_INGEST_NOTIFICATION_SOURCES": sources,
        ])
        try process.run()
        defer {
            process.terminate()
            process.waitUntilExit()
            try? talk.fileHandleForReading.close()
        }
        let body = "{\"token\":\"abc\"}"
        #expect(try self.status(202, body, port: port, key: "0123456789abcdef") == 202)
        #expect(try self.status("/v1/tokens", body, port: port) == 401)
        #expect(try self.status("/v1/tokens", body, port: port, key: "1123456789abcdef") == 401)
        #expect(try self.status("/v1/notifications", "{}", port: port) == status)
    }

    @Test func `takes tokens and exits 0 within ten seconds when told to stop`() throws {
        let broker = try makeBroker()
        let port = try HTTPServer(listen: ListenAddress(host: "127.0.0.1", port: 0)).port
        let (process, talk) = try make([
            "TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrapServers,
            "TOLLWAY_INGEST_LISTEN": "127.0.0.1:\(port)",
        ])
        try process.run()
        #expect(try status(202, "{\"token\":\"abc\"}", port: port) == 202)
        let start = ContinuousClock.now
        process.terminate()
        process.waitUntilExit()
        #expect(ContinuousClock.now - start < .seconds(10))
        #expect(process.terminationReason == .exit)
        #expect(process.terminationStatus == 0)
        let text = String(decoding: talk.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        #expect(!text.contains("abc"))
    }
}
