internal import CLibrdkafka

/// Requests of the admin API: topics, their settings, and groups.
extension LogClient {
    /// Makes a topic; one that is there already is left as it is.
    func create(_ plan: TopicPlan) throws(LogFault) {
        var text = [CChar](repeating: 0, count: 300)
        var topic = unsafe rd_kafka_NewTopic_new(
            plan.name,
            Int32(clamping: plan.partitionCount),
            Int32(clamping: plan.replicationFactor),
            &text,
            text.count
        )
        guard unsafe topic != nil else {
            throw LogFault(answer: RD_KAFKA_RESP_ERR__INVALID_ARG, CText.text(of: text))
        }
        defer { unsafe rd_kafka_NewTopic_destroy(topic) }
        for (name, value) in plan.configuration.sorted(by: { $0.key < $1.key }) {
            unsafe rd_kafka_NewTopic_set_config(topic, name, value)
        }
        try unsafe ask(RD_KAFKA_ADMIN_OP_CREATETOPICS) { library, options, queue in
            unsafe rd_kafka_CreateTopics(library, &topic, 1, options, queue)
        } read: { event throws(LogFault) in
            var count = 0
            let results = unsafe rd_kafka_CreateTopics_result_topics(
                rd_kafka_event_CreateTopics_result(event),
                &count
            )
            try unsafe check(results, count, but: RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS)
        }
    }

    /// Deletes topics; one that does not exist is skipped.
    func delete(_ names: [String]) throws(LogFault) {
        var topics = unsafe names.map { unsafe rd_kafka_DeleteTopic_new($0) }
        defer { unsafe rd_kafka_DeleteTopic_destroy_array(&topics, topics.count) }
        try unsafe ask(RD_KAFKA_ADMIN_OP_DELETETOPICS) { library, options, queue in
            unsafe rd_kafka_DeleteTopics(library, &topics, topics.count, options, queue)
        } read: { event throws(LogFault) in
            var count = 0
            let results = unsafe rd_kafka_DeleteTopics_result_topics(
                rd_kafka_event_DeleteTopics_result(event),
                &count
            )
            try unsafe check(results, count, but: RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
        }
    }

    /// Throws the first failure of an answer about topics; `allowed` is none.
    private func check(
        _ results: UnsafeMutablePointer<OpaquePointer?>?,
        _ count: Int,
        but allowed: rd_kafka_resp_err_t
    ) throws(LogFault) {
        for index in 0..<count {
            let result = unsafe results?[index]
            let code = unsafe rd_kafka_topic_result_error(result)
            guard code != RD_KAFKA_RESP_ERR_NO_ERROR, code != allowed else {
                continue
            }
            let name = unsafe String(cString: rd_kafka_topic_result_name(result))
            let said = unsafe rd_kafka_topic_result_error_string(result).map {
                unsafe String(cString: $0)
            }
            throw LogFault(answer: code, "\(name): \(said ?? LogFault.text(ofCode: code))")
        }
    }

    /// How long a broker may not have heard of a topic that was made a moment ago.
    private static let unknownTopicMilliseconds = 3_000

    /// A topic's settings by name; `onlySet` leaves defaults out.
    func configuration(
        ofTopic topic: String,
        onlySet: Bool
    ) throws(LogFault) -> [String: String] {
        try Self.askAgain(
            on: ["UNKNOWN_TOPIC_OR_PART"],
            every: Self.movedLeaderMilliseconds,
            within: Self.unknownTopicMilliseconds
        ) { _ throws(LogFault) in
            try configuration(of: RD_KAFKA_RESOURCE_TOPIC, topic, onlySet: onlySet)
        }
    }

    /// A broker's settings by name, defaults included.
    func configuration(ofBroker node: Int32) throws(LogFault) -> [String: String] {
        try configuration(of: RD_KAFKA_RESOURCE_BROKER, String(node), onlySet: false)
    }

    private func configuration(
        of kind: rd_kafka_ResourceType_t,
        _ name: String,
        onlySet: Bool
    ) throws(LogFault) -> [String: String] {
        var resource = unsafe rd_kafka_ConfigResource_new(kind, name)
        defer { unsafe rd_kafka_ConfigResource_destroy(resource) }
        return try unsafe ask(RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS) { library, options, queue in
            unsafe rd_kafka_DescribeConfigs(library, &resource, 1, options, queue)
        } read: { event throws(LogFault) in
            var count = 0
            let answers = unsafe rd_kafka_DescribeConfigs_result_resources(
                rd_kafka_event_DescribeConfigs_result(event),
                &count
            )
            let answer = try unsafe only(answers, count)
            var configuration: [String: String] = [:]
            let entries = unsafe rd_kafka_ConfigResource_configs(answer, &count)
            for index in 0..<count {
                let entry = unsafe entries?[index]
                let source = unsafe rd_kafka_ConfigEntry_source(entry)
                guard !onlySet || source == RD_KAFKA_CONFIG_SOURCE_DYNAMIC_TOPIC_CONFIG else {
                    continue
                }
                let value = unsafe rd_kafka_ConfigEntry_value(entry)
                let name = unsafe String(cString: rd_kafka_ConfigEntry_name(entry))
                configuration[name] = unsafe value.map { unsafe String(cString: $0) } ?? ""
            }
            return configuration
        }
    }

    /// Sets these and unsets all others of the topic.
    func replaceConfiguration(
        ofTopic topic: String,
        with configuration: [String: String]
    ) throws(LogFault) {
        var resource = unsafe rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic)
        defer { unsafe rd_kafka_ConfigResource_destroy(resource) }
        for (name, value) in configuration.sorted(by: { $0.key < $1.key }) {
            unsafe rd_kafka_ConfigResource_set_config(resource, name, value)
        }
        try unsafe ask(RD_KAFKA_ADMIN_OP_ALTERCONFIGS) { library, options, queue in
            unsafe rd_kafka_AlterConfigs(library, &resource, 1, options, queue)
        } read: { event throws(LogFault) in
            var count = 0
            let answers = unsafe rd_kafka_AlterConfigs_result_resources(
                rd_kafka_event_AlterConfigs_result(event),
                &count
            )
            _ = try unsafe only(answers, count)
        }
    }

