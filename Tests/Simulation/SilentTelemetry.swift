package import Kafka
package import StageRuntime
package import TokenDomain

/// Counts nothing: the log is the witness.
package final class SilentTelemetry: LoopTelemetry {
    package init() {}

    package func instant() -> UInt64 { 0 }
    package func judged(recordCount: Int, since instant: UInt64) {}
    package func received(_ batch: RecordBatch, sources: [String], now: Timestamp) {}
    package func completed(_ outcome: String, recordCount: Int) {}
    package func buried(_ letter: BuriedLetter) {}
    package func committed(_ tally: TokenTally) {}
    package func aborted(code: String) {}
    package func assigned(_ partitions: [TopicPartition]) {}
    package func lost(partitionCount: Int) {}
    package func restoring(partition: Int32, progress: (next: Int64, end: Int64)?) {}
    package func restored(partition: Int32, recordCount: Int) {}
}
