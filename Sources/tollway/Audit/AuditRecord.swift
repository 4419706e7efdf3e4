internal import Kafka
internal import StageRuntime
internal import TokenDomain

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
        let start = outputs.arena.count
        append(&outputs.arena)
        outputs.outputs.append(
            OutputBatch.Output(topic: 0, key: key, value: outputs.placed(from: start))
        )
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
