package import TokenDomain

extension LineItem {
    /// Writes the line item as Apple takes it, fields in the order of Apple's pages.
    package func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.field("lineItemId", lineItemID)
        writer.field("referenceLineItemId", referenceLineItemID)
        writer.field("creationDate", creationDate.milliseconds)
        switch product {
        case .refund:
            writer.field("eventType", "REFUND")
        case .oneTimeBuy(let goods):
            writer.field("eventType", "BUY")
            writer.field("productType", "ONE_TIME_BUY")
            Self.write(goods, &writer)
        case .subscription(let goods, let subscription):
            writer.field("eventType", "BUY")
            writer.field("productType", "SUBSCRIPTION")
            Self.write(goods, &writer)
            writer.field("subscriptionEvent", subscription.event.rawValue)
            writer.field("subscriptionStartDate", subscription.startDate.milliseconds)
            writer.field("subscriptionEndDate", subscription.endDate.milliseconds)
            writer.field("subscriptionDaysOfPaidService", subscription.daysOfPaidService)
        }
        writer.field("amountTaxInclusive", amounts.inclusive.count)
        writer.field("amountTaxExclusive", amounts.exclusive.count)
        writer.field("taxAmount", amounts.tax.count)
        writer.field("netAmountTaxExclusive", netAmountTaxExclusive.count)
        writer.field("reportingCurrency", terms.currency.text)
        writer.field("pricingCurrency", pricingCurrency.text)
        if let rate = terms.rate {
            writer.field("exchangeRate", raw: Array(rate.text.utf8))
        }
        writer.field("taxCountry", taxCountry.text)
        switch revision {
        case .first: break
        case .restatement:
            writer.field("restatement", true)
            writer.field("erroneouslySubmitted", false)
        case .retraction:
            writer.field("restatement", true)
            writer.field("erroneouslySubmitted", true)
        }
        writer.endObject()
    }

    private static func write(_ goods: Goods, _ writer: inout JSONWriter) {
        writer.field("productIdentifier", goods.productIdentifier)
        writer.field("quantity", goods.quantity)
    }

    /// Most have less.
    private static let byteCountMostly = 768

    /// The line item as one JSON object.
    package var json: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Self.byteCountMostly)
        JSONWriter.append(to: &bytes) { write(to: &$0) }
        return bytes
    }
}
