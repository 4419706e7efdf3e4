package import TokenDomain

extension LaneOrder: WireMessage {
    package static let blank = LaneOrder(
        lane: .blank,
        state: .open,
        by: "",
        why: "",
        at: .blank
    )

    @inline(__always)
    package mutating func members<C: ValueCoder & ~Copyable>(_ coder: inout C) {
        coder.member("appAppleId", &lane.appAppleID)
        coder.member("environment", &lane.environment)
        coder.member("state", &state)
        coder.member("resetAt", &resetAt)
        coder.member("by", &by, atMost: .byHand)
        coder.member("why", &why, atMost: .byHand)
        coder.member("at", &at)
    }

    /// Reads a value of `lanes.control.v1`.
    package init(reading value: Span<UInt8>) throws(WireFault) {
        self = try .read(value: value)
    }

    package func write(to arena: inout [UInt8]) { append(to: &arena) }
}
