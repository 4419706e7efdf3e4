internal import CKafka
internal import CLibrdkafka
internal import Glibc
internal import Synchronization

/// The one owner of a C client: questions to the cluster, and what its readers share.
///
/// A question is asked of librdkafka itself; C has what callbacks write. Safe because the handle lives
/// as long as this object, readers keep the object alive, and what a call shows is copied before it is
/// freed.
///
/// `@unchecked`: any thread may use the library's handle, and who closes it lets nobody ask any more.
@safe final class LogClient: @unchecked Sendable {
    static let closeMilliseconds = 2_000

    /// What is left of a deadline; 0 once it has passed.
    static func milliseconds(until end: ContinuousClock.Instant) -> Int {
        let left = (end - ContinuousClock.now).components
        return max(Int(left.seconds) * 1_000 + Int(left.attoseconds / 1_000_000_000_000_000), 0)
    }

    /// Of each question.
    let deadlineMilliseconds: Int32
    let settings: [CChar]
    private var open: OpaquePointer?
    /// Who asks coordinators; see ``askCoordinator(_:_:read:)``.
    let coordinatorClient = Mutex<LogClient?>(nil)

    init(settings: [CChar], deadlineMilliseconds: Int) throws(LogFault) {
        self.settings = settings
        self.deadlineMilliseconds = Int32(clamping: deadlineMilliseconds)
        unsafe open = try LogFault.made { fault in unsafe ckafka_client_new(settings, &fault) }
    }

    deinit {
        close()
    }

    var handle: OpaquePointer {
        guard let handle = unsafe open else {
            preconditionFailure("the client was closed")
        }
        return unsafe handle
    }

    /// Librdkafka's own handle.
    var library: OpaquePointer {
        guard let library = unsafe ckafka_client_handle(handle) else {
            preconditionFailure("a client has a handle of the library's")
        }
        return unsafe library
    }

    func close(deadlineMilliseconds: Int = closeMilliseconds) {
        guard let handle = unsafe open else {
            return
        }
        unsafe open = nil
        let end = ContinuousClock.now + .milliseconds(deadlineMilliseconds)
        unsafe ckafka_client_close(handle, Int32(clamping: deadlineMilliseconds))
        let coordinatorClient = coordinatorClient.withLock { $0.take() }
        coordinatorClient?.close(deadlineMilliseconds: Self.milliseconds(until: end))
    }

    func takeNotes() -> [KafkaNote] {
        let handle = unsafe handle
        return unsafe KafkaNote.collect { notes, capacity in
            unsafe ckafka_client_take_notes(handle, notes, capacity)
        }
    }

    /// A question without an answer, perhaps because no broker accepts our login: that does not pass.
    func fault(_ code: rd_kafka_resp_err_t, _ text: String? = nil) -> LogFault {
        let handle = unsafe handle
        guard
            let refusal = unsafe CText.refusal({ unsafe ckafka_client_refusal(handle, $0, $1) })
        else {
            return LogFault(answer: code, text)
        }
        var mechanism = [CChar](repeating: 0, count: 64)
        var count = mechanism.count
        _ = unsafe rd_kafka_conf_get(
            rd_kafka_conf(library),
            "sasl.mechanisms",
            &mechanism,
            &count
        )
        // It says its nonce twice (#4895); brokers since CVE-2024-56128 do not take that: seen with 2.0.2
        // and Kafka 4.3.1, where Java's client comes in with the same password.
        let isHopeless =
            CText.text(of: mechanism).hasPrefix("SCRAM") && rd_kafka_version() < Self.scramMended
        return .misconfigured(
            message: (isHopeless ? Self.scramAdvice : "") + refusal
        )
    }

    private static let scramMended: Int32 = 0x0206_01ff
    private static let scramAdvice =
        "librdkafka before 2.6.1 cannot sign in by SCRAM to Kafka 3.8.1 and later, use PLAIN over TLS"
        + " or a certificate: "

    func clusterID() throws(LogFault) -> String {
        // A new handle of 2.0.2 connects for a question, and for this one only with its timer, up to a
        // second later.
        var shown: UnsafePointer<rd_kafka_metadata_t>?
        let code = unsafe rd_kafka_metadata(library, 0, nil, &shown, deadlineMilliseconds)
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR, let shown = unsafe shown else {
            throw fault(code)
        }
        unsafe rd_kafka_metadata_destroy(shown)
        guard let text = unsafe rd_kafka_clusterid(library, deadlineMilliseconds) else {
            throw fault(RD_KAFKA_RESP_ERR__TIMED_OUT, "no broker told its cluster's id in time")
        }
        defer { unsafe rd_kafka_mem_free(library, text) }
        return unsafe String(cString: text)
    }

