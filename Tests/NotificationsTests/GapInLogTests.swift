import Kafka
import LocalKafka
import StageRuntime
import Testing
import TokenDomain
import TokenWire

@testable import notifications

@Suite struct `A gap in a worker's partitions` {
    private let start = Timestamp(milliseconds: 1_800_000_000_000)
    private var own: GapWatch.Gap { GapWatch.Gap(from: start, to: start + .hours(200)) }

    private func configuration(_ bootstrapServers: String) throws -> Configuration {
        try Configuration(
            environment: ["TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": bootstrapServers],
            program: .tollway
        )
    }

    @Test func `is held against all partitions`() throws {
        let topic = "tollway.notifications.received.v1"
        let broker = try MockBroker(topics: [topic: 4])
        defer { broker.close() }
        let configuration = try configuration(broker.bootstrapServers)
        #expect(GapInLog.ask(own, configuration, isOurs: isOurs) == own)
        let producer = try KafkaProducer(settings: configuration.kafka, targets: [topic])
        defer { producer.close(deadlineMilliseconds: 1_000) }
        var outputs = OutputBatch()
        for hours in [0, 60, 120, 200] as [Int64] {
            append(start + .hours(hours), to: &outputs)
        }
        try producer.produce(outputs, tags: outputs.outputs.map { _ in 0 })
        try #require(producer.flush(deadlineMilliseconds: 20_000))
        #expect(GapInLog.ask(own, configuration, isOurs: isOurs) == nil)
        // Kafka has nothing of the time before: there is nothing to ask.
        let removed = GapWatch.Gap(from: nil, to: own.to)
        #expect(GapInLog.ask(removed, configuration, isOurs: isOurs) == removed)
    }

    /// Anybody has a genuine one of his own, and may send it every six days.
    @Test func `is not closed by what Apple sent to somebody else`() throws {
        let topic = "tollway.notifications.received.v1"
        let broker = try MockBroker(topics: [topic: 1])
        defer { broker.close() }
        let configuration = try configuration(broker.bootstrapServers)
        let producer = try KafkaProducer(settings: configuration.kafka, targets: [topic])
        defer { producer.close(deadlineMilliseconds: 1_000) }
        // Of the past, by any clock that runs this.
        let first = Timestamp(milliseconds: 1_700_000_000_000)
        let gap = GapWatch.Gap(from: first, to: first + .hours(166))
        var outputs = OutputBatch()
        append(first, to: &outputs)
        append(first + .hours(86), of: Self.stranger, to: &outputs)
        append(gap.to, to: &outputs)
        try producer.produce(outputs, tags: outputs.outputs.map { _ in 0 })
        try #require(producer.flush(deadlineMilliseconds: 20_000))
        #expect(GapInLog.ask(gap, configuration, isOurs: isOurs) == gap)
        #expect(GapInLog.ask(gap, configuration) { _ in true } == nil)
        // A worker that begins before the last of them.
        func last(start: Int64, isOurs: NotificationsStage.IsOurs) throws -> GapWatch.Before {
            try LastNotice.last(starts: [start], committed: [2], configuration, isOurs: isOurs)
        }
        #expect(try last(start: 0, isOurs: isOurs) == .last(first))
        #expect(try last(start: 0) { _ in false } == .unknown)
        // Only the stranger's is left of what was read.
        #expect(try last(start: 1, isOurs: isOurs) == .removed)
    }

    private static let stranger = "of.somebody.else"

    private func isOurs(_ received: NotificationReceived) -> Bool {
        received.signedPayload != Self.stranger
    }

    private func append(
        _ time: Timestamp,
        of signedPayload: String = "a.b.c",
        to outputs: inout OutputBatch
    ) {
        let notification = NotificationReceived(signedPayload: signedPayload, receivedAt: time)
        let key = outputs.place("\(time.milliseconds)".utf8)
        outputs.append(topic: 0, key: key) { notification.write(to: &$0) }
    }

    /// More than are read in the time: one a minute, the first after a day without.
    @Test(arguments: [0, 20])
    func `is none where others took in thousands`(firstHour: Int64) throws {
        let topic = "tollway.notifications.received.v1"
        let broker = try MockBroker(topics: [topic: 4])
        defer { broker.close() }
        let configuration = try configuration(broker.bootstrapServers)
        let producer = try KafkaProducer(settings: configuration.kafka, targets: [topic])
        defer { producer.close(deadlineMilliseconds: 1_000) }
        var outputs = OutputBatch()
        for minute in firstHour * 60...200 * 60 {
            append(start + .minutes(minute), to: &outputs)
        }
        try producer.produce(outputs, tags: outputs.outputs.map { _ in 0 })
        try #require(producer.flush(deadlineMilliseconds: 20_000))
        #expect(GapInLog.ask(own, configuration, isOurs: isOurs) == nil)
    }

    @Test func `is told as it is where Kafka does not answer`() throws {
        #expect(GapInLog.ask(own, try configuration("127.0.0.1:1"), isOurs: isOurs) == own)
    }
}
