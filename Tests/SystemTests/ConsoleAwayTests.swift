import Foundation
import Glibc
import LocalKafka
import Testing

@testable import tollway

/// A `tollway console` of a test's own.
final class RunningConsole {
    private let process = Process()
    let url: String

    var identifier: Int32 { process.processIdentifier }

    init(kafka: String, settings: [String: String] = [:]) throws {
        let port = try FreePorts.take(count: 1)[0]
        process.executableURL = try #require(Bundle.main.executableURL)
            .deletingLastPathComponent().appendingPathComponent("tollway")
        process.arguments = ["console", "--listen", "127.0.0.1:\(port)"]
        process.environment = [
            "PATH": "/usr/bin:/bin", "TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": kafka,
        ].merging(settings) { $1 }
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        url = DemoCluster.firstLine(of: output.fileHandleForReading)
        #expect(url == "http://127.0.0.1:\(port)")
    }

    /// Opens views, each until it says something.
    func expect(_ views: [(path: String, text: String)], folder: URL) throws {
        for view in views {
            let seen = try Chromium.run(
                [
                    ["do": "open", "url": url + view.path, "width": 400],
                    [
                        "do": "wait", "seconds": 60,
                        "js": "document.body.innerText.includes('\(view.text)')",
                    ],
                    ["do": "eval", "js": "document.documentElement.scrollWidth"],
                ],
                folder: folder
            )
            #expect(seen.values[2] as? Int ?? .max <= 400, "\(view.path) is too wide")
            #expect(seen.errors.isEmpty, "\(view.path): \(seen.errors)")
        }
    }

    func end() {
        guard process.isRunning else {
            return
        }
        _ = Glibc.kill(identifier, SIGCONT)
        process.terminate()
        process.waitUntilExit()
    }
}

/// What the page says when what it shows is away.
@Suite(.serialized, .enabled(if: Chromium.isThere, Chromium.skipped))
struct `A console whose Kafka is away` {
    private struct Place {
        let folder: URL
        let console: RunningConsole
        let kafka: String

        init() throws {
            folder = FileManager.default.temporaryDirectory
                .appendingPathComponent("tollway-console-test-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
            kafka = "127.0.0.1:\(try FreePorts.take(count: 1)[0])"
            console = try RunningConsole(kafka: kafka)
        }

        func end() {
            console.end()
            do {
                try FileManager.default.removeItem(at: folder)
            } catch {
                // It lies in the temporary folder, where somebody else cleaned up first.
            }
        }
    }

    private static let banner = "document.getElementById('banner').textContent"
    private static let state = "document.getElementById('state').textContent"

    @Test(.timeLimit(.minutes(5))) func `says so in every view`() throws {
        let place = try Place()
        defer { place.end() }
        try refusals(place.console.url)
        let seen = try Chromium.run(
            [
                ["do": "open", "url": "\(place.console.url)/dead-letters"],
                ["do": "wait", "seconds": 60, "js": "\(Self.banner).includes('Kafka')"],
                ["do": "eval", "js": Self.banner],
                ["do": "open", "url": "\(place.console.url)/pipeline"],
                ["do": "wait", "js": "document.querySelector('.advice .error')"],
            ],
            folder: place.folder
        )
        #expect((seen.values[2] as? String)?.contains(place.kafka) == true)
        let away = "no answer from Kafka at \(place.kafka)"
        try place.console.expect(
            [
                ("/pipeline", "Kafka was not asked"), ("/apple", "Kafka does not answer at"),
                ("/dead-letters", "How many are open is not known"),
                ("/dead-letters?stage=decode", away), ("/dead-letters/decode/0/1", away),
                ("/token/none", away), ("/purchase/none", away), ("/account", away),
                ("/audit", away),
            ],
            folder: place.folder
        )
    }

    @Test(.timeLimit(.minutes(5)))
    func `says that it is stale while the console stands still, and once it has ended`() throws {
        let place = try Place()
        defer { place.end() }
        let pid = Int(place.console.identifier)
        let seen = try Chromium.run(
            [
                ["do": "open", "url": "\(place.console.url)/pipeline"],
                ["do": "wait", "seconds": 60, "js": "\(Self.state) === 'live'"],
                ["do": "signal", "pid": pid, "signal": "STOP"],
                ["do": "wait", "seconds": 40, "js": "\(Self.state).startsWith('stale')"],
                ["do": "wait", "seconds": 40, "js": "\(Self.banner).includes('does not answer:')"],
                // Other views can be gone to all the same.
                ["do": "eval", "js": "document.querySelector('nav a[href=\"/apple\"]').click()"],
                ["do": "eval", "js": "document.querySelector('h1').textContent"],
                ["do": "signal", "pid": pid, "signal": "CONT"],
                ["do": "wait", "seconds": 60, "js": "\(Self.state) === 'live'"],
                ["do": "eval", "js": Self.banner],
                ["do": "signal", "pid": pid, "signal": "KILL"],
                ["do": "wait", "seconds": 30, "js": "\(Self.banner).includes('does not answer:')"],
                ["do": "wait", "seconds": 30, "js": "\(Self.state).startsWith('stale')"],
            ],
            folder: place.folder
        )
        #expect(seen.values[6] as? String == "Apple")
        let banner = seen.values[9] as? String
        #expect(banner?.contains("does not answer:") == false, "\(banner ?? "")")
    }

    /// What no page of its own would send.
    private func refusals(_ url: String) throws {
        let http = try DemoHTTP(stop: StopSignal())
        let own = ("Origin", url)
        let rows: [(method: String, path: String, headers: [(String, String)], status: Int)] = [
            ("GET", "/api/session", [], 200),
            ("GET", "/api/session", [("Host", "evil.example")], 421),
            ("GET", "/pipeline", [("Host", "evil.example")], 421),
            ("GET", "/api/session", [("Origin", "http://evil.example")], 403),
            ("GET", "/api/session", [("Sec-Fetch-Site", "cross-site")], 403),
            ("POST", "/api/read", [], 403), ("POST", "/api/read", [own], 403),
            ("POST", "/api/acts", [own, ("X-Tollway-Session", "guessed")], 403),
            ("GET", "/api/nothing", [], 404), ("POST", "/pipeline", [own], 405),
        ]
        for row in rows {
            let body = row.method == "POST" ? Array(#"{"ask":"groups"}"#.utf8) : []
            let answer = try http.call(
                row.method,
                url + row.path,
                headers: row.headers,
                body: body
            )
            #expect(answer?.status == row.status, "\(row)")
        }
    }
}
