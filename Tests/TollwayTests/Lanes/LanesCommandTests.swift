import Foundation
import StageRuntime
import Testing
import TokenDomain

@testable import tollway

@Suite struct `The list of lanes` {
    private static let now = Timestamp(milliseconds: 1_800_000_000_000)

    private func orders(_ state: LaneOrder.State, app: Int64 = 1) -> LaneOrders {
        var orders = LaneOrders()
        _ = orders.take(
            LaneOrder(
                lane: Lane(appAppleID: app, environment: .production),
                state: state,
                by: "ann@host",
                why: "asked to",
                at: Self.now + .minutes(-3)
            )
        )
        return orders
    }

    private func observed(_ state: String, because: String? = nil) -> TopSnapshot.Lane {
        var lane = TopSnapshot.Lane(
            app: 1,
            environment: "production",
            endpoint: "reports",
            state: state
        )
        lane.because = because
        lane.allowedPerSecond = 2.5
        lane.configuredPerSecond = 5
        lane.due = 12
        return lane
    }

    @Test func `has what workers tell, and the order that stands`() throws {
        var lane = observed("paused", because: "paused by ann@host: asked to since …")
        lane.since = (Self.now + .minutes(-3)).milliseconds
        let list = LaneList(observed: [lane], orders: orders(.paused), now: Self.now)
        let row = try #require(list.text.split(separator: "\n").last)
        for part in ["paused 3m", "2.5", " 12 ", "paused by ann@host: asked to"] {
            #expect(row.contains(part), "\(part) in \(row)")
        }
        let object = try #require(list.objects.first)
        #expect(object.contains(#""order":{"state":"paused","by":"ann@host","why":"asked to","#))
        #expect(object.contains(#""due":12"#) && object.contains(#""configuredPerSecond":5.0"#))
    }

    @Test func `says where an order is not in force, or nobody tells of the lane`() {
        let open = LaneList(observed: [observed("open")], orders: orders(.paused), now: Self.now)
        #expect(open.text.contains("not yet in force: paused by ann@host"))
        #expect(open.rows.map(\.state) == ["open"])
        let silent = LaneList(
            observed: [observed("open")],
            orders: orders(.paused, app: 2),
            now: Self.now
        )
        #expect(silent.rows.map(\.state) == ["open", "paused"])
        #expect(silent.text.contains("paused by ann@host"))
        #expect(LaneList(observed: [], orders: orders(.open), now: Self.now).rows.isEmpty)
    }

    @Test(
        arguments: [
            (.resume, nil, .paused, true), (.reset, nil, .paused, true),
            (.reset, nil, .open, true), (.resume, .paused, .paused, false),
            (.reset, .open, .open, false), (.reset, nil, nil, false),
            (.resume, .paused, nil, false), (.pause, nil, .paused, false),
            (.pause, .paused, .open, false),
        ] as [(LanesCommand.Action, LaneOrder.State?, LaneOrder.State?, Bool)]
    )
    func `is not undone by who has not seen its newest order`(
        action: LanesCommand.Action,
        before: LaneOrder.State?,
        now: LaneOrder.State?,
        isRefused: Bool
    ) throws {
        let lane = Lane(appAppleID: 1, environment: .production)
        let before = before.flatMap { orders($0).byLane[lane] }
        let now = now.flatMap { orders($0).byLane[lane] }
        guard isRefused else {
            return try LanesCommand.refuse(action, before: before, now: now)
        }
        let failure = #expect(throws: CommandFailure.self) {
            try LanesCommand.refuse(action, before: before, now: now)
        }
        #expect(failure?.exit == .tryAgain && failure?.message.contains("ann@host") == true)
    }

    @Test func `is not undone by another pause of the same lane`() {
        let lane = Lane(appAppleID: 1, environment: .production)
        let before = orders(.paused).byLane[lane]
        var again = before
        again?.by = "zoe@host"
        #expect(throws: CommandFailure.self) {
            try LanesCommand.refuse(.resume, before: before, now: again)
        }
    }

    @Test func `is asked of Kafka first`() throws {
        let away = ["TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"]
        for verb in [["list"], ["pause", "1", "production", "--why", "x", "--yes"]] {
            let run = try TollwayProcess.run(["lanes"] + verb, environment: away)
            #expect(run.exitCode == 6, "\(verb): \(run.talk)")
        }
    }
}

