internal import Telemetry

/// Whether a lane makes its deadlines at the rate that it is allowed now, day by day.
///
/// What is still held has its deadline later, and is not counted before it is due.
struct DeadlineForecast: Equatable {
    struct Day: Equatable {
        /// UNIX milliseconds.
        var startsAt: Int64
        var deadlineCount: Int64
        var fallingCount: Int64
        /// So many a second make this day and all before it; nil where nothing is due by then.
        var neededPerSecond: Double?
        var makesIt: Bool?
    }

    private static let dayMilliseconds: Int64 = 86_400_000

    var days: [Day] = []

    init(_ lane: TopSnapshot.Lane, at now: Int64) {
        let rate = Self.isSending(lane) ? lane.allowedPerSecond : 0
        var dueCount: Int64 = 0
        for (start, day) in lane.days.sorted(by: { $0.key < $1.key }) {
            dueCount = dueCount.adding(saturating: day.deadlineCount)
            var forecast = Day(
                startsAt: start,
                deadlineCount: day.deadlineCount,
                fallingCount: day.fallingCount
            )
            if dueCount > 0 {
                let left = start.adding(saturating: Self.dayMilliseconds)
                    .subtracting(saturating: now)
                let seconds = Double(left) / 1_000
                let needed = Double(dueCount) / max(seconds, 1)
                forecast.neededPerSecond = needed
                forecast.makesIt = seconds > 0 && needed <= rate
            }
            days.append(forecast)
        }
    }

    /// A held lane goes on by itself, at its rate.
    static func isSending(_ lane: TopSnapshot.Lane) -> Bool {
        lane.state == "open" || lane.state == "held"
    }

    var json: String {
        JSONLines.list(days.map(Self.object))
    }

    private static func object(_ day: Day) -> String {
        let date = WallClock.rfc3339(milliseconds: day.startsAt).prefix(10)
        var members = Fact.text("day", String(date))
        members += Fact.number("due", day.deadlineCount)
        members += Fact.number("falling", day.fallingCount)
        if let needed = day.neededPerSecond {
            members.append(("needsPerSecond", "\((needed * 100).rounded(.up) / 100)"))
        }
        if let makesIt = day.makesIt {
            members.append(("makesIt", "\(makesIt)"))
        }
        return JSONLines.object(members)
    }
}
