/// The log as a worker sees it: read a batch, hand over one transaction, poll its result.
///
/// Kept by the real client (`KafkaLog`) and by the `MemoryLog` of the pipeline simulation; what both
/// promise is written down once, in `RecordLogContract` of the tests. One thread calls it.
package protocol RecordLog: AnyObject {
    /// Full names of the topics it reads; `Record.topic` is an index into it.
    var sources: [String] { get }
    /// Full names of the topics it writes; `Output.topic` is an index into it.
    var targets: [String] { get }

    /// Appends to `batch` what is there, at most `recordCountMax` records.
    ///
    /// Waits at most `waitMilliseconds` for the first record or event; 0 only looks. Events come
    /// alone and first: a call that returns one has read nothing, and no record is delivered until
    /// the event was completed.
    /// - Throws: what is wrong with the world or the configuration; never because of a record.
    func poll(
        into batch: inout RecordBatch,
        recordCountMax: Int,
        waitMilliseconds: Int
    ) throws(LogFault) -> GroupEvent?

    /// Takes the partitions of the last `.assigning` event: reading starts at the committed
    /// positions, at the earliest record where none is committed.
    ///
    /// - Parameter isHeld: whether nothing of a partition is delivered before ``release(_:)`` names it.
    /// - Returns: where each partition will be read from; -1 where that is unknown, for nothing is
    ///   committed and no leader tells its first record: it is read from 0, and nothing of it may
    ///   be committed before that has given a record or the partition's end.
    /// - Throws: what is wrong with the client.
    func completeAssignment(isHeld: Bool) throws(LogFault) -> [TopicPartition: Int64]

    /// Delivers what there is of the partition with this number, of every source.
    func release(_ partition: Int32)

    /// Gives back the partitions of the last `.revoking` or `.lost` event, drops the transaction
    /// under way: its result is never returned, and nothing is assigned before it ended.
    ///
    /// What was lost must be given back at once. Until then the client library's heartbeats name no
    /// member, and a coordinator that is back from an outage answers that with a fence, as if a twin
    /// had the worker's name.
    func completeRevocation() throws(LogFault)

    /// Starts one transaction: writes `outputs`, sends `positions`, commits. At most one is under way.
    ///
    /// `outputs` is taken over; ``emptyOutputs()`` gives its memory back when it is no longer needed.
    /// `positions` has the next offset of every partition that the transaction touches, also where
    /// it did not move. It is never empty: the group's generation check is the only fence between
    /// instances.
    func submit(
        _ outputs: consuming OutputBatch,
        positions: [TopicPartition: Int64]
    ) throws(LogFault)

    /// Outputs to be filled for a transaction, with memory of an earlier one where there is some.
    func emptyOutputs() -> OutputBatch

    /// The commit result of the transaction under way; nil while it is unknown, or without one.
    func takeCommitResult(waitMilliseconds: Int) throws(LogFault) -> CommitResult?

    /// The next offset that each partition of a topic will write (read uncommitted), by number.
    /// Asks the broker without blocking the loop: nil until the answer of an earlier call is there.
    func endOffsets(ofTopic topic: String) throws(LogFault) -> [Int64]?

    /// The committed offsets of another group on a topic, by partition number; nil entries where
    /// nothing is committed. Nil as a whole until the answer is there.
    func committedOffsets(ofGroup group: String, topic: String) throws(LogFault) -> [Int64?]?

    /// Reads a changelog partition from `offset` up to its high watermark at the time of the call.
    func changelogReader(
        _ partition: TopicPartition,
        from offset: Int64
    ) throws(LogFault) -> any ChangelogReader

    /// Becomes readable when a record, an event or a commit result waits; -1 where there is none.
    var wakeDescriptor: Int32 { get }

    /// Leaves within the deadline, whatever the broker does.
    func close(deadlineMilliseconds: Int)
}

extension RecordLog {
    package func emptyOutputs() -> OutputBatch { OutputBatch() }

    package func completeAssignment() throws(LogFault) -> [TopicPartition: Int64] {
        try completeAssignment(isHeld: false)
    }
}

/// What the group wants of this member.
package enum GroupEvent: Equatable, Sendable {
    case assigning([TopicPartition])
    /// Still ours until completed: commit first.
    case revoking([TopicPartition])
    /// No longer ours: nothing may be committed for them.
    case lost([TopicPartition])
}

package enum CommitResult: Equatable, Sendable {
    /// All of it, or nothing, and it was all. `nextOffsets`: for each partition written to, the
    /// offset after the last record written by this transaction.
    case committed(nextOffsets: [TopicPartition: Int64])
    /// Nothing of it. Reading goes on at the committed positions given, -1 where the assignment
    /// began so; what was read since is void.
    case aborted(code: String, resumedAt: [TopicPartition: Int64])
}

/// One partition of a changelog, read to its high watermark of when the reader was made.
package protocol ChangelogReader: AnyObject {
    /// The high watermark to be reached: not the last stable offset, which an open transaction of a
    /// dead writer holds back while committed state lies behind it.
    var endOffset: Int64 { get }
    /// The first offset the log still has.
    var startOffset: Int64 { get }
    /// Kafka's topic id, or its name where the broker gives none: a recreated topic has another id.
    var topicIdentity: String { get }
    /// When the record at offset 0 was written, UNIX milliseconds; nil where it is gone.
    ///
    /// Also of a transaction that is open, or was aborted: its time is the topic's.
    func firstRecordTime() throws(LogFault) -> Int64?
    /// Appends what is there; true once `endOffset` was reached.
    func read(into batch: inout RecordBatch, recordCountMax: Int, waitMilliseconds: Int)
        throws(LogFault) -> Bool
    func close()
}

/// What is wrong with the log, by what the worker must do.
package enum LogFault: Error, Equatable, Sendable {
    /// The broker is away or says try again: wait, keep asking, say so once a minute.
    case unavailable(code: String, message: String)
    /// A newer instance has our name: give the partitions back, wait 60 s, exit 75.
    case fenced(message: String)
    /// A call hangs or the client is beyond repair: exit 75 and be restarted.
    case unusable(message: String)
    /// A setting, a right or a topic is wrong: one sentence, exit 2.
    case misconfigured(message: String)
    /// We called in an order that is forbidden: our own fault, which no restart repairs: exit 70.
    case ours(message: String)
    /// What was to be read next is not there: records were removed before they were read, or the
    /// topic was cut off or made anew.
    ///
    /// `start` and `end` are what there is, -1 where unknown. A person decides whether to go on.
    case recordsLost(TopicPartition, position: Int64, start: Int64, end: Int64)
    /// A record larger than the topic takes, found before it was written.
    case recordTooLarge(outputIndex: Int, byteCount: Int, byteCountMax: Int)
}
