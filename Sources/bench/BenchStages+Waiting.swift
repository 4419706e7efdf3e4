internal import StageRuntime
internal import TokenDomain

/// `report` at a rate of Apple's while many reports are due: what waits must cost nothing.
extension BenchStages {
    /// In production and in sandbox, each: 100 a second together.
    private static let waitingRate = 50
    private static let waitingSeconds = 60.0
    private static let lookMilliseconds = 1_000

    /// Processor time a report at 100 a second, timed once all `keyCount` are taken in and due; 0: each
    /// is due when it comes.
    func waitingReports(keyCount: Int) throws -> BenchRow {
        let app = BenchTokens.apps[0]
        let appsFile = try world.write(
            [app],
            // Where each is due when it comes, Apple takes them all: none waits.
            reportsPerSecond: keyCount == 0 ? 2 * Self.waitingRate : Self.waitingRate,
            as: "lanes.json"
        )
        try world.fill(world.topic(.tokensDistinct), .distinct([app]), 0..<keyCount)
        var row = BenchRow(
            measure: keyCount == 0
                ? "report, 100 a second as they come"
                : "report, 100 a second of \(keyCount) due",
            own: BenchSeries(program: Worker.report.rawValue)
        )
        row.goals = BenchRow.Goals(cpuMicroseconds: 500)
        row.own.samples = [try waitingSample(keyCount, app, appsFile: appsFile)]
        return row
    }

    private func waitingSample(
        _ keyCount: Int,
        _ app: (appAppleID: Int64, bundleID: String),
        appsFile: String
    ) throws -> BenchSample {
        let apple = try startApple()
        defer { world.stop(Self.appleName) }
        let name = Worker.report.rawValue
        try world.start(.report, settings: reportSettings(appsFile: appsFile, apple))
        defer { world.stop(name) }
        try world.awaitReady(.report)
        try wait(for: keyCount, "judged", judgedCount)
        let (startedAt, count, cpu) = (
            ContinuousClock.now, try acceptedCount(), world.cpuSeconds(name)
        )
        var number = 0
        while BenchWorld.seconds(since: startedAt) < Self.waitingSeconds {
            try world.refuseEnded()
            let comeCount = Int(BenchWorld.seconds(since: startedAt) * Double(2 * Self.waitingRate))
            if keyCount == 0, number < comeCount {
                try world.fill(
                    world.topic(.tokensDistinct),
                    .distinct([app]),
                    number..<comeCount
                )
                number = comeCount
            }
            try world.http.pause(milliseconds: Self.lookMilliseconds)
        }
        let cpuSeconds = world.cpuSeconds(name) - cpu
        let sentCount = try acceptedCount()
        let sample = BenchSample(
            recordCount: sentCount - count,
            seconds: BenchWorld.seconds(since: startedAt),
            cpuSeconds: cpuSeconds,
            peakByteCount: world.peakByteCount(name)
        )
        guard sample.recordCount > 0 else {
            throw world.lost("report sent nothing while it was timed, \(sentCount) before")
        }
        // Of many that are due Apple's rate lets only some come.
        if keyCount == 0 {
            try wait(for: number, "sent", acceptedCount)
        }
        world.stop(name)
        try expectArrivals(
            0..<max(number, keyCount),
            atLeast: max(number, sentCount),
            at: apple
        )
        return sample
    }

    /// Waits until a count of report's own is there, as long as it grows.
    private func wait(for count: Int, _ verb: String, _ counted: () throws -> Int) throws {
        var (last, movedAt) = (-1, ContinuousClock.now)
        while true {
            let now = try counted()
            guard now < count else {
                return
            }
            if now != last {
                (last, movedAt) = (now, ContinuousClock.now)
            }
            try world.refuseEnded()
            guard BenchWorld.seconds(since: movedAt) < BenchWorld.stalledSeconds else {
                throw world.lost("report has \(verb) \(now) of \(count) tokens")
            }
            try world.http.pause(milliseconds: Self.lookMilliseconds)
        }
    }

    private func judgedCount() throws -> Int {
        try world.http.sum(
            "tollway_records_completed_total",
            at: world.adminURL(.report, "metrics")
        )
    }
}
