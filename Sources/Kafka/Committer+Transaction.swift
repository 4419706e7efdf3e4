internal import CKafka
internal import CLibrdkafka
internal import Glibc
internal import Synchronization

/// A transaction, and all that repairs one which did not end well: the thread's side of a ``Committer``.
extension Committer {
    /// How a step ended; see `CKAFKA_FINE` and its neighbours.
    enum Verdict {
        case fine
        case abort
        case rebuild
    }

    /// For all outputs to be stored; below the transaction's 40 s.
    static let storeMilliseconds: Int32 = 30_000
    private static let abortMilliseconds: Int32 = 10_000
    private static let committedMilliseconds: Int32 = 5_000
    static let retryMilliseconds: Int32 = 50
    /// Beside the watchdog: what lasts is refused again until then, also by a new producer.
    private static let refusalPause = Duration.seconds(10)

    func transact() -> CommitResult? {
        number += 1
        let verdict = setup.isTransactional ? runExactlyOnce() : runAtLeastOnce()
        let result = verdict == .fine ? committed(written()) : settle(verdict)
        unsafe ckafka_transaction_let_go(core)
        return result
    }

    /// What the offsets of this transaction carry.
    private var mark: String { CommitMark.of(life: life, number: number) }

    private func committed(_ written: [TopicPartition: Int64]) -> CommitResult {
        refusedSince = nil
        return .committed(nextOffsets: written)
    }

    /// The offset after the last record in each partition written, while the producer is still there.
    private func written() -> [TopicPartition: Int64] {
        var shown: UnsafePointer<ckafka_position>?
        let count = unsafe ckafka_transaction_written(core, &shown)
        return unsafe .init(UnsafeBufferPointer(start: shown, count: count), of: setup.targets)
    }

    // MARK: - The steps

    func step(_ verdict: Int32) -> Verdict {
        guard Int(verdict) != CKAFKA_FINE else {
            return .fine
        }
        unsafe ckafka_transaction_show_error(core, &failure)
        return Int(verdict) == CKAFKA_ABORT ? .abort : .rebuild
    }

    private func failed(_ code: rd_kafka_resp_err_t, _ verdict: Verdict) -> Verdict {
        failure = ckafka_fault()
        failure.code = code.rawValue
        return verdict
    }

    private func write(_ outputs: [ckafka_output]) -> Verdict {
        during(.storing) { store(outputs) }
    }

    private func store(_ outputs: [ckafka_output]) -> Verdict {
        let end = ContinuousClock.now + .milliseconds(Self.storeMilliseconds)
        let verdict = step(
            unsafe ckafka_transaction_produce(
                core,
                outputs,
                outputs.count,
                arena,
                Self.storeMilliseconds
            )
        )
        let left = Int32(clamping: LogClient.milliseconds(until: end))
        return verdict == .fine ? step(unsafe ckafka_transaction_flush(core, left)) : verdict
    }

    private func runExactlyOnce() -> Verdict {
        // Nothing was begun, so nothing is to be aborted: what would be fenced is not even written.
        var verdict = unsafe withMembership { _ in .fine }
        guard verdict == .fine else {
            return verdict
        }
        verdict = step(unsafe ckafka_transaction_begin(core))
        guard verdict == .fine else {
            return verdict
        }
        verdict = write(outputs)
        // With the coordinator away sending offsets blocks for a minute, whatever its timeout (#5456): a
        // new producer waits for the broker without that.
        if verdict == .fine, unsafe ckafka_transaction_is_away(core) != 0 {
            return failed(RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, .rebuild)
        }
        if verdict == .fine {
            verdict = unsafe withMembership { membership in
                let list = unsafe positionList()
                defer { unsafe rd_kafka_topic_partition_list_destroy(list) }
                return during(.sendingOffsets) {
                    step(unsafe ckafka_transaction_send_offsets(core, list, membership))
                }
            }
        }
        if verdict == .fine {
            verdict = during(.ending) { step(unsafe ckafka_transaction_commit(core, -1)) }
        }
        if verdict == .abort, failure.code == RD_KAFKA_RESP_ERR__PURGE_QUEUE.rawValue {
            askWhyPurged()
        }
        if verdict != .fine {
            noteRefusal()
        }
        guard verdict == .abort else {
            return verdict
        }
        let isAborted = during(.ending) {
            unsafe ckafka_transaction_abort(core, Self.abortMilliseconds) == CKAFKA_FINE
        }
        return isAborted ? .abort : .rebuild
    }

