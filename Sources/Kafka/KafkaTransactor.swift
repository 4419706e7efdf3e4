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
    private static let closeMilliseconds = 7_000
    /// For all outputs to be stored; below the transaction's own time.
    private static let storeMilliseconds: Int32 = 10_000
    private static let commitMilliseconds: Int32 = 30_000

    package let targets: [String]
    private var open: OpaquePointer?
    /// A step failed: nothing more is done with it.
    private var isSpent = false

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
        unsafe open = ckafka_transaction_new(
            settings.workerProducer(
                transactionalID: transactionalID,
                topicByteCountMax: (limits.min() ?? usual)...(limits.max() ?? usual),
                transactionMilliseconds: Self.transactionMilliseconds
            ),
            CText.list(targets),
            limits.map(Int64.init),
            1
        )
        try LogFault.check { fault in unsafe ckafka_transaction_open(core, &fault) }
    }

    deinit {
        close()
    }

    private var core: OpaquePointer {
        guard let core = unsafe open else {
            preconditionFailure("the transactor was closed")
        }
        return unsafe core
    }

    private func check(_ verdict: Int32) throws(LogFault) {
        guard Int(verdict) != CKAFKA_FINE else {
            return
        }
        isSpent = true
        var fault = ckafka_fault()
        unsafe ckafka_transaction_show_error(core, &fault)
        throw LogFault(fault)
    }

    /// Takes the name: from then on nobody who had it before can commit, and what was open under it
    /// has ended, one way or the other.
    package func takeOver(deadlineMilliseconds: Int = 60_000) throws(LogFault) {
        unsafe ckafka_transaction_end_after(core, Int32(clamping: deadlineMilliseconds))
        try check(unsafe ckafka_transaction_init(core))
        // Also where time ran out: a leader that is not known is only waited for later.
        _ = unsafe ckafka_transaction_warm_up(core)
    }

    /// Writes everything in one transaction.
    ///
    /// - Returns: the offset after the last record, of each partition written to.
    /// - Throws: ``LogFault/fenced(message:)`` where somebody else took the name. Whatever is thrown,
    ///   it is not known whether the transaction was committed: close this one, take over with a new
    ///   one, and read what is there.
    package func commit(_ outputs: OutputBatch) throws(LogFault) -> [TopicPartition: Int64] {
        guard !isSpent, unsafe ckafka_transaction_is_worn(core) == 0,
            unsafe ckafka_transaction_lost_connection(core) == 0
        else {
            throw .unavailable(code: "_TRANSPORT", message: "a connection was lost")
        }
        let flat = outputs.flat
        try LogFault.check { fault in
            unsafe ckafka_transaction_check(core, flat, flat.count, &fault)
        }
        try check(unsafe ckafka_transaction_begin(core))
        let store = Self.storeMilliseconds
        try check(
            unsafe ckafka_transaction_produce(core, flat, flat.count, outputs.arena, store)
        )
        try check(unsafe ckafka_transaction_flush(core, store))
        try check(unsafe ckafka_transaction_commit(core, Self.commitMilliseconds))
        var shown: UnsafePointer<ckafka_position>?
        let count = unsafe ckafka_transaction_written(core, &shown)
        return unsafe .init(UnsafeBufferPointer(start: shown, count: count), of: targets)
    }

    package func close() {
        guard let core = unsafe open else {
            return
        }
        unsafe open = nil
        let end = ContinuousClock.now + .milliseconds(Self.closeMilliseconds)
        func left() -> Int32 { Int32(clamping: LogClient.milliseconds(until: end)) }
        // Readers wait behind what is open until it times out; if this fails, they do.
        if unsafe ckafka_transaction_is_open(core) != 0 {
            _ = unsafe ckafka_transaction_abort(core, left())
        }
        // One that hangs may still write notes: then the memory is left to the process's end.
        _ = unsafe ckafka_transaction_close(core, left())
    }
}
