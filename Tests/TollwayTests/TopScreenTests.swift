import Foundation
import Testing
import TokenDomain

@testable import tollway

@Suite struct `The screen of tollway top` {
    private static func snapshot(
        lanes: Int = 3,
        deadLetters: Int = 4,
        instances: Int = 2
    ) -> TopSnapshot {
        var snapshot = TopSnapshot()
        snapshot.at = 1_800_000_000_000
        snapshot.servers = "127.0.0.1:9092"
        for worker in Worker.allCases {
            for source in worker.sources {
                snapshot.stages.append(
                    .init(
                        worker: worker,
                        topic: source.name(prefix: ""),
                        end: 100,
                        committed: 90,
                        lag: 10
                    )
                )
            }
        }
        for number in 0..<lanes {
            var lane = TopSnapshot.Lane(
                app: 1_000_000_000 + Int64(number),
                environment: number % 2 == 0 ? "production" : "sandbox",
                endpoint: "reports",
                state: "stopped"
            )
            lane.because = "misdirected"
            lane.until = snapshot.at + 12_000
            lane.nextDeadline = snapshot.at - 5_000
            snapshot.lanes.append(lane)
        }
        for number in 0..<deadLetters {
            snapshot.deadLetters.append(
                .init(
                    stage: "decode",
                    code: "decode.code_\(number)",
                    count: 1_000_000 - number,
                    newest: snapshot.at
                )
            )
        }
        snapshot.deadLetterTotal = snapshot.deadLetters.reduce(0) { $0 + Int64($1.count) }
        snapshot.areDeadLettersAll = true
        snapshot.isReportedAll = true
        for number in 0..<instances {
            snapshot.instances.append(.init(address: "10.0.0.\(number):9404"))
        }
        return snapshot
    }

    @Test(arguments: [(80, 24), (120, 40), (40, 10), (80, 3), (20, 1)], [0, 1, 3, 40])
    func `fits, whatever there is to show`(size: (width: Int, height: Int), count: Int) {
        let snapshot = Self.snapshot(lanes: count, deadLetters: count, instances: count)
        let lines = TopScreen(snapshot: snapshot, width: size.width, height: size.height).lines
        #expect(lines.count == size.height)
        #expect(lines.allSatisfy { $0.count <= size.width }, "\(lines)")
    }

    @Test func `shows stages, lanes and dead letters at 80 by 24, and says what it leaves out`() {
        let snapshot = Self.snapshot(lanes: 9, deadLetters: 9, instances: 9)
        let lines = TopScreen(snapshot: snapshot, width: 80, height: 24).lines
        for word in ["STAGE ", "LANE ", "DEAD LETTERS", "more", "q or Ctrl-C"] {
            #expect(lines.contains { $0.contains(word) }, "\(word)")
        }
        #expect(lines.contains { $0.contains("purchases.received.v1 +3") })
        #expect(lines.contains { $0.contains("stopped 12s") && $0.contains("-5s  mis") })
    }

    @Test func `lets nobody steer the terminal`() {
        var snapshot = Self.snapshot()
        snapshot.deadLetters[0].code = "a\u{1b}[2Jb\nc"
        snapshot.troubles = ["\u{1b}]0;x\u{7}"]
        let screen = TopScreen(snapshot: snapshot, width: nil, height: nil).lines.joined()
        #expect(!screen.unicodeScalars.contains { $0.value < 0x20 || $0.value == 0x7f })
    }

    @Test func `takes rates from two looks`() {
        var earlier = Self.snapshot()
        earlier.instances[0].statusAt = 5_000
        earlier.lanes[0].startedCounts = ["10.0.0.0:9404": 10, "10.0.0.1:9404": 900]
        earlier.lanes[1].startedCounts = ["10.0.0.0:9404": 4]
        var now = earlier
        // Kafka was asked later the second time, and the instances sooner.
        now.at += 9_000
        now.stages[0].measuredAt = 2_000
        now.stages[0].end += 50
        now.stages[0].committed += 30
        now.instances[0].statusAt = 6_000
        // The second instance did not answer the look before.
        now.instances[1].statusAt = 6_000
        now.lanes[0].startedCounts = ["10.0.0.0:9404": 17, "10.0.0.1:9404": 1_000]
        // A worker that was started again counts from nothing.
        now.lanes[1].startedCounts = ["10.0.0.0:9404": 0]
        now.lanes[2].startedCounts = ["10.0.0.1:9404": 500_000]
        now.compare(with: earlier)
        #expect(now.stages[0].inPerSecond == 25)
        #expect(now.stages[0].donePerSecond == 15)
        #expect(now.stages[1].inPerSecond == nil)
        #expect(now.lanes.map(\.startedPerSecond) == [7, 0, nil])
    }

