import Foundation
import Testing
import TokenDomain

@testable import tollway

@Suite struct `The console's page` {
    private static func text(_ path: String) throws -> String {
        let asset = try #require(ConsoleAssets.asset(path))
        return String(decoding: asset.bytes, as: UTF8.self)
    }

    @Test(arguments: ["/", "/pipeline", "/dead-letters/decode/3/1234", "/token/ID", "/account"])
    func `is the same for every view`(path: String) throws {
        #expect(try Self.text(path) == ConsolePage.html)
    }

    @Test(arguments: ["/nothing", "/api/session", "/console.js/x", "/../etc/passwd", "//"])
    func `is nothing else`(path: String) {
        let asset = ConsoleAssets.asset(path)
        #expect(asset == nil || asset?.bytes == Array(ConsolePage.html.utf8))
        #expect(path == "//" || asset == nil)
    }

    @Test func `makes no markup and no code of data`() throws {
        let script = try Self.text("/console.js")
        let forbidden = [
            "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
            "new Function", "setTimeout('", "DOMParser", "createContextualFragment", "srcdoc",
        ]
        for word in forbidden {
            #expect(!script.contains(word), "the script has \(word)")
        }
    }

    @Test func `loads nothing from elsewhere`() throws {
        for path in ["/", "/console.js", "/console.css"] {
            let text = try Self.text(path)
            #expect(!text.contains("http://") && !text.contains("https://"), "\(path)")
            #expect(!text.contains("url("), "\(path)")
        }
        #expect(!ConsolePage.html.contains("<style") && !ConsolePage.html.contains(" style="))
        #expect(!ConsolePage.html.contains("<script>") && !ConsolePage.html.contains(" on"))
        for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"] {
            #expect(ConsoleAssets.policy.contains(part))
        }
        #expect(!ConsoleAssets.policy.contains("unsafe"))
    }

    @Test func `names sections that the runbook has`() throws {
        var snapshot = TopSnapshot()
        snapshot.at = 1_000_000
        #expect(TopAdvice.all(snapshot).map(\.section) == ["Kafka is away"])
        snapshot.clusterID = "c"
        snapshot.troubles = ["nobody runs decode"]
        snapshot.deadLetterTotal = 1
        snapshot.stages = [
            .init(worker: .decode, topic: "t", end: 0, committed: 0, lag: nil),
            .init(
                worker: .dedupe,
                topic: "t",
                end: 9,
                committed: 0,
                lag: 9,
                inPerSecond: 2,
                donePerSecond: 1,
                lagSeconds: 61,
                restoringCount: 1
            ),
        ]
        snapshot.instances = [.init(address: "a:1", worker: "report", isReady: false)]
        for state in ["open", "held", "paused", "stopped"] {
            var lane = TopSnapshot.Lane(
                app: 1,
                environment: "production",
                endpoint: "reports",
                state: state,
                because: "b"
            )
            lane.nextDeadline = state == "open" ? 999_999 : 1_000_001
            snapshot.lanes.append(lane)
        }
        let advice = TopAdvice.all(snapshot)
        #expect(advice.count == 14)
        #expect(advice.first?.severity == .error && advice.last?.severity == .note)
        let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../../Deploy/RUNBOOK.md")
        let runbook = try String(contentsOf: file, encoding: .utf8)
        for section in Set(advice.map(\.section)) {
            #expect(runbook.contains("\n## \(section)\n"), "RUNBOOK.md has no \(section)")
        }
    }

    @Test func `says about a code what the runbook says`() throws {
        let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../../Deploy/RUNBOOK.md")
        let runbook = try String(contentsOf: file, encoding: .utf8).filter { $0 != "`" }
        for row in DeadLetterAdvice.rows where row.codes != ["report.identifier_conflict"] {
            let codes = row.codes.joined(separator: ", ")
            #expect(
                runbook.contains("\n| \(codes) | \(row.means) | \(row.todo) |\n"),
                "RUNBOOK.md says something else of \(codes)"
            )
        }
        #expect(Set(DeadLetterAdvice.rows.flatMap(\.codes)).count > 30)
        // A worker reads a topic's limit once, at its start.
        for row in DeadLetterAdvice.rows where row.todo.contains("max.message.bytes") {
            #expect(row.todo.contains("; restart "), "\(row.codes)")
        }
    }

    /// Without an admin port of the worker, as on Kubernetes, where only report's are named.
    @Test(arguments: [(5_000, 0, true), (5_000, 5_000, true), (5_000, 9_000, false), (0, 0, true)])
    func `sees by Kafka alone that a stage does not catch up`(
        incoming: Double,
        done: Double,
        isBehind: Bool
    ) {
        var snapshot = TopSnapshot()
        snapshot.clusterID = "c"
        snapshot.stages = [
            .init(
                worker: .decode,
                topic: "t",
                end: 4_000_000,
                committed: 0,
                lag: 4_000_000,
                partitionCount: 12,
                inPerSecond: incoming,
                donePerSecond: done
            )
        ]
        #expect(TopAdvice.all(snapshot).map(\.section) == (isBehind ? ["Lag grows"] : []))
        snapshot.stages[0].memberCount = 0
        #expect(TopAdvice.all(snapshot).isEmpty)
        snapshot.stages[0].memberCount = 3
        snapshot.stages[0].lag = 50
        #expect(TopAdvice.all(snapshot).isEmpty)
    }

    @Test func `sees whether a lane makes its deadlines`() {
        let day: Int64 = 86_400_000
        var lane = TopSnapshot.Lane(
            app: 1,
            environment: "sandbox",
            endpoint: "reports",
            state: "open"
        )
        lane.allowedPerSecond = 1
        lane.days = [
            0: .init(deadlineCount: 43_200, fallingCount: 0),
            day: .init(deadlineCount: 86_401, fallingCount: 7),
            5 * day: .init(deadlineCount: 0, fallingCount: 9),
        ]
        let forecast = DeadlineForecast(lane, at: day / 2).days
        #expect(forecast.map(\.makesIt) == [true, false, true])
        #expect(forecast.map(\.fallingCount) == [0, 7, 9])
        // What is past is late, whatever the rate; what is stopped makes nothing.
        #expect(DeadlineForecast(lane, at: day).days.first?.makesIt == false)
        lane.state = "stopped"
        #expect(DeadlineForecast(lane, at: 0).days.allSatisfy { $0.makesIt == false })
        lane.days = [day: .init(deadlineCount: 0, fallingCount: 3)]
        #expect(DeadlineForecast(lane, at: 0).days.map(\.makesIt) == [nil])
    }

    @Test(arguments: [
        ("open", "needs", "raise reportsPerSecond"), ("held", "needs", "raise reportsPerSecond"),
        ("stopped", "it is stopped, and sends nothing", "open the lane"),
        ("paused", "it is paused, and sends nothing", "open the lane"),
    ])
    func `says of a lane that makes no deadlines what helps`(
        state: String,
        what: String,
        todo: String
    ) throws {
        var snapshot = TopSnapshot()
        snapshot.clusterID = "c"
        var lane = TopSnapshot.Lane(
            app: 1,
            environment: "sandbox",
            endpoint: "reports",
            state: state
        )
        lane.allowedPerSecond = 5
        lane.days = [0: .init(deadlineCount: 1_000_000, fallingCount: 0)]
        snapshot.lanes = [lane]
        let advice = TopAdvice.all(snapshot)
        let slow = try #require(advice.first { $0.what.contains("does not make the deadlines") })
        #expect(slow.what.contains(what) && slow.todo.hasPrefix(todo), "\(slow)")
        #expect(slow.what.contains("may send 5.0/s") == (what == "needs"))
        let resume = advice.first { $0.todo.contains("lanes resume") }
        #expect((resume?.todo.contains("--yes") ?? false) == (state == "paused"))
    }

    @Test func `counts Apple's answers over all instances`() {
        let page = """
            # TYPE tollway_report_requests_total counter
            tollway_report_requests_total{app="7",environment="sandbox",method="PUT",status="200",code=""} 3
            tollway_report_requests_total{app="7",environment="sandbox",method="GET",status="200",code=""} 1
            tollway_report_requests_total{app="7",environment="sandbox",method="PUT",status="400",code="1"} 2
            tollway_report_requests_total_of_another{app="7"} 5
            """
        var snapshot = TopSnapshot()
        AppleAnswers.add(Array(page.utf8), of: "a:1", to: &snapshot)
        AppleAnswers.add(Array(page.utf8), of: "b:1", to: &snapshot)
        let counts = snapshot.answers.map { "\($0.app) \($0.status) \($0.code) \($0.count)" }
        #expect(counts == ["7 200  8", "7 400 1 4"])
    }

    /// As many as many apps have: to look through all of them for each took minutes.
    @Test func `compares thousands of Apple's answers at once`() {
        let count = 20_000
        let page = (0..<count).map {
            #"tollway_report_requests_total{app="7",status="400",code="\#($0)"} \#($0)"#
        }
        .joined(separator: "\n")
        var snapshot = TopSnapshot()
        let duration = ContinuousClock().measure {
            for address in ["a:1", "b:1"] {
                AppleAnswers.add(Array(page.utf8), of: address, to: &snapshot)
            }
            let earlier = snapshot
            snapshot.compare(with: earlier)
        }
        #expect(snapshot.answers.count == count)
        #expect(snapshot.answers.last?.counts == ["a:1": 19_999, "b:1": 19_999])
        #expect(duration < .seconds(20), "\(duration)")
    }
}
