import Foundation
import Kafka
import LocalKafka
import StageRuntime
import Telemetry
import Testing
import TokenDomain

@testable import tollway

@Suite struct `tollway lag` {
    @Test(
        arguments: [
            (0, 10, nil, 10), (4, 10, nil, 6), (0, 10, 3, 7), (0, 10, 10, 0), (0, 10, 99, 0),
            (5, 10, 3, 5), (0, 0, nil, 0),
        ] as [(Int64, Int64, Int64?, Int64)]
    )
    func `counts what is still to be read, never less than nothing`(
        start: Int64,
        end: Int64,
        committed: Int64?,
        lag: Int64
    ) {
        #expect(LagCommand.Partition(start: start, end: end, committed: committed).lag == lag)
    }

    @Test(arguments: [["lag"], ["topics", "plan"], ["topics", "apply", "--yes"]])
    func `and topics need Kafka`(arguments: [String]) throws {
        let run = try TollwayProcess.run(
            arguments + ["-o", "json"],
            environment: ["TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"]
        )
        #expect(run.exitCode == 6)
        #expect(try run.errorCode() == "kafka.unavailable")
    }

    @Test func `and topics plan tell the embedded broker apart`() throws {
        let broker = try MockBroker(topics: ["tollway.tokens.received.v1": 3])
        defer { broker.close() }
        let environment = ["TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrapServers]
        let plan = try TollwayProcess.run(["topics", "plan"], environment: environment)
        #expect(plan.exitCode == 1)
        #expect(plan.talk.contains("embedded broker"))
        let lag = try TollwayProcess.run(
            ["lag", "-o", "ndjson", "--worker", "decode"],
            environment: environment
        )
        #expect(lag.exitCode == 0, "\(lag.talk)")
        let row = try #require(try lag.objects().first)
        #expect((row["partitions"] as? [Any])?.count == 3)
        let none = try TollwayProcess.run(
            ["lag", "--worker", "decode"],
            environment: environment.merging(["TOLLWAY_TOPIC_PREFIX": "none."]) { $1 }
        )
        #expect(none.exitCode == 3)
    }
}

@Suite(
    .enabled(if: LocalCluster.homeFromEnvironment != nil, "skipped: KAFKA_HOME names no Kafka")
)
struct `tollway topics on a real Kafka` {
    @Test func `plans, makes, checks and repairs`() throws {
        let folder = try TemporaryFolder()
        let cluster = try LocalCluster(
            home: try #require(LocalCluster.homeFromEnvironment),
            folder: folder.url.appendingPathComponent("kafka").path
        )
        defer { cluster.wipe() }
        try cluster.start()
        var environment = ["TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": cluster.bootstrapServers]
        func topics(_ arguments: String..., exit: Int32) throws -> [String: Int] {
            let run = try TollwayProcess.run(
                ["topics"] + arguments + ["-o", "ndjson"],
                environment: environment
            )
            #expect(run.exitCode == exit, "\(arguments): \(run.talk)")
            return try run.objects().reduce(into: [:]) { counts, object in
                counts[object["action"] as? String ?? "-", default: 0] += 1
            }
        }
        let all = Topic.all.count
        // One broker holds no promise, and nothing is made on it by accident.
        #expect(try topics("apply", "--yes", exit: 5) == ["refuse": all])
        #expect(try topics("plan", "--replication", "1", exit: 5) == ["refuse": all])
        environment["TOLLWAY_KAFKA_SINGLE_BROKER"] = "yes"
        #expect(try topics("plan", "--partitions", "4", exit: 0) == ["create": all])
        #expect(try topics("apply", "--partitions", "4", exit: 5) == ["create": all])
        #expect(try topics("plan", exit: 0) == ["create": all], "something was changed")
        #expect(try topics("apply", "--yes", "--partitions", "4", exit: 0) == ["create": all])
        #expect(try topics("plan", exit: 0) == ["keep": all])
        #expect(try topics("apply", "--partitions", "3", "--yes", exit: 5) == ["refuse": all])
        #expect(try topics("plan", "--replication", "2", exit: 5) == ["refuse": all])

        let settings = KafkaSettings(bootstrapServers: cluster.bootstrapServers, clientID: "test")
        let admin = try KafkaAdmin(settings: settings, deadlineMilliseconds: 120_000)
        defer { admin.close() }
        let changelog = "tollway.dedupe.state.v1"
        try admin.alterConfiguration(
            ofTopic: changelog,
            [
                "cleanup.policy": "delete", "segment.ms": "3600000", "min.insync.replicas": "2",
                "unclean.leader.election.enable": "true",
            ]
        )
        #expect(try topics("plan", exit: 0) == ["keep": all - 1, "change": 1])
        #expect(try topics("apply", "--yes", exit: 0) == ["keep": all - 1, "change": 1])
        #expect(try topics("apply", exit: 0) == ["keep": all])
        let configuration = try admin.configuration(ofTopic: changelog)
        #expect(configuration["cleanup.policy"] == "compact")
        // With two of one replica nothing could be written.
        #expect(configuration["min.insync.replicas"] == "1")
        #expect(configuration["unclean.leader.election.enable"] == "false")
        #expect(configuration["segment.ms"] == "3600000", "a setting of others was lost")
        let decode = try TollwayProcess.run(
            ["lag", "-o", "ndjson"],
            environment: environment
        )
        #expect(decode.exitCode == 0, "\(decode.talk)")
        let lags = try decode.objects().map { $0["lag"] as? Int }
        #expect(lags.count == 12 && lags.allSatisfy { $0 == 0 })
        try resetOffsets(admin, environment)
    }

