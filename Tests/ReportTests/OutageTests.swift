import Simulation
import Telemetry
import Testing
import TokenDomain
import TokenWire

@testable import report

/// Apple fails one app for many minutes: what a person sees of it, and how it ends.
@Suite struct `An outage of Apple` {
    /// A proxy answers in Apple's place.
    @Test func `is one too where it answers 200 and no report`() throws {
        let bench = ReportBench()
        bench.script = { $0.isSend ? .answerLost : .status(200) }
        bench.launch()
        bench.request(bench.id(1), .noLineItem)
        try bench.pass(.hours(1))
        // The wait grows: at most 60 seconds, half of it on average.
        let count = try #require(bench.instances[0]?.apple.calls.count)
        #expect(count < 250)
        #expect(bench.logLines.with("Apple fails every request of a lane").count == 1)
        #expect(try shown(bench).contains(#""because":"HTTP 200 without a report ×"#))
        bench.script = { _ in .answered }
        try bench.pass(.minutes(10))
        #expect(try bench.outcomes().map(\.outcome) == [.verified])
    }

    /// A PUT failed, and no look-up says what Apple has: the PUT goes again under its identifier.
    @Test func `leaves nothing in doubt where every look-up is answered 400 without a reason`()
        throws
    {
        let bench = ReportBench()
        var isFirst = true
        bench.script = { call in
            defer { isFirst = false }
            return isFirst ? .answerLost : call.isSend ? .answered : .status(400)
        }
        bench.launch()
        bench.request(bench.id(1), .noLineItem)
        bench.request(bench.id(2), .noLineItem)
        try bench.pass(.hours(1))
        // Apple has the first one, and says that its identifier is taken: for a day.
        #expect(try bench.outcomes().map(\.outcome) == [.accepted])
        try bench.pass(.hours(25))
        #expect(try Set(bench.outcomes().map(\.outcome)) == [.accepted, .rejected])
        let code = bench.deadLetters().first?.headers["tollway.dlq.code"]
        #expect(code == "report.unverifiable")
    }

    /// A firewall in Apple's place refuses everything: nothing of it is a report's fault.
    @Test(arguments: [406, 418, 422, 431, 499])
    func `stops the lane where something else answers for Apple`(status: Int) throws {
        let bench = ReportBench()
        var isAway = true
        bench.script = { _ in isAway ? .status(status) : .answered }
        bench.launch()
        for number in 1...20 {
            bench.request(bench.id(number), .noLineItem)
            bench.requestAccountToken(
                "00000000-0000-4000-8000-000000000000",
                transaction: "\(number)"
            )
        }
        try bench.pass(.hours(2))
        #expect(bench.deadLetters().isEmpty)
        #expect(value(bench, #"tollway_report_lane_stopped{app="1""#) == 1)
        isAway = false
        try bench.pass(.minutes(10))
        #expect(bench.appleStore.accepted.count == 20)
        #expect(bench.appleStore.accountTokens.count == 20)
    }

    /// New reports come in meanwhile: a 200 to a PUT is no sign of Apple either.
    @Test func `is one too where both requests are answered 200 and no report`() throws {
        let bench = ReportBench()
        bench.script = { _ in .status(200) }
        bench.launch()
        for number in 1...60 {
            bench.request(bench.id(number), .noLineItem)
            try bench.pass(.seconds(5))
        }
        #expect(bench.logLines.with("Apple fails every request of a lane").count == 1)
        #expect(value(bench, #"tollway_report_apple_failing_seconds{app="1""#) ?? 0 > 280)
        bench.script = { _ in .answered }
        try bench.pass(.minutes(10))
        #expect(bench.appleStore.accepted.count == 60)
        #expect(value(bench, #"tollway_report_apple_failing_seconds{app="1""#) == 0)
    }