    /// Of a transaction that will be aborted: records that were purged do not say why.
    private func askWhyPurged() {
        _ = unsafe withMembership { membership in
            let list = unsafe positionList()
            defer { unsafe rd_kafka_topic_partition_list_destroy(list) }
            return during(.sendingOffsets) {
                unsafe ckafka_transaction_ask_why(core, list, membership)
                unsafe ckafka_transaction_show_error(core, &failure)
                return .abort
            }
        }
    }

    private func runAtLeastOnce() -> Verdict {
        guard !hasMoved else {
            return failed(RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION, .abort)
        }
        let changelog = Int32(setup.changelog ?? -1)
        var verdict = step(unsafe ckafka_transaction_begin(core))
        if verdict == .fine {
            verdict = write(outputs.filter { $0.topic != changelog })
        }
        if verdict == .fine {
            verdict = write(outputs.filter { $0.topic == changelog })
        }
        guard verdict == .fine else {
            noteRefusal()
            return .rebuild
        }
        return during(.sendingOffsets) { commitPositions() }
    }

    private func positionList() -> UnsafeMutablePointer<rd_kafka_topic_partition_list_t> {
        unsafe PartitionList.make(positions.map { ($0.key, $0.value) }, mark: mark)
    }

    /// With what the group knows us by; aborts where it would not take offsets from us.
    private func withMembership(_ work: (OpaquePointer) -> Verdict) -> Verdict {
        guard let membership = unsafe rd_kafka_consumer_group_metadata(consumer) else {
            return failed(RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION, .abort)
        }
        defer { unsafe rd_kafka_consumer_group_metadata_destroy(membership) }
        // The epoch is looked at after the generation was read: a new generation needs an unassign
        // first, which changes the epoch.
        guard unsafe Self.isMember(membership), !hasMoved else {
            return failed(RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION, .abort)
        }
        return unsafe work(membership)
    }

    /// Whether there is a generation, and a member: the broker would take offsets without one from
    /// anybody.
    ///
    /// `CGMDv2:`, the only public way to it, then the generation, group NUL member NUL.
    private static func isMember(_ membership: OpaquePointer) -> Bool {
        var written: UnsafeMutableRawPointer?
        var count = 0
        if let error = unsafe rd_kafka_consumer_group_metadata_write(membership, &written, &count) {
            unsafe rd_kafka_error_destroy(error)
            return false
        }
        defer { unsafe rd_kafka_mem_free(nil, written) }
        let bytes = unsafe Array(UnsafeRawBufferPointer(start: written, count: count))
        let head = Array("CGMDv2:".utf8)
        guard bytes.starts(with: head), bytes.count > head.count + 4 else {
            return false
        }
        // Little-endian, as the machine: negative by its last byte.
        let names = bytes[(head.count + 4)...].split(separator: 0, omittingEmptySubsequences: false)
        return bytes[head.count + 3] < 0x80 && names.count > 1 && !names[1].isEmpty
    }

    /// Without a transaction: until it is taken, or cannot be.
    private func commitPositions() -> Verdict {
        let list = unsafe positionList()
        defer { unsafe rd_kafka_topic_partition_list_destroy(list) }
        let end = ContinuousClock.now + .milliseconds(Self.storeMilliseconds)
        while true {
            let code =
                hasMoved
                ? RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION : unsafe rd_kafka_commit(consumer, list, 0)
            switch code {
            case RD_KAFKA_RESP_ERR_NO_ERROR: return .fine
            case RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
                RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE, RD_KAFKA_RESP_ERR_NOT_COORDINATOR,
                RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT, RD_KAFKA_RESP_ERR__WAIT_COORD,
                RD_KAFKA_RESP_ERR__TRANSPORT, RD_KAFKA_RESP_ERR__TIMED_OUT:
                guard ContinuousClock.now < end, !isClosing else {
                    return failed(code, .abort)
                }
                _ = poll(nil, 0, Self.retryMilliseconds)
            default: return failed(code, .abort)
            }
        }
    }

