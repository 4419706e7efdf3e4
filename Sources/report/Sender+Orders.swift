internal import Telemetry
internal import TokenDomain

/// Lanes that somebody paused, resumed or reset by hand.
extension Sender {
    /// Reads what was ordered since; before a request starts, at most this long ago.
    func followOrders(now: Timestamp) {
        guard let reader = orderReader,
            nextOrderLook <= now || nextOrderLook > now + limits.orderIntervalAway
        else {
            return
        }
        let isNew = reader.isWhole
        for change in reader.look() {
            obey(change, isNew: isNew, now: now)
        }
        // Where Kafka is away, the question may take a second.
        nextOrderLook =
            now + (reader.trouble == nil ? limits.orderInterval : limits.orderIntervalAway)
        metrics.unreadableOrders(reader.unreadableCount)
        metrics.ordersUnread(!reader.isWhole)
        health?.setCondition("lanes", reader.trouble)
    }

    /// Whether requests of the lane may start.
    func maySend(_ lane: Lane) -> Bool {
        guard let orderReader else {
            return true
        }
        return orderReader.isWhole && orderReader.orders.pause(of: lane) == nil
    }

    func pause(of lane: Lane) -> LaneOrder? { orderReader?.orders.pause(of: lane) }

    /// Orders from before this process began are read as well, and are no events.
    private func obey(_ change: LaneOrders.Change, isNew: Bool, now: Timestamp) {
        switch change {
        case .paused(let order):
            tell("a lane is paused: nothing is sent for it until it is resumed", order)
            if isNew {
                metrics.changed(order.lane, "paused")
            }
        case .resumed(let order):
            tell("a lane is resumed", order)
            // One that has nothing to send here is not measured any more.
            metrics.paused(order.lane, partitions.isEmpty ? nil : false)
            if isNew {
                metrics.changed(order.lane, "resumed")
            }
        case .reset(let order) where isNew:
            tell("a lane is reset: its rate is as configured, and it is tried at once", order)
            metrics.changed(order.lane, "reset")
            for queue in queues where queue.lane == order.lane {
                lanes[queue]?.reset(now: now)
            }
            keyBreakers[order.lane]?.probeSoon()
        case .reset:
            // This process has found nothing yet.
            break
        }
    }

    private func tell(_ message: StaticString, _ order: LaneOrder) {
        log.warning(
            message,
            ("appAppleId", .integer(order.lane.appAppleID)),
            ("environment", .text(order.lane.environment.rawValue)),
            ("by", .text(order.by)),
            ("why", .text(order.why))
        )
    }
}

extension LaneOrder {
    /// Such as `paused by ann@host: Apple asked us to since 2026-03-01T12:00:00.000Z`.
    var sentence: String {
        "paused by \(by): \(why) since \(WallClock.rfc3339(milliseconds: at.milliseconds))"
    }
}
