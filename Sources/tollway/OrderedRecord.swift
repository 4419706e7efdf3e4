internal import Kafka
internal import StageRuntime
internal import TokenDomain

/// A record that somebody ordered, written with its audit in one transaction.
struct OrderedRecord {
    let topic: Topic
    let key: String
    let order: HandOrder
    let configuration: Configuration

    /// Stores both, or neither.
    ///
    /// - Returns: where the record lies now.
    /// - Throws: what Kafka said; whether the record was written is not known then.
    func write(
        _ writeValue: (inout [UInt8]) -> Void,
        audit writeAudit: (inout [UInt8]) -> Void
    ) throws(LogFault) -> (partition: Int32, offset: Int64) {
        let prefix = configuration.topicPrefix
        let names = [topic, .audit].map { $0.name(prefix: prefix) }
        let transactor = try KafkaTransactor(
            settings: configuration.kafka,
            // Of this order alone: another operator's must not end it.
            transactionalID: "\(prefix)\(order.id)",
            targets: names
        )
        defer { transactor.close() }
        try transactor.takeOver()
        let ends = try transactor.commit(outputs(writeValue, writeAudit))
        guard let (place, end) = ends.first(where: { $0.key.topic == names[0] }) else {
            preconditionFailure("what is committed lies somewhere")
        }
        return (place.partition, end - 1)
    }

    private func outputs(
        _ writeValue: (inout [UInt8]) -> Void,
        _ writeAudit: (inout [UInt8]) -> Void
    ) -> OutputBatch {
        var outputs = OutputBatch()
        let recordKey = outputs.place(key.utf8)
        let valueStart = outputs.arena.count
        writeValue(&outputs.arena)
        let value = outputs.placed(from: valueStart)
        let headersStart = outputs.arena.count
        HeaderList.append(
            name: HandOrder.header.utf8,
            value: order.id.utf8,
            to: &outputs.arena
        )
        let headers = outputs.placed(from: headersStart)
        outputs.outputs.append(
            OutputBatch.Output(topic: 0, key: recordKey, value: value, headers: headers)
        )
        let auditKey = outputs.place(order.id.utf8)
        let auditStart = outputs.arena.count
        writeAudit(&outputs.arena)
        let audit = outputs.placed(from: auditStart)
        outputs.outputs.append(OutputBatch.Output(topic: 1, key: auditKey, value: audit))
        return outputs
    }
}