    /// What one thing was asked of has one answer.
    private func single(
        _ answers: UnsafeMutablePointer<OpaquePointer?>?,
        _ count: Int,
        of what: String
    ) throws(LogFault) -> OpaquePointer {
        guard count == 1, let answer = unsafe answers?[0] else {
            throw LogFault(answer: RD_KAFKA_RESP_ERR__BAD_MSG, "an answer about no \(what)")
        }
        return unsafe answer
    }

    /// The one topic that an answer about settings is about.
    private func only(
        _ answers: UnsafeMutablePointer<OpaquePointer?>?,
        _ count: Int
    ) throws(LogFault) -> OpaquePointer {
        let answer = try unsafe single(answers, count, of: "topic")
        let code = unsafe rd_kafka_ConfigResource_error(answer)
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR else {
            let why = unsafe rd_kafka_ConfigResource_error_string(answer)
            throw LogFault(answer: code, unsafe why.map { unsafe String(cString: $0) })
        }
        return unsafe answer
    }

    /// Who is in a group; of one that is not there, nobody.
    ///
    /// - Throws: ``LogFault/unavailable(code:message:)`` where its coordinator does not answer, as the
    ///   embedded broker never does.
    func group(_ name: String) throws(LogFault) -> GroupDescription {
        // Where a coordinator does not know the request, librdkafka 2.0.2 frees what it then answers with
        // (rd_kafka_admin_coord_request).
        guard !EmbeddedBroker.isClusterID(try clusterID()) else {
            throw .unavailable(
                code: LogFault.name(ofCode: RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE.rawValue),
                message: "the embedded broker does not tell who is in a group"
            )
        }
        return try unsafe askCoordinator(RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS) {
            library,
            options,
            queue in
            unsafe name.withCString { name in
                var name: UnsafePointer<CChar>? = unsafe name
                unsafe rd_kafka_DescribeConsumerGroups(library, &name, 1, options, queue)
            }
        } read: { event throws(LogFault) in
            var count = 0
            let answers = unsafe rd_kafka_DescribeConsumerGroups_result_groups(
                rd_kafka_event_DescribeConsumerGroups_result(event),
                &count
            )
            let answer = try unsafe single(answers, count, of: "group")
            if let error = unsafe rd_kafka_ConsumerGroupDescription_error(answer) {
                let code = unsafe rd_kafka_error_code(error)
                guard code == RD_KAFKA_RESP_ERR_GROUP_ID_NOT_FOUND else {
                    throw unsafe LogFault(
                        answer: code,
                        String(cString: rd_kafka_error_string(error))
                    )
                }
            }
            return unsafe GroupDescription(answer)
        }
    }

