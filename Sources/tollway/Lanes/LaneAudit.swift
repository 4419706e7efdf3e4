internal import TokenDomain
internal import TokenWire

/// A value of `<prefix>audit.v1`: a lane that was paused, resumed or reset.
struct LaneAudit {
    var action: LanesCommand.Action
    var order: HandOrder
    var lane: Lane
    /// UNIX milliseconds.
    var at: Int64

    func write(to arena: inout [UInt8]) {
        JSONWriter.append(to: &arena) { writer in
            writer.beginAudit("lanes.\(action.rawValue)", order, at: at)
            writer.field("appAppleId", lane.appAppleID)
            writer.field("environment", lane.environment.rawValue)
            writer.endObject()
        }
    }
}
