package import TokenDomain

extension MessageExamples {
    /// A value of `purchases.received.v1` of each kind.
    package static let purchasesReceived = [buy, renewal, refund, restatement, retraction]

    private static let buy: PurchaseEvent = {
        var event = PurchaseEvent(lineItemID: "order-\u{1f600}-1")
        event.customer = customer
        event.externalPurchaseID = token.externalPurchaseID
        event.environment = .sandbox
        event.appAppleID = 1
        event.bundleID = "com.example"
        event.creationDate = time
        event.productIdentifier = "coins.\"500\""
        event.quantity = 2
        event.taxCountry = AlphaCode("DEU")
        event.pricingCurrency = AlphaCode("UYU")
        event.amountTaxInclusive = Milliunits(4_990)
        event.taxAmount = Milliunits(797)
        event.amountTaxExclusive = Milliunits(4_193)
        event.reportingCurrency = AlphaCode("EUR")
        do throws(ExchangeRate.Fault) {
            event.exchangeRate = try ExchangeRate("0.0215")
        } catch {
            preconditionFailure("the rate is one: \(error)")
        }
        event.receivedAt = time
        event.requestID = "r-1"
        return event
    }()

    private static let renewal: PurchaseEvent = {
        var event = buy
        event.kind = .buy
        event.lineItemID = "subscription-1-2"
        event.pricingCurrency = AlphaCode("EUR")
        event.reportingCurrency = nil
        event.exchangeRate = nil
        event.subscriptionID = "subscription-1"
        event.subscriptionEvent = .renewal
        event.subscriptionStartDate = time
        event.subscriptionEndDate = time + .days(30)
        event.subscriptionDaysOfPaidService = 30
        event.referenceLineItemID = "subscription-1-1"
        return event
    }()

    private static let refund: PurchaseEvent = {
        var event = PurchaseEvent(lineItemID: "refund-1")
        event.kind = .refund
        event.customer = customer
        event.appAppleID = 1
        event.creationDate = time
        event.amountTaxInclusive = Milliunits(1_000)
        event.taxAmount = Milliunits(160)
        event.referenceLineItemID = "order-1"
        return event
    }()

    private static let restatement: PurchaseEvent = {
        var event = PurchaseEvent(lineItemID: "order-1")
        event.kind = .restate
        event.customer = customer
        event.bundleID = "com.example"
        event.taxCountry = AlphaCode("FRA")
        return event
    }()

    private static let retraction: PurchaseEvent = {
        var event = PurchaseEvent(lineItemID: "order-1")
        event.kind = .retract
        event.externalPurchaseID = bareToken.externalPurchaseID
        event.appAppleID = 1
        return event
    }()
}
