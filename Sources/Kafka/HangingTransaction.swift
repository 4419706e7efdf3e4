/// A transaction that is open in a partition and holds its last stable offset back (KIP-664).
package struct HangingTransaction: Equatable, Sendable {
    /// What its coordinator says of it.
    package enum Verdict: String, Sendable {
        /// It was committed, and the partition lacks the marker.
        case commit
        /// It was aborted, and the partition lacks the marker.
        case abort
        /// Its producer or its coordinator is at work: it ends by itself, or within the transaction's
        /// time-out.
        case underWay = "under way"
        /// No record of it is left: a person must decide.
        case unknown
    }

    package var partition: TopicPartition
    package var producerID: Int64
    package var producerEpoch: Int16
    /// Nil where no record of the coordinator names the producer.
    package var transactionalID: String?
    /// Where it begins in the partition.
    package var startOffset: Int64
    package var verdict: Verdict
    var coordinatorEpoch: Int32

    /// Whether its coordinator owes the partition a marker that does not come.
    package var isOwed: Bool { verdict == .commit || verdict == .abort }
}

/// Finds transactions that hang, and writes the markers that their coordinator owes (KAFKA-20734).
///
/// librdkafka 2.0.2 has none of the requests, so they go over a connection of our own, and only to
/// PLAINTEXT listeners.
package struct HangingTransactions {
    package static let groupOffsets = "__consumer_offsets"
    /// A decided transaction has its markers within milliseconds; a coordinator that has just moved
    /// writes them again after it has read its log.
    package static let patienceMilliseconds: Int64 = 10_000
    private static let batchRecordCountMax = 10_000
    private static let waitMilliseconds = 200
    private static let readSecondsMax = 300
    private static let describeProducers: Int16 = 61
    private static let metadata: Int16 = 3
    private static let writeMarkers: Int16 = 27

    /// What was found, and where one may hang that was not.
    package struct Found: Equatable, Sendable {
        package var transactions: [HangingTransaction] = []
        /// Partitions without a leader, or whose leader does not answer.
        package var unanswered: [TopicPartition] = []
    }

    private let settings: KafkaSettings
    private let admin: KafkaAdmin

    /// - Throws: ``LogFault/misconfigured(message:)`` where the settings want TLS or SASL.
    package init(settings: KafkaSettings, admin: KafkaAdmin) throws(LogFault) {
        let security = settings.extra["security.protocol"]?.lowercased() ?? "plaintext"
        guard security == "plaintext" else {
            throw .misconfigured(
                message: "producers and markers are asked for over PLAINTEXT listeners only, and"
                    + " security.protocol is \(security): run this at such a listener, or"
                    + " `kafka-transactions.sh --bootstrap-server … --command-config FILE"
                    + " find-hanging --broker-id ID`; its abort must not end what was committed"
            )
        }
        self.settings = settings
        self.admin = admin
    }

    /// Every transaction that holds a partition of the topics back, or of the groups' offsets.
    package func find(in topics: [String], now: Int64) throws(LogFault) -> Found {
        let present = try self.topics().filter {
            topics.contains($0.name) || $0.name == Self.groupOffsets
        }
        var held: [Int32: [TopicPartition]] = [:]
        var found = Found()
        var silentNodes: Set<Int32> = []
        for topic in present {
            // The ends first: what is written in between must not count.
            let ends = try admin.knownOffsets(.end, ofTopic: topic.name, &silentNodes)
            let stable = try admin.knownOffsets(.lastStable, ofTopic: topic.name, &silentNodes)
            for partition in topic.partitions {
                let number = Int(partition.partition)
                let place = TopicPartition(topic: topic.name, partition: partition.partition)
                guard number < min(ends.count, stable.count), let end = ends[number],
                    let stable = stable[number]
                else {
                    found.unanswered.append(place)
                    continue
                }
                if stable < end {
                    held[partition.leader, default: []].append(place)
                }
            }
        }
        guard !held.isEmpty else {
            return found
        }
        let brokers = try brokers()
        for (leader, partitions) in held {
            do throws(LogFault) {
                if let broker = brokers[leader] {
                    found.transactions += try producers(of: partitions, at: broker)
                } else {
                    found.unanswered += partitions
                }
            } catch {
                guard case .unavailable = error else {
                    throw error
                }
                found.unanswered += partitions
            }
        }
        found.unanswered.sort()
        found.transactions = try judged(found.transactions, now: now).sorted {
            ($0.partition, $0.startOffset) < ($1.partition, $1.startOffset)
        }
        return found
    }

    /// Writes the markers of transactions whose coordinator owes them.
    ///
    /// - Returns: what the partitions' leaders refused or did not answer, by Kafka's names; another ``find(in:now:)``
    ///   shows whether the partitions are free.
    package func repair(
        _ transactions: [HangingTransaction]
    ) throws(LogFault) -> [(HangingTransaction, code: String)] {
        let brokers = try brokers()
        let leaders = try Dictionary(
            topics().flatMap { topic in
                topic.partitions.map {
                    (TopicPartition(topic: topic.name, partition: $0.partition), $0.leader)
                }
            },
            uniquingKeysWith: { $1 }
        )
        return refusals(of: transactions, leaders: leaders, brokers)
    }

    /// Sends each its marker: one that gets no answer keeps none of the others from being written.
    func refusals(
        of transactions: [HangingTransaction],
        leaders: [TopicPartition: Int32],
        _ brokers: [Int32: (host: String, port: String)]
    ) -> [(HangingTransaction, code: String)] {
        var refused: [(HangingTransaction, code: String)] = []
        for transaction in transactions where transaction.isOwed {
            guard let leader = leaders[transaction.partition], let broker = brokers[leader] else {
                refused.append((transaction, "LEADER_NOT_AVAILABLE"))
                continue
            }
            do throws(LogFault) {
                let code = try writeMarker(transaction, at: broker)
                if code != 0 {
                    refused.append((transaction, LogFault.name(ofCode: code)))
                }
            } catch .unavailable(let code, _) {
                refused.append((transaction, code))
            } catch {
                refused.append((transaction, "NO_ANSWER"))
            }
        }
        return refused
    }

    /// The groups' offsets are no topic of ours, so the list of topics is without them.
    private func topics() throws(LogFault) -> [TopicDescription] {
        let offsets = try admin.topic(Self.groupOffsets).map { [$0] } ?? []
        return try admin.topics() + offsets
    }

    // MARK: Requests

    /// Host and port by node, from the first bootstrap server that answers.
    private func brokers() throws(LogFault) -> [Int32: (host: String, port: String)] {
        var last = LogFault.unavailable(code: "_TRANSPORT", message: "no bootstrap server")
        for server in BootstrapServer.list(settings.bootstrapServers) {
            do throws(LogFault) {
                return try brokers(WireConnection(host: server.host, port: server.port))
            } catch {
                last = error
            }
        }
        throw last
    }

    private func brokers(
        _ connection: WireConnection
    ) throws(LogFault) -> [Int32: (host: String, port: String)] {
        var body = WireWriter()
        body.put(Int32(0))  // No topics.
        body.put(UInt8(0))  // And none made.
        let answer = try connection.ask(
            api: Self.metadata,
            version: 4,
            isFlexible: false,
            body.bytes
        )
        return try read(answer) { reader throws(WireReader.CutShort) in
            var brokers: [Int32: (host: String, port: String)] = [:]
            _ = try reader.integer(Int32.self)
            for _ in 0..<(try reader.count(isCompact: false)) {
                let node = try reader.integer(Int32.self)
                let host = try reader.text(isCompact: false)
                brokers[node] = (host, "\(try reader.integer(Int32.self))")
                _ = try reader.text(isCompact: false)
            }
            return brokers
        }
    }

    /// The transactions that are open in partitions of one leader.
    private func producers(
        of partitions: [TopicPartition],
        at broker: (host: String, port: String)
    ) throws(LogFault) -> [HangingTransaction] {
        var body = WireWriter()
        let topics = Dictionary(grouping: partitions, by: \.topic)
        body.putCompact(count: topics.count)
        for (topic, partitions) in topics {
            body.putCompact(text: topic)
            body.putCompact(count: partitions.count)
            partitions.forEach { body.put($0.partition) }
            body.putNoTags()
        }
        body.putNoTags()
        let answer = try WireConnection(host: broker.host, port: broker.port).ask(
            api: Self.describeProducers,
            version: 0,
            isFlexible: true,
            body.bytes
        )
        return try read(answer) { reader throws(WireReader.CutShort) in
            try Self.producers(in: &reader)
        }.get()
    }

    /// - Returns: none because none is open; a failure where a leader did not say.
    static func producers(
        in reader: inout WireReader
    ) throws(WireReader.CutShort) -> Result<[HangingTransaction], LogFault> {
        var found: [HangingTransaction] = []
        _ = try reader.integer(Int32.self)
        for _ in 0..<(try reader.count(isCompact: true)) {
            let topic = try reader.text(isCompact: true)
            for _ in 0..<(try reader.count(isCompact: true)) {
                let partition = TopicPartition(topic: topic, partition: try reader.integer())
                let code = try reader.integer(Int16.self)
                _ = try reader.text(isCompact: true)
                guard code == 0 else {
                    return .failure(refusal(code, of: partition))
                }
                found += try producers(of: partition, &reader)
            }
            try reader.skipTags()
        }
        return .success(found)
    }

    /// A leader that has just moved passes; a right does not come by itself.
    private static func refusal(_ code: Int16, of partition: TopicPartition) -> LogFault {
        let name = LogFault.name(ofCode: code)
        let place = "\(partition.topic)/\(partition.partition)"
        guard name != "TOPIC_AUTHORIZATION_FAILED" else {
            return .misconfigured(
                message: "Kafka does not say which transactions are open in \(place): that wants"
                    + " Read on \(partition.topic)"
            )
        }
        return .unavailable(
            code: name,
            message: "the leader of \(place) does not say which transactions are open in it:"
                + " \(name)"
        )
    }

    private static func producers(
        of partition: TopicPartition,
        _ reader: inout WireReader
    ) throws(WireReader.CutShort) -> [HangingTransaction] {
        var found: [HangingTransaction] = []
        for _ in 0..<(try reader.count(isCompact: true)) {
            let producerID = try reader.integer(Int64.self)
            let producerEpoch = try reader.integer(Int32.self)
            _ = try reader.integer(Int32.self)
            _ = try reader.integer(Int64.self)
            let coordinatorEpoch = try reader.integer(Int32.self)
            let startOffset = try reader.integer(Int64.self)
            try reader.skipTags()
            guard startOffset >= 0 else {
                continue
            }
            found.append(
                HangingTransaction(
                    partition: partition,
                    producerID: producerID,
                    producerEpoch: Int16(truncatingIfNeeded: producerEpoch),
                    startOffset: startOffset,
                    verdict: .unknown,
                    // None was seen by this partition yet.
                    coordinatorEpoch: max(coordinatorEpoch, 0)
                )
            )
        }
        try reader.skipTags()
        return found
    }

    /// Kafka's number for what the leader says of it.
    private func writeMarker(
        _ transaction: HangingTransaction,
        at broker: (host: String, port: String)
    ) throws(LogFault) -> Int16 {
        let answer = try WireConnection(host: broker.host, port: broker.port).ask(
            api: Self.writeMarkers,
            version: 1,
            isFlexible: true,
            Self.markerRequest(transaction)
        )
        return try read(answer) { reader throws(WireReader.CutShort) in
            var code: Int16 = 0
            for _ in 0..<(try reader.count(isCompact: true)) {
                _ = try reader.integer(Int64.self)
                for _ in 0..<(try reader.count(isCompact: true)) {
                    _ = try reader.text(isCompact: true)
                    for _ in 0..<(try reader.count(isCompact: true)) {
                        _ = try reader.integer(Int32.self)
                        code = try reader.integer()
                        try reader.skipTags()
                    }
                    try reader.skipTags()
                }
                try reader.skipTags()
            }
            return code
        }
    }

    static func markerRequest(_ transaction: HangingTransaction) -> [UInt8] {
        var body = WireWriter()
        body.putCompact(count: 1)
        body.put(transaction.producerID)
        body.put(transaction.producerEpoch)
        body.put(UInt8(transaction.verdict == .commit ? 1 : 0))
        body.putCompact(count: 1)
        body.putCompact(text: transaction.partition.topic)
        body.putCompact(count: 1)
        body.put(transaction.partition.partition)
        body.putNoTags()
        body.put(transaction.coordinatorEpoch)
        body.putNoTags()
        body.putNoTags()
        return body.bytes
    }

    private func read<Answer>(
        _ bytes: ArraySlice<UInt8>,
        _ body: (inout WireReader) throws(WireReader.CutShort) -> Answer
    ) throws(LogFault) -> Answer {
        var reader = WireReader(bytes)
        do throws(WireReader.CutShort) {
            return try body(&reader)
        } catch {
            throw .unusable(message: "a broker's answer is cut short")
        }
    }

    // MARK: The coordinator

    /// Reads all that coordinators have written, after the producers were asked.
    private func judged(
        _ found: [HangingTransaction],
        now: Int64
    ) throws(LogFault) -> [HangingTransaction] {
        guard !found.isEmpty else {
            return []
        }
        var verdicts = found.map {
            CoordinatorVerdict(
                producerID: $0.producerID,
                producerEpoch: $0.producerEpoch,
                partition: $0.partition
            )
        }
        let browser = try LogBrowser(
            settings: settings,
            topics: [CoordinatorRecord.topic],
            isolation: .readUncommitted
        )
        defer { browser.close() }
        try browser.start()
        var batch = RecordBatch()
        let start = ContinuousClock.now
        var isAtEnd = false
        while !isAtEnd {
            batch.removeAll()
            isAtEnd = try browser.read(
                into: &batch,
                recordCountMax: Self.batchRecordCountMax,
                waitMilliseconds: Self.waitMilliseconds
            )
            guard isAtEnd || ContinuousClock.now - start < .seconds(Self.readSecondsMax) else {
                throw .unavailable(
                    code: "_TIMED_OUT",
                    message: "\(CoordinatorRecord.topic) was not read in \(Self.readSecondsMax) s"
                )
            }
            Self.take(batch, into: &verdicts)
        }
        return zip(found, verdicts).map { transaction, verdict in
            var transaction = transaction
            transaction.transactionalID = verdict.transactionalID
            transaction.verdict = verdict.verdict(
                now: now,
                patience: Self.patienceMilliseconds
            )
            return transaction
        }
    }

    /// A transactional id has one partition: its records come in their order.
    private static func take(_ batch: RecordBatch, into verdicts: inout [CoordinatorVerdict]) {
        for record in batch.records where !record.value.isAbsent && !record.key.isAbsent {
            guard
                let state = CoordinatorRecord(
                    key: Array(batch.arena[record.key.indices]),
                    value: Array(batch.arena[record.value.indices])
                )
            else {
                continue
            }
            for index in verdicts.indices {
                verdicts[index].take(state, at: record.timestampMilliseconds)
            }
        }
    }
}
