internal import CKafka
internal import CLibrdkafka

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
    private let member: KafkaLog.Member
    private let inquirer: LogClient
    let inquiries: Inquiries
    /// By which the group knew us last.
    private var memberID = ""

    init(
        member: KafkaLog.Member,
        consumer: [CChar],
        producer: [CChar],
        inquirer: LogClient,
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
                inquirer.library,
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
        self.member = member
        self.inquirer = inquirer
        inquiries = unsafe Inquiries(of: made, group: member.group, asking: inquirer)
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
        try check { fault in
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

    /// The partitions of an assignment that came since the last call.
    func takeAssigned() -> [ckafka_position]? {
        var shown: UnsafePointer<ckafka_position>?
        var count = 0
        guard unsafe ckafka_worker_take_assigned(handle, &shown, &count) != 0 else {
            return nil
        }
        let consumer = unsafe ckafka_worker_consumer(handle)
        if let id = unsafe rd_kafka_memberid(consumer) {
            memberID = unsafe String(cString: id)
            unsafe rd_kafka_mem_free(consumer, id)
        }
        return unsafe Array(UnsafeBufferPointer(start: shown, count: count))
    }

    /// Lets the assignment be shown.
    func noteStarts() {
        unsafe ckafka_worker_note_starts(handle)
    }

    func assign(_ starts: [ckafka_position]) throws(LogFault) {
        try check { fault in unsafe ckafka_worker_assign(handle, starts, starts.count, &fault) }
    }

    func unassign() throws(LogFault) {
        inquiries.forgetStarts()
        try check { fault in unsafe ckafka_worker_unassign(handle, &fault) }
    }

    /// Calls the C side, and asks Kafka where only that tells what is wrong.
    @inline(__always)
    private func check(_ call: (inout ckafka_fault) -> Int32) throws(LogFault) {
        var fault = ckafka_fault()
        guard call(&fault) == 0 else {
            throw settled(fault)
        }
    }

    private func settled(_ fault: ckafka_fault) -> LogFault {
        let seen = LogFault(fault)
        switch seen {
        case .recordsLost(let partition, let position, _, _):
            do throws(LogFault) {
                let (start, end) = try inquirer.watermarks(partition)
                return .recordsLost(partition, position: position, start: start, end: end)
            } catch {
                return seen
            }
        case .fenced
        where fault.code == RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID.rawValue && !isNameTaken():
            // Where no heartbeat was answered for a whole session, librdkafka ends the session by itself
            // and forgets its member id. Until the lost partitions are given back it goes on with
            // heartbeats, which name nobody then; a coordinator that is back from an outage, and still
            // knows the member, calls that fenced, and for the library it is fatal (#3437). There is no
            // other instance to wait for.
            return .unusable(
                message:
                    "the session ended while Kafka was away, and the client library cannot begin"
                    + " another: a restart does"
            )
        default: return seen
        }
    }

    /// Whether somebody else has our name; so it is taken, too, where the group does not answer.
    private func isNameTaken() -> Bool {
        do throws(LogFault) {
            return try inquirer.group(member.group).members.contains {
                $0.name == member.instance && $0.id != memberID
            }
        } catch {
            return true
        }
    }

    /// Hands a transaction over: its outputs are copied, and its arena is lent.
    ///
    /// An array's storage stays where it is, and as it is, while somebody keeps the array and nobody
    /// writes to it: it is kept here until no message of the client library points into it.
    func submit(_ outputs: consuming OutputBatch, positions: [ckafka_position]) throws(LogFault) {
        var flat: UnsafeMutablePointer<ckafka_output>?
        try check { fault in
            unsafe ckafka_worker_prepare(handle, outputs.outputs.count, &flat, &fault)
        }
        for (index, output) in outputs.outputs.enumerated() {
            unsafe flat?[index] = output.flat
        }
        let slot = freeSlot()
        lent[slot] = outputs
        try check { fault in
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
        try check { fault in
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

    func takeNotes() -> [KafkaNote] {
        let handle = unsafe handle
        return unsafe KafkaNote.collect { notes, capacity in
            unsafe ckafka_worker_take_notes(handle, notes, capacity)
        } + inquirer.takeNotes()
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
        let end = ContinuousClock.now + .milliseconds(deadlineMilliseconds)
        func left() -> Int32 { Int32(clamping: LogClient.milliseconds(until: end)) }
        // Both use the handles: where one does not end nothing is freed, and the process's end does it.
        if inquiries.close(deadlineMilliseconds: deadlineMilliseconds),
            unsafe ckafka_worker_close(handle, left()) != 0
        {
            inquirer.close(deadlineMilliseconds: Int(left()))
        } else {
            // It may be read until the process ends.
            _ = unsafe Unmanaged.passRetained(LeftBehind(lent, inquirer))
        }
        lent = []
    }
}

/// Memory that is never freed.
private final class LeftBehind {
    private let outputs: [OutputBatch]
    private let inquirer: LogClient

    init(_ outputs: [OutputBatch], _ inquirer: LogClient) {
        self.outputs = outputs
        self.inquirer = inquirer
    }
}
