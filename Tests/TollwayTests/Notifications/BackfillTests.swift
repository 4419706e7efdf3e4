import AppStoreAPI
import Foundation
import LocalKafka
import StageRuntime
import Testing
import TokenDomain

@testable import tollway

@Suite struct `A backfill's position` {
    private let plan = BackfillPlan(
        from: Timestamp(milliseconds: 1_000),
        to: Timestamp(milliseconds: 2_000),
        onlyFailures: true,
        lanes: [
            Lane(appAppleID: 1, environment: .production),
            Lane(appAppleID: 1, environment: .sandbox),
        ]
    )

    private func audit(_ plan: BackfillPlan) throws -> [UInt8] {
        let audit = BackfillAudit(
            plan: plan,
            order: try HandOrder("backfill", why: "x", now: plan.from),
            part: 1,
            state: .running,
            at: 1,
            count: 0,
            runCount: 0,
            target: "t"
        )
        var arena: [UInt8] = []
        audit.write(to: &arena)
        return arena
    }

    @Test func `comes back from the audit as it went there`() throws {
        for pages in [[(0, "a"), (0, nil)], [(1, "a"), (0, "b")], []] as [[(Int, String?)]] {
            var plan = plan
            for (lane, page) in pages {
                plan.advance(lane: lane, to: page)
            }
            let arena = try audit(plan)
            let value = try #require(JSONValue(arena))
            #expect(BackfillPlan(audit: value) == plan)
            #expect(AuditEntry(arena.span)?.what.contains("only failures") == true)
        }
    }

    @Test(
        arguments: [
            (0, nil, [false, false], [nil, nil]), (0, "p", [false, false], ["p", nil]),
            (1, "p", [true, false], [nil, "p"]), (2, nil, [true, true], [nil, nil]),
        ] as [(Int, String?, [Bool], [String?])]
    )
    func `is read of a run that asked one lane after the other`(
        doneCount: Int,
        token: String?,
        done: [Bool],
        tokens: [String?]
    ) throws {
        let page = token.map { ",\"paginationToken\":\"\($0)\"" } ?? ""
        let old =
            #"{"action":"notifications.backfill","from":1000,"to":2000,"onlyFailures":true,"#
            + #""lanes":[{"appAppleId":1,"environment":"production"},{"appAppleId":1,"#
            + #""environment":"sandbox"}],"doneCount":\#(doneCount)\#(page)}"#
        let value = try #require(JSONValue(Array(old.utf8)))
        let plan = try #require(BackfillPlan(audit: value))
        #expect(plan.places.map(\.isDone) == done)
        #expect(plan.places.map(\.paginationToken) == tokens)
    }

    @Test func `goes from page to page in each lane by itself`() {
        var plan = plan
        plan.advance(lane: 1, to: "next")
        #expect(plan.query(ofLane: 1).paginationToken == "next")
        #expect(plan.query(ofLane: 0).paginationToken == nil && plan.doneCount == 0)
        plan.advance(lane: 1, to: nil)
        #expect(plan.doneCount == 1 && !plan.isDone)
        plan.advance(lane: 0, to: nil)
        #expect(plan.isDone)
    }
}

@Suite struct `A backfill's end` {
    @Test(
        arguments: [
            (0, 0, .nothingMatched), (1, 0, .ok), (0, 1, .partlyDone), (0, 2, .noApple),
            (1, 1, .partlyDone), (1, 2, .partlyDone),
        ] as [(Int, Int, ExitCode)]
    )
    func `is a part where anything was fetched`(count: Int, failedCount: Int, exit: ExitCode) {
        let lanes = AppleEnvironment.allCases.map { Lane(appAppleID: 1, environment: $0) }
        let now = Timestamp(milliseconds: 1_000)
        let ending = BackfillEnding(
            runID: "backfill-1",
            plan: BackfillPlan(from: now, to: now, onlyFailures: false, lanes: lanes),
            isReal: true,
            isInterrupted: false,
            count: count,
            pageCount: 1,
            troubles: lanes.prefix(failedCount).map {
                ($0, AppleTrouble.away($0, because: "HTTP 500").failure)
            }
        )
        #expect(ending.exit == exit)
    }
}

@Suite(.serialized) struct `tollway notifications backfill` {
    @Test(arguments: [
        ([], "usage.missing_from"), (["--from", "181d"], "usage.bad_value"),
        (["--from", "180d"], "usage.bad_value"),
        (["--from", "1h", "--to", "2h"], "usage.bad_value"),
        (["--from", "1h", "--rate", "51"], "usage.bad_value"),
        (["--from", "1h", "--app", "77"], "apple.unknown_app"),
        (["--resume", "replay-1"], "usage.bad_value"),
        (["--resume", "backfill-1", "--from", "1h"], "usage.bad_value"),
        (["--resume", "backfill-1", "--app", "77"], "usage.bad_value"),
        (["--resume", "backfill-1", "--environment", "sandbox"], "usage.bad_value"),
        (["--resume", "backfill-1", "--only-failures"], "usage.bad_value"),
    ])
    func `refuses a question that Apple could not answer`(
        arguments: [String],
        code: String
    ) throws {
        let apple = try SimulatedApple()
        let run = try TollwayProcess.run(
            ["notifications", "backfill", "-o", "json"] + arguments,
            environment: apple.environment
        )
        #expect(try run.errorCode() == code)
        #expect(run.exitCode == (code == "apple.unknown_app" ? 3 : 2))
    }