    /// Commits positions of a topic for a group that has no members.
    func commit(
        _ positions: [(partition: Int32, offset: Int64)],
        ofGroup group: String,
        topic: String
    ) throws(LogFault) {
        let list = unsafe PartitionList.make(topic, positions, mark: CommitMark.byHand)
        var order = unsafe rd_kafka_AlterConsumerGroupOffsets_new(group, list)
        unsafe rd_kafka_topic_partition_list_destroy(list)
        defer { unsafe rd_kafka_AlterConsumerGroupOffsets_destroy(order) }
        try unsafe askCoordinator(RD_KAFKA_ADMIN_OP_ALTERCONSUMERGROUPOFFSETS) {
            library,
            options,
            queue in
            unsafe rd_kafka_AlterConsumerGroupOffsets(library, &order, 1, options, queue)
        } read: { event throws(LogFault) in
            var count = 0
            let answers = unsafe rd_kafka_AlterConsumerGroupOffsets_result_groups(
                rd_kafka_event_AlterConsumerGroupOffsets_result(event),
                &count
            )
            let answer = try unsafe single(answers, count, of: "group")
            let entries = unsafe PartitionList.entries(of: rd_kafka_group_result_partitions(answer))
            var code = entries.first(where: \.hasFailed)?.code ?? RD_KAFKA_RESP_ERR_NO_ERROR
            if let error = unsafe rd_kafka_group_result_error(answer) {
                code = unsafe rd_kafka_error_code(error)
            }
            switch code {
            case RD_KAFKA_RESP_ERR_NO_ERROR: return
            // Kafka's message for it names members that do not exist.
            case RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID, RD_KAFKA_RESP_ERR_NON_EMPTY_GROUP,
                RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS:
                throw .fenced(message: "the group still has members")
            default: throw LogFault(answer: code)
            }
        }
    }
}

extension GroupDescription {
    fileprivate init(_ group: OpaquePointer) {
        let state = unsafe rd_kafka_ConsumerGroupDescription_state(group)
        self.state = unsafe String(cString: rd_kafka_consumer_group_state_name(state))
        members = unsafe (0..<rd_kafka_ConsumerGroupDescription_member_count(group)).map { index in
            unsafe Member(rd_kafka_ConsumerGroupDescription_member(group, index))
        }
    }
}

extension GroupDescription.Member {
    /// One that says its name over restarts has that one, others what the broker's log calls them.
    fileprivate init(_ member: OpaquePointer?) {
        let names = unsafe [
            rd_kafka_MemberDescription_group_instance_id(member),
            rd_kafka_MemberDescription_client_id(member),
        ].map { name in unsafe name.map { unsafe String(cString: $0) } ?? "" }
        name = names.first { !$0.isEmpty } ?? "?"
        id = unsafe String(cString: rd_kafka_MemberDescription_consumer_id(member))
        let assignment = unsafe rd_kafka_MemberDescription_assignment(member)
        let list = unsafe assignment.flatMap { unsafe rd_kafka_MemberAssignment_partitions($0) }
        partitions = unsafe PartitionList.entries(of: list).map {
            TopicPartition(topic: $0.topic, partition: $0.partition)
        }
    }
}
