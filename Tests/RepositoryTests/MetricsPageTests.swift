import Foundation
import Kafka
import Telemetry
import Testing
import TokenDomain

@testable import StageRuntime
@testable import ingest
@testable import notifications
@testable import purchases
@testable import report

@Suite struct `The page of metrics` {
    /// Everything that some program of ours registers; a new set of metrics is added here.
    private var descriptions: [MetricDescription] {
        let metrics = Metrics()
        ProcessMetrics.register(in: metrics, worker: "decode", health: Health())
        _ = WorkerTelemetry(
            worker: .decode,
            sources: ["in"],
            log: Log(worker: "decode", format: .json, write: { _ in }),
            metrics: metrics,
            health: Health(),
            view: WorkerView(
                WorkerView.Subject(
                    worker: .decode,
                    instance: "",
                    group: "",
                    clusterID: "",
                    delivery: ""
                ),
                board: StatusBoard(),
                metrics: metrics,
                health: Health(),
                now: Timestamp(milliseconds: 0)
            )
        )
        _ = IngestMeasures(metrics, topics: ["a", "b", "c"])
        _ = ReportMetrics(metrics)
        _ = KeyMetrics(metrics)
        _ = GapWatch.counter(in: metrics)
        _ = PurchasesMetrics(metrics)
        return metrics.descriptions
    }

    private var openLabels: String {
        descriptions.compactMap { metric in
            metric.openLabel.map { "`\($0)` of `\(metric.fullName)`" }
        }.joined(separator: ", ")
    }

    private var page: String {
        var page = """
            # Metrics

            What `/metrics` on the admin port shows, made from the programs' own registry by
            `Tests/RepositoryTests/MetricsPageTests.swift`; run it with `UPDATE_METRICS_PAGE=1` to write
            this page anew. Units are base units, and the name says which.

            The label \(openLabels) has values from outside: the first \(Metrics.openValueCountMax) in a process have
            series of their own, and what comes after is counted under `\(Metrics.overflow)`, with its other labels as they
            are. No other label is ever folded: a family has room for 64 series of each of \(AppsFile.appCountMax) apps.

            | name | kind | labels | meaning |
            | --- | --- | --- | --- |

            """
        for metric in descriptions {
            let labels = metric.labels.map { "`\($0)`" }.joined(separator: " ")
            page +=
                "| `\(metric.fullName)` | \(metric.kind.rawValue) | \(labels) | \(metric.help) |\n"
        }
        return page
    }

    @Test func `is what the programs register`() throws {
        let file = SourceTree.root.appendingPathComponent("Protocols/metrics.md")
        if ProcessInfo.processInfo.environment["UPDATE_METRICS_PAGE"] == "1" {
            try Data(page.utf8).write(to: file)
        }
        let written = try String(contentsOf: file, encoding: .utf8)
        #expect(written == page, "run the tests with UPDATE_METRICS_PAGE=1 and commit the page")
    }

    @Test func `has room for every app`() {
        #expect(Metrics.seriesCountMax == 64 * AppsFile.appCountMax)
    }

    @Test func `names what people expect of names`() {
        for metric in descriptions {
            #expect(metric.name.allSatisfy { $0.isLowercase || $0 == "_" || $0.isNumber })
            #expect((metric.kind == .counter) == metric.name.hasSuffix("_total"), "\(metric.name)")
            #expect(metric.help.hasSuffix(".") && metric.help.count > 10, "\(metric.name)")
            for unit in ["milliseconds", "_ms", "minutes", "kilobytes", "percent"] {
                #expect(!metric.name.contains(unit), "\(metric.name) is in base units")
            }
        }
    }
}
