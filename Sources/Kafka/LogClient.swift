internal import CKafka

/// The one owner of a C client: questions, orders, and what its readers share.
///
/// Safe because the handle lives as long as this object, readers keep the object alive, and what a
/// call shows is copied before the next one.
@safe final class LogClient {
    private var open: OpaquePointer?

    init(settings: [CChar]) throws(LogFault) {
        var fault = ckafka_fault()
        guard let made = unsafe ckafka_client_new(settings, &fault) else {
            throw LogFault(fault)
        }
        unsafe open = made
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

    static let closeMilliseconds = 2_000

    /// What is left of a deadline; 0 once it has passed.
    static func milliseconds(until end: ContinuousClock.Instant) -> Int {
        let left = (end - ContinuousClock.now).components
        return max(Int(left.seconds) * 1_000 + Int(left.attoseconds / 1_000_000_000_000_000), 0)
    }

    func close(deadlineMilliseconds: Int = closeMilliseconds) {
        guard let handle = unsafe open else {
            return
        }
        unsafe open = nil
        unsafe ckafka_client_close(handle, Int32(clamping: deadlineMilliseconds))
    }

    func takeNotes() -> [KafkaNote] {
        let handle = unsafe handle
        return unsafe KafkaNote.collect { notes, capacity in
            unsafe ckafka_client_take_notes(handle, notes, capacity)
        }
    }

    func clusterID(deadlineMilliseconds: Int) throws(LogFault) -> String {
        var fault = ckafka_fault()
        var text: UnsafePointer<CChar>?
        let result = unsafe ckafka_client_cluster_id(
            handle,
            Int32(clamping: deadlineMilliseconds),
            &text,
            &fault
        )
        guard result == 0 else {
            throw LogFault(fault)
        }
        return unsafe CText.texts(of: text).first ?? ""
    }

    func topics(
        named name: String?,
        deadlineMilliseconds: Int
    ) throws(LogFault) -> [TopicDescription] {
        let shown = try unsafe show(named: name, deadlineMilliseconds)
        let nodes = unsafe Array(UnsafeBufferPointer(start: shown.nodes, count: shown.node_count))
        var topics = unsafe CText.texts(of: shown.names).map {
            TopicDescription(name: $0, partitions: [])
        }
        let partitions = unsafe UnsafeBufferPointer(
            start: shown.partitions,
            count: shown.partition_count
        )
        // The formatter would join the name to `unsafe`.
        // swift-format-ignore
        for unsafe partition in unsafe partitions {
            let replicas = Int(partition.replica_start)
            let inSync = Int(partition.in_sync_start)
            topics[Int(partition.topic)].partitions.append(
                TopicDescription.Partition(
                    partition: partition.partition,
                    leader: partition.leader,
                    replicas: Array(nodes[replicas..<replicas + Int(partition.replica_count)]),
                    inSyncReplicas: Array(nodes[inSync..<inSync + Int(partition.in_sync_count)])
                )
            )
        }
        return topics
    }

    /// How many brokers the cluster counts as there.
    func brokerCount(deadlineMilliseconds: Int) throws(LogFault) -> Int {
        try unsafe show(named: nil, deadlineMilliseconds).broker_count
    }

    /// The cluster's metadata; valid until the next question.
    private func show(
        named name: String?,
        _ deadlineMilliseconds: Int
    ) throws(LogFault) -> ckafka_topics {
        var fault = ckafka_fault()
        var shown = unsafe ckafka_topics()
        let deadline = Int32(clamping: deadlineMilliseconds)
        guard unsafe ckafka_client_topics(handle, name, deadline, &shown, &fault) == 0 else {
            throw LogFault(fault)
        }
        return unsafe shown
    }

    /// The offset of every partition at a time in UNIX milliseconds; -1 is the end and -2 the
    /// start.
    func offsets(
        ofTopic topic: String,
        at time: Int64,
        deadlineMilliseconds: Int
    ) throws(LogFault) -> [Int64] {
        let deadline = Int32(clamping: deadlineMilliseconds)
        return try unsafe offsets { shown, count, fault in
            unsafe ckafka_client_offsets(handle, topic, time, deadline, &shown, &count, &fault)
        }
    }

    func groupOffsets(
        _ group: String,
        topic: String,
        deadlineMilliseconds: Int
    ) throws(LogFault) -> [Int64] {
        let deadline = Int32(clamping: deadlineMilliseconds)
        return try unsafe offsets { shown, count, fault in
            unsafe ckafka_client_group_offsets(
                handle,
                group,
                topic,
                deadline,
                &shown,
                &count,
                &fault
            )
        }
    }

    private func offsets(
        _ ask: (inout UnsafePointer<Int64>?, inout Int, inout ckafka_fault) -> Int32
    ) throws(LogFault) -> [Int64] {
        var fault = ckafka_fault()
        var shown: UnsafePointer<Int64>?
        var count = 0
        guard unsafe ask(&shown, &count, &fault) == 0 else {
            throw LogFault(fault)
        }
        return unsafe Array(UnsafeBufferPointer(start: shown, count: count))
    }

    func watermarks(
        _ partition: TopicPartition,
        deadlineMilliseconds: Int
    ) throws(LogFault) -> (start: Int64, end: Int64) {
        var fault = ckafka_fault()
        var start: Int64 = 0
        var end: Int64 = 0
        let result = unsafe ckafka_client_watermarks(
            handle,
            partition.topic,
            partition.partition,
            Int32(clamping: deadlineMilliseconds),
            &start,
            &end,
            &fault
        )
        guard result == 0 else {
            throw LogFault(fault)
        }
        return (start, end)
    }

    /// Name and value in turn, by name.
    func configuration(
        ofTopic topic: String,
        onlySet: Bool,
        deadlineMilliseconds: Int
    ) throws(LogFault) -> [String: String] {
        var fault = ckafka_fault()
        var pairs: UnsafePointer<CChar>?
        let result = unsafe ckafka_client_configuration(
            handle,
            topic,
            onlySet ? 1 : 0,
            Int32(clamping: deadlineMilliseconds),
            &pairs,
            &fault
        )
        guard result == 0 else {
            throw LogFault(fault)
        }
        return unsafe CText.pairs(of: pairs)
    }
}

/// Partitions read by hand, through a client that other readers may share.
@safe final class LogReader {
    private let client: LogClient
    private var open: OpaquePointer?

