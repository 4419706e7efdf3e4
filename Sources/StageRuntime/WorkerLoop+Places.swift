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
}
