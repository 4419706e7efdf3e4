package import Kafka

/// The loop's own events.
///
/// The real one counts and logs; the simulation's keeps a tally.
package protocol LoopTelemetry: AnyObject {
    /// A monotonic instant, nanoseconds, for ``judged(recordCount:since:)``.
    func instant() -> UInt64
    func judged(recordCount: Int, since instant: UInt64)
    func received(_ batch: RecordBatch)
    /// So many records of a committed transaction ended: `forwarded`, `dead_letter` or the reason
    /// they were settled for.
    func completed(_ outcome: String, recordCount: Int)
    /// One dead letter was committed: for a record, or for a debt that a tick found refused.
    func wroteDeadLetter(_ deadLetter: WrittenDeadLetter)
    /// A transaction is committed, and `tally` counts the tokens that it settled.
    func committed(_ tally: TokenTally)
    func aborted(code: String)
    func assigned(_ partitions: [TopicPartition])
    func lost(partitionCount: Int)
    /// A store cannot be right: it is wiped, and read anew from its changelog.
    func wiped(partition: Int32, because reason: String)
    /// Another process holds the store of a partition; said once, and then waited for.
    func locked(partition: Int32, because reason: String)
    /// A store was closed, and what it had in memory is in its changelog alone.
    func unwritten(partition: Int32, because reason: String)
    /// So many partitions wait for their state to be read, the one that is read now among them.
    func restoring(partitionCount: Int)
    func restoring(partition: Int32, progress: (next: Int64, end: Int64))
    func restored(partition: Int32, recordCount: Int)
}
