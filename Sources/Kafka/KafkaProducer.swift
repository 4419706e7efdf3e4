internal import CKafka

/// The idempotent producer of `ingest`: batches in, receipts out, nothing blocks.
///
/// Safe because the handle lives as long as this object, or until ``close(deadlineMilliseconds:)``,
/// and what a call shows is copied before the next one. One thread calls it.
@safe package final class KafkaProducer {
    /// The results of outputs handed over one after the other with one tag.
    package struct Receipt: Equatable, Sendable {
        /// Comes back as it was handed over.
        package var tag: UInt64
        /// At least 1; a tag's outputs may come back in several receipts.
        package var outputCount: Int
        /// Kafka's error name, such as `_MSG_TIMED_OUT`; nil when they are stored on `acks=all`.
        package var failure: String?
        package var isStored: Bool { failure == nil }

        package init(tag: UInt64, outputCount: Int, failure: String?) {
            self.tag = tag
            self.outputCount = outputCount
            self.failure = failure
        }
    }

    /// Key, value and headers; the client library refuses a megabyte with what it puts around them.
    package static let recordByteCountMax = 999_000

    package let targets: [String]
    /// Whether the broker was asked about the targets.
    package private(set) var isNamed = false
    private let queueByteCountMax: Int
    private var open: OpaquePointer?

    /// Makes the client.
    ///
    /// Asks the broker nothing about the targets: it may be away, and one that makes topics by itself
    /// would make them. `queueByteCountMax` bounds what may wait for it.
    package convenience init(
        settings: KafkaSettings,
        targets: [String],
        queueByteCountMax: Int = 32 << 20
    ) throws(LogFault) {
        try settings.check()
        try self.init(
            configuration: settings.ingestProducer(queueByteCountMax: queueByteCountMax),
            targets: targets,
            queueByteCountMax: queueByteCountMax
        )
    }

    /// One whose records no broker takes; see ``KafkaRights``.
    convenience init(probing settings: KafkaSettings, targets: [String]) throws(LogFault) {
        try settings.check()
        try self.init(
            configuration: settings.probe,
            targets: targets,
            queueByteCountMax: 2 * KafkaRights.provableByteCountMax
        )
    }

    private init(
        configuration: [CChar],
        targets: [String],
        queueByteCountMax: Int
    ) throws(LogFault) {
        self.targets = targets
        self.queueByteCountMax = queueByteCountMax
        let made = try unsafe LogFault.made { fault in
            unsafe ckafka_producer_new(
                configuration,
                CText.list(targets),
                queueByteCountMax,
                &fault
            )
        }
        unsafe open = made
        wakeDescriptor = unsafe ckafka_producer_wake_descriptor(made)
    }

    deinit {
        close(deadlineMilliseconds: 0)
    }

    private var handle: OpaquePointer {
        guard let handle = unsafe open else {
            preconditionFailure("the producer was closed")
        }
        return unsafe handle
    }

    /// Keeps batches within `topicByteCountMax`, the smallest `max.message.bytes` of the targets.
    ///
    /// A broker holds whole batches against a topic's limit, and refuses each record of one that is
    /// larger. Where that can be, a new client takes the place of this one: to be called before
    /// anything is handed over, with the settings that this was made with.
    package func limitBatches(
        topicByteCountMax: Int,
        settings: KafkaSettings
    ) throws(LogFault) {
        guard topicByteCountMax < KafkaSettings.batchByteCountMax else {
            return
        }
        let configuration = settings.ingestProducer(
            queueByteCountMax: queueByteCountMax,
            topicByteCountMax: topicByteCountMax
        )
        try LogFault.check { fault in
            unsafe ckafka_producer_reopen(handle, configuration, &fault)
        }
    }

    /// Asks the broker about the targets, so that the first records need not wait a second.
    ///
    /// Only once they are known to be there.
    package func nameTargets() {
        isNamed = true
        unsafe ckafka_producer_name_targets(handle)
    }

    /// Hands over outputs, each with a tag that its receipt brings back.
    ///
    /// Never blocks; an output for which there is no room gets a receipt that says so.
    ///
    /// - Throws: ``LogFault/recordTooLarge(outputIndex:byteCount:byteCountMax:)``; then nothing of
    ///   the batch was handed over.
    package func produce(_ outputs: OutputBatch, tags: [UInt64]) throws(LogFault) {
        precondition(tags.count == outputs.outputs.count, "one tag per output")
        for (index, output) in outputs.outputs.enumerated() {
            guard output.byteCount <= Self.recordByteCountMax else {
                throw LogFault.recordTooLarge(
                    outputIndex: index,
                    byteCount: output.byteCount,
                    byteCountMax: Self.recordByteCountMax
                )
            }
        }
        hand(over: outputs, tags: tags)
    }

    /// Of any size.
    func hand(over outputs: OutputBatch, tags: [UInt64]) {
        let flat = outputs.flat
        unsafe ckafka_producer_produce(handle, flat, flat.count, outputs.arena, tags)
    }

    /// The receipts since the last call.
    ///
    /// Every output is in exactly one of them.
    ///
    /// After an error that ends an idempotent producer a new one takes its place, and what was
    /// waiting is reported as failed; some of it may have been stored.
    package func takeReceipts() throws(LogFault) -> [Receipt] {
        var shown: UnsafePointer<ckafka_receipt>?
        var count = 0
        try LogFault.check { fault in
            unsafe ckafka_producer_take_receipts(handle, &shown, &count, &fault)
        }
        return unsafe UnsafeBufferPointer(start: shown, count: count).map { receipt in
            Receipt(
                tag: receipt.tag,
                outputCount: Int(receipt.output_count),
                failure: receipt.code == 0 ? nil : LogFault.name(ofCode: receipt.code)
            )
        }
    }

    /// Becomes readable when receipts wait.
    package let wakeDescriptor: Int32

    /// How full the queue is, 0 to 1: refuse at the door from one half on.
    package var fillLevel: Double {
        Double(unsafe ckafka_producer_waiting_byte_count(handle)) / Double(queueByteCountMax)
    }

    /// Outputs without a receipt.
    package var waitingCount: Int { unsafe ckafka_producer_waiting_count(handle) }

    /// True from the moment no broker answers until one does.
    package var isBrokerAway: Bool { unsafe ckafka_producer_is_away(handle) != 0 }

    /// As ``KafkaLog/loginRefusal``.
    package var loginRefusal: String? {
        let handle = unsafe handle
        return unsafe CText.refusal { unsafe ckafka_producer_login_refusal(handle, $0, $1) }
    }

    /// What the client library said since the last call, oldest first; at most 64 are kept.
    package func takeNotes() -> [KafkaNote] {
        let handle = unsafe handle
        return unsafe KafkaNote.collect { notes, capacity in
            unsafe ckafka_producer_take_notes(handle, notes, capacity)
        }
    }

    /// Waits for the receipts of what was handed over.
    ///
    /// - Returns: whether all are there.
    package func flush(deadlineMilliseconds: Int) -> Bool {
        unsafe ckafka_producer_flush(handle, Int32(clamping: deadlineMilliseconds)) != 0
    }

    package func close(deadlineMilliseconds: Int) {
        guard let handle = unsafe open else {
            return
        }
        unsafe open = nil
        unsafe ckafka_producer_close(handle, Int32(clamping: deadlineMilliseconds))
    }
}
