package import Kafka
package import StageRuntime

/// Keeps little: tests check the log.
package final class SilentTelemetry: LoopTelemetry {
    /// How many partitions waited for their state, and how many were assigned, for each call.
    package private(set) var restoringCounts: [Int] = []
    package private(set) var assignedCounts: [Int] = []
    /// Why stores were wiped.
    package private(set) var wipeReasons: [String] = []
    /// Of stores that another process held, each time that this was said.
    package private(set) var lockedPartitions: [Int32] = []
    /// How many records ended with each outcome.
    package private(set) var completedCounts: [String: Int] = [:]
    package private(set) var abortCount = 0

    package init() {}

    package func instant() -> UInt64 { 0 }
    package func judged(recordCount: Int, since instant: UInt64) {}
    package func received(_ batch: RecordBatch) {}
    package func completed(_ outcome: String, recordCount: Int) {
        completedCounts[outcome, default: 0] += recordCount
    }
    package func wroteDeadLetter(_ deadLetter: WrittenDeadLetter) {}
    package func committed(_ tally: TokenTally) {}
    package func aborted(code: String) {
        abortCount += 1
    }
    package func assigned(_ partitions: [TopicPartition]) {
        assignedCounts.append(partitions.count)
    }
    package func lost(partitionCount: Int) {}
    package func wiped(partition: Int32, because reason: String) {
        wipeReasons.append(reason)
    }

    package func locked(partition: Int32, because reason: String) {
        lockedPartitions.append(partition)
    }

    package func unwritten(partition: Int32, because reason: String) {}
    package func restoring(partitionCount: Int) {
        restoringCounts.append(partitionCount)
    }
    package func restoring(partition: Int32, progress: (next: Int64, end: Int64)) {}
    package func restored(partition: Int32, recordCount: Int) {}
}
