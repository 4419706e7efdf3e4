import Foundation
import Kafka
import LocalKafka
import Testing

/// How much of what Apple allows the replicas of `report` use, and how often Apple refuses them:
/// real processes, a real Kafka, and the simulator's request log to count in.
///
/// `NIGHTLY=1` runs it, `PACE_SECONDS` says how long each row is measured (120), `PACE_REPLICAS`
/// with how many replicas (`1,3`), `PACE_WINDOW` which rows (`1s`, `1h`, `1m`: those that keep it;
/// all), `PACE_LIMIT` the limit of the rows (all), and `PACE_PROGRAMS` where release builds of the
/// programs lie.
@Suite(.serialized)
struct `The pace of real replicas` {
    struct Row: CustomTestStringConvertible {
        /// What the apps file says, and what Apple allows, a second.
        var rate: Double
        var limit: Double
        /// What Apple keeps the limit by.
        var windows: [String]
        /// Of the longest: what is measured ends with one.
        var windowSeconds: Int
        var replicaCount: Int
        /// Measured at least so long: what is found out once counts against few requests.
        var secondsMin = 0
        /// The form of a 429, as the simulator names it.
        var answer = "full"
        var usedMin = 0.95
        var refusedMax = 0.01
        /// Of a core for each replica, in a release build; nil where nothing is asked.
        var processorMax: Double?

        var testDescription: String {
            "\(rate)/s of \(limit)/s by \(windows.joined(separator: " and ")), 429 \(answer), "
                + "\(replicaCount)"
        }
    }

    static let rows = replicaCounts.flatMap { count in
        [
            Row(rate: 20, limit: 20, windows: ["1s"], windowSeconds: 1, replicaCount: count),
            Row(rate: 5, limit: 5, windows: ["1s"], windowSeconds: 1, replicaCount: count),
            // Apple's hour and a second at once.
            Row(rate: 20, limit: 20, windows: ["1h", "1s"], windowSeconds: 1, replicaCount: count),
            // More than Apple allows by the second: that has to be found out, and asked again.
            Row(
                rate: 5,
                limit: 3,
                windows: ["1s"],
                windowSeconds: 1,
                replicaCount: count,
                secondsMin: 400
            ),
            // An hour of a minute, used up before it ends: then all wait for the next.
            Row(
                rate: 30,
                limit: 20,
                windows: ["1m"],
                windowSeconds: 60,
                replicaCount: count,
                refusedMax: 0.02
            ),
            Row(
                rate: 100,
                limit: 100,
                windows: ["1s"],
                windowSeconds: 1,
                replicaCount: count,
                usedMin: 0.99,
                refusedMax: 0.001,
                processorMax: 0.05
            ),
            // Ten times too fast; with and without a word on when to come back.
            Row(
                rate: 1_000,
                limit: 100,
                windows: ["1s"],
                windowSeconds: 1,
                replicaCount: count,
                refusedMax: 0.02
            ),
            Row(
                rate: 1_000,
                limit: 100,
                windows: ["1s"],
                windowSeconds: 1,
                replicaCount: count,
                answer: "bare",
                usedMin: 0.90,
                refusedMax: 0.02
            ),
        ].filter { window == nil || $0.windows.contains(window ?? "") }
            .filter { limit == nil || $0.limit == limit }
    }

    private static let limit = ProcessInfo.processInfo.environment["PACE_LIMIT"]
        .flatMap { Double($0) }

    private static let isRelease = ProcessInfo.processInfo.environment["PACE_PROGRAMS"] != nil
    private static let window = ProcessInfo.processInfo.environment["PACE_WINDOW"]

    private static let replicaCounts =
        (ProcessInfo.processInfo.environment["PACE_REPLICAS"] ?? "1,3").split(separator: ",")
        .compactMap { Int($0) }.filter { (1...12).contains($0) }
    private static let seconds =
        ProcessInfo.processInfo.environment["PACE_SECONDS"].flatMap { Int($0) } ?? 120
    private static let isAskedFor = ProcessInfo.processInfo.environment["NIGHTLY"] == "1"

    @Test(
        .enabled(
            if: isAskedFor && LocalCluster.homeFromEnvironment != nil,
            "skipped: NIGHTLY is not 1, or KAFKA_HOME names no Kafka"
        ),
        arguments: rows
    )
    func `is most of the limit, and little is refused`(row: Row) throws {
        let windows = row.windows.flatMap { ["--rate-window", $0] }
        let rig = try ReportRig(
            reportsPerSecond: row.rate,
            simulator: [
                "--reports-limit", "\(row.limit)", "--rate-answer", row.answer,
                // So that many are under way at once.
                "--fault", "slow:for=50ms",
            ] + windows
        )
        defer { rig.stop() }
        let replicas = Array(1...row.replicaCount)
        for number in replicas {
            try rig.start(number)
        }
        try rig.awaitReady(replicas)
        let measured = max(Self.seconds, row.secondsMin, 2 * row.windowSeconds)
        // Enough for what is measured, the first window and the time to get going.
        let rateMax = min(row.rate, row.limit * 1.5)
        try rig.deliver(Int(rateMax * Double(measured + row.windowSeconds + 40)))
        // From the first whole window on in which every replica sends.
        try rig.wait(seconds: 60, for: "reports flow") { try rig.reportedCount() > 3 }
        let now = Int(Date().timeIntervalSince1970)
        let from = ((now + 5) / row.windowSeconds + 1) * row.windowSeconds
        let until = (from + measured) / row.windowSeconds * row.windowSeconds
        let processorBefore = try replicas.map { try rig.processorSeconds($0) }
        try rig.wait(seconds: Double(until - now + 10), for: "the time is over") {
            Int(Date().timeIntervalSince1970) > until
        }
        let processor = try replicas.enumerated().map { index, number in
            (try rig.processorSeconds(number) - processorBefore[index]) / Double(until - now)
        }
        let requests = try rig.requests()
        let counted = requests.filter { (from * 1_000..<until * 1_000).contains(Int($0.at)) }
        let accepted = counted.count { $0.isReport && $0.status == 200 }
        // Those of the start count too.
        let refused = requests.count { $0.status == 429 }
        let used = Double(accepted) / (row.limit * Double(until - from))
        let refusedPart = Double(refused) / Double(requests.count)
        print(
            "pace: \(row.testDescription) replicas, \(until - from) s: used "
                + "\(percent(used)), refused \(percent(refusedPart)) (\(refused) of "
                + "\(requests.count)), of a core \(processor.map(percent))"
        )
        #expect(used >= row.usedMin)
        #expect(refusedPart < row.refusedMax)
        if let processorMax = row.processorMax, Self.isRelease {
            #expect(processor.allSatisfy { $0 <= processorMax })
        }
        // Code 1: a replica ended before it got the answer, and another sent the request again.
        let others = requests.filter { ![200, 429].contains($0.status) && $0.errorCodes != [1] }
        #expect(others.isEmpty, "\(others.prefix(5))")
    }

    private func percent(_ part: Double) -> String {
        "\((part * 10_000).rounded() / 100) %"
    }
}
