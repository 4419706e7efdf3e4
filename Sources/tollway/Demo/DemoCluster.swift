internal import Foundation
internal import Kafka
internal import LocalKafka
internal import StageRuntime
internal import TokenDomain

/// The Kafka of a pipeline on this machine: the one that is named, one of our own from KAFKA_HOME, or the embedded one.
enum DemoCluster {
    case given(bootstrapServers: String)
    case local(LocalCluster)
    case embedded(bootstrapServers: String)

    static let partitionCount = TopicShape.partitionCountDefault
    private static let createMilliseconds = 60_000

    var bootstrapServers: String {
        switch self {
        case .given(let servers), .embedded(let servers): servers
        case .local(let cluster): cluster.bootstrapServers
        }
    }

    var delivery: KafkaDelivery {
        switch self {
        case .given, .local: .exactlyOnce
        case .embedded: .atLeastOnce
        }
    }

    /// Whether the workers need the setting for trials: on three brokers of one's own they do not.
    var isTrial: Bool {
        switch self {
        case .given, .embedded: true
        case .local(let cluster): cluster.nodeCount < Durability.replicationFactor
        }
    }

    var sentence: String {
        switch self {
        case .given(let servers): "Kafka at \(servers), exactly-once"
        case .local: "a Kafka of its own from KAFKA_HOME, exactly-once"
        case .embedded:
            "the embedded broker, at-least-once (set KAFKA_HOME for a real Kafka, exactly-once)"
        }
    }

    /// Starts what the environment asks for: `TOLLWAY_KAFKA_BOOTSTRAP_SERVERS` and `KAFKA_HOME` are
    /// looked at.
    ///
    /// - Throws: ``DemoInterrupted`` on the first signal; ``LocalCluster/Fault`` also where
    ///   `KAFKA_HOME` is set and cannot be used: the embedded broker is not what was asked for.
    static func start(
        environment: [String: String],
        folder: URL,
        topicPrefix: String,
        processes: DemoProcesses,
        http: DemoHTTP,
        firstPort: UInt16 = 0,
        isKept: Bool = false
    ) throws -> DemoCluster {
        if let servers = environment[Setting.kafkaBootstrapServers] {
            return .given(bootstrapServers: servers)
        }
        if let home = environment["KAFKA_HOME"], !home.isEmpty {
            let cluster = try LocalCluster(
                home: home,
                folder: folder.appendingPathComponent("kafka").path,
                firstPort: firstPort
            )
            do throws(LocalCluster.Fault) {
                try cluster.start { http.isInterrupted }
            } catch {
                if isKept { cluster.stop() } else { cluster.wipe() }
                guard error != .interrupted else {
                    throw DemoInterrupted()
                }
                throw error
            }
            return .local(cluster)
        }
        try BrokerCommand.refuseExactlyOnce(environment)
        let output = try processes.start(
            "tollway",
            ["broker", "--partitions", String(partitionCount)],
            name: "broker",
            environment: ["TOLLWAY_TOPIC_PREFIX": topicPrefix]
        )
        let line = DemoCluster.firstLine(of: output)
        guard !line.isEmpty else {
            throw CommandFailure(.failed, code: "demo.broker", "the embedded broker did not start")
        }
        return .embedded(bootstrapServers: line)
    }

    /// How a client of ours speaks to it: a cluster that is named may want TLS and SASL.
    func settings(clientID: String) throws(CommandFailure) -> KafkaSettings {
        guard case .given = self else {
            return KafkaSettings(bootstrapServers: bootstrapServers, clientID: clientID)
        }
        var settings = try KafkaQuestion.configuration().kafka
        settings.bootstrapServers = bootstrapServers
        settings.clientID = clientID
        return settings
    }

    /// Makes the pipeline's topics where the broker does not bring them.
    func createTopics(prefix: String, settings: KafkaSettings) throws {
        if case .embedded = self {
            return
        }
        // A machine that does other things as well takes its time for so many partitions.
        let admin = try KafkaAdmin(
            settings: settings,
            deadlineMilliseconds: Self.createMilliseconds
        )
        defer { admin.close() }
        let present = try admin.present(Topic.all, prefix: prefix)
        let missing = TopicReview.all(
            prefix: prefix,
            wanted: TopicReview.Wanted(
                partitionCount: Self.partitionCount,
                durability: isTrial ? .trial : .promised,
                brokerCount: try admin.brokerCount()
            ),
            present: present
        )
        .filter { $0.present == nil }
        guard !missing.isEmpty else {
            return
        }
        try admin.create(missing.map(\.plan))
    }

    /// Takes the demo's topics away again from a cluster that is not its own.
    func cleanUp(prefix: String, settings: KafkaSettings) throws {
        switch self {
        case .given:
            let admin = try KafkaAdmin(settings: settings)
            defer { admin.close() }
            try admin.deleteTopics(Topic.all.map { $0.name(prefix: prefix) })
        case .local(let cluster):
            cluster.wipe()
        case .embedded:
            break
        }
    }

    /// What a process says first on its standard output; empty where it ends without a word.
    static func firstLine(of output: FileHandle) -> String {
        var bytes = Data()
        while !bytes.contains(UInt8(ascii: "\n")) {
            let more = output.availableData
            guard !more.isEmpty else {
                break
            }
            bytes.append(more)
        }
        return String(decoding: bytes, as: UTF8.self)
            .split(separator: "\n").first.map { String($0) } ?? ""
    }
}
