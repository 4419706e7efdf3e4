import Foundation
import Kafka
import StageRuntime
import Testing
import TokenDomain
import TokenWire

@testable import tollway

@Suite(
    .serialized,
    .enabled(if: DeadLetterWorld.isKafkaThere, DeadLetterWorld.skipped)
)
struct `Sending dead letters back` {
    @Test func `is a dry run until told, and then keeps every byte`() throws {
        let world = try DeadLetterWorld()
        var maker = DeadLetterMaker(prefix: world.prefix, seed: 3)
        maker.history.firstFailedAt = "2026-01-01T00:00:00.000Z"
        maker.history.attempts = 4
        maker.history.replayCount = 1
        maker.history.replayID = "before"
        try maker.write([.unknownApp], each: 30, to: world.settings)
        let stored = try world.records(of: .deadLetters(.decode))
        try world.expectOpen(try #require(stored.first))
        let dry = try world.dlq("replay", "--reason", "unknown_app", "-o", "json")
        #expect(dry.exitCode == 5, "\(dry.talk)")
        #expect(try dry.object()["go"] as? Int == 30)
        #expect(try world.records(of: .tokensReceived, .audit, .deadLetterReplays).isEmpty)

        let run = try world.dlq(
            "replay",
            "--reason",
            "unknown_app",
            "--yes",
            "--why",
            "the app is known now",
            "-o",
            "json"
        )
        #expect(run.exitCode == 0, "\(run.talk)")
        #expect(try run.object()["sent"] as? Int == 30)
        let deadLetters = try world.records(of: .deadLetters(.decode))
        let back = try world.records(of: .tokensReceived)
        #expect(back.count == 30)
        #expect(Set(back.map(\.key)) == Set(deadLetters.map(\.key)))
        #expect(Set(back.map(\.value)) == Set(deadLetters.map(\.value)))
        let runID = try #require(try run.object()["runId"] as? String)
        for record in back {
            let deadLetter = deadLetters.first { $0.value == record.value }
            #expect(record.headers["traceparent"] == deadLetter?.headers["traceparent"])
            #expect(
                record.headers.keys.sorted() == [
                    "tollway.dlq.attempts", "tollway.dlq.first_failed_at",
                    "tollway.dlq.replay_count", "tollway.dlq.replay_id", "traceparent",
                ]
            )
            #expect(record.headers["tollway.dlq.replay_count"] == "2")
            #expect(record.headers["tollway.dlq.attempts"] == "5")
            #expect(record.headers["tollway.dlq.first_failed_at"] == "2026-01-01T00:00:00.000Z")
            #expect(record.headers["tollway.dlq.replay_id"] == runID)
        }
        let audit = try world.records(of: .audit).map { try $0.json() }
        #expect(audit.map { $0["count"] as? Int ?? 0 }.reduce(0, +) == 30)
        #expect(audit.last?["state"] as? String == "finished")
        #expect(audit.last?["why"] as? String == "the app is known now")
        #expect((audit.last?["by"] as? String)?.hasPrefix("somebody@") == true)
        #expect(audit.last?["filter"] as? String == "--reason unknown_app")

        try world.expectValid(world.records(of: .audit), schema: "audit.v1")
        try world.expectValid(world.records(of: .deadLetterReplays), schema: "dlq.replays.v1")

        // One story, before and after: the trace of the request that brought it.
        let one = try #require(
            deadLetters.first { $0.headers["traceparent"] == maker.traceParent(7) }
        )
        let token = try decodeToken(Array((one.json()["token"] as? String ?? "").utf8).span)
        let trace = try TollwayProcess.run(
            ["token", "trace", token.externalPurchaseID.text, "-o", "json"],
            environment: world.environment
        )
        let traceID = String(maker.traceParent(7).dropFirst(3).prefix(32))
        #expect(try trace.object()["traceIds"] as? [String] == [traceID])
        let events = try #require(try trace.object()["events"] as? [[String: Any]])
        let topics = Set(events.compactMap { $0["topic"] as? String })
        #expect(
            topics.isSuperset(of: [
                Topic.tokensReceived.name(prefix: world.prefix),
                Topic.deadLetters(.decode).name(prefix: world.prefix),
            ]),
            "\(trace.output)"
        )

        let told = try #require(try trace.object()["deadLetters"] as? [[String: Any]])
        #expect(told.map { $0["state"] as? String } == ["replayed"])
        #expect(told.map { $0["replayId"] as? String } == [runID])
        let now = try #require(try trace.object()["now"] as? [String])
        #expect(now.count == 1 && now[0].contains("on its way"), "\(now)")
        let again = events.filter { $0["replayId"] as? String == runID }
        #expect(again.count == 2, "the record that went back, and the one that says so")
        #expect(
            again.contains { ($0["event"] as? String)?.hasPrefix("sent back by \(runID)") == true }
        )

        // Once is enough.
        #expect(try world.dlq("replay", "--yes").exitCode == 3)
        #expect(try world.dlq("groups").exitCode == 3)
        #expect(try world.dlq("count", "--all").output == "30\n")
        #expect(try world.records(of: .tokensReceived).count == 30)
    }

    @Test func `holds back what was settled, would break the order, or came back twice`() throws {
        let world = try DeadLetterWorld()
        var maker = DeadLetterMaker(prefix: world.prefix, seed: 4)
        try maker.write([.rejected], each: 4, to: world.settings)
        try maker.write([.unknownApp], each: 2, to: world.settings)
        maker.history.replayCount = 2
        try maker.write([.notBase64URL], each: 1, to: world.settings)
        let requests = try world.records(of: .deadLetters(.report))
        let tokens = try world.records(of: .deadLetters(.decode))
            .filter { $0.headers["tollway.dlq.reason"] == "unknown_app" }
        // The first request was accepted after all; for the second's token Apple has a LINE_ITEM;
        // the third was refused once more; the fourth has no result.
        try world.account(of: requests[0], as: .accepted, status: .noLineItem)
        try world.account(
            of: requests[1],
            as: .verified,
            status: .lineItem,
            under: "00000000-0000-5000-8000-ffffffffffff"
        )
        try world.account(of: requests[2], as: .rejected, status: .noLineItem)
        // A token goes back in any case: its sales wait for its customer.
        try world.account(ofToken: tokens[0], status: .noLineItem)

        let plan = try world.dlq("plan", "-o", "json").object()
        #expect(plan["secondsAtRate"] as? Double == 0.004, "1,000 a second")
        let skipped = (plan["skipReasons"] as? [[String: Any]] ?? []).reduce(into: [:]) {
            counts,
            entry in
            counts[entry["why"] as? String ?? "-"] = entry["count"] as? Int
        }
        #expect(skipped == ["already_accepted": 1, "order_rules": 1, "replayed_before": 1])
        #expect(plan["go"] as? Int == 4)
        #expect(try world.dlq("replay", "--yes").exitCode == 0)
        // A refused debt goes back as a report asked for, whatever record made it.
        let back = try world.records(of: .reportsRequested)
        #expect(Set(back.map(\.key)) == Set(requests[2...].map(\.key)))
        let tokensBack = try world.records(of: .tokensReceived)
        #expect(Set(tokensBack.map(\.key)) == Set(tokens.map(\.key)))
        #expect(try world.records(of: .tokensDistinct).isEmpty)
        #expect(try world.dlq("replay", "--yes", "--replays-max", "3").exitCode == 0)
        #expect(try world.records(of: .tokensReceived).count == 3)
    }

    @Test func `judges a report by what the patch makes of it`() throws {
        let world = try DeadLetterWorld()
        var maker = DeadLetterMaker(prefix: world.prefix, seed: 14)
        try maker.write([.rejected], each: 3, to: world.settings)
        let requests = try world.records(of: .deadLetters(.report))
        // Of the first Apple has another report under its identifier; of the second this very one;
        // the third has no result.
        try world.account(of: requests[0], as: .accepted, status: .lineItem)
        try world.account(of: requests[1], as: .accepted, status: .noLineItem)
        func plan(_ patch: String) throws -> (go: Int?, skipped: [String: Int]) {
            let plan = try world.dlq("plan", "--patch", patch, "-o", "json").object()
            let skipped = (plan["skipReasons"] as? [[String: Any]] ?? []).reduce(into: [:]) {
                counts,
                entry in
                counts[entry["why"] as? String ?? "-"] = entry["count"] as? Int
            }
            return (plan["go"] as? Int, skipped)
        }
        // NO_LINE_ITEM may not follow LINE_ITEM, under whatever identifier.
        let same = try plan("{}")
        #expect(same.skipped == ["order_rules": 1, "already_accepted": 1] && same.go == 1)
        let sales = #""status":"LINE_ITEM","lineItems":[{"lineItemId":"1"}]"#
        let other = try plan("{\(sales)}")
        #expect(other.skipped == ["identifier_conflict": 2] && other.go == 1)
        let free = "{\(sales),\"requestIdentifier\":null}"
        #expect(try plan(free).go == 3)
        // What Apple has accepted already goes under no other identifier either.
        let again = try plan(#"{"requestIdentifier":null}"#)
        #expect(again.skipped == ["order_rules": 1, "already_accepted": 1] && again.go == 1)
        #expect(try world.dlq("replay", "--patch", free, "--yes").exitCode == 0)
        let back = try world.records(of: .reportsRequested)
        #expect(Set(back.map(\.key)) == Set(requests.map(\.key)))
        for record in back {
            let value = try record.json()
            #expect(value["status"] as? String == "LINE_ITEM")
            #expect(value["requestIdentifier"] == nil)
        }
    }

    @Test func `holds back account tokens that Apple has, or has a newer one for`() throws {
        let world = try DeadLetterWorld()
        var maker = DeadLetterMaker(prefix: world.prefix, seed: 10)
        try maker.write([.accountToken], each: 5, to: world.settings)
        let deadLetters = try world.records(of: .deadLetters(.report))
        let failed = Timestamp(milliseconds: maker.failedAt.milliseconds)
        let other = "ffffffff-0000-4000-8000-000000000000"
        // The first was accepted after all; for the second a newer one was; for the third an older
        // one; a newer one for the fourth was refused as well; the fifth has no result.
        try world.accountToken(of: deadLetters[0], nil, .accepted, at: failed + Milliseconds(9))
        try world.accountToken(of: deadLetters[1], other, .accepted, at: failed + Milliseconds(9))
        try world.accountToken(
            of: deadLetters[2],
            other,
            .accepted,
            at: failed + Milliseconds(-999)
        )
        try world.accountToken(of: deadLetters[3], other, .rejected, at: failed + Milliseconds(9))

        let plan = try world.dlq("plan", "-o", "json").object()
        let skipped = (plan["skipReasons"] as? [[String: Any]] ?? []).reduce(into: [:]) {
            counts,
            entry in
            counts[entry["why"] as? String ?? "-"] = entry["count"] as? Int
        }
        #expect(skipped == ["already_accepted": 1, "order_rules": 1])
        #expect(try world.dlq("replay", "--yes").exitCode == 0)
        let back = try world.records(of: .accountTokensRequested)
        #expect(Set(back.map(\.key)) == Set(deadLetters[2...].map(\.key)))
        #expect(Set(back.map(\.value)) == Set(deadLetters[2...].map(\.value)))
    }

    @Test func `holds back a change of a sale that may undo a newer one`() throws {
        let world = try DeadLetterWorld()
        // Of the first a newer change was settled, of the second an older one, of the third none.
        for (key, after) in [("c1.a", 1), ("c1.b", -1), ("c1.c", nil)] as [(String, Int64?)] {
            try world.change(of: key, settledAfter: after)
        }
        let plan = try world.dlq("plan", "-o", "json").object()
        let skipped = try #require(plan["skipReasons"] as? [[String: Any]])
        #expect(skipped.map { $0["why"] as? String } == ["order_rules"])
        #expect(plan["go"] as? Int == 2 && plan["skipped"] as? Int == 1)
        #expect(try world.dlq("replay", "--yes").exitCode == 0)
        let back = try world.records(of: .purchasesReceived)
        #expect(Set(back.map(\.key)) == ["c1.b", "c1.c"])
    }

    /// The older one failed again: sent in the order of the topic it would be the last word.
    @Test func `sends a change of a sale after an older one that lies behind it`() throws {
        let world = try DeadLetterWorld()
        try world.change(of: "c1.a", settledAfter: nil, secondsAgo: 10)
        try world.change(of: "c1.a", settledAfter: nil, secondsAgo: 20)
        try world.change(of: "c1.a", settledAfter: nil)
        let plan = try world.dlq("plan", "-o", "json").object()
        let skipped = try #require(plan["skipReasons"] as? [[String: Any]])
        #expect(skipped.map { $0["why"] as? String } == ["order_rules"])
        #expect(plan["go"] as? Int == 2 && plan["skipped"] as? Int == 1)
        #expect(try world.dlq("replay", "--yes").exitCode == 0)
        #expect(try world.dlq("replay", "--yes").exitCode == 0)
        let back = try world.records(of: .purchasesReceived).compactMap { record in
            try PurchaseEvent(fromState: Array((record.value ?? "").utf8)).receivedAt?.milliseconds
        }
        #expect(back.count == 3 && back.first == back.min())
    }

    @Test func `takes a bundle id for any app's where the apps file cannot be read`() throws {
        let world = try DeadLetterWorld()
        try world.change(of: "c1.a", settledAfter: 1, bundleID: "com.example")
        try world.change(of: "c1.b", settledAfter: nil, bundleID: "com.example")
        let plan = try TollwayProcess.run(
            ["dlq", "plan", "-o", "json"],
            environment: world.environment.merging(["TOLLWAY_APPS_FILE": "/nonexistent"]) { $1 }
        )
        #expect(plan.talk.contains("a bundle id may name any app: "), "\(plan.talk)")
        let object = try plan.object()
        let skipped = try #require(object["skipReasons"] as? [[String: Any]])
        #expect(skipped.map { $0["why"] as? String } == ["order_rules"])
        #expect(object["go"] as? Int == 1)
    }

    @Test func `lets nothing go of which it may be forgotten whether it went`() throws {
        let world = try DeadLetterWorld()
        var maker = DeadLetterMaker(prefix: world.prefix, seed: 11)
        try maker.write([.unknownApp], each: 3, to: world.settings)
        let admin = try world.openAdmin()
        defer { admin.close() }
        let name = Topic.deadLetterReplays.name(prefix: world.prefix)
        // Less than the day that clocks may differ by: everything may be forgotten.
        try admin.alterConfiguration(ofTopic: name, ["retention.ms": "3600000"])
        let plan = try world.dlq("plan", "-o", "json").object()
        #expect(plan["go"] as? Int == 0 && plan["skipped"] as? Int == 3)
        let folder = try TemporaryFolder()
        let path = folder.url.appendingPathComponent("plan.json").path
        #expect(try world.dlq("plan", path).exitCode == 3)
        #expect(!FileManager.default.fileExists(atPath: path))
        #expect(try world.dlq("replay", "--yes").exitCode == 3)
        #expect(
            try world.dlq("discard", "--reason", "unknown_app", "--why", "x", "--yes").exitCode == 3
        )
        try admin.alterConfiguration(
            ofTopic: name,
            ["retention.ms": "-1", "retention.bytes": "1000000"]
        )
        let bounded = try world.dlq("replay", "--yes", "-o", "json")
        #expect(bounded.exitCode == 5)
        #expect(try bounded.errorCode() == "dlq.bounded_memory")
        // What topics apply mends.
        let apply = try TollwayProcess.run(
            ["topics", "apply", "--yes"],
            environment: world.environment
        )
        #expect(apply.exitCode == 0, "\(apply.talk)")
        #expect(try world.records(of: .tokensReceived, .deadLetterArchive).isEmpty)
        #expect(try world.dlq("replay", "--yes").exitCode == 0)
        #expect(try world.records(of: .tokensReceived).count == 3)
    }

    @Test func `lets nothing go a second time after a longer memory was asked for`() throws {
        let world = try DeadLetterWorld(partitionCount: 1)
        var maker = DeadLetterMaker(prefix: world.prefix, seed: 12)
        try maker.write([.unknownApp], each: 3, to: world.settings)
        #expect(try world.dlq("replay", "--yes").exitCode == 0)
        let admin = try world.openAdmin()
        defer { admin.close() }
        let name = Topic.deadLetterReplays.name(prefix: world.prefix)
        try admin.alterConfiguration(
            ofTopic: name,
            ["retention.ms": "1", "cleanup.policy": "delete"]
        )
        // Kafka looks every few seconds what is past its time.
        let limit = ContinuousClock.now + .seconds(120)
        while try admin.startOffsets(ofTopic: name) == [0], ContinuousClock.now < limit {
            _ = poll(nil, 0, 200)
        }
        #expect(try world.dlq("count").output == "3\n", "nobody knows that they went")
        #expect(try world.dlq("replay", "--yes").exitCode == 3)
        // As little as before is known, and Kafka does not take what apply writes before it raises that.
        try admin.alterConfiguration(ofTopic: name, ["retention.ms": "60000"])
        let apply = try TollwayProcess.run(
            ["topics", "apply", "--yes"],
            environment: world.environment
        )
        #expect(apply.exitCode == 0, "\(apply.talk)")
        try world.expectValid(world.records(of: .deadLetterReplays), schema: "dlq.replays.v1")
        let plan = try world.dlq("plan", "-o", "json").object()
        #expect(plan["go"] as? Int == 0 && plan["skipped"] as? Int == 3)
        #expect(try world.dlq("replay", "--yes").exitCode == 3)
        #expect(try world.records(of: .tokensReceived).count == 3)
        // What fails from then on is remembered.
        try maker.write([.unknownApp], each: 1, to: world.settings)
        #expect(try world.dlq("replay", "--yes").exitCode == 0)
        #expect(try world.records(of: .tokensReceived).count == 4)
        // A bound in bytes that has taken no more: the first record that is there says since when.
        try admin.alterConfiguration(ofTopic: name, ["retention.bytes": "1000000"])
        let again = try TollwayProcess.run(
            ["topics", "apply", "--yes"],
            environment: world.environment
        )
        #expect(again.exitCode == 0, "\(again.talk)")
        let memory = try world.records(of: .deadLetterReplays).filter {
            $0.key?.hasPrefix("memory/") == true
        }
        // Each run before its change and after it, as Kafka removes records until then.
        #expect(memory.count == 4 && Set(memory.map(\.key)).count == 2)
        try world.expectValid(memory, schema: "dlq.replays.v1")
    }

    /// A run that is killed before the loss is on record leaves a topic without its retention.
    @Test func `lets nothing go again once its memory was made anew`() throws {
        let world = try DeadLetterWorld()
        var maker = DeadLetterMaker(prefix: world.prefix, seed: 13)
        try maker.write([.unknownApp], each: 3, to: world.settings)
        #expect(try world.dlq("replay", "--yes").exitCode == 0)
        #expect(try world.records(of: .tokensReceived).count == 3)
        let admin = try world.openAdmin()
        defer { admin.close() }
        let name = Topic.deadLetterReplays.name(prefix: world.prefix)
        let before = try #require(try admin.topic(name))
        let shape = try admin.configuration(ofTopic: name)
        try admin.deleteTopics([name])
        let plan = TopicPlan(
            name: name,
            partitionCount: before.partitions.count,
            configuration: shape.filter { $0.key == "cleanup.policy" }
        )
        try admin.create([ReplayMemory.unfinished(plan)])
        #expect(try world.dlq("plan", "-o", "json").object()["go"] as? Int == 0)

        func apply() throws {
            let applied = try TollwayProcess.run(
                ["topics", "apply", "--yes"],
                environment: world.environment
            )
            #expect(applied.exitCode == 0, "\(applied.talk)")
        }
        try apply()
        let retention = try admin.configuration(ofTopic: name)["retention.ms"]
        #expect(retention == shape["retention.ms"])
        let go = try world.dlq("plan", "-o", "json").object()
        #expect(go["go"] as? Int == 0 && go["skipped"] as? Int == 3)
        // Likewise by one run.
        try admin.deleteTopics([name])
        try apply()
        #expect(try admin.configuration(ofTopic: name)["retention.ms"] == shape["retention.ms"])
        #expect(try world.dlq("replay", "--yes").exitCode == 3)
        #expect(try world.records(of: .tokensReceived).count == 3)
        // What fails from then on is remembered.
        try maker.write([.unknownApp], each: 1, to: world.settings)
        #expect(try world.dlq("replay", "--yes").exitCode == 0)
        #expect(try world.records(of: .tokensReceived).count == 4)
    }

    @Test func `follows a plan to the dead letter`() throws {
        let world = try DeadLetterWorld()
        let folder = try TemporaryFolder()
        let path = folder.url.appendingPathComponent("plan.json").path
        var maker = DeadLetterMaker(prefix: world.prefix, seed: 5)
        try maker.write([.unknownApp, .notBase64URL], each: 20, to: world.settings)
        let patch = #"{"bundleId":"com.example.other","extra":1.0}"#
        let plan = try world.dlq(
            "plan",
            path,
            "--reason",
            "unknown_app",
            "--rate",
            "1000",
            "--patch",
            patch
        )
        #expect(plan.exitCode == 0, "\(plan.talk)")
        #expect(plan.output.contains("before {") && plan.output.contains("after  {"))
        #expect(try String(contentsOfFile: path, encoding: .utf8).contains("patchSamples"))
        #expect(try world.dlq("plan", path).exitCode == 2, "never over a file that is there")
        // What came after the plan is not in it.
        try maker.write([.unknownApp], each: 5, to: world.settings)
        #expect(try world.dlq("replay", path).exitCode == 5)
        #expect(try world.dlq("replay", path, "--reason", "x").exitCode == 2)
        #expect(try world.dlq("replay", path, "--patch", "{}").exitCode == 2)
        let run = try world.dlq("replay", path, "--yes", "-o", "json")
        #expect(run.exitCode == 0, "\(run.talk)")
        #expect(try run.object()["sent"] as? Int == 20)
        // The plan's patch went over them, byte for byte.
        let back = try world.records(of: .tokensReceived)
        #expect(back.count == 20)
        for record in back {
            #expect(record.value?.contains(#""bundleId":"com.example.other","extra":1.0"#) == true)
        }
        #expect(try world.dlq("replay", path, "--yes").exitCode == 3)
        #expect(try world.dlq("count", "--reason", "unknown_app").output == "5\n")
        let other = try DeadLetterWorld()
        #expect(try other.dlq("replay", path, "--yes").exitCode == 5)
    }

    @Test func `gives up what a plan names, whatever else matches by then`() throws {
        let world = try DeadLetterWorld()
        let folder = try TemporaryFolder()
        let path = folder.url.appendingPathComponent("plan.json").path
        var maker = DeadLetterMaker(prefix: world.prefix, seed: 11)
        try maker.write([.unknownApp], each: 4, to: world.settings)
        #expect(try world.dlq("plan", "--discard", path).exitCode == 2, "no everything")
        #expect(try world.dlq("plan", "--discard", path, "--stage", "decode").exitCode == 0)
        try maker.write([.unknownApp], each: 3, to: world.settings)
        #expect(try world.dlq("replay", path, "--yes").exitCode == 2, "of another act")
        #expect(try world.dlq("discard", path, "--yes").exitCode == 2, "no reason")
        #expect(try world.dlq("discard", path, "--stage", "decode").exitCode == 2, "both")
        let run = try world.dlq("discard", path, "--why", "no tokens", "--yes", "-o", "json")
        #expect(run.exitCode == 0, "\(run.talk)")
        #expect(try run.object()["sent"] as? Int == 4)
        #expect(try world.records(of: .deadLetterArchive).count == 4)
        #expect(try world.dlq("count").output == "3\n")
    }

    @Test func `patches values, keeps to the oldest, and to a rate`() throws {
        let world = try DeadLetterWorld()
        var maker = DeadLetterMaker(prefix: world.prefix, seed: 6)
        try maker.write([.unknownApp], each: 40, to: world.settings)
        let patch = #"{"bundleId":"com.example.other","customer":null}"#
        let dry = try world.dlq("replay", "--patch", patch)
        #expect(dry.exitCode == 5)
        #expect(dry.output.contains("before {") && dry.output.contains("after  {"))
        #expect(dry.output.contains("com.example.other"))
        let clock = ContinuousClock()
        let start = clock.now
        let run = try world.dlq(
            "replay",
            "--patch",
            patch,
            "--max",
            "10",
            "--rate",
            "5",
            "--yes"
        )
        #expect(run.exitCode == 0, "\(run.talk)")
        #expect(clock.now - start > .seconds(1.5), "ten at five a second take two seconds")
        let back = try world.records(of: .tokensReceived)
        #expect(back.count == 10)
        for record in back {
            let value = try record.json()
            #expect(value["bundleId"] as? String == "com.example.other")
            #expect(value["customer"] == nil && value["token"] != nil)
        }
        let traces = back.compactMap { $0.headers["traceparent"] }.sorted()
        #expect(traces == (1...10).map { maker.traceParent($0) }.sorted())
        #expect(try world.dlq("replay", "--patch", "[1]").exitCode == 2)
    }

    @Test func `gives up what is discarded, with a reason, into the archive`() throws {
        let world = try DeadLetterWorld()
        var maker = DeadLetterMaker(prefix: world.prefix, seed: 8)
        try maker.write([.unknownApp, .notBase64URL], each: 12, to: world.settings)
        // Shown without a reason; done with one only.
        #expect(try world.dlq("discard", "--reason", "not_base64url").exitCode == 5)
        #expect(try world.dlq("discard", "--reason", "not_base64url", "--yes").exitCode == 2)
        #expect(try world.dlq("discard", "--why", "x", "--yes").exitCode == 2)
        let filter = ["discard", "--reason", "not_base64url", "--why", "no tokens at all"]
        #expect(
            try TollwayProcess.run(["dlq"] + filter, environment: world.environment).exitCode == 5
        )
        #expect(try world.records(of: .deadLetterArchive).isEmpty)
        let run = try TollwayProcess.run(
            ["dlq"] + filter + ["--yes"],
            environment: world.environment
        )
        #expect(run.exitCode == 0, "\(run.talk)")
        let archived = try world.records(of: .deadLetterArchive)
        let deadLetters = try world.records(of: .deadLetters(.decode))
            .filter { $0.headers["tollway.dlq.reason"] == "not_base64url" }
        #expect(archived.count == 12)
        #expect(Set(archived.map(\.value)) == Set(deadLetters.map(\.value)))
        for record in archived {
            #expect(record.headers["tollway.dlq.discarded_why"] == "no tokens at all")
            #expect(record.headers["tollway.dlq.discarded_by"]?.hasPrefix("somebody@") == true)
            let from = try #require(record.headers["tollway.dlq.discarded_from"])
            let position = try #require(DeadLetterPosition(from, prefix: world.prefix))
            let deadLetter = deadLetters.first {
                $0.partition == position.partition && $0.offset == position.offset
            }
            let original = try #require(deadLetter)
            #expect(record.key == original.key && record.value == original.value)
            for (name, value) in original.headers {
                #expect(record.headers[name] == value)
            }
        }
        let headers = try archived.map { record in
            var headers = record
            headers.value = String(
                decoding: try JSONSerialization.data(withJSONObject: record.headers),
                as: UTF8.self
            )
            return headers
        }
        try world.expectValid(headers, schema: "dlq.archive.headers")
        try world.expectValid(headers, schema: "dead-letter.headers")
        try world.expectValid(world.records(of: .audit), schema: "audit.v1")
        try world.expectValid(world.records(of: .deadLetterReplays), schema: "dlq.replays.v1")
        #expect(try world.records(of: .tokensReceived).isEmpty)
        #expect(try world.dlq("count").output == "12\n")
        let state = try world.dlq("ls", "--all", "--reason", "not_base64url", "-o", "ndjson")
            .objects()
        #expect(state.allSatisfy { $0["state"] as? String == "discarded" })
        #expect(try world.dlq("replay", "--reason", "not_base64url", "--yes").exitCode == 3)
    }
}

