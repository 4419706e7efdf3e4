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

    /// A transaction that is aborted is tried again, and writes its dead letters once.
    func telling(_ deadLetters: [WrittenDeadLetter]) -> [() -> Void] {
        deadLetters.isEmpty
            ? [] : [{ [telemetry] in deadLetters.forEach(telemetry.wroteDeadLetter) }]
    }
}
