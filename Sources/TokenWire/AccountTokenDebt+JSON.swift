package import TokenDomain

/// The value of `report.state.v1` under a transaction.
extension AccountTokenDebt: WireMessage {
    package static let blank = AccountTokenDebt(
        originalTransactionID: "",
        lane: .blank,
        bundleID: "",
        touchedAt: .blank
    )

    @inline(__always)
    package mutating func members<C: ValueCoder & ~Copyable>(_ coder: inout C) {
        coder.member("originalTransactionId", &originalTransactionID)
        coder.member("appAppleId", &lane.appAppleID)
        coder.member("environment", &lane.environment)
        coder.member("bundleId", &bundleID)
        coder.member("touchedAt", &touchedAt)
        coder.member("current", &current)
        coder.member("next", &next)
        coder.member("newest", &newest)
        coder.member("attempts", &attempts, default: 0)
        coder.member("failedCount", &failedCount, default: 0)
        coder.member("nextAttemptAt", &nextAttemptAt)
    }

    package init(reading value: Span<UInt8>) throws(WireFault) {
        self = try .read(value: value)
    }

    package func write(to arena: inout [UInt8]) { append(to: &arena) }
}

extension AccountTokenDebt.Request: WireMessage {
    package static let blank = Self(
        appAccountToken: "",
        requestedAt: .blank,
        requestID: "",
        origin: .blank
    )

    @inline(__always)
    package mutating func members<C: ValueCoder & ~Copyable>(_ coder: inout C) {
        coder.member("appAccountToken", &appAccountToken)
        coder.member("requestedAt", &requestedAt)
        coder.member("requestId", &requestID)
        coder.member("origin", &origin)
        coder.member("traceparent", &trace)
        coder.member("history", &history)
    }
}