    @Test func `counts without storing, with the second key where Apple refuses the first`() throws
    {
        let apple = try SimulatedApple(unknownKeys: 1)
        try apple.register((0..<45).map { "t-\($0)" })
        try apple.notify((0..<45).map { "t-\($0)" })
        let run = try TollwayProcess.run(
            ["notifications", "backfill", "--from", "1h", "--dry-run", "-o", "json"],
            environment: apple.environment
        )
        #expect(run.exitCode == 0, "\(run.talk)")
        let object = try run.object()
        #expect(object["notificationCount"] as? Int == 45)
        // Three pages of one lane, and one of each of the other three.
        #expect(object["requestCount"] as? Int == 6)
        #expect(object["isWritten"] as? Bool == false)
    }

    @Test func `asks lanes at once, and each within its own rate`() throws {
        let apple = try SimulatedApple()
        try apple.register((0..<25).map { "t-\($0)" })
        try apple.notify((0..<25).map { "t-\($0)" })
        // A request a second and lane: the second page of the first lane is the last request.
        let run = try TollwayProcess.run(
            [
                "notifications", "backfill", "--from", "1h", "--dry-run", "--rate", "1", "-o",
                "json",
            ],
            environment: apple.environment
        )
        #expect(run.exitCode == 0, "\(run.talk)")
        #expect(try run.object()["requestCount"] as? Int == 5)
        let log = try #require(try apple.call("GET", "/requests")["requests"] as? [[String: Any]])
        let asked = log.filter { ($0["path"] as? String)?.contains("history") == true }
        #expect(asked.count == 5, "\(log)")
        let times = try asked.map { try #require($0["at"] as? Int) }.sorted()
        #expect(times[3] - times[0] < 900 && times[4] - times[0] >= 900, "\(times)")
    }

    @Test func `says that Apple refuses every key`() throws {
        let apple = try SimulatedApple(unknownKeys: 0)
        let other = try SimulatedApple()
        let run = try TollwayProcess.run(
            ["notifications", "backfill", "--from", "1h", "--dry-run", "-o", "json"],
            environment: apple.environment.merging(
                ["TOLLWAY_APPS_FILE": other.environment["TOLLWAY_APPS_FILE"] ?? ""]
            ) { $1 }
        )
        #expect(run.exitCode == 7)
        let failed = try #require(try run.object()["failed"] as? [[String: Any]])
        // In the order of the apps file, whichever was refused first.
        let lanes = SimulatedApple.apps.flatMap { app in
            ["production", "sandbox"].map { "\(app.0) \($0)" }
        }
        #expect(
            failed.map { "\($0["appAppleId"] ?? 0) \($0["environment"] ?? "")" } == lanes,
            "\(failed)"
        )
        #expect(failed.count == 4 && failed[0]["code"] as? String == "apple.refused")
    }