extension DeadLetterWorld {
    /// Writes the ledger's record of what Apple said to a report.
    func account(
        of request: Record,
        as outcome: ReportOutcome.Outcome,
        status: ReportStatus,
        under identifier: String? = nil
    ) throws {
        let requested = try request.json()
        try account(
            id: try #require(request.key),
            identifier: try #require(identifier ?? requested["requestIdentifier"] as? String),
            outcome,
            status
        )
    }

    /// A token in an open dead letter: `token trace` says where, why and what to do, `show` takes
    /// that position, and a filter by the token finds it.
    func expectOpen(_ deadLetter: Record) throws {
        let text = try #require(try deadLetter.json()["token"] as? String)
        let id = try decodeToken(Array(text.utf8).span).externalPurchaseID.text
        let trace = try TollwayProcess.run(
            ["token", "trace", text, "-o", "json"],
            environment: environment
        )
        let object = try trace.object()
        #expect(object["externalPurchaseId"] as? String == id)
        let now = try #require((object["now"] as? [String])?.first)
        let position = "decode/\(deadLetter.partition)/\(deadLetter.offset)"
        #expect(now.hasPrefix("dead letter \(position) is open since "), "\(now)")
        #expect(now.contains("decode.unknown_app") && now.contains("due at Apple"), "\(now)")
        #expect(now.hasSuffix("tollway dlq replay --token \(id) --stage decode"), "\(now)")
        let events = try #require(object["events"] as? [[String: Any]])
        let event = try #require(
            events.first { ($0["event"] as? String)?.hasPrefix("dead letter") == true }
        )
        let place =
            "\(event["topic"] as? String ?? "")/\(deadLetter.partition)@\(deadLetter.offset)"
        #expect(try dlq("show", place).exitCode == 0)
        #expect(try dlq("count", "--token", id).output == "1\n")
        #expect(try dlq("count", "--token", text, "--stage", "report").exitCode == 3)
    }

    func account(ofToken deadLetter: Record, status: ReportStatus) throws {
        let text = try #require(try deadLetter.json()["token"] as? String)
        let token = try decodeToken(Array(text.utf8).span)
        try account(
            id: token.externalPurchaseID.text,
            identifier: "00000000-0000-5000-8000-eeeeeeeeeeee",
            .accepted,
            status
        )
    }

    /// Writes the ledger's record of Apple's answer to an app account token: the dead letter's own,
    /// or another one.
    func accountToken(
        of deadLetter: Record,
        _ other: String?,
        _ outcome: AccountTokenOutcome.Outcome,
        at settledAt: Timestamp
    ) throws {
        let id = try #require(deadLetter.key)
        let own = try deadLetter.json()["appAccountToken"] as? String
        var value: [UInt8] = []
        AccountTokenOutcome(
            originalTransactionID: id,
            appAccountToken: try #require(other ?? own),
            outcome: outcome,
            httpStatus: outcome == .accepted ? 200 : 400,
            errorCode: nil,
            attempts: 1,
            settledAt: settledAt
        ).write(to: &value)
        try write(value, key: id, to: .accountTokensOutcomes)
    }

    /// Writes the dead letter of a sale's restatement and, where one was settled, the ledger's
    /// record of another one, which came in so many milliseconds after it.
    ///
    /// `bundleID`: names the app in the place of its number.
    func change(
        of key: String,
        settledAfter: Int64?,
        bundleID: String? = nil,
        secondsAgo: Int64 = 0
    ) throws {
        let now =
            Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000))
            + -.seconds(secondsAgo)
        var event = PurchaseEvent(lineItemID: "sale-1")
        event.kind = .restate
        event.customer = CustomerID(key)
        event.appAppleID = bundleID == nil ? 7 : nil
        event.bundleID = bundleID
        event.receivedAt = now
        var value: [UInt8] = []
        event.write(to: &value)
        var headers: [UInt8] = []
        DeadLetter(
            fault: Fault(code: "purchases.unknown_app", message: "m"),
            worker: .purchases,
            origin: DeadLetter.Origin(
                topic: Topic.purchasesReceived.name(prefix: prefix),
                partition: 0,
                offset: 0,
                group: "\(prefix)purchases"
            ),
            failedAt: now
        ).appendHeaders(to: &headers)
        try write(value, key: key, headers: headers, to: .deadLetters(.purchases))
        guard let settledAfter else {
            return
        }
        value = []
        PurchaseOutcome(
            lineItemID: "sale-1",
            revision: 2,
            type: .restate,
            outcome: .reported,
            externalPurchaseID: TokenID("t-1"),
            requestIdentifier: LedgerMaker.identifier(1),
            reason: "accepted",
            errors: [],
            item: nil,
            receivedAt: now + Milliseconds(settledAfter),
            settledAt: now + .seconds(1),
            lane: Lane(appAppleID: 7, environment: .production)
        ).write(to: &value)
        try write(value, key: key, to: .purchasesOutcomes)
    }

    private func account(
        id: String,
        identifier: String,
        _ outcome: ReportOutcome.Outcome,
        _ status: ReportStatus
    ) throws {
        let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000))
        var value: [UInt8] = []
        ReportOutcome(
            requestIdentifier: identifier,
            externalPurchaseID: TokenID(id),
            appAppleID: 1,
            status: status,
            outcome: outcome,
            httpStatus: 200,
            errors: [],
            attempts: 1,
            reason: "hold",
            firstSentAt: now,
            settledAt: now
        ).write(to: &value)
        try write(value, key: id, to: .reportsOutcomes)
    }

    private func write(
        _ value: [UInt8],
        key: String,
        headers: [UInt8] = [],
        to topic: Topic
    ) throws {
        var batch = OutputBatch()
        let output = OutputBatch.Output(
            topic: 0,
            key: batch.place(key.utf8),
            value: batch.place(value),
            headers: batch.place(headers)
        )
        batch.outputs.append(output)
        let producer = try KafkaProducer(
            settings: settings,
            targets: [topic.name(prefix: prefix)]
        )
        defer { producer.close(deadlineMilliseconds: 5_000) }
        try producer.produce(batch, tags: [1])
        try #require(producer.flush(deadlineMilliseconds: 30_000))
    }
}