    /// A group that claims to have read what is not there, as after a topic was made anew.
    private func resetOffsets(_ admin: KafkaAdmin, _ environment: [String: String]) throws {
        let (group, topic) = ("tollway.decode", "tollway.tokens.received.v1")
        try writeThree(to: topic, partition: 2, environment)
        try admin.commit([1: 0, 2: 7], ofGroup: group, topic: topic)
        func reset(_ arguments: String...) throws -> TollwayProcess {
            try TollwayProcess.run(
                ["offsets", "reset", "-o", "ndjson"] + arguments,
                environment: environment
            )
        }
        let plan = try reset()
        #expect(plan.exitCode == 5)
        let row = try #require(try plan.objects().first)
        #expect(try plan.objects().count == 1, "a sound place is in the plan")
        #expect(row["worker"] as? String == "decode" && row["topic"] as? String == topic)
        #expect(row["partition"] as? Int == 2 && row["committed"] as? Int == 7)
        #expect(row["first"] as? Int == 0 && row["end"] as? Int == 3)
        #expect(try admin.committedOffsets(ofGroup: group, topic: topic)[2] == 7)
        #expect(try reset("--worker", "dedupe", "--yes").exitCode == 3)
        #expect(try reset("--yes", "--why", "the topic was made anew").exitCode == 0)
        #expect(try admin.committedOffsets(ofGroup: group, topic: topic) == [nil, 0, 0, nil])
        #expect(try reset("--yes").exitCode == 3)
        let audit = try TollwayProcess.run(
            ["audit", "ls", "-o", "ndjson", "--action", "offsets", "--action", "topics"],
            environment: environment
        ).objects()
        // The first apply made the audit topic itself.
        let actions = audit.compactMap { $0["action"] as? String }
        #expect(actions.sorted() == ["offsets.reset", "offsets.reset", "topics.apply"])
        let resets = audit.filter { $0["action"] as? String == "offsets.reset" }
        #expect(Set(resets.map { $0["state"] as? String }) == ["running", "finished"])
        #expect(resets.allSatisfy { $0["why"] as? String == "the topic was made anew" })
        let place = (resets.first?["offsets"] as? [[String: Any]])?.first
        #expect(place?["committed"] as? Int == 7 && place?["first"] as? Int == 0)
    }

    private func writeThree(
        to topic: String,
        partition: Int32,
        _ environment: [String: String]
    ) throws {
        let settings = KafkaSettings(
            bootstrapServers: environment["TOLLWAY_KAFKA_BOOTSTRAP_SERVERS"] ?? "",
            clientID: "test"
        )
        let producer = try KafkaProducer(settings: settings, targets: [topic])
        defer { producer.close(deadlineMilliseconds: 1_000) }
        var outputs = OutputBatch()
        for _ in 0..<3 {
            let value = outputs.place([UInt8(ascii: "x")])
            outputs.outputs.append(
                OutputBatch.Output(topic: 0, partition: partition, key: .absent, value: value)
            )
        }
        try producer.produce(outputs, tags: [0, 1, 2])
        try #require(producer.flush(deadlineMilliseconds: 20_000))
    }
}