    /// Apple answers account tokens with an empty body: a page is a proxy's, and nothing is set.
    @Test(arguments: [200, 203])
    func `is one too where account tokens are answered with a page`(status: Int) throws {
        let bench = ReportBench()
        bench.script = { _ in .page(status) }
        bench.launch()
        let token = "00000000-0000-4000-8000-000000000000"
        for number in 1...60 {
            bench.requestAccountToken(token, transaction: "\(number)")
            try bench.pass(.seconds(5))
        }
        #expect(try bench.accountTokenOutcomes().isEmpty)
        #expect(bench.logLines.with("Apple fails every request of a lane").count == 1)
        let reason = status == 200 ? "HTTP 200 with a page ×" : "HTTP \(status) ×"
        #expect(try shown(bench).contains(#""because":"\#(reason)"#))
        #expect(value(bench, #"tollway_report_apple_failing_seconds{app="1""#) ?? 0 > 280)
        bench.script = { _ in .answered }
        try bench.pass(.minutes(10))
        #expect(bench.appleStore.accountTokens.count == 60)
        let outcomes = try bench.accountTokenOutcomes().map(\.outcome)
        #expect(outcomes == Array(repeating: .accepted, count: 60))
        #expect(value(bench, #"tollway_report_apple_failing_seconds{app="1""#) == 0)
    }

    private static let slackOfApp1 = #"tollway_deadline_slack_seconds{app="1","#

    private func lines(_ bench: ReportBench, _ prefix: String) -> [String] {
        String(decoding: bench.metrics.render(), as: UTF8.self).split(separator: "\n")
            .filter { $0.hasPrefix(prefix) }.map(String.init)
    }

    private func value(_ bench: ReportBench, _ prefix: String) -> Double? {
        lines(bench, prefix).first.flatMap { Double($0.split(separator: " ").last ?? "") }
    }

