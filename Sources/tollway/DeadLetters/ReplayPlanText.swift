internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// A plan for a person, and for a program.
struct ReplayPlanText {
    let order: DeadLetterOrder
    let plan: ReplayPlan

    /// Seconds that it takes at the given rate; nil for as fast as Kafka takes them.
    var seconds: Double? {
        order.pace.map { Double(plan.records.count) / Double($0) }
    }

    func text(format: OutputFormat) -> String {
        switch format {
        case .table: table
        case .json, .ndjson: object + "\n"
        }
    }

    private var table: String {
        var table = TextTable(columns: [
            .init(title: "STAGE"), .init(title: "REASON"), .init(title: "KIND"),
            .init(title: "MATCHED", isNumber: true),
            .init(title: order.action == .replay ? "GO BACK" : "GO", isNumber: true),
        ])
        table.rows = plan.groups.groups.enumerated()
            .sorted { ($1.element.count, $0.element.code) < ($0.element.count, $1.element.code) }
            .map { index, group in
                [
                    group.stage.rawValue, group.reason, String(group.fingerprint.prefix(8)),
                    "\(group.count)", "\(plan.goingCounts[index] ?? 0)",
                ]
            }
        var text = table.text
        for (topic, count) in plan.targets.sorted(by: { $0.value > $1.value }) {
            text += "\n\(count) to \(topic.name(prefix: order.prefix))"
        }
        if !plan.targets.isEmpty {
            text += "\n"
        }
        for (why, skipped) in plan.skipped.sorted(by: { $0.value.count > $1.value.count }) {
            text += "\n\(skipped.count) skipped (\(why.rawValue), as \(skipped.examples[0])):\n"
            text += "  \(why.sentence)\n"
        }
        if plan.leftCount > 0 {
            text += "\n\(plan.leftCount) more match and wait: --max\n"
        }
        return text + sampleTexts + headers
    }

    private var headers: String {
        guard order.action == .replay, !plan.records.isEmpty else {
            return ""
        }
        var text =
            "\nheaders: own ones kept, \(DeadLetterShipment.droppedHeaders) dropped, and set:\n"
        for name in DeadLetterShipment.setHeaders {
            text += "  \(name)\n"
        }
        if let seconds {
            text += "time: \(Self.time(seconds)) at \(order.pace ?? 0) a second\n"
        }
        return text
    }

    private var sampleTexts: String {
        plan.samples.map { sample in
            "\n\(sample.position)\n  before \(Self.masked(sample.before))\n"
                + "  after  \(Self.masked(sample.after))\n"
        }
        .joined()
    }

    private static func masked(_ value: [UInt8]) -> String {
        DeadLetterText(isRevealed: false).value(value[...])
    }

    static func time(_ seconds: Double) -> String {
        switch seconds {
        case ..<120: "\(Int(seconds.rounded(.up))) s"
        case ..<7_200: "\(Int((seconds / 60).rounded(.up))) min"
        default: "\(Int((seconds / 3_600).rounded(.up))) h"
        }
    }

    var object: String {
        JSONLines.object([
            ("action", JSONText.quoted(order.action.rawValue)),
            ("filter", JSONText.quoted(order.plan?.filter ?? order.filter.text)),
            ("matched", "\(plan.matchedCount)"),
            ("go", "\(plan.records.count)"),
            ("skipped", "\(plan.skippedCount)"),
            ("beyondMax", "\(plan.leftCount)"),
            ("otherNameCount", "\(plan.otherNameCount)"),
            ("secondsAtRate", seconds.map { "\($0)" } ?? "null"),
            ("groups", JSONLines.list(groups)),
            ("targets", JSONLines.list(targets)),
            ("skipReasons", JSONLines.list(skipReasons)),
            ("patchSamples", JSONLines.list(samples)),
        ])
    }

    var samples: [String] {
        plan.samples.map { sample in
            JSONLines.object([
                ("position", JSONText.quoted(sample.position.description)),
                ("before", JSONText.quoted(Self.masked(sample.before))),
                ("after", JSONText.quoted(Self.masked(sample.after))),
            ])
        }
    }

    var groups: [String] {
        plan.groups.groups.enumerated().map { index, group in
            JSONLines.object([
                ("stage", JSONText.quoted(group.stage.rawValue)),
                ("code", JSONText.quoted(group.code)),
                ("fingerprint", JSONText.quoted(group.fingerprint)),
                ("matched", "\(group.count)"), ("go", "\(plan.goingCounts[index] ?? 0)"),
            ])
        }
    }

    var targets: [String] {
        plan.targets.sorted { $0.value > $1.value }.map { topic, count in
            JSONLines.object([
                ("topic", JSONText.quoted(topic.name(prefix: order.prefix))),
                ("count", "\(count)"),
            ])
        }
    }

    var skipReasons: [String] {
        plan.skipped.sorted { $0.key.rawValue < $1.key.rawValue }.map { why, skipped in
            let examples = skipped.examples.map(\.description)
            return JSONLines.object([
                ("why", JSONText.quoted(why.rawValue)),
                ("sentence", JSONText.quoted(why.sentence)), ("count", "\(skipped.count)"),
                ("examples", JSONLines.texts(examples)),
            ])
        }
    }
}
