import Foundation
import Kafka
import LocalKafka
import StageRuntime
import Testing
import TokenDomain

@testable import tollway

@Suite struct `The audit` {
    private func entry(_ text: String) -> AuditEntry? { AuditEntry(Array(text.utf8).span) }

    private func entry(at: Int64, action: String = "lanes.pause", by: String = "anna@host")
        -> AuditEntry?
    {
        entry(
            #"{"action":"\#(action)","runId":"r-\#(at)","at":\#(at),"by":"\#(by)","why":"w","#
                + #""appAppleId":7,"environment":"sandbox"}"#
        )
    }

    @Test(arguments: [
        (
            #"{"action":"dlq.replay","runId":"r","at":1,"by":"b","count":20,"filter":"--code x","state":"running"}"#,
            "20 dead letters (--code x) running"
        ),
        (
            #"{"action":"dlq.discard","runId":"r","at":1,"by":"b","count":2,"filter":"","state":"finished"}"#,
            "2 dead letters (everything)"
        ),
        // The end of a run of canaries has a record of its own, without dead letters.
        (
            #"{"action":"dlq.replay","runId":"r","at":1,"by":"b","count":0,"runCount":1,"filter":"","state":"finished"}"#,
            "1 dead letter (everything)"
        ),
        (
            #"{"action":"dlq.replay","runId":"r","at":1,"by":"b","count":3,"runCount":7,"filter":"","state":"running"}"#,
            "3 dead letters (everything) running"
        ),
        (
            #"{"action":"dlq.replay","runId":"r","at":1,"by":"b","count":0,"filter":"","state":"finished"}"#,
            "0 dead letters (everything)"
        ),
        (
            #"{"action":"report.request","runId":"r","at":1,"by":"b","status":"LINE_ITEM","externalPurchaseId":"t","appAppleId":7}"#,
            "LINE_ITEM t app 7"
        ),
        (
            #"{"action":"lanes.reset","runId":"r","at":1,"by":"b","appAppleId":7,"environment":"sandbox"}"#,
            "app 7 sandbox"
        ),
        (
            #"{"action":"transactions.repair","runId":"r","at":1,"by":"b","transactions":[{"topic":"a"},{"topic":"a"}],"state":"finished"}"#,
            "2 transactions of a"
        ),
        (
            #"{"action":"offsets.reset","runId":"r","at":1,"by":"b","state":"stopped","count":1,"offsets":[{"worker":"report"},{"worker":"decode"},{"worker":"decode"}]}"#,
            "3 partitions of decode, report stopped"
        ),
        (
            #"{"action":"topics.apply","runId":"r","at":1,"by":"b","topics":[{"topic":"a"},{"topic":"b"}]}"#,
            "2 topics: a, b"
        ),
        (#"{"action":"made.later","runId":"r","at":1,"by":"b"}"#, ""),
    ])
    func `says in a few words what was done`(text: String, what: String) throws {
        #expect(try #require(entry(text)).what == what)
    }

    @Test(arguments: [
        "", "[]", #"{"action":"lanes.pause","runId":"r","by":"b"}"#,
        #"{"action":"lanes.pause","runId":"r","at":"1","by":"b"}"#,
    ])
    func `leaves out what is no record of it`(text: String) {
        #expect(entry(text) == nil)
    }

    @Test func `is filtered by time, action, person and run`() throws {
        let paused = try #require(entry(at: 100))
        #expect(AuditFilter().matches(paused))
        #expect(AuditFilter(since: 100, until: 101).matches(paused))
        #expect(!AuditFilter(since: 101).matches(paused))
        #expect(!AuditFilter(until: 100).matches(paused))
        #expect(AuditFilter(actions: ["dlq", "lanes"]).matches(paused))
        #expect(AuditFilter(actions: ["lanes.pause"]).matches(paused))
        #expect(!AuditFilter(actions: ["lane"]).matches(paused))
        #expect(AuditFilter(by: "ANNA").matches(paused))
        #expect(!AuditFilter(by: "bob").matches(paused))
        #expect(!AuditFilter(runIDs: ["r-1"]).matches(paused))
    }

    @Test func `keeps the newest of many and no more`() throws {
        var list = AuditList(countMax: 3)
        for at in [5, 1, 9, 7, 3, 8, 2, 6, 4] as [Int64] {
            list.add(try #require(entry(at: at)), "\(at)", at: (0, at))
        }
        list.prune()
        #expect(list.objects == ["9", "8", "7"])
        #expect(list.seenCount == 9)
        #expect(list.table.contains("lanes.pause"))
    }

    @Test func `steers no terminal`() throws {
        var list = AuditList(countMax: 1)
        let hostile = #"\u001b[31m\u009b2J"#
        let shown = try #require(
            entry(
                #"{"action":"\#(hostile)","runId":"r","at":1,"by":"\#(hostile)","why":"\#(hostile)"}"#
            )
        )
        list.add(shown, "{}", at: (0, 0))
        let controls = list.table.unicodeScalars.filter {
            $0.properties.generalCategory == .control
        }
        #expect(Set(controls) == ["\n"])
    }

    @Test(arguments: [[], ["--by", "nobody"]])
    func `ends with 1 where a record of it cannot be read`(more: [String]) throws {
        let name = Topic.audit.name(prefix: "t.")
        let broker = try MockBroker(topics: [name: 1])
        defer { broker.close() }
        let producer = try KafkaProducer(
            settings: KafkaSettings(bootstrapServers: broker.bootstrapServers, clientID: "test"),
            targets: [name]
        )
        defer { producer.close(deadlineMilliseconds: 1_000) }
        var outputs = OutputBatch()
        for value in [#"{"action":"lanes.pause","runId":"r-1","at":1,"by":"anna@host"}"#, "{}"] {
            outputs.outputs.append(
                OutputBatch.Output(topic: 0, key: .absent, value: outputs.place(value.utf8))
            )
        }
        try producer.produce(outputs, tags: [0, 1])
        try #require(producer.flush(deadlineMilliseconds: 20_000))
        let run = try TollwayProcess.run(
            ["audit", "ls", "-o", "ndjson"] + more,
            environment: [
                "TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrapServers,
                "TOLLWAY_TOPIC_PREFIX": "t.", "TOLLWAY_DELIVERY": "at-least-once",
            ]
        )
        #expect(run.exitCode == 1, "\(run.talk)")
        #expect(run.talk.contains("1 record of the audit topic cannot be read"))
        #expect(run.output.contains("r-1") == more.isEmpty)
    }

    @Test(.enabled(if: DeadLetterWorld.isKafkaThere, DeadLetterWorld.skipped))
    func `is read from Kafka, the newest first`() throws {
        let world = try DeadLetterWorld()
        func run(_ arguments: String...) throws -> TollwayProcess {
            try TollwayProcess.run(arguments, environment: world.environment)
        }
        #expect(try run("audit", "ls", "-o", "json").errorCode() == "audit.none")
        for why in ["first", "second"] {
            let asked = try run(
                "report",
                "request",
                "t-1",
                "--status",
                "no_line_item",
                "--app",
                "1",
                "--bundle-id",
                "com.example",
                "--yes",
                "--why",
                why,
                "--wait",
                "0s"
            )
            #expect(asked.exitCode == 0, "\(asked.talk)")
        }
        let all = try run("audit", "ls", "-o", "ndjson")
        #expect(try all.objects().map { $0["why"] as? String } == ["second", "first"])
        let newest = try run("audit", "ls", "--limit", "1", "--action", "report")
        #expect(newest.exitCode == 0)
        #expect(newest.output.contains("second") && !newest.output.contains("first"))
        #expect(newest.talk.contains("the newest 1 of 2"))
        #expect(try run("audit", "ls", "--by", "nobody").exitCode == 3)
    }
}
