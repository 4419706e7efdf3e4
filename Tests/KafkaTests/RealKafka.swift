import Foundation
import Kafka
import LocalKafka
import Synchronization
import Testing

/// One node of a real Kafka for all suites, started with the first that needs it.
final class RealKafka: Sendable {
    static let skipped: Comment = "skipped: KAFKA_HOME names no Kafka, or there is no Java"
    static let isThere = LocalCluster.homeFromEnvironment != nil
    static let shared = RealKafka()

    private let bootstrapServers = Mutex<Result<String, any Error>?>(nil)

    /// Where the shared node listens.
    func start() throws -> String {
        try bootstrapServers.withLock { known in
            if let known {
                return try known.get()
            }
            let result = Result { try Self.launch() }
            known = result
            return try result.get()
        }
    }

    func world(_ delivery: KafkaDelivery) throws -> KafkaWorld {
        KafkaWorld(bootstrapServers: try start(), delivery: delivery)
    }

    /// A cluster of a test's own, in a folder that it wipes.
    static func cluster(
        nodeCount: Int,
        properties: [String: String] = [:]
    ) throws -> LocalCluster {
        let folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("tollway-kafka-\(UUID().uuidString)").path
        return try LocalCluster(
            home: LocalCluster.homeFromEnvironment ?? "",
            folder: folder,
            nodeCount: nodeCount,
            properties: properties
        )
    }

    private static func launch() throws -> String {
        let cluster = try cluster(nodeCount: 1)
        try cluster.start()
        unsafe sharedCluster = cluster
        // The test program ends without a word to its objects.
        atexit { unsafe RealKafka.sharedCluster?.wipe() }
        return cluster.bootstrapServers
    }

    /// Written once, under the lock of `shared`, and read when the process ends.
    nonisolated(unsafe) private static var sharedCluster: LocalCluster?
}

/// Runs blocking work on a thread of its own, away from the few that tests share.
func onThread<Value: Sendable>(
    _ work: @escaping @Sendable () throws -> Value
) async throws -> Value {
    try await withCheckedThrowingContinuation { continuation in
        Thread { continuation.resume(with: Result { try work() }) }.start()
    }
}
