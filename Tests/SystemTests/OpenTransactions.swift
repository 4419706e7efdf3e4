import Foundation
import TokenDomain

@testable import Kafka

/// Partitions that a transaction which nobody ended holds back: their last stable offset stays
/// behind their high watermark, and every read_committed reader with it.
///
/// A transaction of a worker that died is ended by the worker's next life, or by the broker after
/// its 40 s. What stands still longer hangs for ever: a single broker killed while it ends a
/// transaction was seen to leave such (design section 8). Those get the markers that their
/// coordinator owes them: aborting what was committed would tear what a worker was promised.
final class OpenTransactions {
    struct Held: Hashable {
        var topic: String
        var partition: Int
        var stableOffset: Int64
    }

    /// The transaction's timeout of 40 s, the broker's own round, and a busy machine.
    static let patienceSeconds = 75.0
    private static let deadlineMilliseconds = 10_000
    /// Kafka keeps the groups' offsets in a topic as well, and transactions hold them back too.
    private static let groupOffsets = "__consumer_offsets"

    private let topics: [String]
    private let settings: KafkaSettings
    private let committed: LogClient
    private let uncommitted: LogClient
    private var seenAt: [Held: Date] = [:]
    /// Those that were ended by hand.
    private(set) var mended: [Held] = []
    /// What was done last, and to whose transaction.
    private(set) var lastMended = ""

    /// Of the pipeline's topics, and of what its groups have committed.
    convenience init(settings: KafkaSettings, prefix: String) throws {
        try self.init(
            settings: settings,
            topics: Topic.all.map { $0.name(prefix: prefix) } + [Self.groupOffsets]
        )
    }

    init(settings: KafkaSettings, topics: [String]) throws {
        self.topics = topics
        self.settings = settings
        committed = try LogClient(settings: settings.reader(isolation: .readCommitted))
        uncommitted = try LogClient(settings: settings.reader(isolation: .readUncommitted))
    }

    func close() {
        committed.close()
        uncommitted.close()
    }

    /// What is held back now.
    func look() throws -> [Held] {
        var found: [Held] = []
        for topic in topics {
            // The end first: it may move on meanwhile, and must not be compared with an older LSO.
            let ends = try offsets(uncommitted, topic)
            let stable = try offsets(committed, topic)
            for partition in ends.indices where stable[partition] < ends[partition] {
                found.append(
                    Held(topic: topic, partition: partition, stableOffset: stable[partition])
                )
            }
        }
        let now = Date()
        seenAt = Dictionary(
            uniqueKeysWithValues: found.map { ($0, seenAt[$0] ?? now) }
        )
        return found
    }

    /// Ends by hand what has been held back at one place for longer than any live transaction, as its
    /// coordinator decided.
    ///
    /// - Returns: what was ended.
    func mend() throws -> [Held] {
        let now = Date()
        let hanging = seenAt.filter { now.timeIntervalSince($0.value) > Self.patienceSeconds }
            .map(\.key)
        guard let first = hanging.first else {
            return []
        }
        // One tool for all of them takes its seconds; they mostly are of one transaction, and to
        // others its markers say nothing.
        for open in try openTransactions(first) {
            let isCommit = try CoordinatorVerdict.read(open, settings: settings)
            try TransactionMarkers(
                open: open,
                isCommit: isCommit,
                partitions: Dictionary(grouping: hanging, by: \.topic)
                    .mapValues { $0.map(\.partition) }
            )
            .write(bootstrapServers: settings.bootstrapServers)
            lastMended = "\(isCommit ? "committed" : "aborted") producer \(open.producerID)"
        }
        let left = Set(try look())
        let ended = hanging.filter { !left.contains($0) }
        mended += ended
        return ended
    }

    private func offsets(_ client: LogClient, _ topic: String) throws -> [Int64] {
        try client.offsets(
            ofTopic: topic,
            at: -1,
            deadlineMilliseconds: Self.deadlineMilliseconds
        )
    }

    /// The open transactions of a partition: the tool's rows whose last column, where one begins, is
    /// a number.
    func openTransactions(_ held: Held) throws -> [TransactionMarkers.Open] {
        try tool("describe-producers", held).split(separator: "\n").compactMap { line in
            let columns = line.split(whereSeparator: \.isWhitespace)
            guard columns.count == 6, Int64(columns[5]) != nil,
                let producerID = Int64(columns[0]), let producerEpoch = Int16(columns[1]),
                let coordinatorEpoch = Int32(columns[2])
            else {
                return nil
            }
            return TransactionMarkers.Open(
                producerID: producerID,
                producerEpoch: producerEpoch,
                // None has been seen by this partition yet.
                coordinatorEpoch: max(coordinatorEpoch, 0)
            )
        }
    }

    /// Runs what `kafka-transactions.sh` runs.
    private func tool(_ command: String, _ held: Held) throws -> String {
        let process = Process()
        let output = Pipe()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments =
            [
                "java", "-cp", "\(LocalCluster.homeFromEnvironment ?? "")/libs/*",
                "org.apache.kafka.tools.TransactionsCommand",
                "--bootstrap-server", settings.bootstrapServers,
                command, "--topic", held.topic, "--partition", String(held.partition),
            ]
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
        let text = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            throw StormFault(
                sentence: "kafka-transactions \(command) ends with \(process.terminationStatus)"
            )
        }
        return String(decoding: text, as: UTF8.self)
    }
}
