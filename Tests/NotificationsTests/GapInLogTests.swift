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
        #expect(GapInLog.ask(own, configuration) == own)
        let producer = try KafkaProducer(settings: configuration.kafka, targets: [topic])
        defer { producer.close(deadlineMilliseconds: 1_000) }
        var outputs = OutputBatch()
        for hours in [0, 60, 120, 200] as [Int64] {
            append(start + .hours(hours), to: &outputs)
        }
        try producer.produce(outputs, tags: outputs.outputs.map { _ in 0 })
        try #require(producer.flush(deadlineMilliseconds: 20_000))
        #expect(GapInLog.ask(own, configuration) == nil)
        // Kafka has nothing of the time before: there is nothing to ask.
        let removed = GapWatch.Gap(from: nil, to: own.to)
        #expect(GapInLog.ask(removed, configuration) == removed)
    }

    private func append(_ time: Timestamp, to outputs: inout OutputBatch) {
        let notification = NotificationReceived(signedPayload: "a.b.c", receivedAt: time)
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
        #expect(GapInLog.ask(own, configuration) == nil)
    }

    @Test func `is told as it is where Kafka does not answer`() throws {
        #expect(GapInLog.ask(own, try configuration("127.0.0.1:1")) == own)
    }
}
