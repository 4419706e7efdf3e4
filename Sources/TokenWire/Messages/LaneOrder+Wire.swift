package import TokenDomain

extension LaneOrder {
    /// Reads a value of `lanes.control.v1`.
    package init(reading value: Span<UInt8>) throws(WireFault) {
        var appAppleID: Int64?
        var environment: AppleEnvironment?
        var state: State?
        var resetAt: Timestamp?
        var by: String?
        var why: String?
        var at: Timestamp?
        try JSONScanner.scanObject(value) { (key, scanner) throws(WireFault) in
            switch key {
            case "appAppleId": try scanner.fill(&appAppleID)
            case "environment": try scanner.fill(&environment)
            case "state": try scanner.fill(&state)
            case "resetAt": try scanner.fill(&resetAt)
            case "by": try scanner.fill(&by, atMost: .byHand)
            case "why": try scanner.fill(&why, atMost: .byHand)
            case "at": try scanner.fill(&at)
            default: try scanner.skip()
            }
        }
        self.init(
            lane: Lane(
                appAppleID: try JSONScanner.require(appAppleID, "appAppleId"),
                environment: try JSONScanner.require(environment, "environment")
            ),
            state: try JSONScanner.require(state, "state"),
            resetAt: resetAt,
            by: try JSONScanner.require(by, "by"),
            why: try JSONScanner.require(why, "why"),
            at: try JSONScanner.require(at, "at")
        )
    }

    package func write(to arena: inout [UInt8]) {
        JSONWriter.append(to: &arena) { writer in
            writer.beginObject()
            writer.field("appAppleId", lane.appAppleID)
            writer.field("environment", lane.environment.rawValue)
            writer.field("state", state.rawValue)
            writer.field("resetAt", resetAt?.milliseconds)
            writer.field("by", by)
            writer.field("why", why)
            writer.field("at", at.milliseconds)
            writer.endObject()
        }
    }
}
