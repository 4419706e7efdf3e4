import Foundation
import StageRuntime
import Telemetry
import Testing

@testable import purchases

@Suite struct `The apps of purchases` {
    private static func series(of metrics: Metrics) -> [Substring] {
        String(decoding: metrics.render(), as: UTF8.self).split(separator: "\n")
            .filter { $0.hasPrefix("tollway_purchases_total{") }
    }

    /// Two alerts say that not one sale was reported: of a series that begins with its first sale
    /// Prometheus sees no increase.
    @Test func `begin at zero what alerts count, at the start and when they are read again`() throws
    {
        let file = FileManager.default.temporaryDirectory
            .appendingPathComponent("apps-\(UUID().uuidString).json")
        defer { try? FileManager.default.removeItem(at: file) }
        try Data(#"{"apps":[{"appAppleId":1,"bundleId":"a"}]}"#.utf8).write(to: file)
        let metrics = Metrics()
        let log = Log(worker: "purchases", format: .json, now: { 0 }, write: { _ in })
        let stage = PurchasesStage(
            policy: PurchasesStage.Policy(),
            apps: try AppDirectory(path: file.path, log: log),
            rates: PurchasesBench.Rates(),
            topicPrefix: "",
            metrics: metrics,
            log: log
        )
        func expected(_ app: Int) -> [Substring] {
            ["production", "sandbox"].flatMap { environment -> [Substring] in
                let lane = #"app="\#(app)",environment="\#(environment)""#
                return [
                    "tollway_purchases_total{\(lane),outcome=\"not_owed\",reason=\"no_active_token\"} 0",
                    "tollway_purchases_total{\(lane),outcome=\"reported\",reason=\"accepted\"} 0",
                ]
            }
        }
        #expect(Self.series(of: metrics).sorted() == expected(1))
        let apps = #"{"apps":[{"appAppleId":1,"bundleId":"a"},{"appAppleId":2,"bundleId":"b"}]}"#
        try Data(apps.utf8).write(to: file)
        #expect(stage.reload() == nil)
        #expect(Self.series(of: metrics).sorted() == expected(1) + expected(2))
    }

    @Test func `are read again on each signal, and the log says every time what came of it`() throws
    {
        let file = FileManager.default.temporaryDirectory
            .appendingPathComponent("apps-\(UUID().uuidString).json")
        defer { try? FileManager.default.removeItem(at: file) }
        func write(_ text: String) throws {
            try Data(text.utf8).write(to: file)
        }
        let lines = LogLines()
        try write(#"{"apps":[{"appAppleId":1,"bundleId":"a"}]}"#)
        let apps = try AppDirectory(path: file.path, log: lines.log())
        try write(#"{"apps":[{"appAppleId":1,"bundleId":"b"}]}"#)
        apps.reload()
        #expect(apps.bundleID(of: 1) == "b")
        for text in ["{", "[]"] {
            try write(text)
            #expect(apps.reload()?.setting == "TOLLWAY_APPS_FILE")
            #expect(apps.bundleID(of: 1) == "b")
        }
        let written = lines.all
        let bad =
            #""level":"error","worker":"purchases","message":"a settings file cannot be read "#
            + #"again; what was read before stays in force","because":"TOLLWAY_APPS_FILE"#
        let words = [#""message":"the settings files were read again","apps":1}"#, bad, bad]
        try #require(written.count == words.count, "\(written)")
        for (line, word) in zip(written, words) {
            #expect(line.contains(word))
        }
    }
}
