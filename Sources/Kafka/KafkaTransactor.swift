internal import CKafka

/// Transactions by hand, one after the other, under a name that fences whoever had it before: for
/// the operator's command.
///
/// Workers have ``KafkaLog``, whose group fences. Every call blocks. Safe because the handle lives as
/// long as this object, or until ``close()``, and what a call shows is copied before the next one.
@safe package final class KafkaTransactor {
    /// A transaction that its owner left open ends after so long by itself, and when somebody takes
    /// the name over, at once.
    ///
    /// Short, for readers stand still behind it: one is a few megabytes at the most, and takes 100 ms.
    package static let transactionMilliseconds = 15_000

    /// For what is open to be aborted, and the client to end.
    private static let closeMilliseconds: Int32 = 7_000

    package let targets: [String]
    private var open: OpaquePointer?

    /// Makes the client.
    ///
    /// Asks the broker nothing. `recordByteCountMax` has the `max.message.bytes` of targets that
    /// differ from Kafka's default.
    package init(
        settings: KafkaSettings,
        transactionalID: String,
        targets: [String],
        recordByteCountMax: [String: Int] = [:]
    ) throws(LogFault) {
        try settings.check()
        self.targets = targets
        let usual = KafkaLog.recordByteCountMaxDefault
        let limits = targets.map { recordByteCountMax[$0] ?? usual }
        let made = try unsafe LogFault.made { fault in
            unsafe ckafka_transactor_new(
                settings.workerProducer(
                    transactionalID: transactionalID,
                    topicByteCountMax: (limits.min() ?? usual)...(limits.max() ?? usual),
                    transactionMilliseconds: Self.transactionMilliseconds
                ),
                CText.list(targets),
                limits.map(Int64.init),
                &fault
            )
        }
        unsafe open = made
    }

    deinit {
        close()
    }

    private var handle: OpaquePointer {
        guard let handle = unsafe open else {
            preconditionFailure("the transactor was closed")
        }
        return unsafe handle
    }

    /// Takes the name: from then on nobody who had it before can commit, and what was open under it
    /// has ended, one way or the other.
    package func takeOver(deadlineMilliseconds: Int = 60_000) throws(LogFault) {
        try LogFault.check { fault in
            unsafe ckafka_transactor_take_over(
                handle,
                Int32(clamping: deadlineMilliseconds),
                &fault
            )
        }
    }

    /// Writes everything in one transaction.
    ///
    /// - Returns: the offset after the last record, of each partition written to.
    /// - Throws: ``LogFault/fenced(message:)`` where somebody else took the name. Whatever is thrown,
    ///   it is not known whether the transaction was committed: close this one, take over with a new
    ///   one, and read what is there.
    package func commit(_ outputs: OutputBatch) throws(LogFault) -> [TopicPartition: Int64] {
        var shown: UnsafePointer<ckafka_position>?
        var count = 0
        let flat = outputs.flat
        try LogFault.check { fault in
            unsafe ckafka_transactor_commit(
                handle,
                flat,
                flat.count,
                outputs.arena,
                &shown,
                &count,
                &fault
            )
        }
        let positions = unsafe Array(UnsafeBufferPointer(start: shown, count: count))
        return Dictionary(
            positions.map { position in
                (
                    TopicPartition(
                        topic: targets[Int(position.topic)],
                        partition: position.partition
                    ),
                    position.offset
                )
            },
            uniquingKeysWith: max
        )
    }

    package func close() {
        guard let handle = unsafe open else {
            return
        }
        unsafe open = nil
        unsafe ckafka_transactor_close(handle, Self.closeMilliseconds)
    }
}
