internal import Kafka

/// Where records go, as the door needs it: kept by `KafkaProducer`, and by the tests.
protocol RecordSink: AnyObject {
    var wakeDescriptor: Int32 { get }
    /// 0 to 1.
    var fillLevel: Double { get }
    var isBrokerAway: Bool { get }
    /// Why no broker has let us in just now.
    var loginRefusal: String? { get }
    /// Never blocks; each output will be in one receipt with its tag.
    func produce(_ outputs: OutputBatch, tags: [UInt64]) throws(LogFault)
    func takeReceipts() throws(LogFault) -> [KafkaProducer.Receipt]
    func takeNotes() -> [KafkaNote]
}

extension KafkaProducer: RecordSink {}
