internal import Foundation
internal import Kafka
internal import StageRuntime

/// A question to the Kafka of the environment, and what its failures mean to the caller.
enum KafkaQuestion {
    /// For one answer; nobody waits longer at a prompt.
    private static let deadlineMilliseconds = 10_000

    static func configuration() throws(CommandFailure) -> Configuration {
        do throws(ConfigurationFault) {
            return try Configuration(
                environment: ProcessInfo.processInfo.environment,
                program: .tollway
            )
        } catch {
            throw CommandFailure(.usage, code: error.code, error.sentence)
        }
    }

    /// Opens a client for as long as the question lasts.
    ///
    /// - Throws: exit 6 where Kafka is away, 2 where it cannot be asked so, 1 where it refuses.
    static func ask<Answer>(
        _ configuration: Configuration,
        _ question: (KafkaAdmin) throws(LogFault) -> Answer
    ) throws(CommandFailure) -> Answer {
        let admin: KafkaAdmin
        do throws(LogFault) {
            admin = try KafkaAdmin(
                settings: configuration.kafka,
                deadlineMilliseconds: deadlineMilliseconds
            )
        } catch {
            throw CommandFailure(.usage, code: "kafka.misconfigured", error.sentence)
        }
        defer { admin.close() }
        return try failing(configuration) { () throws(LogFault) in try question(admin) }
    }

    /// What a question comes to, with a failure as the caller reports it.
    static func failing<Answer>(
        _ configuration: Configuration,
        _ question: () throws(LogFault) -> Answer
    ) throws(CommandFailure) -> Answer {
        do throws(LogFault) {
            return try question()
        } catch {
            throw failure(error, configuration)
        }
    }

    static func failure(_ fault: LogFault, _ configuration: Configuration) -> CommandFailure {
        switch fault {
        case .unavailable(let code, let message):
            CommandFailure(
                .noKafka,
                code: "kafka.unavailable",
                unavailable(configuration.kafka.bootstrapServers, code, message)
            )
        case .fenced(let message):
            CommandFailure(
                .tryAgain,
                code: "kafka.fenced",
                "another run has taken over: \(message)"
            )
        case .misconfigured, .unusable, .ours, .recordTooLarge, .recordsLost:
            CommandFailure(.failed, code: "kafka.refused", "Kafka refuses: \(fault.sentence)")
        }
    }

    /// That nobody answers, and where he should.
    static func unavailable(_ servers: String, _ code: String, _ message: String) -> String {
        "no answer from Kafka at \(servers): \(message) (\(code))"
    }
}

extension LogFault {
    /// What is wrong, in one sentence.
    var sentence: String {
        switch self {
        case .unavailable(let code, let message): "\(message) (\(code))"
        case .fenced(let message), .unusable(let message), .misconfigured(let message),
            .ours(let message):
            message
        case .recordTooLarge(_, let byteCount, let byteCountMax):
            "a record of \(byteCount) bytes, and \(byteCountMax) are taken"
        case .recordsLost(let partition, let position, let start, let end):
            "offset \(position) of \(partition) was asked for, and it has \(start) to \(end)"
        }
    }
}

extension KafkaAdmin {
    /// How many partitions each topic has that is there.
    func partitionCounts() throws(LogFault) -> [String: Int] {
        try topics().reduce(into: [:]) { $0[$1.name] = $1.partitions.count }
            .filter { $0.value > 0 }
    }

    /// How many partitions a topic has; nil where it is not there.
    ///
    /// - Throws: ``LogFault/misconfigured(message:)`` where these credentials may not see it: a list
    ///   of topics leaves it out like one that is not there.
    func partitionCount(of topic: String) throws(LogFault) -> Int? {
        if let count = try partitionCounts()[topic] {
            return count
        }
        // The embedded broker hides nothing, and makes a topic that is asked for by its name.
        guard !EmbeddedBroker.isClusterID(try clusterID()) else {
            return nil
        }
        return try self.topic(topic).flatMap { $0.partitions.isEmpty ? nil : $0.partitions.count }
    }

    /// Whether a topic that Kafka does not list may be there, and these credentials may not see it.
    func isHidden(_ topic: String) throws(LogFault) -> Bool {
        do throws(LogFault) {
            _ = try self.topic(topic)
            return false
        } catch {
            guard case .misconfigured = error else {
                throw error
            }
            return true
        }
    }
}
