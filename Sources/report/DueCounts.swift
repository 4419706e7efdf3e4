internal import StageRuntime
internal import StateStore
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// What the due table holds, lane by lane and day by day: counted a slice at a time.
struct DueCounts {
    private var held = LaneCount.held()
    private var due = LaneCount.due()
    private var monthDue = LaneCount.monthDue()
    private var days = LaneCount.days()

    /// Other partitions are ours now.
    mutating func restart() {
        held.restart()
        due.restart()
        monthDue.restart()
        days.restart()
    }

    /// Counts on, and sets the gauges of what is complete.
    mutating func count(
        in partitions: [Int32],
        _ table: DueTable,
        _ metrics: ReportMetrics,
        now: Timestamp
    ) throws(StoreFault) {
        if let held = try held.count(in: partitions, table.state, now: now) {
            metrics.held(held)
        }
        if let due = try due.count(in: partitions, table.state, now: now) {
            metrics.due(due)
        }
        if let due = try monthDue.count(in: partitions, table.state, now: now) {
            metrics.monthDue(due)
        }
        _ = try days.count(in: partitions, table.state, now: now)
    }

    /// Nothing is ours any more.
    mutating func forgetAll(_ metrics: ReportMetrics) {
        metrics.held(held.forgetAll())
        metrics.due(due.forgetAll())
        metrics.monthDue(monthDue.forgetAll())
        days.forgetAll()
    }

    /// What is due in a lane: now, and on each day.
    func write(_ lane: Lane, _ writer: inout JSONWriter) {
        writer.field("due", due.complete[lane] ?? 0)
        let days = days.complete.filter { $0.key.lane == lane && $0.value > 0 }
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
