internal import CKafka
internal import CLibrdkafka
internal import Glibc
internal import Synchronization

/// A worker's transactions, one after the other on a thread of its own; here is the loop's side of it.
///
/// Each step may block while the loop has a group to answer and records to judge.
///
/// `@unchecked`: what both threads share lies under the lock. What a transaction is made of belongs to
/// the loop until it is submitted, and to the thread from then until it is done.
@safe final class Committer: @unchecked Sendable {
    struct Setup {
        var settings: [CChar]
        var targets: [String]
        /// The largest record of each target.
        var limits: [Int64]
        /// Its index in the targets: written last where there is no transaction.
        var changelog: Int?
        /// Nil where there are no transactions.
        var transactionalID: String?
        /// Above the transaction's 40 s.
        var watchdogMilliseconds: Int

        var isTransactional: Bool { transactionalID != nil }
    }

    enum Stage {
        case nothing
        case submitted
        case running
        /// Nil where the thread has given up.
        case done(CommitResult?)
    }

    /// Where the calls are that can hang, whatever their timeout says (#5456): for the watchdog.
    enum Phase {
        case resting
        /// Waits until a time of day for what no broker has taken yet: where the clock is set back meanwhile,
        /// for as much longer.
        case storing
        case sendingOffsets
        case ending
        case asking
        /// Takes the name over. Its coordinator is looked for as long as nobody says where it is, such as
        /// while the partition of `__transaction_state` has no leader, and nothing tells of it.
        case naming
    }

    struct State {
        var stage = Stage.nothing
        /// Nobody waits for what is submitted or running.
        var isDiscarded = false
        var isClosing = false
        var hasEnded = false
        var isReady = false
        var producerCount = 0
        /// Changes with every assignment and revocation.
        var epoch = 0
        var phase = Phase.resting
        var phaseSince = ContinuousClock.now
        /// Why there will be no more transactions.
        var fault: LogFault?
        var notes: [KafkaNote] = []
    }

    private static let lookMilliseconds: Int32 = 100

    let state = Mutex(State())
    let setup: Setup
    let worker: OpaquePointer
    let consumer: OpaquePointer
    let inquiries: Inquiries
    let core: OpaquePointer
    /// Raised for the thread, and for the loop.
    private let work = ckafka_signal_open()
    private let news = ckafka_signal_open()
    private let wakeDescriptor: Int32

    // The transaction.
    var outputs: [ckafka_output] = []
    var positions: [TopicPartition: Int64] = [:]
    var epoch = 0
    var arena: UnsafePointer<UInt8>?
    /// What is lent, each in the slot of its bit.
    private var lent = [OutputBatch](repeating: OutputBatch(), count: 16)

    // The thread's alone.
    /// Identifies this process in commit metadata, not its predecessors: two lives with one mark could
    /// take each other's commit for their own.
    let life = String(UInt64.random(in: .min ... .max), radix: 16)
    var number = 0
    var failure = ckafka_fault()
    var madeAt = ContinuousClock.now
    var rebuilds: [ContinuousClock.Instant] = []
    /// Something, without a commit in between.
    var refusedSince: ContinuousClock.Instant?
    /// The last time.
    var refusedAt: ContinuousClock.Instant?
    /// Only starts of producers were refused: one that is well ends it.
    var isOnlyStartRefused = false

    init(of worker: OpaquePointer, _ setup: Setup, inquiries: Inquiries) throws(LogFault) {
        // Wrong settings are refused now, not by the thread.
        try LogFault.check { fault in unsafe ckafka_check_settings(setup.settings, &fault) }
        guard let consumer = unsafe ckafka_worker_consumer(worker),
            let core = unsafe ckafka_transaction_new(
                setup.settings,
                CText.list(setup.targets),
                setup.limits,
                setup.isTransactional ? 1 : 0
            )
        else {
            preconditionFailure("a worker has a consumer, and a transaction memory")
        }
        precondition(work >= 0 && news >= 0, "the system gives two descriptors")
        self.setup = setup
        unsafe self.worker = worker
        unsafe self.consumer = consumer
        unsafe self.core = core
        self.inquiries = inquiries
        wakeDescriptor = unsafe ckafka_worker_wake_descriptor(worker)
        DetachedThread.start { [self] in run() }
    }

