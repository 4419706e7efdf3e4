internal import Kafka
internal import StageRuntime
internal import TokenDomain

/// Looks for records in the topics of a deployment: in one partition where the key is known, and
/// from a time on where that is.
struct TopicSearch {
    /// The embedded broker knows no times, and keeps little: all of it is read.
    let isEmbedded: Bool
    let prefix: String
    /// How many partitions each topic has, by full name.
    let partitionCounts: [String: Int]
    private let kafka: KafkaSettings
    private var reader: TopicReader
    /// What was looked at so far, perhaps in part.
    private var partitions: Set<TopicPartition> = []
    /// Nil until it was looked for them.
    private(set) var openTransactions: OpenTransactions?

    init(_ configuration: Configuration, partitionCounts: [String: Int], isEmbedded: Bool) {
        self.isEmbedded = isEmbedded
        prefix = configuration.topicPrefix
        kafka = configuration.kafka
        self.partitionCounts = partitionCounts
        reader = TopicReader(configuration)
    }

    /// Asks Kafka what a search must know before it reads what a stage has in its changelog.
    ///
    /// - Throws: exit 3 where Kafka has no such changelog: without it nothing is known of what the
    ///   stage has.
    static func open(
        stateOf worker: Worker,
        _ configuration: Configuration
    ) throws(CommandFailure) -> TopicSearch {
        let search = try KafkaQuestion.ask(configuration) {
            (admin) throws(LogFault) -> TopicSearch in
            TopicSearch(
                configuration,
                partitionCounts: try admin.partitionCounts(),
                isEmbedded: EmbeddedBroker.isClusterID(try admin.clusterID())
            )
        }
        if let changelog = worker.changelog {
            try search.require(changelog, of: worker, configuration)
        }
        return search
    }

    var readCount: Int { reader.readCount }

    /// What this Kafka cannot answer, or does not yet.
    var notes: [String] {
        if let sentence = openTransactions?.sentence {
            return [sentence]
        }
        return isEmbedded
            ? [
                "the embedded broker keeps the newest 5 MiB of a partition, and nothing beyond its"
                    + " own end: what is not shown may have been",
                "the embedded broker isolates no transaction: what was aborted or is open shows as"
                    + " if it had been committed",
            ] : []
    }

    /// Looks what the searches so far were not shown; the embedded broker hides nothing.
    mutating func lookForOpenTransactions(
        _ configuration: Configuration
    ) throws(CommandFailure) {
        if !isEmbedded {
            openTransactions = try OpenTransactions(in: partitions, configuration)
        }
    }

    func name(_ topic: Topic) -> String { topic.name(prefix: prefix) }

    /// Wants a stage's changelog to be there.
    ///
    /// Where these credentials may not see it, a note says so, and what they may see is shown.
    private func require(
        _ changelog: Topic,
        of worker: Worker,
        _ configuration: Configuration
    ) throws(CommandFailure) {
        let topic = name(changelog)
        guard partitionCounts[topic] == nil else {
            return
        }
        let isHidden = try KafkaQuestion.ask(configuration) { admin throws(LogFault) in
            try admin.isHidden(topic)
        }
        guard !isHidden else {
            return Console.say(
                "these credentials may not see \(topic): what \(worker.rawValue) knows is not shown"
            )
        }
        guard partitionCounts.keys.contains(where: { $0.hasPrefix(prefix) }) else {
            throw CommandFailure(
                .nothingMatched,
                code: "kafka.no_topic",
                "Kafka shows no topic under the prefix \"\(prefix)\"; see tollway topics plan, and"
                    + " \(Setting.topicPrefix.fullName)"
            )
        }
        throw CommandFailure(
            .nothingMatched,
            code: "kafka.no_topic",
            "Kafka shows no topic \(topic), and what \(worker.rawValue) knows is there: where it was"
                + " there before, see \(Self.changelogSection); else tollway topics apply --yes"
        )
    }

    /// What to do where a changelog lacks what its stage has read.
    static let changelogSection = "RUNBOOK.md, \"A changelog was deleted, or made anew\""

