internal import Telemetry

/// What Apple answered, as the workers' metrics count it: `tollway_report_requests_total`.
enum AppleAnswers {
    private static let metric = "tollway_report_requests_total{"
    /// Series of one page; there are some for each app.
    private static let seriesCountMax = Metrics.seriesCountMax

    /// Adds the numbers of one instance's page of metrics.
    static func add(_ page: [UInt8], of address: String, to snapshot: inout TopSnapshot) {
        var seriesCount = 0
        var indices = Dictionary(
            snapshot.answers.indices.map { (snapshot.answers[$0].key, $0) },
            uniquingKeysWith: { first, _ in first }
        )
        for line in String(decoding: page, as: UTF8.self).split(separator: "\n")
        where line.hasPrefix(metric) && seriesCount < seriesCountMax {
            seriesCount += 1
            let labels = labels(of: line)
            guard let app = labels["app"].flatMap({ Int64($0) }),
                let value = line.split(separator: " ").last.flatMap({ Double($0) }),
                let count = Int64(exactly: value.rounded())
            else {
                continue
            }
            let answer = TopSnapshot.Answer(
                app: app,
                environment: labels["environment"] ?? "",
                status: labels["status"] ?? "",
                code: labels["code"] ?? "",
                counts: [address: count]
            )
            guard let index = indices[answer.key] else {
                indices[answer.key] = snapshot.answers.count
                snapshot.answers.append(answer)
                continue
            }
            snapshot.answers[index].counts.merge(answer.counts) { $0.adding(saturating: $1) }
        }
    }

    /// Values without quotes; ours have no escapes in them.
    private static func labels(of line: Substring) -> [Substring: String] {
        let inside = line.drop { $0 != "{" }.dropFirst().prefix { $0 != "}" }
        var labels: [Substring: String] = [:]
        for pair in inside.split(separator: ",") {
            let parts = pair.split(separator: "=", maxSplits: 1)
            if parts.count == 2 {
                labels[parts[0]] = String(parts[1].filter { $0 != "\"" })
            }
        }
        return labels
    }
}
