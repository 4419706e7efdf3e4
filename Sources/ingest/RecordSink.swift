internal import Kafka

/// What became of one record.
struct RecordReceipt: Equatable {
    /// Comes back as it was handed over.
    var tag: UInt64
    /// Kafka's error name; nil when it is stored.
    var failure: String?
}

/// Where records go, as the door needs it: kept by `KafkaProducer`, and by the tests.
protocol RecordSink: AnyObject {
    var wakeDescriptor: Int32 { get }
    /// 0 to 1.
    var fillLevel: Double { get }
    var isBrokerAway: Bool { get }
    /// Never blocks; each output is followed by one receipt with its tag.
    func produce(_ outputs: OutputBatch, tags: [UInt64]) throws(LogFault)
    func takeRecordReceipts() throws(LogFault) -> [RecordReceipt]
    func takeNotes() -> [KafkaNote]
}

extension KafkaProducer: RecordSink {
    func takeRecordReceipts() throws(LogFault) -> [RecordReceipt] {
        try takeReceipts().map { RecordReceipt(tag: $0.tag, failure: $0.failure) }
    }
}
