/// What somebody ordered for one lane by hand: a value of `lanes.control.v1`.
///
/// The newest one of a lane holds, for every replica and over every restart.
package struct LaneOrder: Equatable, Sendable {
    package enum State: String, Sendable, CaseIterable {
        case open
        /// No request of the lane starts; what is due stays due.
        case paused
    }

    package var lane: Lane
    package var state: State
    /// When the lane was last reset by hand; a value other than the one before is a new reset.
    package var resetAt: Timestamp?
    /// Who ordered `state`, why and when.
    package var by: String
    package var why: String
    package var at: Timestamp

    package init(
        lane: Lane,
        state: State,
        resetAt: Timestamp? = nil,
        by: String,
        why: String,
        at: Timestamp
    ) {
        self.lane = lane
        self.state = state
        self.resetAt = resetAt
        self.by = by
        self.why = why
        self.at = at
    }

    /// The record's key: one for each lane, so that compaction keeps the newest.
    package var key: String { Self.key(of: lane) }

    package static func key(of lane: Lane) -> String {
        "\(lane.appAppleID)|\(lane.environment.rawValue)"
    }
}

/// The orders that hold, by lane.
package struct LaneOrders: Equatable, Sendable {
    package enum Change: Equatable, Sendable {
        case paused(LaneOrder)
        case resumed(LaneOrder)
        case reset(LaneOrder)
    }

    package private(set) var byLane: [Lane: LaneOrder] = [:]

    package init() {}

    /// The order by which a lane is paused; nil where it is not.
    package func pause(of lane: Lane) -> LaneOrder? {
        byLane[lane].flatMap { $0.state == .paused ? $0 : nil }
    }

    package var pausedLanes: [Lane] { byLane.keys.filter { pause(of: $0) != nil } }

    /// Takes one order in.
    ///
    /// - Returns: what it changes, in order.
    package mutating func take(_ order: LaneOrder) -> [Change] {
        let before = byLane.updateValue(order, forKey: order.lane)
        let wasPaused = before?.state == .paused
        var changes: [Change] = []
        if order.resetAt != nil, order.resetAt != before?.resetAt {
            changes.append(.reset(order))
        }
        switch order.state {
        case .paused where !wasPaused: changes.append(.paused(order))
        case .open where wasPaused: changes.append(.resumed(order))
        case .open, .paused: break
        }
        return changes
    }

    /// Takes over the orders of a topic that was read again.
    ///
    /// - Returns: what that changes.
    package mutating func become(_ next: LaneOrders) -> [Change] {
        let gone = byLane.values.filter { next.byLane[$0.lane] == nil }
        var changes = gone.compactMap { forget(key: $0.key) }
        for order in next.byLane.values {
            changes += take(order)
        }
        return changes
    }

    /// A record without a value: as if nothing had been ordered for the lane.
    ///
    /// - Returns: the order that a pause ends with, where there was one.
    package mutating func forget(key: String) -> Change? {
        guard let order = byLane.values.first(where: { $0.key == key }) else {
            return nil
        }
        byLane[order.lane] = nil
        return order.state == .paused ? .resumed(order) : nil
    }
}
