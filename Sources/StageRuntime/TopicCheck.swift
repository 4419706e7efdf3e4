internal import Kafka
internal import Telemetry
internal import TokenDomain

/// What must be true of Kafka before a worker starts: its topics are there, those that are read
/// together by key have as many partitions as each other and as their changelog, and the broker can
/// keep the promise that is configured.
struct TopicCheck {
    /// The embedded broker calls itself so: its transactions are theatre.
    static let embeddedClusterPrefix = "mockCluster"
    static let retryMilliseconds = 500
    /// A topic that was made a moment ago is not known to every broker at once: a missing one is
    /// looked for again so many times before the worker refuses to start.
    static let missingRetryCountMax = 10

    let worker: Worker
    let configuration: Configuration
    let log: Log

    /// Asks until the broker answers.
    ///
    /// - Returns: the cluster's id; nil when told to stop.
    /// - Throws: ``LogFault/misconfigured(message:)`` with a sentence that says how to repair it.
    func waitForTopics(isStopRequested: (_ waitingMilliseconds: Int) -> Bool) throws -> String? {
        let admin = try KafkaAdmin(settings: configuration.kafka, deadlineMilliseconds: 2_000)
        defer { admin.close() }
        var missingCount = 0
        while true {
            do throws(LogFault) {
                let clusterID = try admin.clusterID()
                let topics = try admin.topics()
                guard missingCount < Self.missingRetryCountMax, !missingTopics(topics).isEmpty
                else {
                    try check(clusterID: clusterID, topics: topics)
                    return clusterID
                }
                missingCount += 1
            } catch {
                guard case .unavailable(let code, _) = error else {
                    throw error
                }
                log.limited(.warning, "Kafka is away; waiting", ("code", .text(code)))
            }
            guard !isStopRequested(Self.retryMilliseconds) else {
                return nil
            }
        }
    }

    func check(clusterID: String, topics: [TopicDescription]) throws(LogFault) {
        guard
            configuration.delivery == .atLeastOnce
                || !clusterID.hasPrefix(Self.embeddedClusterPrefix)
        else {
            throw .misconfigured(
                message:
                    "TOLLWAY_DELIVERY is exactly-once and the broker is the embedded one, whose"
                    + " transactions isolate nothing: set TOLLWAY_DELIVERY=at-least-once or use Kafka"
            )
        }
        let missing = missingTopics(topics)
        guard missing.isEmpty else {
            throw .misconfigured(
                message: "Kafka has no topic \(missing.joined(separator: ", ")): create it with"
                    + " `tollway topics apply`"
            )
        }
        try checkCounts(topics)
    }

    private func missingTopics(_ topics: [TopicDescription]) -> [String] {
        let present = Set(topics.filter { !$0.partitions.isEmpty }.map(\.name))
        return (worker.sources + WorkerLoop.targets(of: worker))
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
                + " partitions: \(list)"
        )
    }
}
