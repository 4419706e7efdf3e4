import Foundation
import Kafka
import TokenDomain

/// Partitions that a transaction which nobody ends holds back, and their repair as the operator's
/// `tollway transactions repair` does it.
///
/// A transaction of a worker that died is ended by the worker's next life, or by the broker after
/// its 40 s; one whose markers Kafka has passed over hangs for ever (KAFKA-20734).
final class OpenTransactions {
    private static let deadlineMilliseconds = 10_000

    private let topics: [String]
    private let admin: KafkaAdmin
    private let hanging: HangingTransactions
    /// Those that were ended by hand.
    private(set) var mended: [HangingTransaction] = []

    /// Of the pipeline's topics, and of what its groups have committed.
    init(settings: KafkaSettings, prefix: String) throws {
        topics = Topic.all.map { $0.name(prefix: prefix) }
        admin = try KafkaAdmin(
            settings: settings,
            deadlineMilliseconds: Self.deadlineMilliseconds
        )
        hanging = try HangingTransactions(settings: settings, admin: admin)
    }

    func close() {
        admin.close()
    }

    /// What is open now.
    func look() throws -> [HangingTransaction] {
        try hanging.find(in: topics, now: Int64(Date().timeIntervalSince1970 * 1_000))
    }

    /// Writes the markers that are owed.
    ///
    /// - Returns: what was ended.
    func mend() throws -> [HangingTransaction] {
        let owed = try look().filter(\.isOwed)
        guard !owed.isEmpty else {
            return []
        }
        let refused = try hanging.repair(owed).map(\.0)
        let ended = owed.filter { !refused.contains($0) }
        mended += ended
        return ended
    }
}
