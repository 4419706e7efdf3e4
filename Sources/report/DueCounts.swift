internal import StageRuntime
internal import StateStore
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// What the due table holds, lane by lane and day by day: counted a slice at a time.
struct DueCounts {
    private var all = LaneCount.all()
    private var due = LaneCount.due()

    /// Other partitions are ours now.
    mutating func restart() {
        all.restart()
        due.restart()
    }

    /// Counts on, and sets the gauges of what is complete.
    mutating func count(
        in partitions: [Int32],
        _ table: DueTable,
        _ metrics: ReportMetrics,
        now: Timestamp
    ) throws(StoreFault) {
        if let counts = try due.count(in: partitions, table.state, now: now) {
            Self.set(counts, metrics)
        }
        if let counts = try all.count(in: partitions, table.state, now: now) {
            Self.set(counts, metrics)
        }
    }

    /// Nothing is ours any more.
    mutating func forgetAll(_ metrics: ReportMetrics) {
        Self.set(due.forgetAll(), metrics)
        Self.set(all.forgetAll(), metrics)
    }

    private static func set(_ counts: [DueCount: Int], _ metrics: ReportMetrics) {
        for (key, count) in counts {
            switch key {
            case .held(let lane): metrics.held(lane, count)
            case .due(let lane): metrics.due(lane, count)
            case .monthDue(let lane): metrics.monthDue(lane, count)
            case .day: break
            }
        }
    }

    /// What is due in a lane: now, and on each day.
    func write(_ lane: Lane, _ writer: inout JSONWriter) {
        writer.field("due", due.complete[.due(lane)] ?? 0)
        var days: [DueDay: Int] = [:]
        for (key, count) in all.complete where count > 0 {
            if case .day(let day) = key, day.lane == lane {
                days[day] = count
            }
        }
        writer.name("days")
        writer.beginArray()
        for number in Set(days.keys.map(\.number)).sorted() {
            let ofDay = days.filter { $0.key.number == number }
            func count(_ kind: DueDay.Kind) -> Int {
                ofDay.filter { $0.key.kind == kind }.reduce(0) { $0 + $1.value }
            }
            writer.beginObject()
            writer.field("startsAt", ofDay.keys.first?.start.milliseconds)
            writer.field("deadlines", count(.deadline))
            writer.field("falling", count(.falling))
            writer.endObject()
        }
        writer.endArray()
    }
}
