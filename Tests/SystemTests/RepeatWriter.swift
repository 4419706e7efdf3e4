import Kafka
import TokenDomain

@testable import tollway

/// Writes tokens and sales of the stream to Kafka again and again while the storm blows.
///
/// They are of those that a high-volume platform writes itself and that have no customer, so that
/// all but the first are repeats, whenever they come: the truth about the stream stays what it is,
/// and no worker rests. It never waits: what Kafka does not take now is left out.
final class RepeatWriter {
    private static let flushMilliseconds = 10_000
    /// One in so many is a sale.
    private static let salesEvery = 5
    private static let topics: [Topic] = [.tokensReceived, .purchasesReceived]

    private let producer: KafkaProducer
    private let values: [String]
    private let sales: [DirectSale]
    private var next = 0

    init(settings: KafkaSettings, prefix: String, stream: DemoStream) throws {
        producer = try KafkaProducer(
            settings: settings,
            targets: Self.topics.map { $0.name(prefix: prefix) }
        )
        values = stream.deliveries.compactMap { delivery in
            guard case .topic(let value) = delivery, value.contains("\"source\":\"kafka\"") else {
                return nil
            }
            return value
        }
        sales = DirectSale.all(of: stream.sales)
    }

    func write(count: Int) throws {
        guard !values.isEmpty, count > 0 else {
            return
        }
        var outputs = OutputBatch()
        for _ in 0..<count {
            if next.isMultiple(of: Self.salesEvery), !sales.isEmpty {
                let sale = sales[next / Self.salesEvery % sales.count]
                let (key, value) = (
                    outputs.place(sale.key.utf8), outputs.place(sale.sale.line.utf8)
                )
                outputs.outputs.append(OutputBatch.Output(topic: 1, key: key, value: value))
            } else {
                let value = outputs.place(values[next % values.count].utf8)
                outputs.outputs.append(OutputBatch.Output(topic: 0, key: .absent, value: value))
            }
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
