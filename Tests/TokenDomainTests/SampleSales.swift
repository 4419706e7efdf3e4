import TokenDomain

let saleTime = Timestamp(milliseconds: 1_760_000_000_000)
let saleLane = Lane(appAppleID: 1, environment: .production)

func code(_ text: String) -> AlphaCode {
    guard let code = AlphaCode(text) else { preconditionFailure("a test names real codes") }
    return code
}

func rate(_ text: String) -> ExchangeRate {
    do throws(ExchangeRate.Fault) {
        return try ExchangeRate(text)
    } catch {
        preconditionFailure("a test names real rates")
    }
}

/// A one-time buy of 10.00 plus 2.00 tax.
func sampleBuy(_ id: String = "buy", _ change: (inout PurchaseEvent) -> Void = { _ in })
    -> PurchaseEvent
{
    var event = PurchaseEvent(lineItemID: id)
    event.customer = CustomerID("c1.anna")
    event.appAppleID = 1
    event.creationDate = saleTime
    event.productIdentifier = "coins"
    event.taxCountry = code("DEU")
    event.pricingCurrency = code("EUR")
    event.taxAmount = Milliunits(2_000)
    event.amountTaxExclusive = Milliunits(10_000)
    change(&event)
    return event.normalized(appAppleID: 1)
}

func sampleRefund(
    _ id: String = "refund",
    of buy: String = "buy",
    exclusive: Int64 = 3_000,
    tax: Int64 = 600,
    _ change: (inout PurchaseEvent) -> Void = { _ in }
) -> PurchaseEvent {
    var event = PurchaseEvent(lineItemID: id)
    event.kind = .refund
    event.customer = CustomerID("c1.anna")
    event.appAppleID = 1
    event.creationDate = saleTime + .days(1)
    event.referenceLineItemID = buy
    event.taxAmount = Milliunits(tax)
    event.amountTaxExclusive = Milliunits(exclusive)
    change(&event)
    return event.normalized(appAppleID: 1)
}

func sampleSubscription(
    _ id: String,
    _ event: SubscriptionEvent,
    _ change: (inout PurchaseEvent) -> Void = { _ in }
) -> PurchaseEvent {
    sampleBuy(id) { sale in
        sale.subscriptionID = "s-1"
        sale.subscriptionEvent = event
        sale.subscriptionStartDate = sale.creationDate
        sale.subscriptionEndDate = sale.creationDate.map { $0 + .days(30) }
        change(&sale)
    }
}
