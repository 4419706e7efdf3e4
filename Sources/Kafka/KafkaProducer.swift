/// The idempotent producer of `ingest`: batches in, receipts out, nothing blocks.
package final class KafkaProducer {
    /// What became of one output.
    package struct Receipt: Equatable, Sendable {
        package var tag: UInt64
        /// Kafka's error name, such as `_MSG_TIMED_OUT`; nil when it is stored on `acks=all`.
        package var failure: String?
        package var isStored: Bool { failure == nil }
    }

    package let targets: [String]

    /// Makes the client. Asks the broker nothing: it may be away.
    ///
    /// - Parameter queueByteCountMax: what may wait for the broker at most.
    package init(
        settings: KafkaSettings,
        targets: [String],
        queueByteCountMax: Int = 32 << 20
    ) throws(LogFault) {
        self.targets = targets
        throw LogFault.unusable(message: "not built yet")
    }

    /// Hands over outputs, each with a tag that its receipt brings back. Never blocks; an output
    /// for which there is no room gets a receipt that says so.
    package func produce(_ outputs: OutputBatch, tags: [UInt64]) throws(LogFault) {}

    /// The receipts since the last call.
    package func takeReceipts() throws(LogFault) -> [Receipt] { [] }

    /// Becomes readable when receipts wait.
    package var wakeDescriptor: Int32 { -1 }
    /// How full the queue is, 0 to 1: refuse at the door from one half on.
    package var fillLevel: Double { 0 }
    /// Outputs without a receipt.
    package var waitingCount: Int { 0 }
    /// True from the moment no broker answers, or none has stored for 5 s what waits, until one does.
    package var isBrokerAway: Bool { false }
    package func takeNotes() -> [KafkaNote] { [] }

    /// Waits for the receipts of what was handed over.
    ///
    /// - Returns: whether all are there.
    package func flush(deadlineMilliseconds: Int) -> Bool { true }
    package func close(deadlineMilliseconds: Int) {}
}
