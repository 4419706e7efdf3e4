import Foundation
import TokenDomain

@testable import Kafka

/// Partitions that a transaction which nobody ended holds back: their last stable offset stays
/// behind their high watermark, and every read_committed reader with it.
///
/// A transaction of a worker that died is ended by the worker's next life, or by the broker after
/// its 40 s. What stands still longer hangs for ever: a single broker killed while it ends a
/// transaction was seen to leave such (design section 8). Those are ended as an operator would, with
/// Kafka's own tool.
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
    private let bootstrapServers: String
    private let committed: LogClient
    private let uncommitted: LogClient
    private var seenAt: [Held: Date] = [:]
    /// Those that were ended by hand.
    private(set) var mended: [Held] = []

    init(settings: KafkaSettings, prefix: String) throws {
        topics = Topic.all.map { $0.name(prefix: prefix) } + [Self.groupOffsets]
        bootstrapServers = settings.bootstrapServers
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

    /// Ends by hand what has been held back at one place for longer than any live transaction.
    ///
    /// - Returns: what was ended.
    func mend() throws -> [Held] {
        let now = Date()
        let hanging = seenAt.filter { now.timeIntervalSince($0.value) > Self.patienceSeconds }
            .map(\.key)
        for held in hanging {
            for start in try hangingStarts(held) {
                _ = try tool(
                    "abort",
                    held,
                    ["--start-offset", String(start)]
                )
            }
            seenAt[held] = nil
            mended.append(held)
        }
        return hanging
    }

    private func offsets(_ client: LogClient, _ topic: String) throws -> [Int64] {
        try client.offsets(
            ofTopic: topic,
            at: -1,
            deadlineMilliseconds: Self.deadlineMilliseconds
        )
    }

    /// Where the open transactions of a partition begin, by the last column of the tool's table.
    private func hangingStarts(_ held: Held) throws -> [Int64] {
        try tool("describe-producers", held, []).split(separator: "\n").compactMap { line in
            line.split(whereSeparator: \.isWhitespace).last.flatMap { Int64($0) }
        }
    }

    /// Runs what `kafka-transactions.sh` runs.
    private func tool(_ command: String, _ held: Held, _ rest: [String]) throws -> String {
        let process = Process()
        let output = Pipe()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments =
            [
                "java", "-cp", "\(LocalCluster.homeFromEnvironment ?? "")/libs/*",
                "org.apache.kafka.tools.TransactionsCommand",
                "--bootstrap-server", bootstrapServers,
                command, "--topic", held.topic, "--partition", String(held.partition),
            ] + rest
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