@Suite(
    .serialized,
    .enabled(if: DeadLetterWorld.isKafkaThere, DeadLetterWorld.skipped)
)
struct `tollway lanes` {
    @Test func `writes nothing until told, refuses what makes no sense, and is audited`() throws {
        let world = try DeadLetterWorld()
        let folder = try TemporaryFolder()
        let apps = Data(#"{"apps":[{"appAppleId":7,"bundleId":"com.example"}]}"#.utf8)
        let file = try folder.file("apps.json", apps)
        let environment = world.environment.merging(["TOLLWAY_APPS_FILE": file.path()]) { $1 }
        func lanes(_ arguments: String...) throws -> TollwayProcess {
            try TollwayProcess.run(
                ["lanes"] + arguments + ["-o", "json", "--admin", "127.0.0.1:1"],
                environment: environment
            )
        }
        #expect(try lanes("list").exitCode == 3)
        #expect(try lanes("pause", "7").exitCode == 2, "no environment")
        #expect(try lanes("pause", "7", "staging").exitCode == 2)
        #expect(try lanes("pause", "7", "production", "--yes").exitCode == 2, "no reason")
        for app in ["8", "com.example.other"] {
            let unknown = try lanes("pause", app, "production", "--why", "x", "--yes")
            #expect(try unknown.exitCode == 3 && unknown.errorCode() == "lanes.unknown_app")
        }
        let dry = try lanes("pause", "com.example", "production", "--why", "asked to")
        #expect(try dry.exitCode == 5 && dry.object()["isWritten"] as? Bool == false)
        #expect(try lanes("resume", "7", "production", "--why", "x", "--yes").exitCode == 3)
        #expect(try world.records(of: .laneOrders, .audit).isEmpty)

        let paused = try lanes("pause", "com.example", "production", "--why", "asked to", "--yes")
        #expect(paused.exitCode == 0, "\(paused.talk)\(paused.output)")
        let listed = try lanes("list")
        #expect(listed.exitCode == 0)
        let row = try #require((try listed.object()["lanes"] as? [[String: Any]])?.first)
        #expect(row["state"] as? String == "paused" && row["appAppleId"] as? Int == 7)
        #expect((row["order"] as? [String: Any])?["why"] as? String == "asked to")
        let refused = try lanes("reset", "7", "production", "--why", "x", "--yes")
        #expect(try refused.exitCode == 5 && refused.errorCode() == "lanes.paused")
        #expect(try lanes("resume", "7", "production", "--why", "done", "--yes").exitCode == 0)
        #expect(try lanes("reset", "7", "production", "--why", "key is new", "--yes").exitCode == 0)
        // The newest reset stays with the lane.
        #expect(try lanes("pause", "7", "production", "--why", "again", "--yes").exitCode == 0)

        let records = try world.records(of: .laneOrders)
        try world.expectValid(records, schema: "lanes.control.v1")
        #expect(records.map(\.key) == Array(repeating: "7|production", count: 4))
        let values = try records.map { try $0.json() }
        #expect(values.map { $0["state"] as? String } == ["paused", "open", "open", "paused"])
        #expect(values[1]["resetAt"] == nil && values[2]["resetAt"] != nil)
        #expect(values[3]["resetAt"] as? Int == values[2]["resetAt"] as? Int)
        let audit = try world.records(of: .audit)
        try world.expectValid(audit, schema: "audit.v1")
        let entries = try audit.map { try $0.json() }
        #expect(
            entries.sorted { ($0["at"] as? Int ?? 0) < ($1["at"] as? Int ?? 0) }
                .map { $0["action"] as? String }
                == ["lanes.pause", "lanes.resume", "lanes.reset", "lanes.pause"]
        )
        #expect(
            Set(entries.map { $0["runId"] as? String })
                == Set(records.map { $0.headers["tollway.order_id"] })
        )
        #expect(entries.allSatisfy { ($0["by"] as? String)?.hasPrefix("somebody@") == true })
    }
}