    @Test func `takes no rate of answers from an instance that missed the look before`() {
        func look(_ at: Int64, _ counts: [String: Int64?]) -> TopSnapshot {
            var snapshot = TopSnapshot()
            for (address, count) in counts {
                var instance = TopSnapshot.Instance(address: address)
                instance.metricsAt = count == nil ? nil : at
                snapshot.instances.append(instance)
            }
            snapshot.answers = [
                .init(
                    app: 1,
                    environment: "sandbox",
                    status: "200",
                    code: "",
                    counts: counts.compactMapValues { $0 }
                )
            ]
            return snapshot
        }
        for (then, rate) in [
            (["a": nil, "b": nil], nil), (["a": 500_000, "b": nil], 5.0),
            (["a": 500_000, "b": 499_000], 505), ([:], nil),
        ] as [([String: Int64?], Double?)] {
            var now = look(3_000, ["a": 500_010, "b": 500_000])
            now.compare(with: look(1_000, then))
            #expect(now.answers[0].perSecond == rate, "\(then)")
        }
        // A kind of answer that an instance did not have before.
        var earlier = look(1_000, ["a": 1])
        earlier.answers = []
        var now = look(3_000, ["a": 6])
        now.compare(with: earlier)
        #expect(now.answers[0].perSecond == 3)
    }

    @Test(arguments: [
        (0, "0s"), (119, "119s"), (120, "2m"), (7_199, "119m"), (7_200, "2h0m"),
        (172_800, "2d0h"), (-61, "-61s"), (863_999, "9d23h"),
    ])
    func `tells spans shortly`(seconds: Int, text: String) {
        #expect(TopScreen.span(Double(seconds)) == text)
    }

    @Test(arguments: [
        (0, "0"), (0.25, "0.3"), (9.96, "10"), (512, "512"), (9_999, "9999"), (12_340, "12.3k"),
        (250_000, "250k"), (4_100_000, "4.1M"),
    ])
    func `tells rates shortly`(rate: Double, text: String) {
        #expect(TopScreen.rate(rate) == text)
    }

    @Test func `adds up what the instances of a lane do`() throws {
        var snapshot = Self.snapshot(lanes: 0, instances: 0)
        for (number, state) in ["open", "held"].enumerated() {
            let status = """
                {"worker":"report","instance":"\(number)","isReady":true,"usefulReplicas":2,
                "partitions":[{"topic":"x.tokens.distinct.v1","lagMilliseconds":\(number * 1500)}],
                "lanes":[{"appAppleId":1,"environment":"sandbox","endpoint":"reports",
                "state":"\(state)","until":5,"milliRequestsPerSecond":2500,"startedCount":10,
                "inFlight":1,"nextDeadline":\(100 - number)}]}
                """
            let object = try JSONSerialization.jsonObject(with: Data(status.utf8))
            AdminPorts.add(object as? [String: Any] ?? [:], "h:\(number)", to: &snapshot)
        }
        let lane = try #require(snapshot.lanes.first)
        #expect(snapshot.lanes.count == 1)
        #expect(lane.state == "held" && lane.allowedPerSecond == 5)
        #expect(lane.startedCounts == ["h:0": 10, "h:1": 10])
        #expect(lane.inFlight == 2 && lane.nextDeadline == 99)
        let stage = snapshot.stages.first { $0.topic == "tokens.distinct.v1" }
        #expect(stage?.lagSeconds == 1.5)
        #expect(snapshot.instances.map(\.partitionCount) == [1, 1])
    }

    /// Whoever answers at the port that was named: no number of it ends the command.
    @Test(arguments: ["9223372036854775807", "-9223372036854775808", "0"])
    func `takes any number of an admin port`(number: String) throws {
        var snapshot = Self.snapshot(lanes: 0, instances: 0)
        for address in ["a:1", "a:2"] {
            let status = """
                {"worker":"report","lanes":[{"appAppleId":1,"environment":"production",
                "endpoint":"reports","state":"paused","since":\(number),"until":\(number),
                "startedCount":\(number),"inFlight":\(number),"due":\(number),
                "nextDeadline":\(number),"days":[{"startsAt":\(number),"deadlines":\(number),
                "falling":\(number)},{"startsAt":0,"deadlines":\(number)}]}]}
                """
            let object = try JSONSerialization.jsonObject(with: Data(status.utf8))
            AdminPorts.add(object as? [String: Any] ?? [:], address, to: &snapshot)
            for count in ["NaN", "+Inf", "1e19", "9e18"] {
                let line = #"tollway_report_requests_total{app="7",status="200"} \#(count)"#
                AppleAnswers.add(Array(line.utf8), of: address, to: &snapshot)
            }
        }
        #expect(snapshot.answers.map(\.count) == [.max])
        #expect(!TopScreen(snapshot: snapshot, width: 80, height: 24).lines.isEmpty)
        #expect(!snapshot.json.isEmpty)
    }

