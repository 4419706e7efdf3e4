internal import CKafka
internal import CLibrdkafka
internal import Glibc
internal import Synchronization

/// What a worker asks of Kafka, each question on a thread of its own, so that its loop does not wait.
///
/// `@unchecked`: the threads share what lies under the lock, and handles of the client library's, which
/// any thread may use. These live until ``close(deadlineMilliseconds:)`` has seen the last thread end.
@safe final class Inquiries: @unchecked Sendable {
    enum Question: Hashable, Sendable {
        case ends(topic: String)
        case committed(group: String, topic: String)
    }

    /// Of each request.
    static let deadlineMilliseconds = 5_000
    /// An older answer may be out of date for its caller.
    private static let fresh = Duration.seconds(2)
    /// Longer than the asking handle remembers a coordinator that it does not use: its setting
    /// `metadata.max.age.ms`, and the second between two looks at it.
    private static let coordinatorRest = Duration.seconds(4)
    /// Twice the transaction timeout and some: what holds offsets back by then is hanging.
    static let patienceSeconds: Int32 = 90
    /// Within it a partition that has lost its leader has another one, where there can be one.
    private static let electionTime = Duration.seconds(10)
    /// A leader that was just elected may know less for a moment.
    private static let beyondCountMax = 10
    /// Partitions in one line of the log.
    private static let namedCountMax = 12
    /// A start offset that is not known: reading begins at 0, and nothing is committed before it has.
    private static let untoldStart: Int64 = -1
    /// Between two questions about where to start.
    private static let againMilliseconds = 500
    /// Between two looks at what another thread may have changed.
    private static let lookMilliseconds: Int32 = 5

    private enum Answer {
        case isAsked
        case told(Result<[Int64], LogFault>, at: ContinuousClock.Instant)
        case rests(until: ContinuousClock.Instant)
    }

    private struct State {
        var answers: [Question: Answer] = [:]
        /// Counts assignments: an answer about an earlier one is dropped.
        var assignment = 0
        var starts: Result<[TopicPartition: Int64], LogFault>?
        /// By which the group knew us when we were assigned something last.
        var memberID = ""
        /// A session ended, what was lost was given back, and nothing has been assigned since.
        var isJoiningAnew = false
        /// Of the last assignment, how many positions somebody else had set.
        var setElsewhereCount = 0
        var notes: [KafkaNote] = []
        var threadCount = 0
        var isClosing = false
    }

    private let state = Mutex(State())
    private let client: LogClient
    private let member: KafkaLog.Member
    private let worker: OpaquePointer
    private let consumer: OpaquePointer
    private let wakeDescriptor: Int32

    init(of worker: OpaquePointer, as member: KafkaLog.Member, asking client: LogClient) {
        guard let consumer = unsafe ckafka_worker_consumer(worker) else {
            preconditionFailure("a worker has a consumer")
        }
        unsafe self.worker = worker
        unsafe self.consumer = consumer
        self.member = member
        self.client = client
        wakeDescriptor = unsafe ckafka_worker_wake_descriptor(worker)
    }

    /// Whether all threads have ended in time; else what they use must stay.
    func close(deadlineMilliseconds: Int) -> Bool {
        let end = ContinuousClock.now + .milliseconds(deadlineMilliseconds)
        state.withLock { $0.isClosing = true }
        while state.withLock({ $0.threadCount > 0 }), ContinuousClock.now < end {
            _ = poll(nil, 0, Self.lookMilliseconds)
        }
        return state.withLock { $0.threadCount == 0 }
    }

    private func onThread(_ work: @escaping @Sendable () -> Void) {
        state.withLock { $0.threadCount += 1 }
        DetachedThread.start { [self] in
            work()
            ckafka_signal_raise(wakeDescriptor)
            state.withLock { $0.threadCount -= 1 }
        }
    }

    // MARK: - Offsets

