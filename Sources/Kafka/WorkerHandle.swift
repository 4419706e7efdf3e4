internal import CKafka

/// The one owner of a worker's C handle: every pointer of it stays in here.
///
/// Safe because the handle lives exactly as long as this object, or until ``close``, after which
/// every call is refused by a precondition; and what a call shows is copied before the next one.
@safe final class WorkerHandle {
    enum Outcome {
        case committed([ckafka_position])
        case aborted(code: String, [ckafka_position])
    }

    private var open: OpaquePointer?
    /// What is lent for transactions, each in the slot of its bit.
    private var lent = [OutputBatch](repeating: OutputBatch(), count: 16)
    let wakeDescriptor: Int32

    init(
        consumer: [CChar],
        producer: [CChar],
        inquirer: [CChar],
        sources: [CChar],
        targets: [CChar],
        limits: [Int64],
        changelog: Int?,
        isTransactional: Bool,
        watchdogMilliseconds: Int
    ) throws(LogFault) {
        let made = try unsafe LogFault.made { fault in
            unsafe ckafka_worker_new(
                consumer,
                producer,
                inquirer,
                sources,
                targets,
                limits,
                Int32(changelog ?? -1),
                isTransactional ? 1 : 0,
                Int32(clamping: watchdogMilliseconds),
                &fault
            )
        }
        unsafe open = made
        wakeDescriptor = unsafe ckafka_worker_wake_descriptor(made)
    }

    deinit {
        // It was not closed: the process goes on, so its threads must not.
        close(deadlineMilliseconds: 1000)
    }

    private var handle: OpaquePointer {
        guard let handle = unsafe open else {
            preconditionFailure("the log was closed")
        }
        return unsafe handle
    }

    func poll(
        recordCountMax: Int,
        waitMilliseconds: Int,
        into batch: inout ckafka_batch
    ) throws(LogFault) {
        try LogFault.check { fault in
            unsafe ckafka_worker_poll(
                handle,
                max(recordCountMax, 0),
                RecordBatch.byteCountMax,
                Int32(clamping: waitMilliseconds),
                &batch,
                &fault
            )
        }
    }

    func assign() throws(LogFault) -> [ckafka_position] {
        var shown: UnsafePointer<ckafka_position>?
        var count = 0
        try LogFault.check { fault in unsafe ckafka_worker_assign(handle, &shown, &count, &fault) }
        return unsafe Array(UnsafeBufferPointer(start: shown, count: count))
    }

    func unassign() throws(LogFault) {
        try LogFault.check { fault in unsafe ckafka_worker_unassign(handle, &fault) }
    }

    /// Hands a transaction over: its outputs are copied, and its arena is lent.
    ///
    /// An array's storage stays where it is, and as it is, while somebody keeps the array and nobody
    /// writes to it: it is kept here until no message of the client library points into it.
    func submit(_ outputs: consuming OutputBatch, positions: [ckafka_position]) throws(LogFault) {
        var flat: UnsafeMutablePointer<ckafka_output>?
        try LogFault.check { fault in
            unsafe ckafka_worker_prepare(handle, outputs.outputs.count, &flat, &fault)
        }
        for (index, output) in outputs.outputs.enumerated() {
            unsafe flat?[index] = output.flat
        }
        let slot = freeSlot()
        lent[slot] = outputs
        try LogFault.check { fault in
            unsafe lent[slot].arena.withUnsafeBufferPointer { arena in
                unsafe ckafka_worker_submit(
                    handle,
                    arena.baseAddress,
                    1 << UInt32(slot),
                    positions,
                    positions.count,
                    &fault
                )
            }
        }
    }

    /// One without outputs, with the memory of one that was handed over before.
    func emptyOutputs() -> OutputBatch {
        let used = unsafe ckafka_worker_lent(handle)
        for slot in lent.indices where used >> UInt32(slot) & 1 == 0 {
            guard lent[slot].arena.capacity > 0 else {
                continue
            }
            var outputs = OutputBatch()
            swap(&outputs, &lent[slot])
            outputs.removeAll()
            return outputs
        }
        return OutputBatch()
    }

    private func freeSlot() -> Int {
        let used = unsafe ckafka_worker_lent(handle)
        // Producers that hang in their end are far fewer than slots; see `RETIRING_MAX`.
        guard let slot = lent.indices.first(where: { used >> UInt32($0) & 1 == 0 }) else {
            preconditionFailure("more transactions than producers use memory that was lent")
        }
        return slot
    }

    func takeOutcome(waitMilliseconds: Int) throws(LogFault) -> Outcome? {
        var outcome = unsafe ckafka_outcome()
        try LogFault.check { fault in
            unsafe ckafka_worker_take_outcome(
                handle,
                Int32(clamping: waitMilliseconds),
                &outcome,
                &fault
            )
        }
        let positions = unsafe Array(
            UnsafeBufferPointer(start: outcome.positions, count: outcome.position_count)
        )
        switch unsafe Int(outcome.kind) {
        case CKAFKA_OUTCOME_COMMITTED: return .committed(positions)
        case CKAFKA_OUTCOME_ABORTED:
            return .aborted(code: unsafe CText.text(of: outcome.code), positions)
        default: return nil
        }
    }

    func inquire(group: String?, topic: String) throws(LogFault) -> [Int64]? {
        var fault = ckafka_fault()
        var shown: UnsafePointer<Int64>?
        var count = 0
        switch unsafe ckafka_worker_inquire(handle, group, topic, &shown, &count, &fault) {
        case 0: return nil
        case 1: return unsafe Array(UnsafeBufferPointer(start: shown, count: count))
        default: throw LogFault(fault)
        }
    }

    func takeNotes() -> [KafkaNote] {
        let handle = unsafe handle
        return unsafe KafkaNote.collect { notes, capacity in
            unsafe ckafka_worker_take_notes(handle, notes, capacity)
        }
    }

    func takeStatistics() -> [UInt8] {
        var shown: UnsafePointer<CChar>?
        let count = unsafe ckafka_worker_take_statistics(handle, &shown)
        return unsafe UnsafeBufferPointer(start: shown, count: count).map { UInt8(bitPattern: $0) }
    }

    var isAway: Bool { unsafe ckafka_worker_is_away(handle) != 0 }

    var refusal: String? {
        guard let text = unsafe ckafka_worker_refusal(handle) else {
            return nil
        }
        return unsafe String(cString: text)
    }

    var isAssigning: Bool { unsafe ckafka_worker_is_assigning(handle) != 0 }

    var producerCount: Int { Int(unsafe ckafka_worker_producer_count(handle)) }

    func close(deadlineMilliseconds: Int) {
        guard let handle = unsafe open else {
            return
        }
        unsafe open = nil
        if unsafe ckafka_worker_close(handle, Int32(clamping: deadlineMilliseconds)) == 0 {
            // It may be read until the process ends.
            _ = unsafe Unmanaged.passRetained(LeftBehind(lent))
        }
        lent = []
    }
}

/// Memory that is never freed.
private final class LeftBehind {
    private let outputs: [OutputBatch]

    init(_ outputs: [OutputBatch]) {
        self.outputs = outputs
    }
}
