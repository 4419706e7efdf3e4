import Foundation
import Kafka
import LocalKafka
import StageRuntime
import Testing
import TokenDomain

@testable import tollway

@Suite struct `A Kafka of three brokers` {
    private static let prefix = "three."
    private static let endSeconds = 60.0

    /// Goal: topics whose acknowledged records one broker could take with it are refused by name;
    /// once `topics apply` has repaired them the pipeline runs.
    ///
    /// Method: brokers with Kafka's own default for `min.insync.replicas`, topics as a platform's own
    /// tool would make them, the demo's stream and its account.
    @Test(
        .enabled(
            if: LocalCluster.homeFromEnvironment != nil,
            "skipped: KAFKA_HOME names no Kafka, or there is no Java"
        )
    )
    func `is refused until two have what is acknowledged`() throws {
        let folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("tollway-three-\(UUID().uuidString.prefix(8).lowercased())")
        try FileManager.default.createDirectory(
            at: folder,
            withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700]
        )
        let processes = DemoProcesses(
            folder: folder,
            programs: Bundle.main.executableURL?.deletingLastPathComponent()
        )
        let http = try DemoHTTP(stop: StopSignal())
        let kafka = try LocalCluster(
            home: LocalCluster.homeFromEnvironment ?? "",
            folder: folder.appendingPathComponent("kafka").path,
            nodeCount: 3,
            properties: ["min.insync.replicas": "1"]
        )
        defer {
            _ = processes.stopAll()
            kafka.wipe()
        }
        try kafka.start()
        let cluster = DemoCluster.local(kafka)
        #expect(!cluster.isTrial)
        try makeTopics(kafka)
        var workers = try DemoWorkers(
            folder: folder,
            processes: processes,
            topicPrefix: Self.prefix
        )
        try workers.startSimulator(seed: 1, http: http)
        try expectRefused([.ingest, .decode, .report], workers, cluster, processes, http)
        try apply(kafka, folder, processes)

        try workers.startWorkers(cluster, http: http)
        let run = DemoRun(
            stream: DemoStream(tokenCount: 400, seed: 1, now: WallClock.now),
            workers: workers,
            cluster: cluster,
            topicPrefix: Self.prefix,
            http: http
        )
        try run.register()
        try run.deliver()
        try run.awaitEnd()
        #expect(try run.account().differences == [])
        // Only now: a broker that runs still puts files where files are being removed.
        processes.stopAll(removing: folder, of: kafka)
    }

    /// Three replicas, and all else as Kafka has it.
    private func makeTopics(_ kafka: LocalCluster) throws {
        let settings = KafkaSettings(bootstrapServers: kafka.bootstrapServers, clientID: "test")
        let admin = try KafkaAdmin(settings: settings, deadlineMilliseconds: 120_000)
        defer { admin.close() }
        try admin.create(
            Topic.all.map { topic in
                var configuration = TopicShape(of: topic).configuration
                configuration["min.insync.replicas"] = nil
                configuration["unclean.leader.election.enable"] = nil
                return TopicPlan(
                    name: topic.name(prefix: Self.prefix),
                    partitionCount: 4,
                    replicationFactor: 3,
                    configuration: configuration
                )
            }
        )
    }

    private func expectRefused(
        _ refused: [Worker],
        _ workers: DemoWorkers,
        _ cluster: DemoCluster,
        _ processes: DemoProcesses,
        _ http: DemoHTTP
    ) throws {
        for worker in refused {
            try workers.start(worker, cluster)
            let process = try #require(processes.process(worker.rawValue))
            let deadline = Date().addingTimeInterval(Self.endSeconds)
            while process.isRunning, Date() < deadline {
                try http.pause(milliseconds: 50)
            }
            try #require(!process.isRunning, "\(worker) runs where a broker may take tokens along")
            #expect(process.terminationStatus == 2)
            let said = processes.tail(worker.rawValue)
            for part in [
                worker.targets[0].name(prefix: Self.prefix),
                "min.insync.replicas 1 and need", "tollway topics apply --yes",
            ] {
                #expect(said.contains(part), "\(worker): \(said)")
            }
            processes.letGo(worker.rawValue)
        }
    }

    /// `tollway topics apply --yes`, and then the plan has nothing to do.
    private func apply(
        _ kafka: LocalCluster,
        _ folder: URL,
        _ processes: DemoProcesses
    ) throws {
        for arguments in [["apply", "--yes"], ["plan", "--replication", "3"]] {
            let output = try processes.start(
                "tollway",
                ["topics"] + arguments + ["-o", "ndjson"],
                name: "topics-\(arguments[0])",
                environment: [
                    Setting.kafkaBootstrapServers: kafka.bootstrapServers,
                    Setting.topicPrefix.fullName: Self.prefix,
                ]
            )
            let text = String(decoding: try output.readToEnd() ?? Data(), as: UTF8.self)
            let name = "topics-\(arguments[0])"
            let process = try #require(processes.process(name))
            process.waitUntilExit()
            #expect(process.terminationStatus == 0, "\(processes.tail(name))")
            let lines = text.split(separator: "\n")
            // Before: a topic that the asked broker does not know yet is to be created, and then
            // it exists already.
            let action = arguments[0] == "apply" ? "(create|change)" : "keep"
            let others = try lines.filter { line in
                try line.firstMatch(of: Regex(#""action":"\#(action)""#)) == nil
            }
            #expect(others == [] && lines.count == Topic.all.count, "\(processes.tail(name))")
            processes.letGo(name)
        }
    }
}
