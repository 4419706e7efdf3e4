internal import Kafka
internal import StageRuntime
internal import TokenDomain
internal import TokenWire

/// Writes a record that no other goes with.
struct LoneRecord {
    let topic: Topic
    let key: [UInt8]
    /// Behind the prefix, the transactional id of all commands of a kind.
    let transactionalName: String

    /// An audit of a run; before the change, as nothing is changed that is not on record.
    static func audit(runID: String, transactionalName: String) -> LoneRecord {
        LoneRecord(topic: .audit, key: Array(runID.utf8), transactionalName: transactionalName)
    }

    /// Stores the value that `append` writes.
    ///
    /// The deadline is for taking over the transactional id; Kafka may be away.
    func store(
        _ configuration: Configuration,
        deadlineMilliseconds: Int = 60_000,
        _ append: (inout [UInt8]) -> Void
    ) throws(CommandFailure) {
        var outputs = OutputBatch()
        let key = outputs.place(key)
        outputs.append(topic: 0, key: key, append)
        try KafkaQuestion.failing(configuration) { () throws(LogFault) in
            let transactor = try KafkaTransactor(
                settings: configuration.kafka,
                transactionalID: "\(configuration.topicPrefix)\(transactionalName)",
                targets: [topic.name(prefix: configuration.topicPrefix)]
            )
            defer { transactor.close() }
            try transactor.takeOver(deadlineMilliseconds: deadlineMilliseconds)
            _ = try transactor.commit(outputs)
        }
    }
}

/// How a run stands, as its audit has it.
enum AuditState: String {
    case running, finished, interrupted
    /// Not all of it was done.
    case stopped
}

extension JSONWriter {
    /// Begins a value of `<prefix>audit.v1` with what all of them have, at UNIX milliseconds.
    mutating func beginAudit(
        _ action: String,
        _ order: HandOrder,
        part: (number: Int, state: String)? = nil,
        at: Int64
    ) {
        beginObject()
        field("action", action)
        field("runId", order.id)
        if let part {
            field("part", part.number)
            field("state", part.state)
        }
        field("at", at)
        field("by", order.by)
        field("why", order.why)
    }
}
