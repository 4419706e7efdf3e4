internal import Kafka
internal import StateStore
internal import Telemetry
internal import TokenDomain

/// What must be true of Kafka before a worker starts: its topics are there and keep what they must
/// keep, those that are read together by key have as many partitions as each other and as their
/// changelog, and the broker can keep the promise that is configured.
struct TopicCheck {
    /// What a worker needs to know of the cluster that it has found in order.
    struct Cluster {
        var id: String
        /// `max.message.bytes` of its topics, by full name, where they are known.
        var recordByteCountMax: [String: Int] = [:]
        /// `delete.retention.ms` of its changelog: for so long a tombstone is there to be read.
        var tombstoneMilliseconds = StateDirectory.tombstoneMilliseconds
        /// How many partitions its topics have, by full name.
        var partitionCounts: [String: Int] = [:]
    }

    static let retryMilliseconds = 500
    /// A topic that was made a moment ago is not known to every broker at once, and on a busy
    /// machine not for seconds: a missing one is looked for again so many times, 20 s in all,
    /// before the worker refuses to start.
    static let missingRetryCountMax = 40

    private static let waiting = "waiting for Kafka"

    let worker: Worker
    let configuration: Configuration
    let log: Log

    private static func missing(_ topics: [String]) -> String {
        "Kafka shows no topic \(topics.joined(separator: ", "))"
    }

    /// Every topic that the worker reads or writes.
    private var known: [Topic] {
        worker.sources + worker.follows + WorkerLoop.targets(of: worker)
    }

    /// As ``waitForTopics(isStopRequested:)``, on the loop's own thread: meanwhile the worker is
    /// started and alive, and not ready.
    func waitForTopics(
        _ health: Health,
        isStopRequested: (_ waitingMilliseconds: Int) -> Bool
    ) throws -> Cluster? {
        func say(_ sentence: String) {
            health.setNotReady(because: sentence)
            health.setCondition("kafka", sentence)
        }
        say(Self.waiting)
        health.setStarted()
        return try waitForTopics(saying: say) { milliseconds in
            health.beat()
            return isStopRequested(milliseconds)
        }
    }

    /// Asks until the broker answers.
    ///
    /// - Returns: nil when a stop is requested.
    /// - Throws: ``LogFault/misconfigured(message:)`` with a sentence that says how to repair it.
    func waitForTopics(isStopRequested: (_ waitingMilliseconds: Int) -> Bool) throws -> Cluster? {
        try waitForTopics(saying: { _ in }, isStopRequested: isStopRequested)
    }

    /// Calls `say` before each wait, with what is waited for in a few words.
    private func waitForTopics(
        saying say: (String) -> Void,
        isStopRequested: (_ waitingMilliseconds: Int) -> Bool
    ) throws -> Cluster? {
        let admin = try KafkaAdmin(settings: configuration.kafka, deadlineMilliseconds: 2_000)
        defer { admin.close() }
        var missingCount = 0
        while true {
            do throws(LogFault) {
                let clusterID = try admin.clusterID()
                let topics = try admin.topics()
                let missing = missingTopics(topics)
                if missing.isEmpty || missingCount == Self.missingRetryCountMax {
                    try check(clusterID: clusterID, topics: topics)
                    return try describe(clusterID, topics, admin)
                }
                missingCount += 1
                say(Self.missing(missing))
                log.limited(
                    .warning,
                    "Kafka shows no such topic; looking again for 20 s",
                    ("topic", .text(missing.joined(separator: ", ")))
                )
            } catch {
                guard case .unavailable(let code, _) = error else {
                    throw error
                }
                say(Self.waiting)
                let note = admin.takeNotes().last { $0.level <= 4 }
                log.limited(
                    .warning,
                    "Kafka is away; waiting",
                    ("code", .text(code)),
                    ("because", .text(note?.text ?? "no broker answers"))
                )
            }
            guard !isStopRequested(Self.retryMilliseconds) else {
                return nil
            }
        }
    }

    func check(clusterID: String, topics: [TopicDescription]) throws(LogFault) {
        guard
            // The door has no transactions.
            configuration.delivery == .atLeastOnce || worker == .ingest
                || !EmbeddedBroker.isClusterID(clusterID)
        else {
            throw .misconfigured(message: Configuration.embeddedRefusal)
        }
        let missing = missingTopics(topics)
        guard missing.isEmpty else {
            throw .misconfigured(
                message: "\(Self.missing(missing)): create it with"
                    + " `tollway topics apply --yes` (where a state topic was deleted, see the runbook"
                    + " first), or give this worker the right to see it, with Deploy/acls.sh"
            )
        }
        try checkCounts(topics)
    }

