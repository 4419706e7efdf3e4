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
        // Of this order alone: another operator's must not end it.
        let transactor = try takeOver(as: order.id)
        defer { transactor.close() }
        return try write(by: transactor, writeValue, audit: writeAudit)
    }

    /// Takes a transactional id that the prefix comes before.
    ///
    /// Where all orders of a kind go under one name, what is read after this is what holds: Kafka
    /// refuses the commit of whoever had the name before, and of this one once another takes it.
    func takeOver(as name: String) throws(LogFault) -> KafkaTransactor {
        let prefix = configuration.topicPrefix
        let transactor = try KafkaTransactor(
            settings: configuration.kafka,
            transactionalID: "\(prefix)\(name)",
            targets: [topic, .audit].map { $0.name(prefix: prefix) }
        )
        do throws(LogFault) {
            try transactor.takeOver()
        } catch {
            transactor.close()
            throw error
        }
        return transactor
    }

    /// The same as ``write(_:audit:)``, under a name that was taken before.
    func write(
        by transactor: KafkaTransactor,
        _ writeValue: (inout [UInt8]) -> Void,
        audit writeAudit: (inout [UInt8]) -> Void
    ) throws(LogFault) -> (partition: Int32, offset: Int64) {
        let name = topic.name(prefix: configuration.topicPrefix)
        let ends = try transactor.commit(outputs(writeValue, writeAudit))
        guard let (place, end) = ends.first(where: { $0.key.topic == name }) else {
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
        outputs.append(topic: 1, key: auditKey, writeAudit)
        return outputs
    }
}
