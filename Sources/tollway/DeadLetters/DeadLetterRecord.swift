internal import Kafka
internal import TokenDomain

/// One dead letter of a batch: where its parts lie in the batch's arena.
struct DeadLetterRecord {
    var stage: Worker
    var record: RecordBatch.Record
    var headers: DeadLetterHeaders
    /// When it failed last, UNIX milliseconds; Kafka's own time where no header says so.
    var failedAt: Int64
    /// What a replay or a discard has made of it; nil while it is open.
    var settled: SettledDeadLetters.State?

    var position: DeadLetterPosition {
        DeadLetterPosition(stage: stage, partition: record.partition, offset: record.offset)
    }

    init(_ record: RecordBatch.Record, stage: Worker, in arena: Span<UInt8>) {
        self.stage = stage
        self.record = record
        headers = DeadLetterHeaders(record.headers, in: arena)
        failedAt = headers.time(.failedAt, in: arena) ?? record.timestampMilliseconds
    }
}
