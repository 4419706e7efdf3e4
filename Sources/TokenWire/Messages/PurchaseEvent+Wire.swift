package import TokenDomain

extension PurchaseEvent: WireMessage {
    package static let blank = PurchaseEvent(lineItemID: "")

    @inline(__always)
    package mutating func members<C: ValueCoder & ~Copyable>(_ coder: inout C) {
        coder.member("type", &kind, default: .buy, isAlwaysWritten: true)
        coder.member("lineItemId", &lineItemID)
        coder.member("customer", &customer)
        coder.member("externalPurchaseId", &externalPurchaseID, atMost: .tokenField)
        coder.member("appAppleId", &appAppleID)
        coder.member("bundleId", &bundleID, atMost: .tokenField)
        coder.environment(&environment, orOf: externalPurchaseID)
        coder.member("creationDate", &creationDate)
        coder.member("productIdentifier", &productIdentifier)
        coder.member("quantity", &quantity)
        coder.member("taxCountry", &taxCountry)
        coder.member("pricingCurrency", &pricingCurrency)
        coder.member("amountTaxInclusive", &amountTaxInclusive)
        coder.member("taxAmount", &taxAmount)
        coder.member("amountTaxExclusive", &amountTaxExclusive)
        coder.member("reportingCurrency", &reportingCurrency)
        coder.member("exchangeRate", &exchangeRate)
        coder.member("subscriptionId", &subscriptionID)
        coder.member("subscriptionEvent", &subscriptionEvent)
        coder.member("subscriptionStartDate", &subscriptionStartDate)
        coder.member("subscriptionEndDate", &subscriptionEndDate)
        coder.member("subscriptionDaysOfPaidService", &subscriptionDaysOfPaidService)
        coder.member("referenceLineItemId", &referenceLineItemID)
        var milliseconds = receivedAt?.milliseconds
        coder.lenient("receivedAt", &milliseconds)
        receivedAt = milliseconds.map { Timestamp(milliseconds: $0) }
        coder.lenient("requestId", &requestID)
    }

    /// Reads the value of an event that passed the rules before.
    package init(fromState value: [UInt8]) throws(WireFault) {
        self = try .read(value: value.span)
    }

    /// Writes a value of `purchases.received.v1`.
    package func write(to arena: inout [UInt8]) { append(to: &arena) }
}