    /// Whether a stage's group has read a record; false also where that cannot be known.
    ///
    /// - Throws: where Kafka does not answer.
    func hasRead(_ found: TopicReader.Found, _ worker: Worker) throws(LogFault) -> Bool {
        // The embedded broker keeps too little of a state to say what is missing there.
        guard !isEmbedded else {
            return false
        }
        let admin = try KafkaAdmin(settings: kafka)
        defer { admin.close() }
        let number = Int(found.partition)
        do throws(LogFault) {
            let committed = try admin.committedOffsets(
                ofGroup: worker.group(prefix: prefix),
                topic: found.topic
            )
            let ends = try admin.endOffsets(ofTopic: found.topic)
            guard committed.indices.contains(number), ends.indices.contains(number),
                let position = committed[number]
            else {
                return false
            }
            // A position behind the end is one in a topic that was there before this one.
            guard found.offset < position, position <= ends[number] else {
                return false
            }
            // What it has of the record may lie before the end of a transaction that is not written yet.
            let state = worker.changelog.map {
                [TopicPartition(topic: name($0), partition: found.partition)]
            }
            return try OpenTransactions(in: Set(state ?? []), admin).partitions.isEmpty
        } catch {
            guard case .misconfigured = error else {
                throw error
            }
            // Who may read the topics may not always ask for a group's position.
            return false
        }
    }

    /// The records of a key that hold what is looked for; none where there is no such topic.
    mutating func search(
        _ topic: Topic,
        key: [UInt8],
        from: Int64? = nil,
        until: Int64? = nil,
        untilOffset: Int64? = nil,
        isWanted: (Span<UInt8>) -> Bool = { _ in true }
    ) throws(LogFault) -> [TopicReader.Found] {
        try search(
            topic,
            partitionOf: key,
            from: from,
            until: until,
            untilOffset: untilOffset
        ) { own, value in
            own.isEqual(to: key) && isWanted(value)
        }
    }

    /// The records of the partition in which a key lies.
    mutating func search(
        _ topic: Topic,
        partitionOf key: [UInt8],
        from: Int64? = nil,
        until: Int64? = nil,
        untilOffset: Int64? = nil,
        isWanted: (_ key: Span<UInt8>, _ value: Span<UInt8>) -> Bool
    ) throws(LogFault) -> [TopicReader.Found] {
        guard let partition = partition(ofKey: key, in: topic) else {
            return []
        }
        return try reader.search(
            .init(
                topic: name(topic),
                partition: partition,
                from: isEmbedded ? nil : from,
                until: until,
                untilOffset: untilOffset
            ),
            isWanted: isWanted
        )
    }

    /// The newest record of a key, with those right before it, and whether there are records before
    /// those that were looked at; see ``TopicReader/searchNewest(topic:partition:isWanted:)``.
    mutating func searchNewest(
        _ topic: Topic,
        key: [UInt8]
    ) throws(LogFault) -> (found: [TopicReader.Found], hasEarlier: Bool) {
        guard let partition = partition(ofKey: key, in: topic) else {
            return ([], false)
        }
        return try reader.searchNewest(topic: name(topic), partition: partition) { own, _ in
            own.isEqual(to: key)
        }
    }

    /// The newest records of all partitions that are wanted, and whether there are records before
    /// those that were looked at.
    mutating func searchNewest(
        _ topic: Topic,
        isWanted: (Span<UInt8>) -> Bool
    ) throws(LogFault) -> (found: [TopicReader.Found], hasEarlier: Bool) {
        guard addAll(of: topic) else {
            return ([], false)
        }
        return try reader.searchNewest(topic: name(topic), partition: nil) { isWanted($1) }
    }

    mutating func searchAll(
        _ topic: Topic,
        from: Int64?,
        until: Int64?,
        isWanted: (Span<UInt8>) -> Bool
    ) throws(LogFault) -> [TopicReader.Found] {
        guard addAll(of: topic) else {
            return []
        }
        let place = TopicReader.Place(
            topic: name(topic),
            from: isEmbedded ? nil : from,
            until: until
        )
        return try reader.search(place) { isWanted($1) }
    }

    /// Notes that the partition of a key is looked at; nil where there is no such topic.
    private mutating func partition(ofKey key: [UInt8], in topic: Topic) -> Int32? {
        guard let count = partitionCounts[name(topic)] else {
            return nil
        }
        let partition = TopicReader.partition(ofKey: key, partitionCount: count)
        partitions.insert(TopicPartition(topic: name(topic), partition: partition))
        return partition
    }

    /// Notes that all of a topic is looked at; false where there is no such topic.
    private mutating func addAll(of topic: Topic) -> Bool {
        guard let count = partitionCounts[name(topic)] else {
            return false
        }
        partitions.formUnion(
            (0..<Int32(count)).map { TopicPartition(topic: name(topic), partition: $0) }
        )
        return true
    }
}