    // MARK: - After one that did not end well

    /// Finds out the result of a transaction whose commit failed; nil where that is not to be had.
    ///
    /// Where its producer can no longer be used, a new one with the same name has ended whatever was
    /// open. Then the transaction was committed if the group's offsets carry our mark, and aborted if
    /// not.
    private func settle(_ verdict: Verdict) -> CommitResult? {
        let written = written()
        let code = LogFault.name(ofCode: failure.code)
        if verdict == .rebuild {
            if unsafe ckafka_transaction_is_fenced(core) != 0, isFencedForGood() {
                return nil
            }
            guard isRefusal || countRebuild(), makeReady() else {
                return nil
            }
        }
        let (offsets, isMarked) = askCommitted()
        return isMarked ? committed(written) : .aborted(code: code, resumedAt: offsets)
    }

    /// What the group has of the assignment, and whether it has it from this transaction; nothing when
    /// closing or when the assignment moved on.
    private func askCommitted() -> (offsets: [TopicPartition: Int64], isMarked: Bool) {
        enter(.asking)
        defer { enter(.resting) }
        while !isClosing, !hasMoved, !hasGivenUp {
            var list: UnsafeMutablePointer<rd_kafka_topic_partition_list_t>?
            defer {
                if let list = unsafe list {
                    unsafe rd_kafka_topic_partition_list_destroy(list)
                }
            }
            var code = unsafe rd_kafka_assignment(consumer, &list)
            if code == RD_KAFKA_RESP_ERR_NO_ERROR {
                // read_committed: waits until no transactional offset is pending.
                code = unsafe rd_kafka_committed(consumer, list, Self.committedMilliseconds)
            }
            let entries = unsafe PartitionList.entries(of: list)
            if code == RD_KAFKA_RESP_ERR_NO_ERROR, !entries.contains(where: \.hasFailed) {
                var offsets: [TopicPartition: Int64] = [:]
                for entry in entries where entry.offset >= 0 {
                    offsets[TopicPartition(topic: entry.topic, partition: entry.partition)] =
                        entry.offset
                }
                return (offsets, entries.contains { $0.metadata == mark })
            }
            // While Kafka is away the patience does not run out.
            if unsafe ckafka_worker_is_away(worker) != 0 {
                enter(.asking)
            }
            _ = poll(nil, 0, Self.retryMilliseconds)
        }
        return ([:], false)
    }

    /// Whether what failed is bounded by ``noteRefusal()``, and by no number of producers.
    var isRefusal: Bool {
        var fault = ckafka_fault()
        return unsafe ckafka_fail_refused(&fault, failure.code, "") != 0
    }

    /// A right or a target is missing: gives up when that lasts.
    func noteRefusal(isOfStart: Bool = false) {
        var fault = ckafka_fault()
        let isOfName =
            failure.code == RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED.rawValue
        let what =
            isOfName
            ? "the transactional id \(setup.transactionalID ?? "")"
            : CText.text(of: failure.message)
        guard unsafe ckafka_fail_refused(&fault, failure.code, what) != 0 else {
            return
        }
        let now = ContinuousClock.now
        let watchdog = Duration.milliseconds(setup.watchdogMilliseconds)
        if let refusedAt, now - refusedAt > watchdog + Self.refusalPause {
            refusedSince = nil
        }
        refusedAt = now
        isOnlyStartRefused = isOfStart && (isOnlyStartRefused || refusedSince == nil)
        guard let since = refusedSince else {
            refusedSince = now
            let text = CText.text(of: fault.message)
            state.withLock {
                $0.notes.append(KafkaNote(level: 3, facility: "REFUSED", text: text))
            }
            return
        }
        if now - since > watchdog {
            giveUp(LogFault(fault))
        }
    }
}
