internal import CKafka
internal import CLibrdkafka
internal import Glibc
internal import Synchronization

/// Where a worker reads on: the answer about one assignment.
struct Starts {
    /// An offset that is not known: reading begins at 0, and nothing is committed before it has.
    static let untold: Int64 = -1
    /// Partitions in one line of the log.
    private static let namedCountMax = 12

    var positions: [TopicPartition: Int64] = [:]
    /// Partitions without an offset that do not begin at 0, as they are named in the log.
    var late: [String] = []
    /// Partitions whose offset somebody else has set, likewise.
    var setElsewhere: [String] = []

    /// What the log says of it.
    ///
    /// Nobody misses what lay before: the group's positions may have been there and be forgotten, as
    /// Kafka does some time after its last member (`offsets.retention.minutes`).
    var notes: [KafkaNote] {
        [
            Self.note(
                "UNREAD",
                late,
                "not at 0: what lay before was removed, and no offset says whether it was read"
            ),
            Self.note(
                "SET_ELSEWHERE",
                setElsewhere,
                "which no worker of ours has set: what lies before and was not read is passed by"
            ),
        ].compactMap { $0 }
    }

    private static func note(
        _ facility: String,
        _ partitions: [String],
        _ because: String
    ) -> KafkaNote? {
        guard !partitions.isEmpty else {
            return nil
        }
        let named = partitions.prefix(namedCountMax).joined(separator: ", ")
        let rest = partitions.count - namedCountMax
        let text = "\(named)\(rest > 0 ? " and \(rest) others so" : ""), \(because)"
        return KafkaNote(level: 4, facility: facility, text: text)
    }
}

/// Where to start.
extension Inquiries {
    /// Twice the transaction timeout and some: what holds offsets back by then is hanging.
    static let patienceSeconds: Int32 = 90
    /// Within it a partition that has lost its leader has another one, where there can be one.
    private static let electionTime = Duration.seconds(10)
    /// A leader that was just elected may know less for a moment.
    private static let beyondCountMax = 10
    /// Between two questions about where to start.
    private static let againMilliseconds = 500

    /// Asks where these are to be read from, until it is told or asked about others.
    func findStarts(of partitions: [TopicPartition]) {
        let memberID = memberID()
        let assignment = state.withLock { state in
            state.memberID = memberID ?? state.memberID
            state.isJoiningAnew = false
            state.assignment += 1
            state.starts = partitions.isEmpty ? .success(Starts()) : nil
            return state.assignment
        }
        if !partitions.isEmpty {
            onThread { [self] in findStarts(of: partitions, assignment) }
        }
    }

    /// By which the group knows us now; nil after a session that the client library ended by itself: Kafka may
    /// still have the last one.
    func memberID() -> String? {
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
        try state.withLock { $0.starts }?.get().positions
    }

    /// Of the last assignment, how many positions somebody else had set; 0 until they are known.
    var setElsewhereCount: Int {
        guard case .success(let starts)? = state.withLock({ $0.starts }) else {
            return 0
        }
        return starts.setElsewhere.count
    }

    private func isAwaited(_ assignment: Int) -> Bool {
        state.withLock { !$0.isClosing && $0.assignment == assignment && $0.starts == nil }
    }

    private func findStarts(of partitions: [TopicPartition], _ assignment: Int) {
        var since = ContinuousClock.now
        var beyondCount = 0
        while isAwaited(assignment) {
            var found: Result<Starts, LogFault>?
            do throws(Untold) {
                let hasWaited = ContinuousClock.now - since > Self.electionTime
                let answer = try askStarts(
                    of: partitions,
                    unread: hasWaited ? Starts.untold : nil
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
                    guard state.assignment == assignment else {
                        return
                    }
                    state.starts = found
                    if case .success(let starts) = found {
                        state.notes += starts.notes
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
    ) throws(Untold) -> Result<Starts, LogFault> {
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
        var found = Starts()
        for (index, partition) in partitions.enumerated() {
            let (position, start, end) = (committed[index].offset, starts[index], ends[index])
            guard position >= 0 else {
                guard let start = start ?? unread else {
                    throw Self.untold(endsOf: partition.topic, "no leader, or it does not answer")
                }
                found.positions[partition] = start
                if start > 0 {
                    found.late.append("\(partition) begins at \(start)")
                }
                continue
            }
            if let start, let end, !(start...max(start, end) ~= position) {
                return .failure(.recordsLost(partition, position: position, start: start, end: end))
            }
            found.positions[partition] = position
            if !CommitMark.isOurs(committed[index].metadata) {
                found.setElsewhere.append("\(partition) goes on at \(position)")
            }
        }
        return .success(found)
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
}
