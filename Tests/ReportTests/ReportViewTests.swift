import Foundation
import Kafka
import Simulation
import Telemetry
import Testing
import TokenDomain
import TokenWire

@testable import StageRuntime
@testable import report

@Suite struct `What the report worker shows` {
    private func lines(_ bench: ReportBench, _ name: String) -> [String] {
        String(decoding: bench.metrics.render(), as: UTF8.self).split(separator: "\n")
            .filter { $0.hasPrefix("tollway_\(name)") }.map(String.init)
    }

    private func shown(_ bench: ReportBench, _ number: Int = 0) throws -> String {
        let stage = try #require(bench.instances[number]?.stage)
        var writer = JSONWriter()
        writer.beginObject()
        stage.show(&writer, now: bench.clock.now)
        writer.endObject()
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    @Test func `has a slack while a report waits, also behind a stopped lane, and none when idle`()
        throws
    {
        let bench = ReportBench()
        var isKeyGood = false
        bench.script = { _ in isKeyGood ? .answered : .status(403) }
        bench.launch()
        bench.distinct(bench.id(1), .duplicate(of: bench.id(9)))
        try bench.pass(.seconds(3))
        #expect(lines(bench, "deadline_slack_seconds").count == 1)
        #expect(lines(bench, "report_lane_stopped").first?.hasSuffix(" 1") == true)
        #expect(try shown(bench).contains(#""state":"stopped","because":"misdirected","until":"#))
        // What comes while the lane is stopped is nowhere but in the due table.
        bench.distinct(bench.id(2), .duplicate(of: bench.id(9)))
        try bench.pass(.seconds(1))
        #expect(lines(bench, "deadline_slack_seconds").count == 1)
        isKeyGood = true
        try bench.pass(.minutes(6))
        #expect(bench.appleStore.accepted.count == 2)
        #expect(lines(bench, "deadline_slack_seconds").isEmpty)
        #expect(lines(bench, "report_lane_stopped").first?.hasSuffix(" 0") == true)
        #expect(lines(bench, "report_in_flight") == ["tollway_report_in_flight 0"])
        #expect(try shown(bench).contains(#""state":"open""#))
    }

    /// 1 while that queue of app 1 is shown as stopped.
    private func stopped(_ bench: ReportBench, _ endpoint: String) -> Double? {
        let labels = #"{app="1",environment="production",endpoint="\#(endpoint)"}"#
        return bench.metric("report_lane_stopped\(labels)")
    }

    @Test func `shows a lane as stopped whatever answers the request that was signed anew`() throws
    {
        let bench = ReportBench()
        var callCount = 0
        var isKeyGood = false
        bench.script = { _ in
            callCount += 1
            return isKeyGood ? .answered : .status(callCount == 2 ? 500 : 401)
        }
        bench.launch()
        bench.distinct(bench.id(1), .duplicate(of: bench.id(9)))
        try bench.pass(.minutes(20))
        #expect(stopped(bench, "reports") == 1)
        let sentence = "a lane is stopped: nothing is reported for this app until its"
        #expect(bench.logLines.with("\(sentence) probe succeeds").count == 1)
        isKeyGood = true
        try bench.pass(.minutes(6))
        #expect(stopped(bench, "reports") == 0)
        #expect(bench.logLines.with("a lane works again").count == 1)
        #expect(bench.appleStore.accepted.count == 1)
    }

    @Test func `shows each endpoint as stopped for as long as either circuit breaker stops it`()
        throws
    {
        let bench = ReportBench()
        let transaction = `Account tokens in the report worker`.transaction
        var isKeyGood = true
        bench.script = { call in
            guard isKeyGood else {
                return .status(401)
            }
            return call.externalPurchaseID == transaction ? .answered : .status(403)
        }
        bench.launch()
        bench.distinct(bench.id(1), .duplicate(of: bench.id(9)))
        try bench.pass(.minutes(3))
        #expect(stopped(bench, "reports") == 1)
        isKeyGood = false
        bench.requestAccountToken(`Account tokens in the report worker`.tokens[0])
        try bench.pass(.minutes(3))
        #expect(stopped(bench, "reports") == 1)
        #expect(stopped(bench, "account_tokens") == 1)
        isKeyGood = true
        try bench.pass(.minutes(6))
        #expect(stopped(bench, "reports") == 1)
        #expect(stopped(bench, "account_tokens") == 0)
        bench.instances[0]?.loop.abandon()
        #expect(lines(bench, "report_lane_stopped").isEmpty)
    }

    /// One whose records lie in that partition.
    private func token(in partition: Int32) throws -> TokenID {
        let bench = ReportBench()
        for number in 1...20 {
            bench.distinct(bench.id(number))
        }
        let topic = Topic.tokensDistinct.name(prefix: ReportBench.prefix)
        let key = bench.cluster.committedRecords(of: topic)
            .first { $0.partition == partition }?.key
        return TokenID(String(decoding: try #require(key), as: UTF8.self))
    }

    @Test func `shows no lane as stopped where nothing is left of it, whoever stopped it`() throws {
        let bench = ReportBench()
        var isKeyGood = false
        bench.script = { _ in isKeyGood ? .answered : .status(403) }
        bench.launch(0)
        let token = try token(in: 2)
        bench.distinct(token, .duplicate(of: bench.id(9)))
        try bench.pass(.minutes(1))
        #expect(try shown(bench).contains(#""state":"stopped""#))
        bench.launch(1)
        try bench.pass(.seconds(30))
        let topic = Topic.tokensDistinct.name(prefix: ReportBench.prefix)
        let moved = try #require(bench.instances[1]?.loop.assigned)
        try #require(moved.contains(TopicPartition(topic: topic, partition: 2)))
        #expect(try shown(bench, 1).contains(#""state":"stopped""#))
        #expect(try shown(bench, 0).contains(#""state":"open""#))
        isKeyGood = true
        try bench.pass(.minutes(6))
        #expect(bench.appleStore.accepted.count == 1)
        #expect(try !shown(bench, 0).contains(#""state":"stopped""#))
        #expect(try !shown(bench, 1).contains(#""state":"stopped""#))
        // The gauges are those of the replica that is left, which never heard of it.
        bench.crash(1)
        try bench.pass(.minutes(1))
        #expect(stopped(bench, "reports") == 0)
        // Nothing is forgotten: it goes on from there, with a probe.
        isKeyGood = false
        bench.distinct(bench.id(99), .duplicate(of: bench.id(9)))
        try bench.pass(.minutes(1))
        #expect(stopped(bench, "reports") == 1)
    }

    /// A duplicate that falls due then is not put off for it: it is the probe.
    @Test func `holds no duplicate back where a circuit breaker has nothing to stop`() throws {
        let bench = ReportBench()
        bench.policy.hold = .minutes(30)
        // The loop turns as a worker's does.
        bench.followsOrders = true
        var isKeyGood = false
        bench.script = { _ in isKeyGood ? .answered : .status(403) }
        bench.launch(0)
        bench.distinct(try token(in: 2), .duplicate(of: bench.id(9)))
        try bench.pass(.minutes(1))
        #expect(try shown(bench).contains(#""state":"stopped""#))
        bench.launch(1)
        try bench.pass(.seconds(30))
        isKeyGood = true
        try bench.pass(.minutes(6))
        bench.crash(1)
        bench.distinct(
            bench.id(99),
            .duplicate(of: bench.id(9)),
            expiration: ReportBench.start + .days(300)
        )
        try bench.pass(.minutes(90))
        #expect(bench.appleStore.statuses[bench.id(99).text] == ["DUPLICATE_TOKEN"])
    }

    @Test func `counts how long a lane is held, and hardly any of it at a rate set too high`()
        throws
    {
        let bench = ReportBench()
        bench.rate = 6
        let start = ReportBench.start
        var taken: [Int64: Int] = [:]
        bench.script = { call in
            let second = call.at.milliseconds / 1_000
            guard call.lane.appAppleID == 1, call.at >= start + .minutes(1) else {
                taken[second, default: 0] += 1
                // Half of what is configured.
                return taken[second, default: 0] > 3 ? .status(429) : .answered
            }
            return call.at < start + .minutes(31) ? .status(429) : .answered
        }
        bench.launch()
        for number in 1...200 {
            bench.distinct(bench.id(number), .duplicate(of: bench.id(9_999)))
        }
        func held() throws -> Double {
            let line = try #require(lines(bench, "report_lane_held_seconds").first)
            #expect(line.contains(#"{app="1",environment="production"}"#))
            return try #require(line.split(separator: " ").last.flatMap { Double($0) })
        }
        var longest = 0.0
        for _ in 0..<55 {
            try bench.pass(.seconds(1))
            longest = max(longest, try held())
        }
        #expect(longest > 0 && longest < 10, "\(longest)")
        #expect(lines(bench, "report_lane_changes_total").first?.hasSuffix(" 0") == false)
        try bench.pass(.seconds(5))
        for minute in 1...29 {
            try bench.pass(.minutes(1))
            #expect(try abs(held() - Double(minute * 60)) < 5)
        }
        try bench.pass(.minutes(3))
        #expect(try held() == 0)
    }

    @Test func `forgets everything with its last partition`() throws {
        let bench = ReportBench()
        bench.script = { _ in .silence }
        bench.launch()
        bench.distinct(bench.id(1), .duplicate(of: bench.id(9)))
        try bench.pass(.seconds(3))
        #expect(lines(bench, "report_in_flight") == ["tollway_report_in_flight 1"])
        bench.instances[0]?.loop.abandon()
        #expect(lines(bench, "report_in_flight") == ["tollway_report_in_flight 0"])
        #expect(lines(bench, "deadline_slack_seconds").isEmpty)
        #expect(lines(bench, "report_rate_limit_per_second").allSatisfy { $0.hasSuffix(" 0") })
    }

    @Test func `says that Apple is away, is ready all the same, and forgets it with an answer`()
        throws
    {
        let bench = ReportBench()
        bench.health.setStarted()
        bench.health.setReady()
        var isAway = true
        bench.script = { _ in isAway ? .notSent : .answered }
        bench.launch()
        bench.distinct(bench.id(1), .duplicate(of: bench.id(9)))
        try bench.pass(.minutes(2))
        #expect(bench.health.ready.isGood && bench.health.live.isGood)
        let sentence = "apple: fails for app 1 (production, reports) since 2026-01-10T00:00:00.000Z"
        #expect(bench.health.ready.lines.first == "ready: ok")
        #expect(bench.health.ready.lines.last?.hasPrefix("\(sentence): no_answer ×") == true)
        isAway = false
        try bench.pass(.minutes(6))
        #expect(bench.appleStore.accepted.count == 1)
        #expect(bench.health.ready.lines == ["ready: ok"])
    }

    @Test func `stands in the status as one JSON object, with the partitions and their lag`()
        throws
    {
        let bench = ReportBench()
        bench.launch()
        bench.distinct(bench.id(1), .duplicate(of: bench.id(9)))
        try bench.pass(.seconds(3))
        let instance = try #require(bench.instances[0])
        let board = StatusBoard()
        let view = WorkerView(
            WorkerView.Subject(
                worker: .report,
                instance: "report-\"0\"",
                group: "tollway.report",
                clusterID: "c",
                delivery: "exactly-once"
            ),
            board: board,
            metrics: bench.metrics,
            health: bench.health,
            now: ReportBench.start
        )
        view.assigned(instance.loop.assigned, now: ReportBench.start)
        let distinct = Topic.tokensDistinct.name(prefix: ReportBench.prefix)
        let partitions = (0..<3).map { number in
            let end =
                5
                + (instance.loop.done[
                    TopicPartition(topic: distinct, partition: Int32(number))
                ] ?? 0)
            return "\"\(number)\":{\"hi_offset\":\(end),\"ls_offset\":\(end - 1)}"
        }
        let statistics =
            "{\"topics\":{\"\(distinct)\":{\"partitions\":{\(partitions.joined(separator: ","))}}}}"
        view.look(
            at: instance.loop,
            stage: instance.stage,
            statistics: Array(statistics.utf8),
            producerCount: 1,
            now: bench.clock.now
        )
        let json = try #require(board.json)
        let status = try #require(
            try JSONSerialization.jsonObject(with: Data(json)) as? [String: Any]
        )
        #expect(status["worker"] as? String == "report")
        #expect(status["instance"] as? String == "report-\"0\"")
        #expect((status["lanes"] as? [Any])?.count == 1)
        #expect((status["transaction"] as? [String: Any])?["isUnderWay"] as? Bool == false)
        let shown = try #require(status["partitions"] as? [[String: Any]])
        #expect(shown.count == Worker.report.sources.count * 3)
        let behind = shown.filter { $0["topic"] as? String == distinct }
        #expect(behind.allSatisfy { $0["lagRecords"] as? Int == 5 }, "\(behind)")
        #expect(lines(bench, "consumer_lag_records").count == 3)
        #expect(lines(bench, "last_stable_offset_lag_records").allSatisfy { $0.hasSuffix(" 1") })
        view.assigned([], now: bench.clock.now)
        #expect(lines(bench, "consumer_lag_records").isEmpty)
        #expect(lines(bench, "useful_replicas") == ["tollway_useful_replicas{stage=\"report\"} 0"])
    }

    @Test func `is bounded by what Apple lets through`() {
        let queue = SendQueue(
            endpoint: .reports,
            lane: Lane(appAppleID: 1, environment: .production)
        )
        var view = LaneView()
        for _ in 0..<200 {
            view.answered(after: .seconds(2))
        }
        func bound(by rate: Double, inFlight count: Int = 0) {
            view.bound(rates: [queue: rate], flightCounts: [queue: count], flightCountMax: 256)
        }
        bound(by: 5_000, inFlight: 256)
        #expect(view.usefulReplicaBound == 1 && !view.isFull, "nothing waits")
        view.deadlines[queue] = ReportBench.start
        bound(by: 5, inFlight: 10)
        #expect(view.usefulReplicaBound == 1 && !view.isFull)
        bound(by: 1_000, inFlight: 256)
        #expect(view.usefulReplicaBound == 8 && view.isFull)
    }
}