    @Test func `asks Apple nothing where a topic it would write to is missing`() throws {
        let broker = try MockBroker(topics: ["tollway.notifications.received.v1": 1])
        defer { broker.close() }
        let apple = try SimulatedApple()
        let run = try TollwayProcess.run(
            ["notifications", "backfill", "--from", "1h", "-o", "json"],
            environment: apple.environment.merging(
                ["TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrapServers]
            ) { $1 }
        )
        #expect(run.exitCode == 3)
        #expect(try run.errorCode() == "kafka.no_topic")
    }

    @Test(.enabled(if: DeadLetterWorld.isKafkaThere, DeadLetterWorld.skipped))
    func `stores what Apple has, and goes on where it was stopped`() throws {
        let world = try DeadLetterWorld()
        let apple = try SimulatedApple()
        let environment = world.environment.merging(apple.environment) { $1 }
        let ids = (0..<60).map { "t-\($0)" }
        try apple.register(ids)
        try apple.notify(ids)
        func backfill(_ arguments: String...) throws -> TollwayProcess {
            try TollwayProcess.run(
                ["notifications", "backfill", "-o", "json"] + arguments,
                environment: environment
            )
        }
        #expect(try backfill("--resume", "backfill-1").errorCode() == "backfill.unknown_run")

        // A page a second, and stopped after the first.
        let process = try TollwayProcess.make(
            ["notifications", "backfill", "--from", "1h", "--rate", "1", "--app", "com.example.a"],
            environment: environment
        )
        let talk = Pipe()
        process.standardError = talk
        process.standardOutput = FileHandle.nullDevice
        try process.run()
        var asked = 0
        while asked == 0 {
            asked = (try apple.call("GET", "/requests")["requests"] as? [Any])?.count ?? 0
        }
        kill(process.processIdentifier, SIGINT)
        process.waitUntilExit()
        #expect(process.terminationStatus == 130)
        let said = String(
            decoding: try talk.fileHandleForReading.readToEnd() ?? Data(),
            as: UTF8.self
        )
        let runID = try #require(said.split(separator: " ").last).trimmingCharacters(in: .newlines)
        let before = try world.records(of: .notificationsReceived).count
        #expect(before < 60)

        let resumed = try backfill("--resume", runID)
        #expect(resumed.exitCode == 0, "\(resumed.talk)\(resumed.output)")
        #expect(try resumed.object()["notificationCount"] as? Int == 60)
        let records = try world.records(of: .notificationsReceived)
        #expect(records.count == 60)
        #expect(Set(records.map { $0.value ?? "" }).count == 60, "each once")
        try world.expectValid(records, schema: "notifications.received.v1")
        try world.expectValid(try world.records(of: .audit), schema: "audit.v1")
        #expect(try backfill("--resume", runID).errorCode() == "backfill.finished")
    }
}

@Suite struct `What doctor says of a test notification` {
    @Test(
        arguments: [
            (#"{"signedPayload":"a","sendAttempts":[]}"#, "a", nil),
            (
                #"{"signedPayload":"a","sendAttempts":[{"attemptDate":2,"sendAttemptResult":"SUCCESS"},{"attemptDate":1,"sendAttemptResult":"TIMED_OUT"}]}"#,
                "a", "SUCCESS"
            ),
        ] as [(String, String, String?)]
    )
    func `is the newest of Apple's tries`(body: String, payload: String, result: String?) throws {
        let status = try #require(TestNotificationStatus(Array(body.utf8)))
        #expect(status.signedPayload == payload && status.sendAttemptResult == result)
        #expect(TestNotificationStatus(Array("{}".utf8)) == nil)
    }

    @Test func `has a line for each app and world, also where Apple limits one`() throws {
        let topic = "tollway.notifications.received.v1"
        let broker = try MockBroker(topics: [topic: 1])
        defer { broker.close() }
        // One lane's question about the test, and another's for one.
        let apple = try SimulatedApple(arguments: [
            "--fault",
            "429:on=test,app=com.example.a,environment=production,after=1,retry-after=60s",
            "--fault", "429:on=test,app=com.example.a,environment=sandbox,retry-after=60s",
        ])
        try apple.call(
            "PUT",
            "/urls",
            #"{"production":"http://127.0.0.1:1/","sandbox":"http://127.0.0.1:1/"}"#
        )
        let configuration = try Configuration(
            environment: apple.environment.merging(
                ["TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrapServers]
            ) { $1 },
            program: .tollway
        )
        let doctor = try DoctorTestNotification(configuration, waitMilliseconds: 4_000)
        let findings = doctor.run().map { "\($0.verdict.rawValue) \($0.sentence)" }
        let ids = SimulatedApple.apps.map(\.0)
        let undelivered = "failed Apple could not deliver the test for app \(ids[1])"
        let expected = [
            "skipped whether Apple sent the test for app \(ids[0]) (production) is unknown: Apple"
                + " gave no answer within 4 s",
            "skipped no test for app \(ids[0]) (sandbox): Apple gave no answer within 4 s",
            "\(undelivered) (production)", "\(undelivered) (sandbox)",
        ]
        #expect(findings.count == expected.count, "\(findings)")
        for sentence in expected {
            #expect(findings.contains { $0.hasPrefix(sentence) }, "\(sentence): \(findings)")
        }
    }

    @Test(.enabled(if: DeadLetterWorld.isKafkaThere, DeadLetterWorld.skipped))
    func `names what is wrong on the way`() throws {
        let world = try DeadLetterWorld()
        let apple = try SimulatedApple()
        let environment = world.environment.merging(apple.environment) { $1 }
        func findings() throws -> [[String: Any]] {
            let run = try TollwayProcess.run(
                ["doctor", "--no-apple", "--no-kafka", "--test-notification", "-o", "json"],
                environment: environment
            )
            let all = try #require(try run.object()["findings"] as? [[String: Any]])
            return all.filter { $0["area"] as? String == "notifications" }
        }
        let unset = try findings()
        #expect(unset.count == 4)
        #expect(unset.allSatisfy { ($0["finding"] as? String)?.contains("knows no URL") == true })
        // Nobody listens there.
        try apple.call(
            "PUT",
            "/urls",
            #"{"production":"http://127.0.0.1:1/","sandbox":"http://127.0.0.1:1/"}"#
        )
        let closed = try findings()
        #expect(closed.count == 4)
        #expect(
            closed.allSatisfy { ($0["finding"] as? String)?.contains("could not deliver") == true }
        )
    }
}