    private func shown(_ bench: ReportBench) throws -> String {
        let stage = try #require(bench.instances[0]?.stage)
        var writer = JSONWriter()
        writer.beginObject()
        stage.show(&writer, now: bench.clock.now)
        writer.endObject()
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    /// 30 tokens of app 1 and some of app 2, due now, 12 hours before their deadline.
    private func bring(_ bench: ReportBench) {
        for number in 1...36 {
            let id = bench.id(number)
            let app: Int64 = number <= 30 ? 1 : 2
            let message = TokenDistinct(
                externalPurchaseID: id,
                appAppleID: app,
                bundleID: "com.example.\(app)",
                tokenType: nil,
                tokenCreationDate: ReportBench.start + .hours(12) + .days(-10),
                tokenExpirationDate: nil,
                customer: nil,
                receivedAt: bench.clock.now,
                role: .primary
            )
            bench.append(.tokensDistinct, id) { message.write(to: &$0) }
        }
    }

    private func outage() -> (bench: ReportBench, isDown: Switch) {
        let bench = ReportBench()
        bench.policy.hold = .seconds(1)
        bench.health.setStarted()
        bench.health.setReady()
        let isDown = Switch()
        return (bench, isDown)
    }

    private final class Switch {
        var isOn = true
    }

    @Test(arguments: [true, false])
    func `shows slack and all that is due at any second, says so once, and once that it is over`(
        lookUpsFailToo: Bool
    ) throws {
        let (bench, isDown) = outage()
        bench.script = { call in
            isDown.isOn && call.lane.appAppleID == 1 && (call.isSend || lookUpsFailToo)
                ? .status(500) : .answered
        }
        bench.launch()
        bring(bench)
        try bench.pass(.seconds(15))
        for minute in 0..<88 {
            try bench.pass(.seconds(15))
            let slack = try #require(value(bench, Self.slackOfApp1), "\(minute)")
            #expect(slack > 41_000 && slack < 43_200, "12 hours at the start")
            #expect(value(bench, #"tollway_reports_due{app="1""#) == 30)
        }
        #expect(bench.appleStore.accepted.count == 6, "the other app works")
        #expect(value(bench, #"tollway_report_apple_failing_seconds{app="1""#) ?? 0 > 1_300)
        #expect(value(bench, #"tollway_report_apple_failing_seconds{app="2""#) == 0)
        #expect(lines(bench, #"tollway_deadline_slack_seconds{app="2""#).isEmpty)
        #expect(value(bench, #"tollway_reports_due{app="2""#) ?? 0 == 0)
        #expect(try shown(bench).contains(#""state":"open","because":"HTTP 500 ×"#))
        #expect(bench.logLines.with("Apple fails every request of a lane").count == 1)
        #expect(bench.health.ready.isGood && bench.health.live.isGood)
        // A look-up that finds nothing is no refusal of what we sent.
        #expect(!lines(bench, "tollway_report_requests_total").contains { $0.contains(#""400""#) })
        #expect(
            lines(bench, "tollway_report_requests_total").contains {
                $0.contains(#"app="1",environment="production",method="PUT",status="500",code="""#)
            }
        )
        #expect(
            lines(bench, "tollway_report_requests_total").contains {
                $0.contains(#"method="GET",status="not_held",code="""#)
            } == !lookUpsFailToo
        )
        #expect(
            !lines(bench, #"tollway_report_request_seconds_count{app="1""#).isEmpty
        )
        isDown.isOn = false
        try bench.pass(.minutes(20))
        #expect(bench.appleStore.accepted.count == 36)
        #expect(lines(bench, Self.slackOfApp1).isEmpty)
        #expect(value(bench, #"tollway_reports_due{app="1""#) == 0)
        #expect(value(bench, #"tollway_report_apple_failing_seconds{app="1""#) == 0)
        #expect(try !shown(bench).contains("because"))
        #expect(bench.health.ready.lines == ["ready: ok"])
        let ended = bench.logLines.with("Apple answers a lane again")
        #expect(ended.count == 1)
        #expect(ended.first?.contains(#""failures":"#) == true)
        #expect(bench.logLines.with("Apple fails every request of a lane").count == 1)
    }

    @Test func `is seen by the instance that comes after a crash, and by the one that takes over`()
        throws
    {
        let (bench, isDown) = outage()
        bench.script = { _ in isDown.isOn ? .status(503) : .answered }
        bench.launch()
        bring(bench)
        try bench.pass(.minutes(10))
        bench.crash()
        bench.metrics.gauge(
            "deadline_slack_seconds",
            help: slackHelp(bench),
            labels: ["app", "environment"]
        ).remove("1", "production")
        bench.launch(0)
        try bench.pass(.seconds(3))
        #expect(value(bench, Self.slackOfApp1) != nil)
        #expect(value(bench, #"tollway_reports_due{app="1""#) == 30)
        bench.crash()
        bench.launch(1)
        try bench.pass(.seconds(20))
        #expect(value(bench, Self.slackOfApp1) != nil)
        #expect(value(bench, #"tollway_reports_due{app="1""#) == 30)
        isDown.isOn = false
        try bench.pass(.minutes(20))
        #expect(bench.appleStore.accepted.count == 36)
        #expect(try bench.outcomes().count == 36)
    }

    private func slackHelp(_ bench: ReportBench) -> String {
        bench.metrics.descriptions.first { $0.name == "deadline_slack_seconds" }?.help ?? ""
    }

    @Test func `ends in a wait before it is logged where all fails for a moment only`() throws {
        let (bench, isDown) = outage()
        bench.script = { _ in isDown.isOn ? .status(500) : .answered }
        bench.launch()
        bring(bench)
        try bench.pass(.seconds(2))
        #expect(try shown(bench).contains("HTTP 500 ×"))
        isDown.isOn = false
        try bench.pass(.minutes(2))
        #expect(bench.appleStore.accepted.count == 36)
        #expect(bench.logLines.with("Apple fails every request of a lane").isEmpty)
        #expect(bench.logLines.with("Apple answers a lane again").isEmpty)
    }

    /// Its app is taken out of the configuration meanwhile, and Apple is asked nothing.
    @Test func `is over where its lane is stopped: Apple is not blamed for that`() throws {
        let (bench, isDown) = outage()
        bench.script = { _ in isDown.isOn ? .status(503) : .noKey }
        bench.launch()
        bring(bench)
        try bench.pass(.minutes(1))
        #expect(value(bench, #"tollway_report_apple_failing_seconds{app="1""#) ?? 0 > 40)
        #expect(bench.health.ready.lines.contains { $0.hasPrefix("apple: ") })
        isDown.isOn = false
        try bench.pass(.minutes(6))
        #expect(try shown(bench).contains(#""because":"no_key""#))
        #expect(value(bench, #"tollway_report_lane_stopped{app="1""#) == 1)
        #expect(value(bench, #"tollway_report_apple_failing_seconds{app="1""#) == 0)
        #expect(!bench.health.ready.lines.contains { $0.hasPrefix("apple: ") })
        #expect(bench.logLines.with("Apple answers a lane again").isEmpty)
    }

    /// One request is answered as a wrong address is: of a stopped lane only the probes are sent.
    @Test func `goes on where its lane is stopped in the middle of it`() throws {
        let (bench, isRefused) = outage()
        isRefused.isOn = false
        bench.script = { call in
            guard isRefused.isOn, call.lane.appAppleID == 1 else {
                return .status(503)
            }
            isRefused.isOn = false
            return .status(403)
        }
        bench.launch()
        bring(bench)
        try bench.pass(.minutes(1))
        isRefused.isOn = true
        try bench.pass(.minutes(10))
        #expect(!isRefused.isOn)
        #expect(value(bench, #"tollway_report_lane_stopped{app="1""#) == 1)
        #expect(value(bench, #"tollway_report_apple_failing_seconds{app="1""#) ?? 0 > 500)
        #expect(bench.health.ready.lines.contains { $0.hasPrefix("apple: ") })
    }

    @Test func `is named by what happens on the way, too`() throws {
        let (bench, isDown) = outage()
        bench.script = { _ in isDown.isOn ? .notSent : .answered }
        bench.failure = TransportFailure(.tlsUntrusted, sentence: "self-signed certificate")
        bench.launch()
        bring(bench)
        try bench.pass(.minutes(5))
        #expect(try shown(bench).contains(#""because":"tls_untrusted ×"#))
        #expect(
            lines(bench, #"tollway_report_requests_total{app="1""#).allSatisfy {
                $0.contains(#"method="PUT",status="tls_untrusted",code="""#)
            }
        )
        let named = bench.logLines.with(
            "a certificate in Apple's place does not verify: nothing is sent there"
        )
        #expect(named.count == 1)
        #expect(named.first?.contains("self-signed certificate") == true)
    }
}

@Suite struct `A spell of failures` {
    private static let start = ReportBench.start

