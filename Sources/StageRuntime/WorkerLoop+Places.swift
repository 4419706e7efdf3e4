internal import Kafka

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

    /// A transaction that is aborted is tried again, and writes its dead letters once.
    func telling(_ deadLetters: [WrittenDeadLetter]) -> [() -> Void] {
        deadLetters.isEmpty
            ? [] : [{ [telemetry] in deadLetters.forEach(telemetry.wroteDeadLetter) }]
    }
}
