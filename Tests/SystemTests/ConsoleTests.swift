import Foundation
import Glibc
import LocalKafka
import Testing

@testable import tollway

extension `Pipelines on the usual ports` {
    /// The console in a real browser, on a real Kafka, with the built programs.
    @Suite(.serialized, .enabled(if: Chromium.isThere, Chromium.skipped))
    struct `The console in a browser` {
        private static let sizes = [(width: 400, height: 800), (width: 1_280, height: 800)]
        static let isLive = "document.getElementById('state').textContent === 'live'"
        static let isRead = "!document.querySelector('[aria-busy]')"
        /// What a stranger may put into a token's text.
        private static let attack = #"\"><script>alert(1)</script><img src=x onerror=alert(2)>"#

        @Test(
            .enabled(
                if: LocalCluster.homeFromEnvironment != nil,
                "skipped: KAFKA_HOME names no Kafka"
            ),
            .timeLimit(.minutes(20))
        )
        func `shows every view, and does what was planned and confirmed`() throws {
            let kafka = try #require(LocalCluster.homeFromEnvironment)
            let folder = FileManager.default.temporaryDirectory
                .appendingPathComponent("tollway-console-test-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
            defer { Self.remove(folder) }
            let up = try RunningUp(
                ["--dir", folder.appendingPathComponent("data").path],
                settings: ["KAFKA_HOME": kafka, "USER": "somebody"]
                    .merging(Self.java) { $1 }
            )
            defer { up.end() }
            let page = try up.page()
            let addresses = try #require(page["addresses"] as? [String: String])
            let console = try #require(addresses["console"])
            let door = try #require(addresses["door"])
            let lines = try #require(page["lines"] as? [String])
            for line in lines where line.hasPrefix("curl ") {
                try up.shell(line)
            }
            for number in 1...4 {
                let body = #"{"token":"\#(Self.attack)\#(number)"}"#
                try up.shell("curl -H 'Content-Type: application/json' -d '\(body)' \(door)")
            }
            let trace = try #require(lines.last)
            try up.await("the report") {
                try up.shell(trace).contains("Apple accepted LINE_ITEM")
            }
            let id = try #require(trace.split(separator: " ").last.map(String.init))

            let order = lines.compactMap { $0.firstMatch(of: /order-[0-9]+/)?.output }.first
            try views(console, id, String(try #require(order)), folder)
            try deadLetters(console, folder)
            try acts(console, folder)
            let admin = try #require(
                addresses["Apple's side"]?.split(separator: ":").last.map(String.init)
            )
            try lanes(console, folder) {
                try up.send(try up.token(simulator: admin), to: door)
            }
            let token = try up.token(simulator: admin)
            try appleAway(console, simulator: try up.child(running: "sim"), folder) {
                try up.send(token, to: door)
            }
            try topicsAway(addresses["Kafka"] ?? "", folder)
            let audit = try up.shell(
                trace.replacingOccurrences(of: "token trace \(id)", with: "audit ls -o ndjson")
            )
            #expect(audit.contains("somebody by the console"))
            #expect(audit.contains("tried in a browser") && audit.contains("given up"))
            #expect(audit.contains("lanes.pause") && audit.contains("lanes.resume"))
        }

        /// Each at two sizes: nothing beside the window, no fault, nothing from elsewhere.
        private func views(
            _ console: String,
            _ id: String,
            _ order: String,
            _ folder: URL
        ) throws {
            let views = [
                ("/pipeline", "document.querySelectorAll('.stage').length > 5"),
                ("/apple", "document.body.innerText.includes('HTTP 200')"),
                ("/dead-letters", "document.querySelectorAll('tbody tr').length > 0"),
                ("/dead-letters?stage=decode", "document.querySelectorAll('tbody tr').length > 3"),
                ("/token/\(id)", "document.querySelectorAll('.line li').length > 3"),
                ("/token", "document.querySelector('[name=id]') !== null"),
                ("/purchase/\(order)", "document.querySelectorAll('.line li').length > 0"),
                ("/account", "document.body.innerText.includes('Every account closes.')"),
                (
                    "/account?month=\(Self.thisMonth)",
                    "document.querySelectorAll('.stage').length > 0"
                ),
                ("/audit", "document.querySelector('h1') !== null"),
            ]
            for (path, isThere) in views {
                for size in Self.sizes {
                    let seen = try Chromium.run(
                        [
                            [
                                "do": "open", "url": console + path, "width": size.width,
                                "height": size.height, "dark": size.width == 400,
                            ],
                            [
                                "do": "wait", "seconds": 120,
                                "js": "\(isThere) && \(Self.isLive) && \(Self.isRead)",
                            ],
                            ["do": "eval", "js": "document.documentElement.scrollWidth"],
                            ["do": "eval", "js": "document.querySelectorAll('h1').length"],
                            ["do": "eval", "js": "document.querySelector('[aria-current]').href"],
                        ],
                        folder: folder
                    )
                    let place = "\(path) at \(size.width)"
                    #expect(seen.errors.isEmpty, "\(place): \(seen.errors)")
                    // The browser's own pictures of its controls are data.
                    let elsewhere = seen.requests.filter {
                        !$0.hasPrefix(console) && !$0.hasPrefix("data:")
                    }
                    #expect(elsewhere.isEmpty, "\(place): \(elsewhere)")
                    #expect(seen.values[2] as? Int ?? .max <= size.width, "\(place) is too wide")
                    #expect(seen.values[3] as? Int == 1, "\(place)")
                    let view = path.split { "/?".contains($0) }.first ?? ""
                    #expect(seen.values[4] as? String == "\(console)/\(view)", "\(place)")
                }
            }
        }

        /// A dead letter with its bytes, which are a stranger's; and the page by keyboard alone.
        private func deadLetters(_ console: String, _ folder: URL) throws {
            let seen = try Chromium.run(
                [
                    ["do": "open", "url": "\(console)/dead-letters"],
                    ["do": "wait", "js": "document.querySelector('tbody a') && \(Self.isRead)"],
                    ["do": "eval", "js": "document.querySelector('tbody a').focus()"],
                    ["do": "key", "key": "Enter"],
                    ["do": "wait", "js": "document.querySelectorAll('tbody tr').length >= 4"],
                    ["do": "eval", "js": "document.activeElement.id"],
                    ["do": "eval", "js": "document.querySelector('tbody a').focus()"],
                    ["do": "key", "key": "Enter"],
                    ["do": "wait", "js": "document.querySelector('pre') && \(Self.isRead)"],
                    ["do": "eval", "js": "document.querySelector('pre').textContent"],
                    ["do": "click", "selector": "[data-act=reveal]"],
                    [
                        "do": "wait",
                        "js": "document.querySelector('pre')?.textContent.includes('onerror')",
                    ],
                    [
                        "do": "eval",
                        "js": "document.querySelectorAll('main img, main script').length",
                    ],
                ],
                folder: folder
            )
            #expect(seen.values[5] as? String == "main")
            #expect((seen.values[9] as? String)?.contains("onerror") == false)
            #expect(seen.values[12] as? Int == 0)
            #expect(seen.dialogs.isEmpty && seen.errors.isEmpty, "\(seen.errors)")
            #expect(seen.requests.allSatisfy { $0.hasPrefix(console) })
        }

        private static func plan(_ action: String, _ fields: [String: String]) -> [[String: Any]] {
            let choose =
                "document.querySelector('[name=action]').value = '\(action)'"
            return [["do": "eval", "js": choose]]
                + fields.sorted { $0.key < $1.key }.map {
                    ["do": "type", "selector": "[name=\($0.key)]", "text": $0.value]
                }
                + [
                    ["do": "click", "selector": "[data-submit=plan] button"],
                    ["do": "wait", "js": "document.querySelector('[data-submit=confirm]')"],
                    ["do": "eval", "js": "document.getElementById('plan').innerText"],
                ]
        }

        private static func confirm(_ why: String) -> [[String: Any]] {
            [
                ["do": "type", "selector": "[name=why]", "text": why],
                ["do": "click", "selector": "[name=sure]"],
                ["do": "click", "selector": "[data-submit=confirm] button"],
                [
                    "do": "wait", "seconds": 90,
                    "js": "app.acts.some(act => act.why === '\(why)' && act.exit !== undefined)",
                ],
                ["do": "eval", "js": "JSON.stringify(app.acts.at(-1))"],
            ]
        }

        private func acts(_ console: String, _ folder: URL) throws {
            let open: [[String: Any]] = [
                ["do": "open", "url": "\(console)/dead-letters?stage=decode"],
                [
                    "do": "wait",
                    "js": "document.querySelector('[data-submit=plan]') && \(Self.isRead)",
                ],
            ]
            // Back they go, one first: they fail again, so the others stay.
            let replay = try Chromium.run(
                open + Self.plan("replay", ["canary": "1", "max": "2"])
                    + [
                        [
                            "do": "eval",
                            "js": "call('/api/acts', { plan: app.plan.id, go: 1, why: 'w' })"
                                + ".then(() => 'done', fault => fault.status)",
                        ],
                        // Without a reason and the tick the browser sends nothing.
                        ["do": "click", "selector": "[data-submit=confirm] button"],
                        ["do": "eval", "js": "app.acts.length"],
                    ] + Self.confirm("tried in a browser"),
                folder: folder
            )
            let shown = replay.values.compactMap { $0 as? String }.first { $0.contains("matched") }
            #expect(shown?.contains("matched\n4") == true && shown?.contains("go back\n2") == true)
            #expect(replay.values.contains { $0 as? Int == 409 })
            #expect(replay.values.contains { $0 as? Int == 0 })
            let canary = try act(replay)
            #expect(canary["exit"] as? Int == 5)
            #expect((canary["data"] as? [String: Any])?["sent"] as? Int == 1)

            let discard = try Chromium.run(
                open + Self.plan("discard", [:]) + Self.confirm("given up")
                    + [
                        ["do": "open", "url": "\(console)/dead-letters"],
                        [
                            "do": "wait",
                            "js": "\(Self.isRead) && \(Self.isLive)"
                                + " && !document.body.innerText.includes('decode.not_base64url')",
                        ],
                    ],
                folder: folder
            )
            let last = try act(discard)
            #expect(last["exit"] as? Int == 0)
            #expect(last["by"] as? String == "somebody")
            #expect((last["data"] as? [String: Any])?["sent"] as? Int == 4)
        }

        private func act(_ seen: Chromium.Seen) throws -> [String: Any] {
            #expect(seen.dialogs.isEmpty)
            let text = try #require(
                seen.values.compactMap { $0 as? String }.last { $0.contains("\"act\"") }
            )
            let object = try JSONSerialization.jsonObject(with: Data(text.utf8))
            return try #require(object as? [String: Any])
        }

        // MARK: - Lanes

        /// A lane is paused and resumed by its card; while it is paused what is due shows by day.
        private func lanes(
            _ console: String,
            _ folder: URL,
            _ sendToken: () throws -> Void
        ) throws {
            func order(_ action: String, _ why: String) -> [[String: Any]] {
                [
                    ["do": "wait", "js": "document.querySelector('[data-action=\(action)]')"],
                    ["do": "click", "selector": "[data-action=\(action)]"],
                    ["do": "wait", "js": "document.querySelector('[data-submit=confirm]')"],
                    ["do": "eval", "js": "document.getElementById('plan').innerText"],
                    // Without a reason and the tick the browser sends nothing.
                    ["do": "click", "selector": "[data-submit=confirm] button"],
                    ["do": "eval", "js": "app.acts.filter(act => act.why === '\(why)').length"],
                ] + Self.confirm(why)
            }
            let paused = try Chromium.run(
                [["do": "open", "url": "\(console)/apple"]] + order("pause", "Apple asked us to")
                    + [["do": "wait", "js": "document.querySelector('[data-action=resume]')"]],
                folder: folder
            )
            let pause = try act(paused)
            #expect(pause["exit"] as? Int == 0 && pause["by"] as? String == "somebody")
            #expect(paused.values.contains { $0 as? Int == 0 })
            let shown = paused.values.compactMap { $0 as? String }
            #expect(shown.contains { $0.contains("Nothing of it is sent to Apple any more") })

            // What comes in meanwhile is due, and nothing of it is sent.
            try sendToken()
            let days = try Chromium.run(
                [
                    ["do": "open", "url": "\(console)/apple", "width": 400],
                    [
                        "do": "wait", "seconds": 120,
                        "js": "document.querySelector('[aria-label=\"Reports by day\"]')"
                            + "?.innerText.includes('the lane is paused')",
                    ],
                    ["do": "eval", "js": "document.documentElement.scrollWidth"],
                ],
                folder: folder
            )
            #expect(days.values[2] as? Int ?? .max <= 400)
            let resumed = try Chromium.run(
                [["do": "open", "url": "\(console)/apple"]] + order("resume", "Apple is well again")
                    + [["do": "wait", "js": "document.querySelector('[data-action=pause]')"]],
                folder: folder
            )
            #expect(try act(resumed)["exit"] as? Int == 0)
            #expect(paused.errors.isEmpty && resumed.errors.isEmpty)
        }

        /// Apple's side stands still: the page says which lane's requests fail, and that they are well
        /// again.
        private func appleAway(
            _ console: String,
            simulator: Int32,
            _ folder: URL,
            _ sendToken: () throws -> Void
        ) throws {
            #expect(Glibc.kill(simulator, SIGSTOP) == 0)
            defer { _ = Glibc.kill(simulator, SIGCONT) }
            try sendToken()
            let fails = "document.body.innerText.includes('Apple fails the requests of')"
            let seen = try Chromium.run(
                [
                    ["do": "open", "url": "\(console)/apple"],
                    ["do": "wait", "seconds": 180, "js": fails],
                    ["do": "eval", "js": "document.querySelector('.advice').innerText"],
                    ["do": "signal", "pid": Int(simulator), "signal": "CONT"],
                    ["do": "wait", "seconds": 180, "js": "!\(fails)"],
                ],
                folder: folder
            )
            let advice = seen.values[2] as? String
            #expect(advice?.contains("RUNBOOK.md") == true, "\(advice ?? "")")
        }

        /// Another pipeline's console: none of its topics is there, and each view says so.
        private func topicsAway(_ kafka: String, _ folder: URL) throws {
            let servers = String(kafka.prefix { $0 != "," })
            let console = try RunningConsole(
                kafka: servers,
                settings: ["TOLLWAY_TOPIC_PREFIX": "nobody."]
            )
            defer { console.end() }
            try console.expect(
                [
                    ("/pipeline", "the topic is not there"),
                    (
                        "/dead-letters?stage=decode",
                        "Kafka has no dead-letter topics under the prefix"
                    ),
                    ("/token/none", "Kafka shows no topic under the prefix"),
                    ("/purchase/none", "Kafka shows no topic under the prefix"),
                    ("/account", "Kafka shows no topic nobody.tokens.received.v1"),
                    ("/audit", "Kafka shows no topic nobody.audit.v1"),
                ],
                folder: folder
            )
        }

        /// That of the tokens which the test sends, in UTC.
        private static var thisMonth: String {
            String(Date().formatted(.iso8601).prefix(7))
        }

        static var java: [String: String] {
            ProcessInfo.processInfo.environment.filter { $0.key == "JAVA_HOME" || $0.key == "PATH" }
        }

        static func remove(_ folder: URL) {
            do {
                try FileManager.default.removeItem(at: folder)
            } catch {
                // It lies in the temporary folder, where somebody else cleaned up first.
            }
        }
    }
}
