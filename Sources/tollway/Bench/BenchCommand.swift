internal import Foundation
internal import Kafka
internal import LocalKafka
internal import StageRuntime
internal import TokenDomain

/// `tollway bench`: how fast this build is on the cluster it is given, beside the least that the same
/// libraries could do.
enum BenchCommand {
    static let verb = Verb(
        words: ["bench"],
        summary: "measure the workers on a cluster, each beside the least its libraries could do",
        operands: "[PART NAME=VALUE...]",
        operandCountMax: 32,
        options: [
            .value("--only", "MEASURES", "of ingest, decode, dedupe, chain; comma-separated"),
            .value(
                "--records",
                "N",
                "of each timed run; decode and batches four times, single tokens a tenth (300000)"
            ),
            .value("--keys", "N", "tokens in dedupe's state before it is timed (1000000)"),
            .value("--runs", "N", "of each program, by turns (3)"),
            .value("--connections", "N", "to the door (64)"),
            .value("--seed", "N", "of the tokens that are made up (1)"),
            .value("--against", "FOLDER", "another build's programs, measured beside these"),
            .flag("--keep", "leave the folder with logs and state where it is"),
        ],
        details: """
            Fills topics of its own with tokens as apps mix them, runs the real workers on them as
            processes, and in turn with each what stands beside it over the same client libraries:
            for decode and dedupe a loop of poll, produce, commit that waits for its commits, once
            plain (it writes its input) and once with as many bytes out as the worker; for ingest
            a server that writes each line to Kafka and answers after the receipt. A ratio is the
            median over pairs of runs; a record's processor time is that of all threads of the
            program. Everything sent is counted again at the end: one record missing or doubled is
            exit 1. A goal missed is told and no failure.

            Needs a real Kafka: with KAFKA_HOME (and Java) a one-node Kafka of its own; with
            TOLLWAY_KAFKA_BOOTSTRAP_SERVERS that cluster, under a topic prefix of its own.

            The parts are the programs that it starts of itself: copy, server and load.
            """,
        run: run
    )

    enum Measure: String, CaseIterable {
        case ingest, decode, dedupe, chain
    }

    private struct Plan {
        var measures: [Measure]
        var recordCount: Int
        var keyCount: Int
        var runCount: Int
        var connectionCount: Int
        var seed: UInt64
        var otherPrograms: URL?
        var keepsFolder: Bool
    }

    private static func run(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        if let name = invocation.operands.first {
            guard let part = BenchPart(rawValue: name) else {
                throw .usage(
                    "bad_value",
                    "\"\(name)\" is no part of the bench: it is one of copy, server, load"
                )
            }
            return try part.run(Array(invocation.operands.dropFirst()))
        }
        let plan = Plan(
            measures: try measures(invocation.value("--only")),
            recordCount: try invocation.integer(
                "--records",
                default: 300_000,
                in: 100...10_000_000
            ),
            keyCount: try invocation.integer("--keys", default: 1_000_000, in: 0...50_000_000),
            runCount: try invocation.integer("--runs", default: 3, in: 1...99),
            connectionCount: try invocation.integer("--connections", default: 64, in: 1...1_000),
            seed: UInt64(
                try invocation.integer("--seed", default: 1, in: 0...65_535)
            ),
            otherPrograms: invocation.value("--against").map { URL(fileURLWithPath: $0) },
            keepsFolder: invocation.has("--keep")
        )
        return try DemoInterrupted.ending("bench") { try run(plan, format: invocation.output) }
    }

    private static func measures(_ list: String?) throws(CommandFailure) -> [Measure] {
        guard let list else {
            return Measure.allCases
        }
        var measures: [Measure] = []
        for name in list.split(separator: ",", omittingEmptySubsequences: false) {
            guard let measure = Measure(rawValue: String(name)) else {
                throw .usage(
                    "bad_value",
                    "--only has \"\(name)\": it must be of "
                        + Measure.allCases.map(\.rawValue).joined(separator: ", ")
                )
            }
            measures.append(measure)
        }
        return Measure.allCases.filter(measures.contains)
    }

    private static func run(_ plan: Plan, format: OutputFormat) throws -> ExitCode {
        let environment = ProcessInfo.processInfo.environment
        let isGiven = environment[Setting.kafkaBootstrapServers] != nil
        guard isGiven || LocalCluster.homeFromEnvironment != nil else {
            throw CommandFailure.usage(
                "no_kafka",
                "a bench needs a real Kafka: set KAFKA_HOME (and have Java), or"
                    + " \(Setting.kafkaBootstrapServers)"
            )
        }
        let stop = StopSignal()
        let runFolder = try RunFolder(of: "bench")
        let folder = runFolder.url
        let processes = DemoProcesses(folder: folder)
        defer {
            _ = processes.stopAll()
            runFolder.end(isKept: plan.keepsFolder)
        }
        let cluster = try DemoCluster.start(
            environment: environment,
            folder: folder,
            topicPrefix: "",
            processes: processes
        )
        var settings = try KafkaQuestion.configuration().kafka
        settings.bootstrapServers = cluster.bootstrapServers
        settings.clientID = "tollway-bench"
        var rows: [BenchRow] = []
        defer {
            if case .local(let kafka) = cluster {
                kafka.wipe()
            }
        }
        for measure in plan.measures {
            rows += try inWorld(measure, plan, cluster, settings, folder, processes, stop)
        }
        Console.write(BenchReport.text(rows, cluster: cluster.sentence, format: format))
        return .ok
    }

    /// Each measure has topics and state of its own, so that none is slowed by what another left.
    private static func inWorld(
        _ measure: Measure,
        _ plan: Plan,
        _ cluster: DemoCluster,
        _ settings: KafkaSettings,
        _ folder: URL,
        _ processes: DemoProcesses,
        _ stop: StopSignal
    ) throws -> [BenchRow] {
        let prefix = "bench-\(UUID().uuidString.prefix(8).lowercased())."
        let world = try BenchWorld(
            cluster: cluster,
            settings: settings,
            prefix: prefix,
            seed: plan.seed,
            folder: folder,
            processes: processes,
            http: DemoHTTP(stop: stop)
        )
        defer {
            _ = processes.stopAll()
            cleanUp(world)
            world.close()
        }
        try cluster.createTopics(prefix: prefix, settings: settings)
        let stages = BenchStages(
            world: world,
            recordCount: plan.recordCount,
            runCount: plan.runCount,
            otherPrograms: plan.otherPrograms
        )
        let door = BenchDoor(
            world: world,
            recordCount: plan.recordCount,
            runCount: plan.runCount,
            connectionCount: plan.connectionCount
        )
        switch measure {
        case .ingest:
            var number = 0
            let rows = [
                try door.measure(tokensPerRequest: 1, firstNumber: &number),
                try door.measure(
                    tokensPerRequest: BenchDoor.batchTokenCount,
                    firstNumber: &number
                ),
            ]
            try BenchCheck(world: world)
                .expectEachOnce(0..<number, in: world.topic(.tokensReceived))
            return rows
        case .decode: return [try stages.decode()]
        case .dedupe: return [try stages.dedupe(keyCount: plan.keyCount)]
        case .chain: return [try door.chain()]
        }
    }

    private static func cleanUp(_ world: BenchWorld) {
        do {
            try world.deleteTopics()
        } catch {
            Console.say("topics with the prefix \(world.prefix) could not be removed: \(error)")
        }
    }
}