    /// Every topic, or the one named; one that is not there is left out.
    func topics(named name: String?) throws(LogFault) -> [TopicDescription] {
        try unsafe metadata(ofTopic: name) { shown throws(LogFault) in
            var topics: [TopicDescription] = []
            for index in unsafe 0..<Int(shown.topic_cnt) {
                let topic = unsafe shown.topics[index]
                // One that may not be seen differs from one that does not exist only if it is asked for.
                if let name, unsafe topic.err == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED {
                    throw unsafe LogFault(answer: topic.err, name)
                }
                if unsafe topic.err == RD_KAFKA_RESP_ERR_NO_ERROR {
                    unsafe topics.append(TopicDescription(topic))
                }
            }
            return topics
        }
    }

    /// How many brokers the cluster counts as there.
    func brokerCount() throws(LogFault) -> Int {
        try unsafe metadata(ofTopic: nil) { unsafe Int($0.broker_cnt) }
    }

    func partitionCount(ofTopic name: String) throws(LogFault) -> Int32 {
        try unsafe metadata(ofTopic: name) { shown throws(LogFault) in
            guard unsafe shown.topic_cnt == 1 else {
                throw fault(RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
            }
            let topic = unsafe shown.topics[0]
            guard unsafe topic.err == RD_KAFKA_RESP_ERR_NO_ERROR else {
                throw unsafe fault(topic.err)
            }
            guard unsafe topic.partition_cnt > 0 else {
                throw fault(RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE)
            }
            return unsafe topic.partition_cnt
        }
    }

    /// The cluster's metadata, of one topic or of all; it lives as long as the call of `read`.
    private func metadata<Value>(
        ofTopic name: String?,
        _ read: (rd_kafka_metadata_t) throws(LogFault) -> Value
    ) throws(LogFault) -> Value {
        var topic: OpaquePointer?
        if let name {
            unsafe topic = rd_kafka_topic_new(library, name, nil)
            guard unsafe topic != nil else {
                throw LogFault(answer: rd_kafka_last_error(), name)
            }
        }
        defer {
            if let topic = unsafe topic {
                unsafe rd_kafka_topic_destroy(topic)
            }
        }
        var shown: UnsafePointer<rd_kafka_metadata_t>?
        let isOfAll: Int32 = name == nil ? 1 : 0
        let code = unsafe rd_kafka_metadata(library, isOfAll, topic, &shown, deadlineMilliseconds)
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR, let shown = unsafe shown else {
            throw fault(code)
        }
        defer { unsafe rd_kafka_metadata_destroy(shown) }
        return try unsafe read(shown.pointee)
    }

    /// The offset of every partition at a time in UNIX milliseconds; -1 is the end and -2 the
    /// start.
    ///
    /// Where a broker does not lead a partition any more, or not yet, as right after its start, it is
    /// asked again within the deadline: each question begins with the topic's metadata.
    func offsets(ofTopic topic: String, at time: Int64) throws(LogFault) -> [Int64] {
        try Self.askAgain(
            on: Self.movedLeaderCodes,
            every: Self.movedLeaderMilliseconds,
            within: Int(deadlineMilliseconds)
        ) { _ throws(LogFault) in
            let count = try partitionCount(ofTopic: topic)
            return try offsets(
                of: (0..<count).map { TopicPartition(topic: topic, partition: $0) },
                at: time
            )
        }
    }

    /// The same, nil of each partition that has no leader, or whose leader does not answer.
    ///
    /// Who asks about several topics keeps the nodes that did not answer, and waits for none twice.
    ///
    /// - Throws: what no leader that comes back would change, or no metadata at all.
    func knownOffsets(
        ofTopic topic: String,
        at time: Int64,
        _ silentNodes: inout Set<Int32>
    ) throws(LogFault) -> [Int64?] {
        let end = ContinuousClock.now + .milliseconds(Int(deadlineMilliseconds))
        while true {
            guard let description = try topics(named: topic).first else {
                throw fault(RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
            }
            let (offsets, hasMoved) = try knownOffsets(of: description, at: time, &silentNodes)
            guard hasMoved, ContinuousClock.now < end else {
                return offsets
            }
            _ = poll(nil, 0, Self.movedLeaderMilliseconds)
        }
    }

    private func knownOffsets(
        of topic: TopicDescription,
        at time: Int64,
        _ silentNodes: inout Set<Int32>
    ) throws(LogFault) -> (offsets: [Int64?], hasMoved: Bool) {
        var offsets = [Int64?](repeating: nil, count: topic.partitions.count)
        var hasMoved = false
        for (leader, led) in Dictionary(grouping: topic.partitions, by: \.leader)
        where leader >= 0 && !silentNodes.contains(leader) {
            // The client library tells the first partition's error as that of all: they are asked one by
            // one then.
            var turns = [led.map { TopicPartition(topic: topic.name, partition: $0.partition) }]
            while let turn = turns.popLast(), !silentNodes.contains(leader) {
                let (code, found) = entries(of: turn, at: time)
                guard code == RD_KAFKA_RESP_ERR_NO_ERROR else {
                    try pass(code)
                    if !Self.isMoved(code) {
                        silentNodes.insert(leader)
                    } else if turn.count > 1 {
                        turns = turn.map { [$0] }
                    } else {
                        hasMoved = true
                    }
                    continue
                }
                for entry in found {
                    if entry.hasFailed {
                        try pass(entry.code)
                        hasMoved = hasMoved || Self.isMoved(entry.code)
                    } else if offsets.indices.contains(Int(entry.partition)) {
                        offsets[Int(entry.partition)] = entry.offset
                    }
                }
            }
        }
        return (offsets, hasMoved)
    }

    private static func isMoved(_ code: rd_kafka_resp_err_t) -> Bool {
        movedLeaderCodes.contains(LogFault.name(ofCode: code.rawValue))
    }

    /// Throws where the code says more than that somebody is away.
    private func pass(_ code: rd_kafka_resp_err_t) throws(LogFault) {
        let fault = fault(code)
        guard case .unavailable = fault else {
            throw fault
        }
    }

    /// Asks, and asks again while the answer is one of these codes, within a deadline; the question gets
    /// how often it was asked before.
    static func askAgain<Answer>(
        on codes: Set<String>,
        every milliseconds: Int32,
        within deadlineMilliseconds: Int,
        _ question: (_ askedCount: Int) throws(LogFault) -> Answer
    ) throws(LogFault) -> Answer {
        let end = ContinuousClock.now.advanced(by: .milliseconds(deadlineMilliseconds))
        var askedCount = 0
        while true {
            do throws(LogFault) {
                return try question(askedCount)
            } catch {
                guard case .unavailable(let code, _) = error, codes.contains(code),
                    ContinuousClock.now < end
                else {
                    throw error
                }
            }
            askedCount += 1
            _ = poll(nil, 0, milliseconds)
        }
    }

    /// A partition's leader moves, or was not told yet that it is the leader.
    private static let movedLeaderCodes: Set<String> = [
        "NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE", "REPLICA_NOT_AVAILABLE",
        "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "OFFSET_NOT_AVAILABLE",
    ]
    /// Between two questions about who leads, or about what a broker has not heard of yet.
    static let movedLeaderMilliseconds: Int32 = 100

    /// The first offset and the high watermark, within twice the deadline.
    ///
    /// Not by `rd_kafka_query_watermark_offsets`: once its request is with a broker, 2.0.2 waits for that
    /// to end, whatever the deadline, which is 20 s for a broker that hangs.
    func watermarks(_ partition: TopicPartition) throws(LogFault) -> (start: Int64, end: Int64) {
        let starts = try offsets(of: [partition], at: -2)
        let ends = try offsets(of: [partition], at: -1)
        return (starts[0], ends[0])
    }

    /// The offsets at a time in the order of the partitions, each with its own error.
    ///
    /// One request a leader instead of two a partition; -1 and -2 are Kafka's own "times".
    func entries(
        of partitions: [TopicPartition],
        at time: Int64
    ) -> (rd_kafka_resp_err_t, [PartitionList.Entry]) {
        let list = unsafe PartitionList.make(partitions.map { ($0, time) })
        defer { unsafe rd_kafka_topic_partition_list_destroy(list) }
        let code = unsafe rd_kafka_offsets_for_times(library, list, deadlineMilliseconds)
        return unsafe (code, PartitionList.entries(of: list))
    }

    private func offsets(
        of partitions: [TopicPartition],
        at time: Int64
    ) throws(LogFault) -> [Int64] {
        let (code, found) = entries(of: partitions, at: time)
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR else {
            throw fault(code)
        }
        if let failed = found.first(where: \.hasFailed) {
            throw fault(failed.code)
        }
        return found.map(\.offset)
    }
}

extension TopicDescription {
    fileprivate init(_ topic: rd_kafka_metadata_topic_t) {
        name = unsafe String(cString: topic.topic)
        partitions = unsafe (0..<Int(topic.partition_cnt)).map { index in
            let partition = unsafe topic.partitions[index]
            return unsafe Partition(
                partition: partition.id,
                leader: partition.leader,
                replicas: Array(
                    UnsafeBufferPointer(
                        start: partition.replicas,
                        count: Int(partition.replica_cnt)
                    )
                ),
                inSyncReplicas: Array(
                    UnsafeBufferPointer(start: partition.isrs, count: Int(partition.isr_cnt))
                )
            )
        }
    }
}
