internal import CKafka

/// The log of one worker on a real Kafka: its group's consumer, its producer, its commit thread.
///
/// What the consumer promises and refuses is said at ``RecordLog``; the defects of the client
/// library are named where they are worked around, each with its number.
package final class KafkaLog: RecordLog {
    /// Who this worker is to Kafka.
    package struct Member: Sendable, Equatable {
        /// Consumer group, such as `tollway.decode`.
        package var group: String
        /// Stable over restarts: names the static member.
        package var instance: String
        /// Stable over restarts, such as `tollway.decode-0`: fences the predecessor's transaction.
        package var transactionalID: String

        package init(group: String, instance: String, transactionalID: String) {
            self.group = group
            self.instance = instance
            self.transactionalID = transactionalID
        }
    }

    /// Kafka's default for `max.message.bytes` of a topic.
    package static let recordByteCountMaxDefault = 1_048_588

    package let sources: [String]
    package let targets: [String]
    private let settings: KafkaSettings
    private let sourceIndices: [String: Int32]
    /// Where the partitions of an assignment are to be read from.
    private var starts: [TopicPartition: Int64] = [:]
    @safe let handle: WorkerHandle
    /// Read committed, for changelogs; made with the first of them.
    private var committed: LogClient?
    /// Read uncommitted, for their high watermarks.
    private var uncommitted: LogClient?

    /// Makes the clients and starts their threads.
    ///
    /// Asks the broker nothing: it may be away. The changelog is the member of `targets` that holds
    /// the state; under at-least-once it is written after the other outputs are stored.
    /// `recordByteCountMax` has the `max.message.bytes` of targets that differ from Kafka's
    /// default.
    ///
    /// - Throws: ``LogFault/misconfigured(message:)`` for settings the client library refuses.
    package init(
        settings: KafkaSettings,
        delivery: KafkaDelivery,
        member: Member,
        sources: [String],
        targets: [String],
        changelog: String? = nil,
        recordByteCountMax: [String: Int] = [:]
    ) throws(LogFault) {
        try settings.check()
        self.sources = sources
        self.targets = targets
        self.settings = settings
        sourceIndices = Dictionary(
            uniqueKeysWithValues: sources.enumerated().map { ($1, Int32($0)) }
        )
        let recordDefault = Self.recordByteCountMaxDefault
        let limits = targets.map { recordByteCountMax[$0] ?? recordDefault }
        let transactionalID = delivery == .exactlyOnce ? member.transactionalID : nil
        handle = try WorkerHandle(
            member: member,
            consumer: settings.consumer(member: member, hasChangelog: changelog != nil),
            inquirer: LogClient(
                settings: settings.inquirer(group: member.group),
                deadlineMilliseconds: Inquiries.deadlineMilliseconds
            ),
            sources: sources,
            committing: Committer.Setup(
                settings: settings.workerProducer(
                    transactionalID: transactionalID,
                    topicByteCountMax: (limits.min() ?? recordDefault)...(limits.max()
                        ?? recordDefault)
                ),
                targets: targets,
                limits: limits.map(Int64.init),
                changelog: changelog.flatMap { targets.firstIndex(of: $0) },
                transactionalID: transactionalID,
                watchdogMilliseconds: settings.watchdogMilliseconds
            )
        )
    }

    package var wakeDescriptor: Int32 { handle.wakeDescriptor }

    /// Forgets wakes so far, after a wait for the descriptor and before everything is looked at anew:
    /// a wake that comes between a look and this call would be lost.
    package func forgetWakes() { handle.forgetWakes() }

    package func poll(
        into batch: inout RecordBatch,
        recordCountMax: Int,
        waitMilliseconds: Int
    ) throws(LogFault) -> GroupEvent? {
        try serveAssignment()
        var shown = unsafe ckafka_batch()
        try unsafe handle.poll(
            recordCountMax: recordCountMax,
            waitMilliseconds: waitMilliseconds,
            into: &shown
        )
        unsafe batch.append(shown)
        // An assignment that came with this poll: its event waits for the answer, and nothing else
        // wakes the loop for it.
        try serveAssignment()
        guard unsafe shown.event != Int32(CKAFKA_EVENT_NONE) else {
            return nil
        }
        let partitions = unsafe UnsafeBufferPointer(
            start: shown.event_partitions,
            count: shown.event_partition_count
        ).filter { $0.topic >= 0 }.map { TopicPartition($0, of: sources) }.sorted()
        switch unsafe Int(shown.event) {
        case CKAFKA_EVENT_ASSIGN: return .assigning(partitions)
        case CKAFKA_EVENT_REVOKE: return .revoking(partitions)
        default: return .lost(partitions)
        }
    }

    /// Asks where a new assignment is to be read from; its event is shown once that is known, and our
    /// own producer's start has ended the predecessor's transaction.
    private func serveAssignment() throws(LogFault) {
        if let assigned = handle.takeAssigned() {
            handle.inquiries.findStarts(
                of: assigned.filter { $0.topic >= 0 }.map { TopicPartition($0, of: sources) }
            )
        }
        guard handle.isAssigning, let found = try handle.inquiries.starts() else {
            return
        }
        starts = found
        if handle.committer.isReady {
            handle.showAssigned()
        }
    }

    package func completeAssignment(
        isHeld: Bool
    ) throws(LogFault) -> [TopicPartition: Int64] {
        try handle.assign(flat(starts), isHeld: isHeld)
        return starts
    }

    package func release(_ partition: Int32) { handle.release(partition) }

    /// The result of a transaction under way is not returned afterwards; the next assignment waits
    /// until it is known.
    package func completeRevocation() throws(LogFault) {
        starts = [:]
        try handle.unassign()
    }

    package func submit(
        _ outputs: consuming OutputBatch,
        positions: [TopicPartition: Int64]
    ) throws(LogFault) {
        precondition(!positions.isEmpty, "a transaction without positions is fenced by nothing")
        precondition(positions.keys.allSatisfy { sourceIndices[$0.topic] != nil }, "no source")
        try handle.committer.submit(outputs, positions: positions)
    }

    package func emptyOutputs() -> OutputBatch { handle.committer.emptyOutputs() }

    package func takeCommitResult(waitMilliseconds: Int) throws(LogFault) -> CommitResult? {
        let result = try handle.committer.takeCommitResult(waitMilliseconds: waitMilliseconds)
        guard case .aborted(let code, let committed) = result else {
            return result
        }
        // Where nothing was ever committed since the assignment, reading goes on where it began.
        let resumed = starts.merging(committed.filter { starts[$0.key] != nil }) { $1 }
        try handle.rewind(to: flat(resumed))
        return .aborted(code: code, resumedAt: resumed)
    }

    package func endOffsets(ofTopic topic: String) throws(LogFault) -> [Int64]? {
        try handle.inquiries.ask(.ends(topic: topic))
    }

    package func committedOffsets(
        ofGroup group: String,
        topic: String
    ) throws(LogFault) -> [Int64?]? {
        try handle.inquiries.ask(.committed(group: group, topic: topic))?.map { $0 < 0 ? nil : $0 }
    }

    package func changelogReader(
        _ partition: TopicPartition,
        from offset: Int64
    ) throws(LogFault) -> any ChangelogReader {
        let uncommitted = try client(&self.uncommitted, isolation: .readUncommitted)
        let marks = try uncommitted.watermarks(partition)
        return KafkaChangelogReader(
            partition: partition,
            from: offset,
            startOffset: marks.start,
            endOffset: marks.end,
            committed: try client(&committed, isolation: .readCommitted),
            uncommitted: uncommitted
        )
    }

    /// What the client library said since the last call, oldest first; at most 64 a handle are kept.
    package func takeNotes() -> [KafkaNote] { handle.takeNotes() }

    /// The client library's last statistics, as JSON; empty where nothing is new.
    ///
    /// Every five seconds; the watermarks of the partitions read are those of the last fetch.
    package func takeStatistics() -> [UInt8] { handle.takeStatistics() }

    /// True from the moment no broker answers until one does.
    package var isBrokerAway: Bool { handle.isAway }

    /// The right or the topic that the consumer lacks, in a sentence.
    ///
    /// When that lasts beyond ``KafkaSettings/watchdogMilliseconds``,
    /// ``poll(into:recordCountMax:waitMilliseconds:)`` fails with it.
    package var refusal: String? { handle.refusal }

    /// Why no broker has let us in, told every 30 s: a password or a certificate that one of both sides does not
    /// take.
    package var loginRefusal: String? { handle.loginRefusal }

    /// Whether partitions were assigned and it is not known yet where they are to be read from: a
    /// transaction of a predecessor may have to end first.
    package var isAssigning: Bool { handle.isAssigning }

    /// How many of the positions that the last assignment began at were set by another program than ours:
    /// records may have been passed by.
    package var positionsSetElsewhere: Int { handle.inquiries.setElsewhereCount }

    /// Producers made since the start; more than one means fatal errors, unknown commit results or
    /// lost coordinators.
    package var producerCount: Int { handle.committer.producerCount }

    /// Leaves the group and frees everything, or leaves it to the process's end when the time is over.
    package func close(deadlineMilliseconds: Int) {
        let end = ContinuousClock.now + .milliseconds(deadlineMilliseconds)
        // What leaves the group comes first: the others hold nothing that anybody waits for.
        handle.close(deadlineMilliseconds: deadlineMilliseconds)
        for client in [committed, uncommitted] {
            client?.close(deadlineMilliseconds: LogClient.milliseconds(until: end))
        }
        committed = nil
        uncommitted = nil
    }

    private func client(
        _ slot: inout LogClient?,
        isolation: LogBrowser.Isolation
    ) throws(LogFault) -> LogClient {
        if let client = slot {
            return client
        }
        let client = try LogClient(
            settings: settings.reader(isolation: isolation, isExact: true),
            deadlineMilliseconds: KafkaChangelogReader.questionMilliseconds
        )
        slot = client
        return client
    }

    private func flat(_ positions: [TopicPartition: Int64]) -> [ckafka_position] {
        positions.map { partition, offset in
            guard let topic = sourceIndices[partition.topic] else {
                preconditionFailure("\(partition) is no source")
            }
            return ckafka_position(
                offset: max(0, offset),
                topic: topic,
                partition: partition.partition
            )
        }
    }
}
