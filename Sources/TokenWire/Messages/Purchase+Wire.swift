package import TokenDomain

extension PurchaseAnswered: WireMessage {
    package static let blank = PurchaseAnswered(
        requestIdentifier: "",
        externalPurchaseID: .blank,
        lineItemIDs: [],
        outcome: .rejected,
        errors: [],
        settledAt: .blank
    )

    @inline(__always)
    package mutating func members<C: ValueCoder & ~Copyable>(_ coder: inout C) {
        coder.member("requestIdentifier", &requestIdentifier, atMost: .identifier)
        coder.member("externalPurchaseId", &externalPurchaseID, atMost: .tokenField)
        coder.member("lineItemIds", &lineItemIDs, atMost: .lineItemID)
        coder.member("outcome", &outcome)
        coder.member("errors", &errors, default: [], isAlwaysWritten: true)
        coder.member("reason", &reason, atMost: .identifier)
        coder.member(
            "verifiedLineItemIds",
            &verifiedLineItemIDs,
            default: [],
            isAlwaysWritten: false,
            atMost: .lineItemID
        )
        coder.member(
            "verifiedRequestIdentifiers",
            &verifiedRequestIdentifiers,
            default: [],
            isAlwaysWritten: false,
            atMost: .identifier
        )
        coder.member(
            "primaryExternalPurchaseId",
            &primaryExternalPurchaseID,
            atMost: .tokenField
        )
        coder.member("askedAt", &askedAt)
        coder.member("settledAt", &settledAt)
    }

    /// Reads a value of `purchases.answered.v1`.
    package init(reading value: Span<UInt8>) throws(WireFault) {
        self = try .read(value: value)
    }

    package func write(to arena: inout [UInt8]) { append(to: &arena) }
}

/// `item` is an object, kept byte for byte.
extension PurchaseOutcome: WireMessage {
    package static let blank = PurchaseOutcome(
        lineItemID: "",
        revision: 0,
        type: .buy,
        outcome: .rejected,
        externalPurchaseID: nil,
        requestIdentifier: nil,
        reason: "",
        errors: [],
        item: nil,
        receivedAt: .blank,
        settledAt: .blank
    )

    @inline(__always)
    package mutating func members<C: ValueCoder & ~Copyable>(_ coder: inout C) {
        coder.member("lineItemId", &lineItemID, atMost: .lineItemID)
        coder.member("revision", &revision)
        coder.member("type", &type)
        coder.member("outcome", &outcome)
        coder.member("externalPurchaseId", &externalPurchaseID, atMost: .tokenField)
        coder.member("requestIdentifier", &requestIdentifier, atMost: .identifier)
        coder.member("reason", &reason, atMost: .identifier)
        coder.member("errors", &errors, default: [], isAlwaysWritten: true)
        coder.member("item", raw: .object, &item)
        coder.member("receivedAt", &receivedAt)
        coder.member("settledAt", &settledAt)
        coder.lane(&lane)
        coder.member("firstFailedAt", &firstFailedAt, atMost: .identifier)
    }

    /// Reads a value of `purchases.outcomes.v1`.
    package init(reading value: Span<UInt8>) throws(WireFault) {
        self = try .read(value: value)
    }

    package func write(to arena: inout [UInt8]) { append(to: &arena) }
}

extension TokenRefused: WireMessage {
    package static let blank = TokenRefused(
        externalPurchaseID: .blank,
        customer: nil,
        refusedAt: .blank
    )

    @inline(__always)
    package mutating func members<C: ValueCoder & ~Copyable>(_ coder: inout C) {
        coder.member("externalPurchaseId", &externalPurchaseID, atMost: .tokenField)
        coder.member("customer", &customer, atMost: .customer)
        coder.member("refusedAt", &refusedAt)
        coder.member("withdrawnAt", &withdrawnAt)
    }

    /// Reads a value of `tokens.refused.v1`.
    package init(reading value: Span<UInt8>) throws(WireFault) {
        self = try .read(value: value)
    }

    package func write(to arena: inout [UInt8]) { append(to: &arena) }
}
