internal import Foundation
internal import Kafka
internal import LocalKafka
internal import StageRuntime

/// The Kafka of a bench: the one that is named, or one of its own from KAFKA_HOME.
enum BenchKafka {
    case given(bootstrapServers: String)
    case local(LocalCluster)

    static let partitionCount = TopicShape.partitionCountDefault

    var bootstrapServers: String {
        switch self {
        case .given(let servers): servers
        case .local(let cluster): cluster.bootstrapServers
        }
    }

    var sentence: String {
        switch self {
        case .given(let servers): "Kafka at \(servers)"
        case .local: "a Kafka of its own from KAFKA_HOME"
        }
    }

    /// Where the logs of a Kafka of the bench's own lie; nil of another.
    var dataFolder: URL? {
        switch self {
        case .given: nil
        case .local(let cluster): URL(fileURLWithPath: cluster.dataFolder(node: 0))
        }
    }

    /// Starts what the environment asks for.
    static func start(folder: URL) throws -> BenchKafka {
        if let servers = ProcessInfo.processInfo.environment[Setting.kafkaBootstrapServers] {
            return .given(bootstrapServers: servers)
        }
        guard let home = LocalCluster.homeFromEnvironment else {
            throw BenchFailure.usage(
                "no_kafka",
                "a bench needs a real Kafka: set KAFKA_HOME (and have Java), or"
                    + " \(Setting.kafkaBootstrapServers)"
            )
        }
        let cluster = try LocalCluster(
            home: home,
            folder: folder.appendingPathComponent("kafka").path
        )
        do {
            try cluster.start()
        } catch {
            cluster.wipe()
            throw error
        }
        return .local(cluster)
    }

    func end() {
        if case .local(let cluster) = self {
            cluster.wipe()
        }
    }

    /// Makes the pipeline's topics under a prefix.
    func createTopics(prefix: String, settings: KafkaSettings) throws {
        let admin = try KafkaAdmin(settings: settings)
        defer { admin.close() }
        try admin.create(
            TopicReview.all(
                prefix: prefix,
                wanted: TopicReview.Wanted(
                    partitionCount: Self.partitionCount,
                    durability: .trial,
                    brokerCount: try admin.brokerCount()
                ),
                present: [:]
            )
            .map(\.plan)
        )
    }
}
