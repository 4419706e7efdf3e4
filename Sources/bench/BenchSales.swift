internal import Kafka
internal import TokenDomain
internal import TokenWire

/// Sales by number, mixed as a platform sells: number n of a seed always makes the same event, and its
/// line item's id tells the number.
///
/// Of twenty sales one is a refund of another, one starts a subscription and one renews it, one is in
/// a currency that is not reported in; the others are bought once. A fifth of the customers has no
/// token: nothing is owed for what they buy. Customers come by chance, so that those who have just
/// bought come again.
struct BenchSales {
    private static let saleKindCount = 20
    private static let startKind = 3
    private static let renewalKind = 5
    private static let foreignKind = 8
    private static let refundKind = 19
    private static let boughtBeforeRefund = 8
    private static let tokenlessShare = 5
    private static let countries = ["DEU", "FRA", "ESP", "ITA", "NLD"]
    /// Of a line item's id, and of a token's: other ids of the same number.
    private static let itemSalt: UInt64 = 3
    private static let tokenSalt: UInt64 = 2
    private static let mixSalt: UInt64 = 0x5a1e << 32

    let tokens: BenchTokens
    let customerCount: Int
    /// UNIX milliseconds: a while before the bench began.
    private let soldAt: Timestamp

    init(tokens: BenchTokens, customerCount: Int) {
        precondition(customerCount > 0, "somebody buys")
        self.tokens = tokens
        self.customerCount = customerCount
        soldAt = Timestamp(milliseconds: tokens.now) + .hours(-1)
    }

    // MARK: - Sales

    /// Appends the record of `purchases.received` with a number.
    func append(_ number: Int, to outputs: inout OutputBatch) {
        var event = event(number)
        let customer = customer(of: number)
        event.customer = tokens.customerID(customer)
        event.receivedAt = soldAt
        event.requestID = tokens.id(number, salt: 1)
        let key = outputs.place((event.purchaseKey ?? "").utf8.span)
        let start = outputs.arena.count
        event.write(to: &outputs.arena)
        outputs.outputs.append(
            OutputBatch.Output(topic: 0, key: key, value: outputs.placed(from: start))
        )
    }

    /// Appends an object for the door.
    func appendForDoor(_ number: Int, to body: inout [UInt8]) {
        var event = event(number)
        event.customer = CustomerID("customer-\(customer(of: number))")
        event.write(to: &body)
    }

    /// The sale with a number, without its customer.
    func event(_ number: Int) -> PurchaseEvent {
        let kind = number % Self.saleKindCount
        let word = BenchTokens.mix(UInt64(number) ^ Self.mixSalt)
        var event = PurchaseEvent(lineItemID: itemID(number))
        event.appAppleID = app(ofCustomer: customer(of: number)).appAppleID
        event.creationDate = soldAt
        if kind == Self.refundKind {
            event.kind = .refund
            event.referenceLineItemID = itemID(number - Self.boughtBeforeRefund)
            // Less than any buy.
            event.amountTaxExclusive = Milliunits(500)
            event.taxAmount = Milliunits(100)
            return event
        }
        let exclusive = Int64(1_000 + word % 100_000)
        event.productIdentifier = "com.example.product.\(word >> 20 % 200)"
        event.quantity = 1
        event.taxCountry = AlphaCode(Self.countries[Int(word >> 30 % 5)])
        event.pricingCurrency = AlphaCode(kind == Self.foreignKind ? "ISK" : "EUR")
        event.amountTaxExclusive = Milliunits(exclusive)
        event.taxAmount = Milliunits(exclusive / 5)
        if kind == Self.foreignKind {
            event.reportingCurrency = AlphaCode("EUR")
            event.exchangeRate = Self.rate
        }
        switch kind {
        case Self.startKind: subscribe(&event, .start, number, from: soldAt + .days(-35))
        case Self.renewalKind:
            subscribe(&event, .renewal, number - 2, from: soldAt + .days(-5))
        default: break
        }
        return event
    }

    private static let rate: ExchangeRate = {
        do throws(ExchangeRate.Fault) {
            return try ExchangeRate("0.0068")
        } catch {
            preconditionFailure("a rate of the bench is one: \(error)")
        }
    }()

    /// `number` is that of the subscription's start; a period has thirty days.
    private func subscribe(
        _ event: inout PurchaseEvent,
        _ what: SubscriptionEvent,
        _ number: Int,
        from start: Timestamp
    ) {
        event.subscriptionEvent = what
        event.subscriptionID = tokens.id(number, salt: Self.itemSalt + 1)
        event.creationDate = start
        event.subscriptionStartDate = start
        event.subscriptionEndDate = start + .days(30)
    }

    private func itemID(_ number: Int) -> String { tokens.id(number, salt: Self.itemSalt) }

    // MARK: - Customers

    /// Who buys: a refund and a renewal are of the customer of what they refer to.
    private func customer(of number: Int) -> Int {
        let first =
            switch number % Self.saleKindCount {
            case Self.renewalKind: number - 2
            case Self.refundKind: number - Self.boughtBeforeRefund
            default: number
            }
        return Int(BenchTokens.mix(UInt64(first)) % UInt64(customerCount))
    }

    private func app(ofCustomer customer: Int) -> (appAppleID: Int64, bundleID: String) {
        BenchTokens.apps[customer % BenchTokens.apps.count]
    }

    /// The customers who have a token, by number.
    var owners: [Int] {
        (0..<customerCount).filter { $0 % Self.tokenlessShare != Self.tokenlessShare - 1 }
    }

    /// Appends the record of `tokens.decoded` of a customer's token.
    func appendToken(ofCustomer customer: Int, to outputs: inout OutputBatch) {
        let app = app(ofCustomer: customer)
        let id = tokens.customerID(customer)
        let decoded = TokenDecoded(
            token: ExternalPurchaseToken(
                externalPurchaseID: TokenID(tokens.id(customer, salt: Self.tokenSalt)),
                appAppleID: app.appAppleID,
                bundleID: app.bundleID,
                tokenType: TokenType(.services),
                tokenCreationDate: soldAt + .days(-60),
                tokenExpirationDate: soldAt + .days(305)
            ),
            customer: id,
            receivedAt: soldAt,
            text: "e30"
        )
        let key = outputs.place(id.text.utf8.span)
        let start = outputs.arena.count
        decoded.write(to: &outputs.arena)
        outputs.outputs.append(
            OutputBatch.Output(topic: 0, key: key, value: outputs.placed(from: start))
        )
    }
}
