internal import CKafka

/// The one owner of a worker's C handle, and of what works beside it: who asks, and who commits.
///
/// Safe because the handle lives exactly as long as this object, or until ``close``, after which
/// every call is refused by a precondition; and what a call shows is copied before the next one.
@safe final class WorkerHandle {
    private var open: OpaquePointer?
    let wakeDescriptor: Int32
    private let inquirer: LogClient
    let inquiries: Inquiries
    let committer: Committer

    init(
        member: KafkaLog.Member,
        consumer: [CChar],
        inquirer: LogClient,
        sources: [String],
        committing: Committer.Setup
    ) throws(LogFault) {
        let made = try unsafe LogFault.made { fault in
            unsafe ckafka_worker_new(
                consumer,
                inquirer.library,
                CText.list(sources),
                Int32(clamping: committing.watchdogMilliseconds),
                &fault
            )
        }
        inquiries = unsafe Inquiries(of: made, as: member, asking: inquirer)
        do throws(LogFault) {
            committer = try unsafe Committer(of: made, committing, inquiries: inquiries)
        } catch {
            unsafe ckafka_worker_close(made, Int32(LogClient.closeMilliseconds))
            throw error
        }
        self.inquirer = inquirer
        wakeDescriptor = unsafe ckafka_worker_wake_descriptor(made)
        unsafe open = made
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

    /// Calls the C side, and asks Kafka where only that tells what is wrong.
    @inline(__always)
    private func check(_ call: (inout ckafka_fault) -> Int32) throws(LogFault) {
        var fault = ckafka_fault()
        guard call(&fault) == 0 else {
            throw inquiries.settled(fault)
        }
    }

    func forgetWakes() {
        unsafe ckafka_worker_forget_wakes(handle)
    }

    func poll(
        recordCountMax: Int,
        waitMilliseconds: Int,
        into batch: inout ckafka_batch
    ) throws(LogFault) {
        try committer.check()
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
        return unsafe Array(UnsafeBufferPointer(start: shown, count: count))
    }

    func showAssigned() {
        unsafe ckafka_worker_show_assigned(handle)
    }

    func assign(_ starts: [ckafka_position], isHeld: Bool) throws(LogFault) {
        committer.moveOn(discarding: false)
        try check { fault in
            unsafe ckafka_worker_assign(handle, starts, starts.count, isHeld ? 1 : 0, &fault)
        }
    }

    func release(_ partition: Int32) {
        unsafe ckafka_worker_release(handle, partition)
    }

    func unassign() throws(LogFault) {
        committer.moveOn(discarding: true)
        inquiries.forgetStarts()
        try check { fault in unsafe ckafka_worker_unassign(handle, &fault) }
    }

    func rewind(to positions: [ckafka_position]) throws(LogFault) {
        try check { fault in
            unsafe ckafka_worker_rewind(handle, positions, positions.count, &fault)
        }
    }

    func takeNotes() -> [KafkaNote] {
        let handle = unsafe handle
        let own = unsafe KafkaNote.collect { unsafe ckafka_worker_take_notes(handle, $0, $1) }
        return own + inquiries.takeNotes() + committer.takeNotes() + inquirer.takeNotes()
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

    var loginRefusal: String? {
        let handle = unsafe handle
        return unsafe CText.refusal { unsafe ckafka_worker_login_refusal(handle, $0, $1) }
    }

    var isAssigning: Bool { unsafe ckafka_worker_is_assigning(handle) != 0 }

    /// What hangs keeps what it uses, until the process ends: nothing of that is freed.
    func close(deadlineMilliseconds: Int) {
        guard let handle = unsafe open else {
            return
        }
        unsafe open = nil
        let end = ContinuousClock.now + .milliseconds(deadlineMilliseconds)
        func left() -> Int { LogClient.milliseconds(until: end) }
        guard committer.stop(deadlineMilliseconds: deadlineMilliseconds),
            inquiries.close(deadlineMilliseconds: left()),
            unsafe ckafka_worker_close(handle, Int32(clamping: left())) != 0
        else {
            _ = unsafe (Unmanaged.passRetained(committer), Unmanaged.passRetained(inquirer))
            return
        }
        committer.close(deadlineMilliseconds: left())
        inquirer.close(deadlineMilliseconds: left())
    }
}