    /// The answer by partition number, -1 where a group has nothing; nil while it is not there.
    ///
    /// What nobody fetched for two seconds is asked for again.
    func ask(_ question: Question) throws(LogFault) -> [Int64]? {
        let now = ContinuousClock.now
        let known = state.withLock { $0.answers[question] }
        switch known {
        case .isAsked: return nil
        case .rests(let end) where now < end: return nil
        case .told(let answer, let time) where now - time <= Self.fresh:
            // librdkafka 2.0.2 remembers a group's coordinator for as long as it is asked there, also
            // when that says it is none any more: after leaders moved, a worker would ask in vain for
            // ever.
            var rest: Answer?
            if case .failure(.unavailable(let code, _)) = answer,
                ["NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"].contains(code)
            {
                rest = .rests(until: time + Self.coordinatorRest)
            }
            state.withLock { $0.answers[question] = rest }
            return try answer.get()
        case .told, .rests, nil:
            state.withLock { $0.answers[question] = .isAsked }
            onThread { [self] in
                let answer = answer(to: question)
                state.withLock { $0.answers[question] = .told(answer, at: .now) }
            }
            return nil
        }
    }

    private func answer(to question: Question) -> Result<[Int64], LogFault> {
        do throws(LogFault) {
            switch question {
            case .ends(let topic): return .success(try client.offsets(ofTopic: topic, at: -1))
            case .committed(let group, let topic):
                return .success(try client.groupOffsets(group, topic: topic))
            }
        } catch .misconfigured(let message) {
            // Who asks waits, and says so: it may be another worker's group or topic.
            return .failure(.unavailable(code: "REFUSED", message: message))
        } catch {
            return .failure(error)
        }
    }

    // MARK: - Where to start

    /// Asks where these are to be read from, until it is told or asked about others.
    func findStarts(of partitions: [TopicPartition]) {
        let memberID = memberID()
        let assignment = state.withLock { state in
            state.memberID = memberID ?? state.memberID
            state.isJoiningAnew = false
            state.assignment += 1
            state.starts = partitions.isEmpty ? .success([:]) : nil
            return state.assignment
        }
        if !partitions.isEmpty {
            onThread { [self] in findStarts(of: partitions, assignment) }
        }
    }

    /// By which the group knows us now; nil after a session that the client library ended by itself: Kafka may
    /// still have the last one.
    private func memberID() -> String? {
        guard let id = unsafe rd_kafka_memberid(consumer) else {
            return nil
        }
        defer { unsafe rd_kafka_mem_free(consumer, id) }
        return unsafe id.pointee == 0 ? nil : String(cString: id)
    }

    /// What was assigned is about to be given back.
    func forgetStarts() {
        let isSessionOver = memberID() == nil
        state.withLock { state in
            state.assignment += 1
            state.starts = nil
            state.isJoiningAnew = isSessionOver
        }
    }

    /// The answer; nil while it is not there.
    ///
    /// - Throws: why there will be none: records are gone, or the group's offsets stay unknown.
    func starts() throws(LogFault) -> [TopicPartition: Int64]? {
        try state.withLock { $0.starts }?.get()
    }

    private func isAwaited(_ assignment: Int) -> Bool {
        state.withLock { !$0.isClosing && $0.assignment == assignment && $0.starts == nil }
    }

    private func findStarts(of partitions: [TopicPartition], _ assignment: Int) {
        var since = ContinuousClock.now
        var beyondCount = 0
        while isAwaited(assignment) {
            var found: Result<[TopicPartition: Int64], LogFault>?
            do throws(Untold) {
                let hasWaited = ContinuousClock.now - since > Self.electionTime
                let answer = try askStarts(
                    of: partitions,
                    unread: hasWaited ? Self.untoldStart : nil
                )
                if case .failure(.recordsLost(_, let position, _, let end)) = answer,
                    position > end,
                    beyondCount < Self.beyondCountMax
                {
                    beyondCount += 1
                } else {
                    found = answer
                }
            } catch {
                // While Kafka is away the patience does not run out.
                if unsafe ckafka_worker_is_away(worker) != 0 {
                    since = .now
                }
                if ContinuousClock.now - since > .seconds(Self.patienceSeconds) {
                    found = .failure(error.lasting)
                }
            }
            if let found {
                state.withLock { state in
                    if state.assignment == assignment {
                        state.starts = found
                    }
                }
                return
            }
            let next = ContinuousClock.now + .milliseconds(Self.againMilliseconds)
            while ContinuousClock.now < next, isAwaited(assignment) {
                _ = poll(nil, 0, Self.lookMilliseconds)
            }
        }
    }

