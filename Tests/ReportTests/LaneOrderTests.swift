import Foundation
import Kafka
import Simulation
import StageRuntime
import Telemetry
import Testing
import TokenDomain
import TokenWire

@testable import report

/// `lanes.control.v1` of a cluster in memory.
final class MemoryOrders: LaneOrderSource {
    private let cluster: MemoryCluster
    private let topic: String
    private var next: [Int32: Int64] = [:]
    var fault: LogFault?
    private(set) var startCount = 1

    /// What comes next is the topic's first record.
    func startAgain() {
        next = [:]
        startCount += 1
    }

    init(cluster: MemoryCluster, topic: String) {
        self.cluster = cluster
        self.topic = topic
    }

    func read(into batch: inout RecordBatch) throws(LogFault) -> Bool {
        if let fault {
            throw fault
        }
        for entry in cluster.committedRecords(of: topic)
        where entry.offset >= next[entry.partition, default: 0] {
            next[entry.partition] = entry.offset + 1
            func place(_ bytes: [UInt8]?) -> ByteRange {
                guard let bytes else {
                    return .absent
                }
                let start = batch.arena.count
                batch.arena.append(contentsOf: bytes)
                return ByteRange(start: start, count: bytes.count)
            }
            batch.records.append(
                RecordBatch.Record(
                    topic: 0,
                    partition: entry.partition,
                    offset: entry.offset,
                    timestampMilliseconds: 0,
                    key: place(entry.key),
                    value: place(entry.value),
                    headers: place([])
                )
            )
        }
        return true
    }
}

@Suite struct `Orders for lanes` {
    private static let lane = Lane(appAppleID: 1, environment: .production)

    private func bench(tokens: Int = 0, apps: [Int64] = [1, 2]) -> ReportBench {
        let bench = ReportBench()
        bench.followsOrders = true
        bench.rate = 10
        due(tokens, apps, on: bench)
        return bench
    }

    private func due(
        _ count: Int,
        _ apps: [Int64] = [1, 2],
        from first: Int = 0,
        on bench: ReportBench
    ) {
        for number in first..<first + count {
            for app in apps {
                bench.distinct(
                    bench.id(number * 10 + Int(app)),
                    .duplicate(of: bench.id(9_999)),
                    app: app
                )
            }
        }
    }

    private func order(
        _ state: LaneOrder.State,
        resetAt: Timestamp? = nil,
        lane: Lane = lane,
        on bench: ReportBench
    ) {
        bench.order(state, resetAt: resetAt, lane: lane)
    }

    private func value(_ bench: ReportBench, _ prefix: String) -> Double? {
        String(decoding: bench.metrics.render(), as: UTF8.self).split(separator: "\n")
            .first { $0.hasPrefix("tollway_\(prefix)") }
            .flatMap { Double($0.split(separator: " ").last ?? "") }
    }

    private func shown(_ bench: ReportBench, _ number: Int = 0) throws -> [[String: Any]] {
        let stage = try #require(bench.instances[number]?.stage)
        var writer = JSONWriter()
        writer.beginObject()
        stage.show(&writer, now: bench.clock.now)
        writer.endObject()
        let object = try JSONSerialization.jsonObject(with: Data(writer.bytes))
        return try #require((object as? [String: Any])?["lanes"] as? [[String: Any]])
    }

    private func calls(_ bench: ReportBench, app: Int64 = 1) -> Int {
        bench.instances.values.reduce(0) { sum, instance in
            sum + instance.apple.calls.count { $0.lane.appAppleID == app }
        }
    }