    private func outage() -> FailureSpell {
        var spell = FailureSpell()
        for second in 0..<10 {
            let now = Self.start + .seconds(Int64(second))
            #expect(spell.failed("HTTP 500", sentAt: now, now: now) == nil)
        }
        let now = Self.start + FailureSpell.spanMin
        #expect(spell.failed("timeout", sentAt: Self.start, now: now) == .began)
        return spell
    }

    @Test func `counts by kind, the most frequent first`() {
        #expect(outage().reason == "HTTP 500 ×10, timeout ×1")
        #expect(FailureSpell().reason == nil)
    }

    @Test func `is no outage below the limits`() {
        var few = FailureSpell()
        for _ in 1..<FailureSpell.failureCountMin {
            #expect(few.failed("reset", sentAt: Self.start, now: Self.start + .hours(1)) == nil)
        }
        #expect(few.lasted(now: Self.start + .hours(1)) == Milliseconds(0))
        var short = FailureSpell()
        for _ in 0..<100 {
            let now = Self.start + FailureSpell.spanMin + Milliseconds(-1)
            #expect(short.failed("reset", sentAt: Self.start, now: now) == nil)
        }
        #expect(short.answered(now: Self.start + .seconds(9)) == nil)
        #expect(short == FailureSpell())
    }

    @Test func `goes on where a good answer is followed by a failure`() {
        var spell = outage()
        let good = Self.start + .minutes(1)
        #expect(spell.answered(now: good) == nil)
        #expect(
            spell.look(isDue: true, now: good + FailureSpell.quietSpan + Milliseconds(-1)) == nil
        )
        #expect(spell.failed("HTTP 500", sentAt: good, now: good + .seconds(5)) == nil)
        #expect(spell.look(isDue: true, now: good + .hours(1)) == nil)
        #expect(spell.lasted(now: good) == .minutes(1))
    }

    @Test func `ends with many good answers, or with one and quiet`() {
        var spell = outage()
        let good = Self.start + .minutes(1)
        for _ in 1..<FailureSpell.goodCountMin {
            #expect(spell.answered(now: good) == nil)
        }
        let ended = FailureSpell.Change.ended(failureCount: 11, lasted: .minutes(1))
        #expect(spell.answered(now: good + .seconds(1)) == ended)
        #expect(spell == FailureSpell())
        spell = outage()
        _ = spell.answered(now: good)
        #expect(spell.look(isDue: false, now: good + FailureSpell.quietSpan) == ended)
    }

    @Test func `is forgotten where nothing is due and nobody asks`() {
        var spell = outage()
        #expect(spell.look(isDue: true, now: Self.start + .hours(1)) == nil)
        #expect(spell.isOutage)
        #expect(spell.look(isDue: false, now: Self.start + .hours(1)) == nil)
        #expect(spell == FailureSpell())
    }
}
