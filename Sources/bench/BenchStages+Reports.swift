internal import Foundation
internal import StageRuntime
internal import TokenDomain

/// `report` against a bare Apple, by turns with libcurl alone against the same.
extension BenchStages {
    static let appleName = "apple"
    private static let senderName = "libcurl"
    private static let recordsPerReport = 10
    /// A lane is an app in an environment, and a file of apps allows none more than this: so many
    /// apps have more room than a worker can use.
    private static let appCount = 30
    private static let reportsPerSecond = 1_000
    private static let flightCount = 64
    /// A tenth of it is sent before anything is timed.
    private static let warmShare = 10

    private struct Sent: Decodable {
        var accepted: Int
        var microseconds: Int
        var processorMicroseconds: Int
    }

    /// The bare Apple as a process, and where it listens.
    struct Apple {
        var port: Int
        var arrivals: String
        var certificate: String

        var url: String { "https://127.0.0.1:\(port)" }
    }

    /// A report a token, over HTTP/2: from the record of `tokens.distinct` to the ledger's, its state
    /// twice in the changelog between.
    func reports() throws -> BenchRow {
        let count = max(recordCount / Self.recordsPerReport, 100)
        let apps = (0..<Self.appCount).map { index in
            let app = BenchTokens.apps[index % BenchTokens.apps.count]
            return (
                appAppleID: app.appAppleID + Int64(index), bundleID: "\(app.bundleID).n\(index)"
            )
        }
        let appsFile = try world.write(
            apps,
            reportsPerSecond: Self.reportsPerSecond,
            as: "lanes.json"
        )
        var row = BenchRow(
            measure: "report, HTTP/2",
            own: BenchSeries(program: Worker.report.rawValue),
            beside: [
                BenchSeries(program: "libcurl, HTTP/2"), BenchSeries(program: "libcurl, HTTP/1.1"),
            ]
        )
        row.goals = BenchRow.Goals(recordsPerSecond: 10_000, cpuMicroseconds: 90)
        if otherPrograms != nil {
            row.beside.append(BenchSeries(program: "other build"))
        }
        var filled = 0
        for number in 0...runCount {
            let end = filled + (number == 0 ? max(count / Self.warmShare, 100) : count)
            let numbers = filled..<end
            try world.fill(world.topic(.tokensDistinct), .distinct(apps), numbers)
            var samples = [try report(numbers, appsFile: appsFile, otherPrograms: nil)]
            samples.append(try send(numbers.count, isHTTP1: false))
            samples.append(try send(numbers.count, isHTTP1: true))
            filled = end
            if let otherPrograms {
                let others = filled..<filled + numbers.count
                try world.fill(world.topic(.tokensDistinct), .distinct(apps), others)
                samples.append(
                    try report(others, appsFile: appsFile, otherPrograms: otherPrograms)
                )
                filled = others.upperBound
            }
            if number > 0 {
                row.add(samples)
                Console.say(row.lastSentence(number, of: runCount))
            }
        }
        let written = [Topic.reportsOutcomes, .reportState].map(world.topic)
        let check = BenchCheck(world: world)
        row.own.outputByteCount = Double(try check.sum(written).byteCount) / Double(filled)
        try check.expectEachOnce(0..<filled, in: world.topic(.reportsOutcomes))
        return row
    }

    /// One run of the worker: all of the numbers are accepted, and each came to Apple once.
    private func report(
        _ numbers: Range<Int>,
        appsFile: String,
        otherPrograms: URL?
    ) throws -> BenchSample {
        let apple = try startApple()
        let name = Worker.report.rawValue
        let settings = reportSettings(appsFile: appsFile, apple)
        let sample: BenchSample
        do {
            defer { world.stop(name) }
            sample = try world.time(
                group: name,
                topic: world.topic(.tokensDistinct),
                target: world.topic(.reportsOutcomes),
                program: name,
                from: numbers.lowerBound,
                to: numbers.upperBound,
                settled: { try acceptedCount() }
            ) {
                try world.start(.report, otherPrograms: otherPrograms, settings: settings)
            }
        }
        try expectArrivals(numbers, at: apple)
        return sample
    }

    func reportSettings(appsFile: String, _ apple: Apple) -> [String: String] {
        [
            Setting.appsFile.fullName: appsFile,
            Setting.appleProductionURL.fullName: apple.url,
            Setting.appleSandboxURL.fullName: apple.url,
            Setting.reportHold.fullName: "0s",
            Self.trustedRoots: apple.certificate,
        ]
    }

    /// Reports that the worker has settled since it was started.
    func acceptedCount() throws -> Int {
        try world.http.sum(
            "tollway_report_outcomes_total",
            at: world.adminURL(.report, "metrics")
        ) { $0.contains("outcome=\"accepted\"") }
    }

    /// Where every program with libcurl or OpenSSL looks for the roots that it trusts.
    private static let trustedRoots = "SSL_CERT_FILE"

    /// One run of libcurl alone.
    private func send(_ count: Int, isHTTP1: Bool) throws -> BenchSample {
        let apple = try startApple()
        let output = try world.start(
            .reports,
            name: Self.senderName,
            [
                "url=\(apple.url)/externalPurchase/v1/reports", "certificate=\(apple.certificate)",
                "count=\(count)", "connections=\(Self.flightCount)", "http1=\(isHTTP1 ? 1 : 0)",
            ]
        )
        let line = BenchPrograms.firstLine(of: output)
        try world.awaitEnd(Self.senderName)
        let sent = try JSONDecoder().decode(Sent.self, from: Data(line.utf8))
        world.stop(Self.appleName)
        let arrived = try arrivals(at: apple).count
        guard sent.accepted == count, arrived == count else {
            throw world.lost("libcurl sent \(sent.accepted) of \(count) reports, \(arrived) came")
        }
        return BenchSample(
            recordCount: count,
            seconds: Double(sent.microseconds) / 1e6,
            cpuSeconds: Double(sent.processorMicroseconds) / 1e6,
            peakByteCount: 0
        )
    }

    // MARK: - Apple

    func startApple() throws -> Apple {
        let arrivals = try world.write([], as: "arrivals")
        let certificate = try world.write([], as: "apple.pem")
        let output = try world.start(
            .apple,
            name: Self.appleName,
            ["file=\(arrivals)", "certificate=\(certificate)"]
        )
        let line = BenchPrograms.firstLine(of: output)
        guard let port = Int(line) else {
            throw BenchFailure(code: "bench.start", "the bare Apple: \(line)")
        }
        return Apple(port: port, arrivals: arrivals, certificate: certificate)
    }

    /// Ends Apple, and compares whose reports came with whose were owed: all, or at least so many of
    /// them.
    func expectArrivals(
        _ numbers: Range<Int>,
        atLeast countMin: Int? = nil,
        at apple: Apple
    ) throws {
        world.stop(Self.appleName)
        var tally = BenchTally(numbers)
        for id in try arrivals(at: apple) {
            tally.note(Array("{\"externalPurchaseId\":\"\(id)\"}".utf8).span)
        }
        if let fault = tally.fault(seenCountMin: countMin ?? numbers.count) {
            throw world.lost("Apple \(fault)")
        }
    }

    private func arrivals(at apple: Apple) throws -> [Substring] {
        String(decoding: try Data(contentsOf: URL(fileURLWithPath: apple.arrivals)), as: UTF8.self)
            .split(separator: "\n")
    }
}
