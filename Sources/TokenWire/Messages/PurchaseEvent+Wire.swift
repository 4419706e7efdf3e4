package import TokenDomain

extension PurchaseEvent {
    /// Writes a value of `purchases.received.v1`.
    package func write(to arena: inout [UInt8]) {
        JSONWriter.append(to: &arena) { writer in
            writer.beginObject()
            writer.fields(of: self)
            writer.endObject()
        }
    }
}

extension JSONWriter {
    /// The members of an event; those that are absent are not written.
    package mutating func fields(of event: PurchaseEvent) {
        field("type", event.kind.rawValue)
        field("lineItemId", event.lineItemID)
        field("customer", event.customer?.text)
        field("externalPurchaseId", event.externalPurchaseID?.text)
        field("appAppleId", event.appAppleID)
        field("bundleId", event.bundleID)
        field("environment", event.environment.rawValue)
        field("creationDate", event.creationDate?.milliseconds)
        field("productIdentifier", event.productIdentifier)
        field("quantity", event.quantity)
        field("taxCountry", event.taxCountry?.text)
        field("pricingCurrency", event.pricingCurrency?.text)
        field("amountTaxInclusive", event.amountTaxInclusive?.count)
        field("taxAmount", event.taxAmount?.count)
        field("amountTaxExclusive", event.amountTaxExclusive?.count)
        field("reportingCurrency", event.reportingCurrency?.text)
        if let rate = event.exchangeRate {
            field("exchangeRate", raw: Array(rate.text.utf8))
        }
        field("subscriptionId", event.subscriptionID)
        field("subscriptionEvent", event.subscriptionEvent?.rawValue)
        field("subscriptionStartDate", event.subscriptionStartDate?.milliseconds)
        field("subscriptionEndDate", event.subscriptionEndDate?.milliseconds)
        field("subscriptionDaysOfPaidService", event.subscriptionDaysOfPaidService)
        field("referenceLineItemId", event.referenceLineItemID)
        field("receivedAt", event.receivedAt?.milliseconds)
        field("requestId", event.requestID)
    }
}
