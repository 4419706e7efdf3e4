import Simulation
import StageRuntime
import Telemetry
import Testing
import TokenDomain
import TokenWire

@testable import report

@Suite struct `What the report worker shows` {
    private func lines(_ bench: ReportBench, _ name: String) -> [String] {
        String(decoding: bench.metrics.render(), as: UTF8.self).split(separator: "\n")
            .filter { $0.hasPrefix("tollway_\(name)") }.map(String.init)
    }

    private func shown(_ bench: ReportBench) throws -> String {
        let stage = try #require(bench.instances[0]?.stage)
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
        let sentence = "apple: no answer since 2026-01-10T00:00:00.000Z"
        #expect(bench.health.ready.lines == ["ready: ok", sentence])
        isAway = false
        try bench.pass(.minutes(6))
        #expect(bench.appleStore.accepted.count == 1)
        #expect(bench.health.ready.lines == ["ready: ok"])
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
        view.bound(rates: [queue: 5_000], flightCountMax: 256)
        #expect(view.usefulReplicaBound == 1, "nothing waits")
        view.deadlines[queue] = ReportBench.start
        view.bound(rates: [queue: 5], flightCountMax: 256)
        #expect(view.usefulReplicaBound == 1)
        view.bound(rates: [queue: 1_000], flightCountMax: 256)
        #expect(view.usefulReplicaBound == 8)
    }
}