    /// A question that failed, and what is wrong where that lasts.
    private struct Untold: Error {
        var lasting: LogFault
    }

    /// What the group has committed was asked for in vain, Kafka being there.
    static func untold(_ code: rd_kafka_resp_err_t, about what: String) -> LogFault {
        var fault = ckafka_fault()
        guard unsafe ckafka_fail_refused(&fault, code.rawValue, what) == 0 else {
            return LogFault(fault)
        }
        let name = LogFault.name(ofCode: code.rawValue)
        return .unusable(
            message:
                "what the group has committed cannot be told for \(patienceSeconds) s (\(name)):"
                + " a hanging transaction holds its offsets, or its coordinator hangs"
        )
    }

    /// Committed offsets, and the earliest record where there is none.
    ///
    /// A committed offset that has no record behind it any more is a fault: going on would step over
    /// what was lost, and say nothing. Where no leader tells, that is left to the client library, which
    /// finds it out once there is one (`auto.offset.reset=error`).
    ///
    /// What has neither a committed offset nor a leader starts at `unread`; nil: the first offset is asked
    /// for again. Were records removed from 0 on, a worker ends by it once there is a leader, and
    /// begins anew with what there is: so it may not have committed the 0.
    private func askStarts(
        of partitions: [TopicPartition],
        unread: Int64?
    ) throws(Untold) -> Result<[TopicPartition: Int64], LogFault> {
        let list = unsafe PartitionList.make(partitions.map { ($0, -1) })
        defer { unsafe rd_kafka_topic_partition_list_destroy(list) }
        // Under read_committed this waits out pending transactional offsets ("require stable").
        let code = unsafe rd_kafka_committed(consumer, list, Int32(Self.deadlineMilliseconds))
        let committed = unsafe PartitionList.entries(of: list)
        let failed =
            code == RD_KAFKA_RESP_ERR_NO_ERROR ? committed.first(where: \.hasFailed)?.code : code
        if let failed {
            throw Untold(lasting: Self.untold(failed, about: member.group))
        }
        var silentNodes: Set<Int32> = []
        let starts = try edges(of: partitions, at: -2, &silentNodes)
        // The ends after what is committed: that never passes an end of an earlier time.
        let ends = try edges(of: partitions, at: -1, &silentNodes)
        var positions: [TopicPartition: Int64] = [:]
        var (late, setElsewhere): ([String], [String]) = ([], [])
        for (index, partition) in partitions.enumerated() {
            let (position, start, end) = (committed[index].offset, starts[index], ends[index])
            guard position >= 0 else {
                guard let start = start ?? unread else {
                    throw Self.untold(endsOf: partition.topic, "no leader, or it does not answer")
                }
                positions[partition] = start
                if start > 0 {
                    late.append("\(partition) begins at \(start)")
                }
                continue
            }
            if let start, let end, !(start...max(start, end) ~= position) {
                return .failure(.recordsLost(partition, position: position, start: start, end: end))
            }
            positions[partition] = position
            if !CommitMark.isOurs(committed[index].metadata) {
                setElsewhere.append("\(partition) goes on at \(position)")
            }
        }
        // Nobody misses what lay before: the group's positions may have been there and be forgotten, as
        // Kafka does some time after its last member (`offsets.retention.minutes`).
        note(
            "UNREAD",
            late,
            "not at 0: what lay before was removed, and no offset says whether it was read"
        )
        note(
            "SET_ELSEWHERE",
            setElsewhere,
            "which no worker of ours has set: what lies before and was not read is passed by"
        )
        state.withLock { $0.setElsewhereCount = setElsewhere.count }
        return .success(positions)
    }

    private func note(_ facility: String, _ partitions: [String], _ because: String) {
        guard !partitions.isEmpty else {
            return
        }
        let named = partitions.prefix(Self.namedCountMax).joined(separator: ", ")
        let rest = partitions.count - Self.namedCountMax
        let text = "\(named)\(rest > 0 ? " and \(rest) others so" : ""), \(because)"
        state.withLock { $0.notes.append(KafkaNote(level: 4, facility: facility, text: text)) }
    }

