internal import Foundation
internal import Kafka
internal import LocalKafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// `tollway broker`: the embedded broker in a process of its own.
enum BrokerCommand {
    static let verb = Verb(
        words: ["broker"],
        summary: "the embedded broker, for trying things out: nothing outlives it",
        options: [
            .value(
                "--topics",
                "LIST",
                "NAME or NAME:PARTITIONS, comma-separated; default: the pipeline's"
            ),
            .value("--partitions", "N", "of each topic that names no number; default 12"),
        ],
        details: """
            Prints its bootstrap servers when it is ready and runs until it is interrupted.
            It is librdkafka's mock cluster: it shows flow and gives no guarantees, so workers
            use it with TOLLWAY_DELIVERY=at-least-once only. Topics of the pipeline start with
            TOLLWAY_TOPIC_PREFIX; a topic that nobody named is made when it is first used.
            """,
        run: run
    )

    private static let topicCountMax = 1_000
    private static let partitionCountMax = 1_000

    /// - Throws: exit 2 where somebody asks of it what it cannot give.
    static func refuseExactlyOnce(_ environment: [String: String]) throws(CommandFailure) {
        if environment[Setting.delivery.fullName] == KafkaDelivery.exactlyOnce.rawValue {
            throw .usage("delivery", Configuration.embeddedRefusal)
        }
    }

    private static func run(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        try refuseExactlyOnce(ProcessInfo.processInfo.environment)
        let partitionCount = try invocation.integer(
            "--partitions",
            default: 12,
            in: 1...partitionCountMax
        )
        let topics = try topics(invocation.value("--topics"), partitionCount: partitionCount)
        let stop = StopSignal()
        let broker: MockBroker
        do throws(LogFault) {
            broker = try MockBroker(topics: topics)
        } catch {
            throw CommandFailure(
                .failed,
                code: "broker.cannot_start",
                "the broker cannot start: \(error)"
            )
        }
        defer { broker.close() }
        switch invocation.output {
        case .table:
            Console.write("\(broker.bootstrapServers)\n")
            Console.say(
                CountText.of(topics.count, "topic") + "; Ctrl-C ends it and all that it holds"
            )
        case .json, .ndjson:
            let servers = JSONText.quoted(broker.bootstrapServers)
            Console.write(JSONLines.object([("bootstrapServers", servers)]) + "\n")
        }
        while true {
            if let exit = stop.wait() {
                return exit
            }
        }
    }

    private static func topics(
        _ list: String?,
        partitionCount: Int
    ) throws(CommandFailure) -> [String: Int] {
        guard let list else {
            let prefix = try KafkaQuestion.configuration().topicPrefix
            return Dictionary(
                Topic.all.map { ($0.name(prefix: prefix), partitionCount) },
                uniquingKeysWith: { first, _ in first }
            )
        }
        var topics: [String: Int] = [:]
        for entry in list.split(separator: ",", omittingEmptySubsequences: false) {
            let parts = entry.split(separator: ":", omittingEmptySubsequences: false)
            let count = parts.count == 2 ? Int(parts[1]) : parts.count == 1 ? partitionCount : nil
            guard let count, (1...partitionCountMax).contains(count), isTopicName(parts[0]),
                topics.count < topicCountMax
            else {
                throw .usage(
                    "bad_value",
                    "--topics has \"\(entry)\": it must be NAME or NAME:PARTITIONS, with letters, "
                        + "digits, dots, dashes and underscores, and 1 to \(partitionCountMax)"
                )
            }
            topics[String(parts[0])] = count
        }
        return topics
    }

    private static func isTopicName(_ name: Substring) -> Bool {
        (1...249).contains(name.utf8.count) && name != "." && name != ".."
            && name.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "._-".contains($0)) }
    }
}
