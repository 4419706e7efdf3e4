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
    /// Between two looks at what another thread may have changed.
    static let lookMilliseconds: Int32 = 5

    fileprivate enum Answer {
        case isAsked
        case told(Result<[Int64], LogFault>, at: ContinuousClock.Instant)
        case rests(until: ContinuousClock.Instant)
    }

    struct State {
        fileprivate var answers: [Question: Answer] = [:]
        /// Counts assignments: an answer about an earlier one is dropped.
        var assignment = 0
        var starts: Result<Starts, LogFault>?
        /// By which the group knew us when we were assigned something last.
        var memberID = ""
        /// A session ended, what was lost was given back, and nothing has been assigned since.
        var isJoiningAnew = false
        var notes: [KafkaNote] = []
        fileprivate var threadCount = 0
        fileprivate(set) var isClosing = false
    }

    let state = Mutex(State())
    let client: LogClient
    let member: KafkaLog.Member
    let worker: OpaquePointer
    let consumer: OpaquePointer
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

    func onThread(_ work: @escaping @Sendable () -> Void) {
        state.withLock { $0.threadCount += 1 }
        DetachedThread.start { [self] in
            work()
            ckafka_signal_raise(wakeDescriptor)
            state.withLock { $0.threadCount -= 1 }
        }
    }

    /// What there is to say since the last call.
    func takeNotes() -> [KafkaNote] {
        state.withLock { state in
            defer { state.notes = [] }
            return state.notes
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
            starts.positions[partition] == Starts.untold
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
