internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// The lanes as a person or a program is shown them.
struct LaneList {
    /// One endpoint of a lane, as the workers report it; or a pause that none of them reports.
    struct Row: Equatable {
        var lane: Lane
        /// Nil where no worker that was asked has the lane.
        var observed: TopSnapshot.Lane?
        /// The newest order for the lane.
        var order: LaneOrder?

        var state: String { observed?.state ?? order?.state.rawValue ?? "unknown" }
    }

    let rows: [Row]
    let now: Timestamp

    init(_ world: LaneWorld, only lane: Lane? = nil) {
        self.init(observed: world.observed, orders: world.orders, now: world.now, only: lane)
    }

    init(observed: [TopSnapshot.Lane], orders: LaneOrders, now: Timestamp, only wanted: Lane? = nil)
    {
        self.now = now
        var rows = observed.compactMap { observed -> Row? in
            guard let environment = AppleEnvironment(rawValue: observed.environment) else {
                return nil
            }
            let lane = Lane(appAppleID: observed.app, environment: environment)
            return Row(lane: lane, observed: observed, order: orders.byLane[lane])
        }
        let silent = Set(orders.pausedLanes).subtracting(rows.map(\.lane)).map {
            Row(lane: $0, order: orders.byLane[$0])
        }
        rows += silent.sorted {
            ($0.lane.appAppleID, $0.lane.environment.rawValue)
                < ($1.lane.appAppleID, $1.lane.environment.rawValue)
        }
        self.rows = rows.filter { wanted == nil || $0.lane == wanted }
    }

    var text: String {
        var table = TextTable(columns: [
            .init(title: "APP", isNumber: true), .init(title: ""), .init(title: "TO"),
            .init(title: "STATE"), .init(title: "RATE/S", isNumber: true),
            .init(title: "SET/S", isNumber: true), .init(title: "DUE", isNumber: true),
            .init(title: "WAY", isNumber: true), .init(title: "DEADLINE", isNumber: true),
            .init(title: "WHY"),
        ])
        table.rows = rows.map { row in
            let observed = row.observed
            return [
                "\(row.lane.appAppleID)", row.lane.environment.rawValue, observed?.endpoint ?? "-",
                observed?.stateText(at: now.milliseconds) ?? row.state,
                observed.map { TopScreen.rate($0.allowedPerSecond) } ?? "-",
                observed.map { TopScreen.rate($0.configuredPerSecond) } ?? "-",
                observed?.due.map { TopScreen.count(Double($0)) } ?? "-",
                observed.map { "\($0.inFlight)" } ?? "-",
                observed?.nextDeadline.map {
                    TopScreen.span(Double($0.subtracting(saturating: now.milliseconds)) / 1_000)
                } ?? "-",
                PlainText.printable(why(of: row), characterCountMax: 800),
            ]
        }
        return table.text
    }

    /// The worker's reason, or the order's where the worker does not report the pause.
    private func why(of row: Row) -> String {
        guard let order = row.order, order.state == .paused, row.observed?.state != "paused" else {
            return row.observed?.because ?? ""
        }
        let time = WallClock.rfc3339(milliseconds: order.at.milliseconds)
        let ordered = "paused by \(order.by): \(order.why) since \(time)"
        return row.observed == nil ? ordered : "not yet in force: \(ordered)"
    }

    var objects: [String] {
        rows.map { row in
            let observed = row.observed
            var members = Fact.number("appAppleId", row.lane.appAppleID)
            members += Fact.text("environment", row.lane.environment.rawValue)
            members += Fact.text("endpoint", observed?.endpoint)
            members += Fact.text("state", row.state)
            members += Fact.text("because", observed?.because)
            members += Fact.number("until", observed?.until)
            if let observed {
                members.append(("allowedPerSecond", "\(observed.allowedPerSecond)"))
                members.append(("configuredPerSecond", "\(observed.configuredPerSecond)"))
                members += Fact.number("inFlight", Int64(observed.inFlight))
            }
            members += Fact.number("due", observed?.due)
            members += Fact.number("nextDeadline", observed?.nextDeadline)
            if let order = row.order {
                members.append(("order", Self.json(order)))
            }
            return JSONLines.object(members)
        }
    }

    static func json(_ order: LaneOrder) -> String {
        JSONLines.object(
            Fact.text("state", order.state.rawValue) + Fact.text("by", order.by)
                + Fact.text("why", order.why) + Fact.number("at", order.at.milliseconds)
                + Fact.number("resetAt", order.resetAt?.milliseconds)
        )
    }
}
