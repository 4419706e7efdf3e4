internal import CLibrdkafka
internal import Synchronization

/// Requests of librdkafka's admin API, to brokers and to the coordinators of groups.
extension LogClient {
    /// Sends a question, by a handle; its answer goes to the queue.
    typealias Send = (
        _ library: OpaquePointer, _ options: OpaquePointer?, _ queue: OpaquePointer?
    ) -> Void

    /// What a group has committed, by partition number; -1 where it has nothing.
    func groupOffsets(_ group: String, topic: String) throws(LogFault) -> [Int64] {
        let count = try partitionCount(ofTopic: topic)
        let list = unsafe PartitionList.make(topic, (0..<count).map { ($0, -1) })
        var question = unsafe rd_kafka_ListConsumerGroupOffsets_new(group, list)
        unsafe rd_kafka_topic_partition_list_destroy(list)
        defer { unsafe rd_kafka_ListConsumerGroupOffsets_destroy(question) }
        return try unsafe askCoordinator(RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPOFFSETS) {
            library,
            options,
            queue in
            unsafe rd_kafka_ListConsumerGroupOffsets(library, &question, 1, options, queue)
        } read: { event throws(LogFault) in
            var answerCount = 0
            let answers = unsafe rd_kafka_ListConsumerGroupOffsets_result_groups(
                rd_kafka_event_ListConsumerGroupOffsets_result(event),
                &answerCount
            )
            guard answerCount == 1, let answer = unsafe answers?[0] else {
                throw fault(RD_KAFKA_RESP_ERR__BAD_MSG)
            }
            if let error = unsafe rd_kafka_group_result_error(answer) {
                throw unsafe fault(rd_kafka_error_code(error))
            }
            var offsets = [Int64](repeating: -1, count: Int(count))
            for entry in unsafe PartitionList.entries(of: rd_kafka_group_result_partitions(answer))
            {
                guard !entry.hasFailed else {
                    throw fault(entry.code)
                }
                if offsets.indices.contains(Int(entry.partition)) {
                    offsets[Int(entry.partition)] = max(entry.offset, -1)
                }
            }
            return offsets
        }
    }

    /// One request of librdkafka's admin API: `send` hands it over, and `read` copies what the answer has;
    /// what both are given lives as long as their call.
    func ask<Answer>(
        _ kind: rd_kafka_admin_op_t,
        _ send: Send,
        read: (_ event: OpaquePointer) throws(LogFault) -> Answer
    ) throws(LogFault) -> Answer {
        guard let answer = try unsafe ask(kind, givenUpAfter: 0, send, read: read) else {
            throw Self.unanswered
        }
        return answer
    }

    /// The same of a request that goes to the coordinator of a group, by a handle for such requests
    /// that is given up together with one that nobody answers.
    ///
    /// What librdkafka 2.0.2 keeps of such a request until the coordinator is found, or there again,
    /// outlives its timeout, and is then handed on with memory that the timeout has freed
    /// (`rd_kafka_admin_coord_request`): an abort, or worse. So its timeout lies far behind ours.
    func askCoordinator<Answer>(
        _ kind: rd_kafka_admin_op_t,
        _ send: Send,
        read: (_ event: OpaquePointer) throws(LogFault) -> Answer
    ) throws(LogFault) -> Answer {
        let client = try takeCoordinatorClient()
        let given = Self.givenUpMilliseconds
        guard let answer = try unsafe client.ask(kind, givenUpAfter: given, send, read: read) else {
            // Who still asks it keeps it until the deadline; then it ends.
            coordinatorClient.withLock { known in
                if known === client {
                    known = nil
                }
            }
            throw Self.unanswered
        }
        return answer
    }

    /// From our deadline to the library's own: longer than another question may keep the handle.
    private static let givenUpMilliseconds: Int32 = 120_000
    private static var unanswered: LogFault {
        LogFault(answer: RD_KAFKA_RESP_ERR__TIMED_OUT, "no answer in time")
    }

    private func takeCoordinatorClient() throws(LogFault) -> LogClient {
        if let client = coordinatorClient.withLock({ $0 }) {
            return client
        }
        let client = try LogClient(
            settings: settings,
            deadlineMilliseconds: Int(deadlineMilliseconds)
        )
        // A new handle connects at once only for a question about metadata.
        _ = try client.clusterID()
        return coordinatorClient.withLock { known in
            let first = known ?? client
            known = first
            return first
        }
    }

    /// Nil where no answer came within the deadline.
    private func ask<Answer>(
        _ kind: rd_kafka_admin_op_t,
        givenUpAfter givenUpMilliseconds: Int32,
        _ send: Send,
        read: (_ event: OpaquePointer) throws(LogFault) -> Answer
    ) throws(LogFault) -> Answer? {
        let options = unsafe rd_kafka_AdminOptions_new(library, kind)
        let queue = unsafe rd_kafka_queue_new(library)
        defer {
            unsafe rd_kafka_queue_destroy(queue)
            unsafe rd_kafka_AdminOptions_destroy(options)
        }
        let deadline = deadlineMilliseconds
        let timeout = deadline &+ givenUpMilliseconds
        // Refused only for deadlines out of the library's range, and then its own holds.
        unsafe rd_kafka_AdminOptions_set_request_timeout(options, timeout, nil, 0)
        if kind == RD_KAFKA_ADMIN_OP_CREATETOPICS || kind == RD_KAFKA_ADMIN_OP_DELETETOPICS {
            unsafe rd_kafka_AdminOptions_set_operation_timeout(options, deadline, nil, 0)
        }
        unsafe send(library, options, queue)
        guard let event = unsafe rd_kafka_queue_poll(queue, deadline &+ 1_000) else {
            return nil
        }
        defer { unsafe rd_kafka_event_destroy(event) }
        let code = unsafe rd_kafka_event_error(event)
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR else {
            throw unsafe fault(code, String(cString: rd_kafka_event_error_string(event)))
        }
        return try unsafe read(event)
    }
}
