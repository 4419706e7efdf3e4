import Kafka
import TokenDomain

@testable import tollway

/// Writes tokens of the stream to Kafka again and again while the storm blows.
///
/// They are of those that a high-volume platform writes itself and that have no customer, so that
/// all but the first are repeats, whenever they come: the truth about the stream stays what it is,
/// and no worker rests. It never waits: what Kafka does not take now is left out.
final class RepeatWriter {
    private static let flushMilliseconds = 10_000

    private let producer: KafkaProducer
    private let values: [String]
    private var next = 0

    init(settings: KafkaSettings, prefix: String, stream: DemoStream) throws {
        producer = try KafkaProducer(
            settings: settings,
            targets: [Topic.tokensReceived.name(prefix: prefix)]
        )
        values = stream.deliveries.compactMap { delivery in
            guard case .topic(let value) = delivery, value.contains("\"source\":\"kafka\"") else {
                return nil
            }
            return value
        }
    }

    func write(count: Int) throws {
        guard !values.isEmpty, count > 0 else {
            return
        }
        var outputs = OutputBatch()
        for _ in 0..<count {
            let range = outputs.place(Array(values[next % values.count].utf8))
            outputs.outputs.append(OutputBatch.Output(topic: 0, key: .absent, value: range))
            next += 1
        }
        try producer.produce(outputs, tags: (0..<count).map { UInt64($0) })
        _ = try producer.takeReceipts()
    }

    /// Once nothing more is written, what was must be in Kafka or never come.
    func close() throws {
        guard producer.flush(deadlineMilliseconds: Self.flushMilliseconds) else {
            throw StormFault(sentence: "Kafka does not take the repeats")
        }
        producer.close(deadlineMilliseconds: 2_000)
    }
}
