internal import Kafka
internal import TokenDomain

/// Where records lie: a batch counts topics, the group names them.
extension WorkerLoop {
    func place(of record: RecordBatch.Record) -> RepeatedAborts.Place {
        RepeatedAborts.Place(
            partition: sourcePartition(record.topic, record.partition),
            offset: record.offset
        )
    }

    func sourcePartition(_ topic: Int, _ partition: Int32) -> TopicPartition {
        TopicPartition(topic: log.sources[topic], partition: partition)
    }

    /// Whether the account of tokens counts such a record; see ``TokenTally``.
    func isToken(_ record: RecordBatch.Record) -> Bool {
        switch (worker, worker.sources[record.topic]) {
        case (.decode, .tokensReceived), (.dedupe, .tokensDecoded), (.report, .tokensDistinct): true
        default: false
        }
    }

    /// What the metrics count of a plan, to run after its commit: a transaction that is aborted and tried
    /// again counts once.
    func counting(_ plan: BatchPlan) -> [() -> Void] {
        let (outcomes, deadLetters) = (plan.outcomes, plan.deadLetters)
        guard !outcomes.isEmpty || !deadLetters.isEmpty else {
            return []
        }
        let tell = { [telemetry] in
            for (outcome, recordCount) in outcomes {
                telemetry.completed(outcome, recordCount: recordCount)
            }
            deadLetters.forEach(telemetry.wroteDeadLetter)
        }
        return [tell]
    }
}