    deinit {
        Glibc.close(work)
        Glibc.close(news)
    }

    // MARK: - The loop's side

    /// Hands a transaction over: its outputs are copied, and its arena is lent.
    ///
    /// An array's storage stays where it is, and as it is, while somebody keeps the array and nobody
    /// writes to it: it is kept here until no message of the client library points into it.
    func submit(
        _ batch: consuming OutputBatch,
        positions: [TopicPartition: Int64]
    ) throws(LogFault) {
        try check()
        guard case .nothing = state.withLock({ $0.stage }) else {
            throw .ours(message: "a transaction is under way already")
        }
        outputs.removeAll(keepingCapacity: true)
        for output in batch.outputs {
            outputs.append(output.flat)
        }
        try LogFault.check { fault in
            unsafe ckafka_transaction_check(core, outputs, outputs.count, &fault)
        }
        outputs.moveFirstsForward()
        self.positions = positions
        let slot = freeSlot()
        lent[slot] = batch
        unsafe arena = lent[slot].arena.withUnsafeBufferPointer { $0.baseAddress }
        unsafe ckafka_transaction_lend(core, worker, 1 << UInt32(slot))
        state.withLock { state in
            epoch = state.epoch
            state.stage = .submitted
        }
        ckafka_signal_raise(work)
    }

    /// One without outputs, with the memory of one that was handed over before.
    func emptyOutputs() -> OutputBatch {
        let used = unsafe ckafka_transaction_lent(core)
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
        let used = unsafe ckafka_transaction_lent(core)
        // Producers that hang in their end are far fewer than slots; see `retiringCountMax`.
        guard let slot = lent.indices.first(where: { used >> UInt32($0) & 1 == 0 }) else {
            preconditionFailure("more transactions than producers use memory that was lent")
        }
        return slot
    }

    /// The commit result of the transaction under way; nil while it is unknown, or without one.
    ///
    /// Where it was aborted it has what the group has committed, as far as that is known.
    func takeCommitResult(waitMilliseconds: Int) throws(LogFault) -> CommitResult? {
        let end = ContinuousClock.now + .milliseconds(waitMilliseconds)
        while true {
            try check()
            let (result, isAwaited) = state.withLock { state -> (CommitResult?, Bool) in
                switch state.stage {
                case .nothing: return (nil, false)
                case .submitted, .running: return (nil, !state.isDiscarded)
                case .done(let result):
                    state.stage = .nothing
                    return (result, false)
                }
            }
            let left = LogClient.milliseconds(until: end)
            guard isAwaited, left > 0 else {
                return result
            }
            ckafka_signal_wait(news, min(Int32(clamping: left), Self.lookMilliseconds))
        }
    }

    /// The assignment changes, and with it whether a transaction under way counts.
    ///
    /// Before the library may join again: the thread looks after it has read the group's generation, so
    /// no offset of the old assignment goes out under a new generation.
    func moveOn(discarding: Bool) {
        state.withLock { state in
            state.epoch += 1
            guard discarding else {
                return
            }
            switch state.stage {
            case .submitted, .running: state.isDiscarded = true
            case .nothing, .done: state.stage = .nothing
            }
        }
    }

    /// Whether an assignment may begin: our own producer's start has ended the predecessor's
    /// transaction, and none of a former assignment is under way.
    var isReady: Bool { state.withLock { $0.isReady && !$0.isDiscarded } }

    var producerCount: Int { state.withLock { $0.producerCount } }