    @Test func `pause one lane in every replica, whose debts and deadlines go on, until resumed`()
        throws
    {
        let bench = bench()
        bench.launch(0)
        bench.launch(1)
        try bench.settle()
        due(100, on: bench)
        try bench.pass(.seconds(2))
        let before = calls(bench)
        #expect(before > 5)
        order(.paused, on: bench)
        try bench.pass(Milliseconds(200))
        let paused = calls(bench)
        try bench.pass(.minutes(10))
        #expect(calls(bench) == paused && paused - before <= 4)
        #expect(bench.appleStore.accepted.count == paused + 100, "the other app goes on")
        #expect(value(bench, #"report_lane_paused{app="1",environment="production"}"#) == 1)
        #expect(value(bench, #"report_lane_paused{app="2",environment="production"}"#) == 0)
        #expect(value(bench, #"deadline_slack_seconds{app="1""#) != nil)
        #expect(value(bench, #"report_lane_held_seconds{app="1""#) == 0)
        #expect(
            value(
                bench,
                #"report_lane_changes_total{app="1",environment="production",change="paused""#
            ) == 2
        )
        let lanes = try shown(bench).filter { $0["appAppleId"] as? Int == 1 }
        #expect(lanes.count == 1 && lanes[0]["state"] as? String == "paused")
        let because = "paused by ann@host: asked to since 2026-01-10T00:00:02.000Z"
        #expect(lanes[0]["because"] as? String == because)
        #expect((lanes[0]["due"] as? Int ?? 0) > 0)
        #expect(lanes[0]["milliConfiguredPerSecond"] as? Int == 10_000)
        order(.open, on: bench)
        try bench.pass(.seconds(15))
        #expect(bench.appleStore.accepted.count == 200)
        #expect(value(bench, #"report_lane_paused{app="1""#) == 0)
        #expect(try bench.outcomes().count == 200)
    }

    @Test func `end in the gauge of a replica that has nothing to send for the lane`() throws {
        let bench = bench()
        bench.launch()
        try bench.pass(.seconds(1))
        order(.paused, on: bench)
        try bench.pass(.seconds(2))
        #expect(value(bench, #"report_lane_paused{app="1",environment="production"}"#) == 1)
        order(.open, on: bench)
        try bench.pass(.seconds(2))
        #expect(value(bench, #"report_lane_paused{app="1",environment="production"}"#) == 0)
        order(.paused, on: bench)
        try bench.pass(.seconds(2))
        bench.instances[0]?.loop.abandon()
        #expect(value(bench, "report_lane_paused{") == nil)
    }

    @Test func `are shown by a replica that has nothing to send for the lane`() throws {
        let bench = bench()
        order(.paused, on: bench)
        bench.launch()
        try bench.pass(.seconds(2))
        let lane = try #require(try shown(bench).first)
        #expect(lane["appAppleId"] as? Int == 1 && lane["environment"] as? String == "production")
        #expect(lane["endpoint"] as? String == "reports" && lane["state"] as? String == "paused")
        #expect((lane["because"] as? String)?.hasPrefix("paused by ann@host: asked to") == true)
        #expect(lane["since"] is Int && lane["due"] as? Int == 0)
        #expect(lane["milliConfiguredPerSecond"] as? Int == 10_000)
        due(1, [1], on: bench)
        try bench.pass(.seconds(2))
        #expect(try shown(bench).map { $0["due"] as? Int } == [1])
        bench.crash(0)
        bench.launch(1)
        order(.open, on: bench)
        try bench.pass(.seconds(5))
        #expect(try shown(bench, 1).map { $0["state"] as? String } == ["open"])
    }

    @Test func `hold for replicas that start later, and before their first request`() throws {
        let bench = bench(tokens: 20)
        order(.open, on: bench)
        order(.paused, on: bench)
        bench.launch(0)
        try bench.pass(.minutes(5))
        #expect(calls(bench) == 0 && calls(bench, app: 2) == 20)
        bench.crash(0)
        bench.launch(1)
        try bench.pass(.minutes(5))
        #expect(calls(bench) == 0)
        // What was ordered before a process began is no event of it.
        #expect(
            value(
                bench,
                #"report_lane_changes_total{app="1",environment="production",change="paused""#
            ) == nil
        )
        order(.open, on: bench)
        try bench.pass(.seconds(10))
        #expect(calls(bench) == 20)
    }

    @Test func `let what is under way end, and settle it`() throws {
        let bench = bench()
        bench.latency = .seconds(5)
        bench.launch()
        due(30, [1], on: bench)
        try bench.pass(.seconds(2))
        let sent = calls(bench)
        #expect(sent > 5 && bench.appleStore.accepted.count == sent)
        order(.paused, on: bench)
        try bench.pass(.seconds(20))
        let all = calls(bench)
        #expect(all - sent <= 2)
        #expect(try bench.outcomes().count == all)
        let stage = try #require(bench.instances[0]?.stage)
        #expect(stage.sender.flights.isEmpty && stage.sender.busy.isEmpty)
    }

    @Test(arguments: [
        LogFault.misconfigured(message: "TOPIC_AUTHORIZATION_FAILED"),
        .unavailable(code: "LEADER_NOT_AVAILABLE", message: "no leader"),
    ])
    func `send nothing until all of them were read`(fault: LogFault) throws {
        let bench = bench(tokens: 5, apps: [1])
        bench.ordersFault = fault
        bench.launch()
        bench.health.setStarted()
        bench.health.setReady()
        try bench.pass(.minutes(1))
        #expect(calls(bench) == 0)
        #expect(bench.logLines.with("the orders for lanes cannot be read").count == 1)
        #expect(bench.health.ready.lines.contains { $0.hasPrefix("lanes: ") })
        #expect(value(bench, "report_lane_orders_unread") == 1)
        #expect(try shown(bench).allSatisfy { $0["state"] as? String == "paused" })
        bench.orders[0]?.fault = nil
        try bench.pass(.seconds(5))
        #expect(calls(bench) == 5)
        #expect(value(bench, "report_lane_orders_unread") == 0)
        // Once they were read, what was read holds.
        order(.paused, on: bench)
        try bench.pass(.seconds(1))
        bench.orders[0]?.fault = .unavailable(code: "_TRANSPORT", message: "away")
        due(5, from: 50, on: bench)
        try bench.pass(.seconds(10))
        #expect(calls(bench) == 5 && calls(bench, app: 2) == 5)
    }

    @Test func `change nothing where they are read again, and end where one is gone`() throws {
        let bench = bench(tokens: 5)
        order(.paused, on: bench)
        order(.open, resetAt: bench.clock.now, on: bench)
        order(.paused, on: bench)
        bench.launch()
        bench.health.setStarted()
        bench.health.setReady()
        try bench.pass(.seconds(5))
        let orders = try #require(bench.orders[0])
        orders.fault = .misconfigured(message: "TOPIC_AUTHORIZATION_FAILED")
        try bench.pass(.seconds(5))
        let lines = bench.health.ready.lines
        #expect(lines.contains { $0.hasPrefix("lanes: ") && $0.hasSuffix("_FAILED") }, "\(lines)")
        // The right is back: the whole topic comes once more.
        orders.fault = nil
        orders.startAgain()
        try bench.pass(.seconds(5))
        #expect(!bench.health.ready.lines.contains { $0.hasPrefix("lanes: ") })
        #expect(calls(bench) == 0 && calls(bench, app: 2) == 5)
        #expect(
            value(
                bench,
                #"report_lane_changes_total{app="1",environment="production",change="reset""#
            ) == nil
        )
        bench.append(.laneOrders, key: Array("1|production".utf8), value: nil)
        orders.startAgain()
        try bench.pass(.seconds(5))
        #expect(calls(bench) == 5)
    }

    /// Nothing probes it: the key may be mended, and the page would go on.
    @Test func `pause a stopped lane, which is shown as stopped again once it is resumed`() throws {
        let bench = bench(tokens: 5, apps: [1])
        let stopped = #"report_lane_stopped{app="1",environment="production",endpoint="reports"}"#
        bench.script = { _ in .status(401) }
        bench.launch()
        try bench.pass(.minutes(1))
        #expect(value(bench, stopped) == 1)
        order(.paused, on: bench)
        try bench.pass(.minutes(1))
        #expect(value(bench, stopped) == 0)
        order(.open, on: bench)
        try bench.pass(.minutes(1))
        #expect(value(bench, stopped) == 1)
    }

    @Test func `reset a stopped lane: it is tried at once, with its key read anew`() throws {
        let bench = bench(tokens: 5, apps: [1])
        var isKeyGood = false
        bench.script = { _ in isKeyGood ? .answered : .status(403) }
        bench.launch()
        try bench.pass(.minutes(20))
        isKeyGood = true
        let before = calls(bench)
        order(.open, resetAt: bench.clock.now, on: bench)
        try bench.pass(.seconds(2))
        #expect(calls(bench) == before + 5 && bench.appleStore.accepted.count == 5)
        // The same reset once more is none.
        isKeyGood = false
        due(5, [1], from: 50, on: bench)
        try bench.pass(.minutes(20))
        let stopped = calls(bench)
        order(.open, resetAt: ReportBench.start + .minutes(20), on: bench)
        try bench.pass(.seconds(2))
        #expect(calls(bench) == stopped)
    }

    @Test func `reset a held lane: the hold and the rate that was found are forgotten`() throws {
        let bench = bench(tokens: 50, apps: [1])
        let until = ReportBench.start + .hours(10)
        var isLimited = false
        bench.script = { _ in isLimited ? .status(429, retryAfter: until) : .answered }
        bench.launch()
        try bench.pass(.seconds(1))
        isLimited = true
        try bench.pass(.minutes(30))
        isLimited = false
        let lane = try #require(try shown(bench).first)
        #expect(lane["state"] as? String == "held")
        #expect((lane["milliRequestsPerSecond"] as? Int ?? 0) < 10_000)
        order(.open, resetAt: bench.clock.now, on: bench)
        try bench.pass(.seconds(1))
        #expect(try shown(bench).first?["milliRequestsPerSecond"] as? Int == 10_000)
        try bench.pass(.seconds(6))
        #expect(bench.appleStore.accepted.count == 50)
    }

    @Test(arguments: [
        "", "{}", "[]",
        #"{"appAppleId":1,"environment":"production","state":"stopped","#
            + #""by":"a","why":"b","at":1}"#,
    ])
    func `that cannot be read are logged, counted and ignored`(text: String) throws {
        let bench = bench(tokens: 5)
        order(.paused, on: bench)
        bench.append(.laneOrders, key: Array("1|production".utf8), value: Array(text.utf8))
        bench.launch()
        try bench.pass(.seconds(5))
        #expect(calls(bench) == 0 && calls(bench, app: 2) == 5)
        #expect(value(bench, "report_lane_orders_unreadable_total") == 1)
        #expect(
            bench.logLines.with("an order for a lane cannot be read, and is ignored").count == 1
        )
        // A tombstone ends what was ordered.
        bench.append(.laneOrders, key: Array("1|production".utf8), value: nil)
        try bench.pass(.seconds(5))
        #expect(calls(bench) == 5)
    }
}
