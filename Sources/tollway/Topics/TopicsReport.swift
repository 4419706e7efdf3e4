internal import Kafka
internal import StageRuntime
internal import Telemetry

/// The plan of `tollway topics`, for a person and for a program.
enum TopicsReport {
    enum Action: String {
        case create, change, keep, refuse
    }

    static func action(_ review: TopicReview) -> Action {
        if !review.refusals.isEmpty {
            .refuse
        } else if review.present == nil {
            .create
        } else {
            review.differences.isEmpty ? .keep : .change
        }
    }

    static func text(_ reviews: [TopicReview], format: OutputFormat) -> String {
        switch format {
        case .table:
            var table = TextTable(columns: [
                .init(title: "TOPIC"), .init(title: "PARTITIONS", isNumber: true),
                .init(title: "REPLICAS", isNumber: true), .init(title: "ACTION"),
                .init(title: "WHAT"),
            ])
            table.rows = reviews.map(row)
            return table.text
        case .json, .ndjson:
            return JSONLines.text(reviews.map(object), list: "topics", format: format)
        }
    }

    static func summary(_ reviews: [TopicReview]) -> String {
        func count(_ action: Action) -> Int {
            reviews.count { self.action($0) == action }
        }
        return "\(count(.create)) to create, \(count(.change)) to change, \(count(.refuse))"
            + " refused, \(count(.keep)) as they must be"
    }

    private static func row(_ review: TopicReview) -> [String] {
        let what =
            switch action(review) {
            case .refuse: review.refusals.map(\.text).joined(separator: "; ")
            case .keep: "-"
            case .create:
                review.plan.configuration.sorted { $0.key < $1.key }
                    .map { "\($0.key)=\($0.value)" }
                    .joined(separator: " ")
            case .change:
                review.differences.map { difference in
                    "\(difference.setting.name)=\(difference.present ?? "?")"
                        + " to \(difference.setting.constraint.text)"
                }
                .joined(separator: ", ")
            }
        return [
            review.name, "\(review.present?.partitionCount ?? review.plan.partitionCount)",
            replicas(review).map(String.init) ?? "-", action(review).rawValue, what,
        ]
    }

    private static func replicas(_ review: TopicReview) -> Int? {
        let factor = review.present?.replicationFactor ?? review.plan.replicationFactor
        return factor < 0 ? nil : factor
    }

    private static func object(_ review: TopicReview) -> String {
        let shape = TopicShape(of: review.topic).settings.map(\.name)
        let settings = shape.map { name -> String in
            let difference = review.differences.first { $0.setting.name == name }
            let isNew = review.present == nil
            return JSONLines.object([
                ("name", JSONText.quoted(name)),
                ("present", review.present?.configuration[name].map(JSONText.quoted) ?? "null"),
                (
                    "wanted",
                    JSONText.quoted(
                        (isNew || difference != nil
                            ? review.plan.configuration[name]
                            : review.present?.configuration[name]) ?? ""
                    )
                ),
            ])
        }
        return JSONLines.object([
            ("topic", JSONText.quoted(review.name)),
            ("action", JSONText.quoted(action(review).rawValue)),
            ("partitions", review.present.map { "\($0.partitionCount)" } ?? "null"),
            ("partitionsWanted", "\(review.plan.partitionCount)"),
            ("replication", review.present.map { "\($0.replicationFactor)" } ?? "null"),
            (
                "replicationWanted",
                review.plan.replicationFactor < 0 ? "null" : "\(review.plan.replicationFactor)"
            ),
            ("settings", JSONLines.list(settings)),
            ("refusals", JSONLines.texts(review.refusals.map(\.text))),
        ])
    }
}
