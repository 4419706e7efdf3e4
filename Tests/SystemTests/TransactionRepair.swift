import Foundation
import StageRuntime

/// Finds and repairs transactions that hang as an operator does it: with `tollway transactions`.
///
/// A transaction of a worker that died is ended by the worker's next life, or by the broker after
/// its 40 s; one whose markers Kafka has skipped hangs for ever (KAFKA-20734).
final class TransactionRepair {
    struct Held: Equatable {
        /// Topic, partition and the offset where it begins.
        var place: String
        var verdict: String

        /// Whether its marker does not come by itself.
        var isOwed: Bool { verdict == "commit" || verdict == "abort" }
    }

    private static let nothingMatched: Int32 = 3
    private static let partlyDone: Int32 = 4
    private static let noKafka: Int32 = 6

    private let program: URL
    private let environment: [String: String]
    /// How many markers were written.
    private(set) var repairedCount = 0

    /// Where `programs` is nil they lie beside the tests.
    init(bootstrapServers: String, prefix: String, programs: URL? = nil) throws {
        guard let folder = programs ?? Bundle.main.executableURL?.deletingLastPathComponent() else {
            throw StormFault(sentence: "the test program has no place")
        }
        program = folder.appendingPathComponent("tollway")
        environment = [
            "PATH": "/usr/bin:/bin",
            Setting.kafkaBootstrapServers: bootstrapServers,
            Setting.topicPrefix.fullName: prefix,
        ]
    }

    /// What holds readers back now, in the pipeline's topics and in what its groups have committed.
    ///
    /// - Throws: ``Unanswered`` where Kafka does not answer.
    func list() throws -> [Held] {
        try run(["list"])
    }

    /// Writes the markers that are owed.
    ///
    /// - Returns: what was ended; empty where nothing was owed.
    /// - Throws: ``Unanswered`` where Kafka does not answer.
    func repair() throws -> [Held] {
        guard try list().contains(where: \.isOwed) else {
            return []
        }
        let repaired = try run(["repair", "--why", "a broker was killed", "--yes"])
            .filter(\.isOwed)
        repairedCount += repaired.count
        return repaired
    }

    /// Kafka is away, or a leader did not take its marker: it is asked again.
    struct Unanswered: Error {}

    private func run(_ arguments: [String]) throws -> [Held] {
        let process = Process()
        let output = Pipe()
        process.executableURL = program
        process.arguments = ["transactions"] + arguments + ["-o", "ndjson"]
        process.environment = environment
        process.standardInput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        process.standardOutput = output
        try process.run()
        let lines = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        let text = String(decoding: lines, as: UTF8.self)
        switch process.terminationStatus {
        case 0: return try text.split(separator: "\n").map(Self.held)
        case Self.nothingMatched: return []
        case Self.partlyDone, Self.noKafka: throw Unanswered()
        default:
            throw StormFault(
                sentence: "tollway transactions \(arguments[0]) ends with"
                    + " \(process.terminationStatus): \(text)"
            )
        }
    }

    private static func held(_ line: Substring) throws -> Held {
        let object = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
        guard let object, let topic = object["topic"] as? String,
            let partition = object["partition"] as? Int, let offset = object["startOffset"] as? Int,
            let verdict = object["verdict"] as? String
        else {
            throw StormFault(sentence: "tollway transactions says \(line)")
        }
        return Held(place: "\(topic)/\(partition) at \(offset)", verdict: verdict)
    }
}