    /// - Throws: what the thread found, or that it hangs.
    func check() throws(LogFault) {
        // Kafka as a whole may be away for as long as it likes.
        let isAway = unsafe ckafka_worker_is_away(worker) != 0
        let (phase, since, fault) = state.withLock { state in
            if isAway, state.phase == .naming {
                state.phaseSince = .now
            }
            return (state.phase, state.phaseSince, state.fault)
        }
        let limit = setup.watchdogMilliseconds
        let time = ContinuousClock.now - since
        switch phase {
        case .asking where time > .seconds(Inquiries.patienceSeconds):
            throw Inquiries.untold(RD_KAFKA_RESP_ERR_UNSTABLE_OFFSET_COMMIT, about: "")
        case .storing where time > .milliseconds(Self.storingMillisecondsMax):
            throw .unusable(
                message: "storing records hangs for more than \(Self.storingMillisecondsMax) ms"
            )
        case .sendingOffsets where time > .milliseconds(limit):
            throw Self.hang("sending offsets", limit)
        case .ending where time > .milliseconds(limit):
            throw Self.hang("ending a transaction", limit)
        case .naming where time > .milliseconds(limit):
            throw Self.hang("taking the transactional id over", limit)
        default: break
        }
        if let fault {
            throw fault
        }
    }

    /// Its own end is at 30 s, also while Kafka is away.
    private static let storingMillisecondsMax = Int(storeMilliseconds) + 15_000

    private static func hang(_ what: String, _ milliseconds: Int) -> LogFault {
        .unusable(
            message:
                "\(what) hangs for more than \(milliseconds) ms: its coordinator does not answer"
        )
    }

    func takeNotes() -> [KafkaNote] {
        let own = state.withLock { state in
            defer { state.notes = [] }
            return state.notes
        }
        let core = unsafe core
        return unsafe own
            + KafkaNote.collect { unsafe ckafka_transaction_take_notes(core, $0, $1) }
    }

    /// Ends the thread, and begins the producer's end; false where it does not end in time.
    func stop(deadlineMilliseconds: Int) -> Bool {
        let end = ContinuousClock.now + .milliseconds(deadlineMilliseconds)
        state.withLock { $0.isClosing = true }
        unsafe ckafka_transaction_stop(core)
        ckafka_signal_raise(work)
        while !state.withLock({ $0.hasEnded }) {
            let left = LogClient.milliseconds(until: end)
            guard left > 0 else {
                return false
            }
            ckafka_signal_wait(news, Int32(clamping: left))
        }
        unsafe ckafka_transaction_drop(core)
        return true
    }

    /// Once it was stopped.
    func close(deadlineMilliseconds: Int) {
        if unsafe ckafka_transaction_close(core, Int32(clamping: deadlineMilliseconds)) == 0 {
            // What was lent may be read until the process ends.
            _ = unsafe Unmanaged.passRetained(self)
        }
    }

    // MARK: - The thread's loop

    var isClosing: Bool { state.withLock { $0.isClosing } }
    var hasGivenUp: Bool { state.withLock { $0.fault != nil } }
    /// Whether the assignment is not the one any more that the records were read under.
    var hasMoved: Bool { state.withLock { $0.epoch } != epoch }

    private func run() {
        while !(wantsRebuild() && !makeReady()) {
            ckafka_signal_wait(work, Self.lookMilliseconds)
            if isClosing {
                break
            }
            guard case .submitted = state.withLock({ $0.stage }) else {
                continue
            }
            state.withLock { $0.stage = .running }
            // Found out only now that the connection was lost: the transaction waits for it.
            if wantsRebuild(), !makeReady() {
                break
            }
            let result = transact()
            state.withLock { state in
                state.stage = state.isDiscarded ? .nothing : .done(result)
                state.isDiscarded = false
            }
            tell()
        }
        state.withLock { $0.hasEnded = true }
        ckafka_signal_raise(news)
    }

    /// The loop looks again.
    func tell() {
        ckafka_signal_raise(news)
        ckafka_signal_raise(wakeDescriptor)
    }

    /// Its next call throws it.
    func giveUp(_ fault: LogFault) {
        state.withLock { $0.fault = fault }
        tell()
    }

    func during<Value>(_ phase: Phase, _ call: () -> Value) -> Value {
        enter(phase)
        defer { enter(.resting) }
        return call()
    }

    func enter(_ phase: Phase) {
        state.withLock { state in
            state.phase = phase
            state.phaseSince = .now
        }
    }
}
