import Foundation
import Kafka
import LocalKafka
import StageRuntime
import Testing
import TokenDomain

@testable import tollway

@Suite struct `A ledger that has lost its beginning` {
    private static let topic = Topic.reportsOutcomes.name(prefix: "t.")
    private static let sentence = "\(topic) has lost its beginning in 1 partition (0 begins at"

    /// The embedded broker keeps 5 MiB of a partition: the first of more is gone.
    private static func open() throws -> (broker: MockBroker, environment: [String: String]) {
        let broker = try MockBroker(topics: [topic: 1])
        let producer = try KafkaProducer(
            settings: KafkaSettings(bootstrapServers: broker.bootstrapServers, clientID: "test"),
            targets: [topic]
        )
        defer { producer.close(deadlineMilliseconds: 1_000) }
        // Bytes that do not compress.
        var generator = SeededGenerator(seed: 7)
        let value = (0..<900_000).map { _ in UInt8(truncatingIfNeeded: generator.next()) }
        for _ in 0..<8 {
            var outputs = OutputBatch()
            let key = outputs.place("t-1".utf8)
            outputs.append(topic: 0, key: key) { $0.append(contentsOf: value) }
            try producer.produce(outputs, tags: [0])
            try #require(producer.flush(deadlineMilliseconds: 20_000))
        }
        return (
            broker,
            [
                "TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrapServers,
                "TOLLWAY_TOPIC_PREFIX": "t.", "TOLLWAY_DELIVERY": "at-least-once",
            ]
        )
    }

    @Test func `is named by every verb that reads it`() throws {
        let (broker, environment) = try Self.open()
        defer { broker.close() }
        let apple = try SimulatedApple()
        for arguments in [
            ["ledger", "export"], ["ledger", "verify"],
            ["report", "show", LedgerMaker.identifier(1)],
        ] {
            let run = try TollwayProcess.run(
                arguments,
                environment: environment.merging(apple.environment) { $1 }
            )
            #expect(run.talk.contains(Self.sentence), "\(arguments): \(run.talk)")
        }
    }

    @Test func `is named in a month whose reports may have lain there, and in no other`() throws {
        let (broker, environment) = try Self.open()
        defer { broker.close() }
        let configuration = try Configuration(environment: environment, program: .tollway)
        let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000))
        func cannotKnow(_ number: Int64) throws -> String? {
            let month = CalendarMonth(of: now).adding(number)
            var count = MonthCount(month, configuration, now: now)
            try count.noteLostReports(now: now)
            return count.cannotKnow
        }
        let present = try #require(try cannotKnow(0))
        #expect(present.hasPrefix(Self.sentence), "\(present)")
        #expect(present.hasSuffix("and may be reports of this month"), "\(present)")
        // What it has begins before that one.
        #expect(try cannotKnow(2) == nil)
        let old = try #require(try cannotKnow(-24))
        #expect(old.hasPrefix("tokens that ended before"), "\(old)")
        #expect(old.contains("; \(Self.sentence)"), "\(old)")
    }

    @Test func `is a warning of doctor`() throws {
        let (broker, environment) = try Self.open()
        defer { broker.close() }
        let configuration = try Configuration(environment: environment, program: .tollway)
        let admin = try KafkaAdmin(settings: configuration.kafka)
        defer { admin.close() }
        let doctor = DoctorKafka(configuration: configuration, role: nil, now: 0)
        let findings = doctor.ledgers(admin, [Self.topic])
        #expect(findings.map(\.verdict) == [.warning])
        #expect(findings.first?.sentence.hasPrefix(Self.sentence) == true, "\(findings)")
        #expect(doctor.ledgers(admin, []).isEmpty)
    }
}