    var setElsewhereCount: Int { state.withLock { $0.setElsewhereCount } }

    /// What there is to say since the last call.
    func takeNotes() -> [KafkaNote] {
        state.withLock { state in
            defer { state.notes = [] }
            return state.notes
        }
    }

    /// In the order of the partitions; nil where none leads, or its leader does not answer.
    private func edges(
        of partitions: [TopicPartition],
        at time: Int64,
        _ silentNodes: inout Set<Int32>
    ) throws(Untold) -> [Int64?] {
        var known: [String: [Int64?]] = [:]
        for topic in Set(partitions.map(\.topic)) {
            do throws(LogFault) {
                known[topic] = try client.knownOffsets(ofTopic: topic, at: time, &silentNodes)
            } catch .unavailable(_, let message) {
                throw Self.untold(endsOf: topic, message)
            } catch {
                throw Untold(lasting: error)
            }
        }
        return partitions.map { partition in
            guard let offsets = known[partition.topic],
                offsets.indices.contains(Int(partition.partition))
            else {
                return nil
            }
            return offsets[Int(partition.partition)]
        }
    }

    private static func untold(endsOf topic: String, _ because: String) -> Untold {
        Untold(
            lasting: .unusable(
                message:
                    "the ends of \(topic) cannot be told for \(patienceSeconds) s: \(because)"
            )
        )
    }

    // MARK: - What is wrong

    /// What the C side found, with what only Kafka tells.
    func settled(_ fault: ckafka_fault) -> LogFault {
        let seen = LogFault(fault)
        switch seen {
        case .recordsLost(let partition, let position, _, _):
            guard position > 0 || !isUnread(partition) else {
                return .unusable(
                    message:
                        "\(partition) begins behind 0, where its reading began while no leader told"
                        + " its first offset: nothing of it is committed, and a restart begins with"
                        + " what there is"
                )
            }
            do throws(LogFault) {
                let (start, end) = try client.watermarks(partition)
                return .recordsLost(partition, position: position, start: start, end: end)
            } catch {
                return seen
            }
        case .fenced
        where fault.code == RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID.rawValue && !isNameTaken():
            // Where no heartbeat was answered for a whole session, librdkafka ends the session by itself
            // and forgets its member id. Until the lost partitions are given back it goes on with
            // heartbeats, which name nobody then; a coordinator that is back from an outage, and still
            // knows the member, calls that fenced, and for the library it is fatal (#3437). So are two
            // joins of ours that cross. There is no other instance to wait for.
            return .unusable(
                message:
                    "the session ended while Kafka was away, and the client library cannot begin"
                    + " another: a restart does"
            )
        default: return seen
        }
    }

    /// Whether no leader told where a partition begins, and its group has nothing of it: then there
    /// is no offset to reset.
    private func isUnread(_ partition: TopicPartition) -> Bool {
        guard case .success(let starts)? = state.withLock({ $0.starts }),
            starts[partition] == Self.untoldStart
        else {
            return false
        }
        do throws(LogFault) {
            let committed = try client.groupOffsets(member.group, topic: partition.topic)
            let index = Int(partition.partition)
            return committed.indices.contains(index) && committed[index] < 0
        } catch {
            // The end of an empty partition may be committed, and no later start could begin.
            return false
        }
    }

    /// Whether somebody else has our name; so it is taken, too, where the group does not answer.
    private func isNameTaken() -> Bool {
        let (last, isJoiningAnew) = state.withLock { ($0.memberID, $0.isJoiningAnew) }
        // A join without a member id takes the name from whoever has it, and only a later join takes it
        // back. Where a coordinator stood still, that may be one of ours whose connection is gone: its
        // member has an id that never came to us, and nothing tells it from a twin's. A twin that did
        // come in that moment is told after the restart, as soon as one of the two has partitions.
        guard !isJoiningAnew else {
            return false
        }
        // The one of the last assignment, and one that the group gave us since.
        let own = [last, memberID()]
        do throws(LogFault) {
            return try client.group(member.group).members.contains {
                $0.name == member.instance && !own.contains($0.id)
            }
        } catch {
            return true
        }
    }
}