    @Test func `gives a program rates below one a second as well`() {
        var snapshot = Self.snapshot(lanes: 1, instances: 0)
        snapshot.lanes[0].allowedPerSecond = 0.02778
        snapshot.lanes[0].startedPerSecond = 7.26
        #expect(snapshot.json.contains(#""allowedPerSecond":0.028,"#))
        #expect(snapshot.json.contains(#""startedPerSecond":7.3,"#))
    }

    /// What they are allowed, owe and hold is then less than it is.
    @Test(arguments: [(2, 3), (3, 3), (2, nil), (0, 3)] as [(Int, Int?)])
    func `says that lanes are those of some instances of report`(asked: Int, members: Int?) {
        var snapshot = Self.snapshot(lanes: 1, instances: 0)
        snapshot.clusterID = "c"
        var stage = TopSnapshot.Stage(worker: .report, topic: "t", end: 0, committed: 0)
        (stage.partitionCount, stage.memberCount) = (12, members)
        snapshot.stages = [stage]
        snapshot.instances = (0..<3).map { index in
            var instance = TopSnapshot.Instance(address: "report-\(index)")
            instance.worker = index < asked ? "report" : "dedupe"
            return instance
        }
        let notes = TopAdvice.all(snapshot).map(\.what).filter { $0.contains("the lanes are") }
        let sentence = "the lanes are those of 2 of 3 instances of report"
        #expect(notes == (asked == 2 && members == 3 ? [sentence] : []))
    }

    @Test func `shows a lane as paused where one instance has it so, and by whom`() throws {
        var snapshot = Self.snapshot(lanes: 0, instances: 0)
        for state in [
            #""state":"paused","because":"paused by ann@host: \#(String(repeating: "x", count: 80))"#
                + #" since 2026-01-01T00:00:00.000Z","since":\#(snapshot.at - 720_000)"#,
            #""state":"stopped","because":"misdirected","until":5"#,
        ] {
            let status = """
                {"worker":"report","lanes":[{"appAppleId":1,"environment":"production",
                "endpoint":"reports",\(state),"milliConfiguredPerSecond":5000,"due":3}]}
                """
            let object = try JSONSerialization.jsonObject(with: Data(status.utf8))
            AdminPorts.add(object as? [String: Any] ?? [:], "h:1", to: &snapshot)
        }
        let lane = try #require(snapshot.lanes.first)
        #expect(snapshot.lanes.count == 1 && lane.state == "paused" && lane.due == 6)
        #expect(lane.configuredPerSecond == 5)
        let screen = TopScreen(snapshot: snapshot, width: nil, height: nil).lines
        #expect(
            screen.contains {
                $0.contains("paused 12m") && $0.hasSuffix("since 2026-01-01T00:00:00.000Z")
            }
        )
    }

    /// While Kafka is away nobody knows its name, and the prefix alone decides.
    @Test(
        arguments: [
            (#"{"worker":"report","kafka":{"group":"t.report","clusterId":"c"}}"#, "c", true),
            (#"{"worker":"report","kafka":{"group":"other.report","clusterId":"c"}}"#, "c", false),
            (#"{"worker":"report","kafka":{"group":"t.report","clusterId":"d"}}"#, "c", false),
            (#"{"worker":"ingest"}"#, "c", true), (#"{"worker":"decode"}"#, "c", false),
            ("{}", "c", false),
            (#"{"worker":"report","kafka":{"group":"t.report","clusterId":"c"}}"#, nil, true),
            (#"{"worker":"report","kafka":{"group":"t.report"}}"#, nil, true),
            (#"{"worker":"report","kafka":{"group":"other.report","clusterId":"c"}}"#, nil, false),
            (#"{"worker":"ingest"}"#, nil, true), (#"{"worker":"decode"}"#, nil, false),
        ] as [(String, String?, Bool)]
    )
    func `takes from ports that nobody named only what is of this pipeline`(
        status: String,
        clusterID: String?,
        isTaken: Bool
    ) throws {
        var snapshot = Self.snapshot()
        snapshot.prefix = "t."
        snapshot.clusterID = clusterID
        let object = try JSONSerialization.jsonObject(with: Data(status.utf8)) as? [String: Any]
        #expect(AdminPorts.isOfPipeline(object, snapshot) == isTaken)
    }

    @Test func `is one snapshot without a terminal, and exit 6 without Kafka`() throws {
        let away = ["TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"]
        let run = try TollwayProcess.run(
            ["top", "--interval", "500ms", "-o", "json"],
            environment: away
        )
        #expect(run.exitCode == 6)
        #expect((try run.object()["troubles"] as? [String])?.isEmpty == false)
        let bad = try TollwayProcess.run(["top", "--admin", "nonsense"], environment: away)
        #expect(bad.exitCode == 2)
    }
}