    init(client: LogClient, topics: [String]) {
        self.client = client
        unsafe open = ckafka_reader_new(client.handle, CText.list(topics))
    }

    deinit {
        close()
    }

    /// What does not end in time goes on by itself, and its client's handle with it.
    func close(deadlineMilliseconds: Int = LogClient.closeMilliseconds) {
        guard let handle = unsafe open else {
            return
        }
        unsafe open = nil
        unsafe ckafka_reader_close(handle, Int32(clamping: deadlineMilliseconds))
    }

    func start(topic: Int, partition: Int32, offset: Int64) throws(LogFault) {
        var fault = ckafka_fault()
        guard unsafe ckafka_reader_start(open, Int32(topic), partition, offset, &fault) == 0 else {
            throw LogFault(fault)
        }
    }

    func read(
        into batch: inout RecordBatch,
        recordCountMax: Int,
        waitMilliseconds: Int
    ) throws(LogFault) {
        var fault = ckafka_fault()
        var shown = unsafe ckafka_batch()
        let result = unsafe ckafka_reader_poll(
            open,
            max(recordCountMax, 0),
            RecordBatch.byteCountMax,
            Int32(clamping: waitMilliseconds),
            &shown,
            &fault
        )
        guard result == 0 else {
            throw LogFault(fault)
        }
        unsafe batch.append(shown)
    }
}
