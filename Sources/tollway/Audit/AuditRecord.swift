internal import Kafka
internal import StageRuntime
internal import TokenDomain
internal import TokenWire

/// Writes an audit that no other record goes with.
struct AuditRecord {
    let runID: String
    /// Behind the prefix, the transactional id of all commands of a kind.
    let transactionalName: String

    /// Stores the value that `append` writes; before the change, as nothing is changed that is not on
    /// record.
    func store(
        _ configuration: Configuration,
        _ append: (inout [UInt8]) -> Void
    ) throws(CommandFailure) {
        var outputs = OutputBatch()
        let key = outputs.place(runID.utf8)
        outputs.append(topic: 0, key: key, append)
        do throws(LogFault) {
            let transactor = try KafkaTransactor(
                settings: configuration.kafka,
                transactionalID: "\(configuration.topicPrefix)\(transactionalName)",
                targets: [Topic.audit.name(prefix: configuration.topicPrefix)]
            )
            defer { transactor.close() }
            try transactor.takeOver()
            _ = try transactor.commit(outputs)
        } catch {
            throw KafkaQuestion.failure(error, configuration)
        }
    }
}

extension JSONWriter {
    /// Begins a value of `<prefix>audit.v1` with what all of them have, at UNIX milliseconds.
    mutating func beginAudit(
        _ action: String,
        _ runID: String,
        part: (number: Int, state: String)? = nil,
        at: Int64,
        by: String,
        why: String?
    ) {
        beginObject()
        field("action", action)
        field("runId", runID)
        if let part {
            field("part", part.number)
            field("state", part.state)
        }
        field("at", at)
        field("by", by)
        field("why", why)
    }
}
