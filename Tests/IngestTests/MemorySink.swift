import Kafka

@testable import ingest

/// A broker that does what the test says.
final class MemorySink: RecordSink {
    /// One record as it was handed over.
    struct Record: Equatable {
        var topic: Int
        var key: String?
        var value: String
        var tag: UInt64
    }

    private(set) var records: [Record] = []
    private var receipts: [KafkaProducer.Receipt] = []
    /// Whether records are stored at once.
    var storesAtOnce = true
    /// Topics that store nothing whatever the others do.
    var stuckTopics: Set<Int> = []
    var fillLevel = 0.0
    var isBrokerAway = false
    var loginRefusal: String?
    let wakeDescriptor: Int32 = -1

    func produce(_ outputs: OutputBatch, tags: [UInt64]) throws(LogFault) {
        precondition(outputs.outputs.count == tags.count)
        for (output, tag) in zip(outputs.outputs, tags) {
            records.append(
                Record(
                    topic: output.topic,
                    key: output.key.isAbsent ? nil : text(outputs, output.key),
                    value: text(outputs, output.value),
                    tag: tag
                )
            )
            if storesAtOnce, !stuckTopics.contains(output.topic) {
                receipts.append(KafkaProducer.Receipt(tag: tag, outputCount: 1, failure: nil))
            }
        }
    }

    /// Gives receipts for records, by their index.
    func settle(_ indices: Range<Int>, failure: String? = nil) {
        for index in indices {
            receipts.append(
                KafkaProducer.Receipt(tag: records[index].tag, outputCount: 1, failure: failure)
            )
        }
    }

    func takeReceipts() throws(LogFault) -> [KafkaProducer.Receipt] {
        defer { receipts = [] }
        return receipts
    }

    func takeNotes() -> [KafkaNote] { [] }

    private func text(_ outputs: OutputBatch, _ range: ByteRange) -> String {
        String(decoding: outputs.arena[range.indices], as: UTF8.self)
    }
}