    private func describe(
        _ clusterID: String,
        _ shown: [TopicDescription],
        _ admin: KafkaAdmin
    ) throws(LogFault) -> Cluster {
        var cluster = Cluster(id: clusterID)
        for topic in shown {
            cluster.partitionCounts[topic.name] = topic.partitions.count
        }
        guard !EmbeddedBroker.isClusterID(clusterID) else {
            return cluster
        }
        if configuration.durability == .trial {
            log.warning("a trial: TOLLWAY_KAFKA_SINGLE_BROKER is yes, a lost broker loses tokens")
        }
        if configuration.delivery == .atLeastOnce, worker != .ingest {
            log.warning("at-least-once is for the embedded broker: here records are written twice")
        }
        let prefix = configuration.topicPrefix
        let topics = known
        let present: [String: TopicReview.Present]
        do throws(LogFault) {
            present = try admin.present(topics, prefix: prefix)
        } catch .misconfigured(let message) {
            // A worker needs the right to read and write, not the right to ask for settings.
            log.warning("the topics' settings may not be read", ("because", .text(message)))
            try refuse(replicaShortfalls(shown))
            return cluster
        }
        guard present.count == topics.count else {
            // Another broker was asked this time, and it does not know all of them yet.
            throw .unavailable(
                code: "UNKNOWN_TOPIC_OR_PART",
                message: "not every broker shows the worker's topics yet"
            )
        }
        try checkSettings(present)
        for (name, topic) in present {
            cluster.recordByteCountMax[name] = topic.configuration["max.message.bytes"]
                .flatMap { Int($0) }
        }
        let retention = worker.changelog.flatMap {
            present[$0.name(prefix: prefix)]?.configuration["delete.retention.ms"]
        }
        if let milliseconds = retention.flatMap({ Int64($0) }) {
            cluster.tombstoneMilliseconds = milliseconds
        }
        return cluster
    }

    /// What is asked of Kafka.
    ///
    /// Under at-least-once nothing is promised but at the door, whose receipts are Kafka's.
    private var durability: Durability {
        configuration.delivery == .exactlyOnce || worker == .ingest
            ? configuration.durability : .trial
    }

    /// Refuses what would lose records or state; says what is merely otherwise.
    func checkSettings(_ present: [String: TopicReview.Present]) throws(LogFault) {
        let prefix = configuration.topicPrefix
        let reviews = known.compactMap { topic in
            present[topic.name(prefix: prefix)].map { known in
                TopicReview(
                    topic,
                    prefix: prefix,
                    present: known,
                    sourceByteCountMax: TopicReview.recordByteCountMax(
                        of: topic.deadLetterSources,
                        prefix: prefix,
                        present: present
                    ),
                    durability: durability
                )
            }
        }
        let shortfalls = TopicShortfall.among(reviews)
        for shortfall in shortfalls where !shortfall.isVital {
            log.warning(
                "a topic is not as it should be; see tollway topics plan",
                ("topic", .text(NameList.text(shortfall.topics))),
                ("setting", .text(shortfall.setting)),
                ("value", .text(shortfall.value)),
                ("wanted", .text(shortfall.wanted))
            )
        }
        try refuse(shortfalls.filter(\.isVital))
    }

    /// Metadata has a topic's replica count, also for who may not read the topic's settings.
    private func replicaShortfalls(_ shown: [TopicDescription]) -> [TopicShortfall] {
        let least = durability.replicationFactorMin
        let names = known.map {
            $0.name(prefix: configuration.topicPrefix)
        }
        var found: [TopicShortfall] = []
        for topic in shown where names.contains(topic.name) && topic.replicationFactor < least {
            TopicShortfall.add(
                to: &found,
                TopicShortfall(replicas: topic.replicationFactor, of: topic.name)
            )
        }
        return found
    }

    private func refuse(_ shortfalls: [TopicShortfall]) throws(LogFault) {
        guard !shortfalls.isEmpty else {
            return
        }
        var repairs: [String] = []
        for shortfall in shortfalls where !repairs.contains(shortfall.repair) {
            repairs.append(shortfall.repair)
        }
        throw .misconfigured(
            message: "\(shortfalls.map(\.sentence).joined(separator: ", ")): to repair it,"
                + " \(repairs.joined(separator: "; then "))"
        )
    }

    private func missingTopics(_ topics: [TopicDescription]) -> [String] {
        let present = Set(topics.filter { !$0.partitions.isEmpty }.map(\.name))
        return
            known
            .map { $0.name(prefix: configuration.topicPrefix) }
            .filter { !present.contains($0) }
    }

    /// The changelog's partition is the input's number, and one member gets the same numbers of all
    /// its topics: both hold only where the counts are equal.
    private func checkCounts(_ topics: [TopicDescription]) throws(LogFault) {
        var counts: [String: Int] = [:]
        for topic in topics {
            counts[topic.name] = topic.partitions.count
        }
        guard let changelog = worker.changelog else {
            return
        }
        let group = (worker.sources + [changelog]).map {
            $0.name(prefix: configuration.topicPrefix)
        }
        guard Set(group.map { counts[$0, default: 0] }).count > 1 else {
            return
        }
        let list = group.map { "\($0) has \(counts[$0, default: 0])" }.joined(separator: ", ")
        throw .misconfigured(
            message: "topics that \(worker.rawValue) reads together must have equally many"
                + " partitions: \(list). `tollway topics plan` names the topic that got more; see"
                + " the runbook, Partitions were added"
        )
    }
}

extension Configuration {
    /// Why nobody uses the embedded broker with exactly-once.
    package static let embeddedRefusal =
        "TOLLWAY_DELIVERY is exactly-once and the broker is the embedded one, whose"
        + " transactions isolate nothing: set TOLLWAY_DELIVERY=at-least-once or use Kafka"
}
