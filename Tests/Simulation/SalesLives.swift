package import TokenDomain

/// Lives of customers drawn from a seed: what a platform says of its sales, and what Apple must hold
/// of each in the end.
///
/// It knows nothing of tokens, queues and reports.
package struct SalesLives {
    /// Whose sales they are.
    package struct Customer {
        /// Nil for one who is known by a token alone.
        package var id: CustomerID?
        /// The token that every event asks for.
        package var asked: TokenID?
        package var appAppleID: Int64
        package var environment: AppleEnvironment

        package init(
            id: CustomerID?,
            asked: TokenID? = nil,
            appAppleID: Int64 = 1,
            environment: AppleEnvironment = .production
        ) {
            self.id = id
            self.asked = asked
            self.appAppleID = appAppleID
            self.environment = environment
        }
    }

    /// What Apple must hold of a sale in the end.
    package struct Sale {
        package var customer: Int
        package var exclusive: Int64
        package var buy: String?
        package var isRetracted = false
        package var country = "DEU"
        package var isSubscription = false
        /// Sold in a currency that is converted: Apple's rules alone judge the amounts.
        package var isForeign = false
    }

    /// What Apple holds of a sale.
    package struct Held {
        package var exclusive: Int64
        package var country: String
        package var isRetracted: Bool

        package init(exclusive: Int64, country: String, isRetracted: Bool) {
            self.exclusive = exclusive
            self.country = country
            self.isRetracted = isRetracted
        }
    }

    /// How the lives of a test differ from those of another.
    package struct Manner {
        /// Buys are dated so long before they are told, at most.
        package var ageMax = Milliseconds(1)
        /// So long ago a subscription starts; its periods follow each other day by day.
        package var subscriptionAge = Milliseconds.hours(10)
        /// Whether a sale in a foreign currency may leave its rate to the file of rates.
        package var leavesRates = false

        package init() {}
    }

    private static let foreignRate = "0.0068333"

    private let customers: [Customer]
    private let manner: Manner
    private var generator: SeededGenerator
    private var number = 0
    private var subscriptions: [Int: (id: String, end: Timestamp)] = [:]
    package private(set) var sales: [String: Sale] = [:]

    package init(seed: UInt64, customers: [Customer], manner: Manner = Manner()) {
        self.customers = customers
        self.manner = manner
        generator = SeededGenerator(seed: seed)
    }

    private mutating func draw(_ range: Range<Int64>) -> Int64 {
        Int64.random(in: range, using: &generator)
    }

    private mutating func name(_ prefix: String) -> String {
        number += 1
        return "\(prefix)-\(number)"
    }

    private func event(
        _ id: String,
        _ kind: PurchaseEvent.Kind,
        of customer: Int
    ) -> PurchaseEvent {
        let owner = customers[customer]
        var event = PurchaseEvent(lineItemID: id)
        event.kind = kind
        event.customer = owner.id
        event.externalPurchaseID = owner.asked
        event.appAppleID = owner.appAppleID
        event.environment = owner.environment
        return event
    }

    private func bought(
        _ id: String,
        of customer: Int,
        at date: Timestamp,
        exclusive: Int64
    ) -> PurchaseEvent {
        var event = event(id, .buy, of: customer)
        event.creationDate = date
        event.productIdentifier = "coins"
        event.taxCountry = AlphaCode("DEU")
        event.pricingCurrency = AlphaCode("EUR")
        event.taxAmount = Milliunits(exclusive / 5)
        event.amountTaxExclusive = Milliunits(exclusive)
        return event
    }

    // MARK: Events

    /// A sale that Apple would take, and that is not counted among ``sales``.
    package mutating func other(
        named prefix: String,
        of customer: Int,
        now: Timestamp
    ) -> PurchaseEvent {
        bought(name(prefix), of: customer, at: now, exclusive: 1_000)
    }

    package mutating func buy(of customer: Int, now: Timestamp) -> PurchaseEvent {
        let id = name("buy")
        let exclusive = draw(1_000..<50_000)
        let date = now + Milliseconds(-draw(0..<manner.ageMax.count))
        var event = bought(id, of: customer, at: date, exclusive: exclusive)
        let isForeign = draw(0..<4) == 0
        sales[id] = Sale(customer: customer, exclusive: exclusive, isForeign: isForeign)
        guard isForeign else {
            return event
        }
        event.pricingCurrency = AlphaCode("ISK")
        if !manner.leavesRates || draw(0..<2) == 0 {
            do throws(ExchangeRate.Fault) {
                event.exchangeRate = try ExchangeRate(Self.foreignRate)
            } catch {
                preconditionFailure("a test names real rates")
            }
            event.reportingCurrency = AlphaCode("EUR")
        }
        return event
    }

    private mutating func pick(_ isFit: (String, Sale) -> Bool) -> (String, Sale)? {
        let fits = sales.filter { isFit($0.key, $0.value) }.sorted { $0.key < $1.key }
        return fits.isEmpty ? nil : fits[Int(draw(0..<Int64(fits.count)))]
    }

    private func refunded(_ id: String) -> Int64 {
        sales.values.filter { $0.buy == id && !$0.isRetracted }.reduce(0) { $0 + $1.exclusive }
    }

    /// A refund of a part of a buy, or of all that is left of it; nil where there is nothing left.
    package mutating func refund(now: Timestamp) -> PurchaseEvent? {
        guard
            let (buy, sale) = pick({ $1.buy == nil && !$1.isRetracted && $1.exclusive > 0 })
        else {
            return nil
        }
        let left = sale.exclusive - refunded(buy)
        guard left > 0 else {
            return nil
        }
        let part = draw(0..<3) == 0 ? left : draw(1..<left + 1)
        let id = name("refund")
        sales[id] = Sale(
            customer: sale.customer,
            exclusive: part,
            buy: buy,
            isForeign: sale.isForeign
        )
        var event = event(id, .refund, of: sale.customer)
        event.creationDate = now
        event.referenceLineItemID = buy
        event.taxAmount = Milliunits(part / 5)
        event.amountTaxExclusive = Milliunits(part)
        return event
    }

    /// A correction of the country, or of the amount where refunds forbid the other.
    package mutating func restate() -> PurchaseEvent? {
        guard let (id, sale) = pick({ !$1.isRetracted && $1.buy == nil }) else {
            return nil
        }
        var event = event(id, .restate, of: sale.customer)
        if sales.values.contains(where: { $0.buy == id }) {
            sales[id]?.exclusive += 500
            event.amountTaxExclusive = Milliunits(sale.exclusive + 500)
            event.taxAmount = .zero
        } else {
            sales[id]?.country = "FRA"
            event.taxCountry = AlphaCode("FRA")
        }
        return event
    }

    /// Takes back a sale and, with it, what refers to it.
    ///
    /// - Parameter reported: what Apple has: a refund that comes behind the retraction of its buy is
    ///   refused.
    /// - Returns: nil where nothing can be taken back.
    package mutating func retract(among reported: Set<String>) -> PurchaseEvent? {
        let all = sales
        let picked = pick { id, sale in
            !sale.isRetracted && !sale.isSubscription && reported.contains(id)
                && all.allSatisfy { $0.value.buy != id || reported.contains($0.key) }
        }
        guard let (id, sale) = picked else {
            return nil
        }
        sales[id]?.isRetracted = true
        for (child, sale) in sales where sale.buy == id {
            sales[child]?.isRetracted = true
        }
        return event(id, .retract, of: sale.customer)
    }

    /// The next period of the customer's subscription, or its first; nil where it has not begun yet.
    package mutating func subscribe(_ customer: Int, now: Timestamp) -> PurchaseEvent? {
        let last = subscriptions[customer]
        let start = last?.end ?? now + Milliseconds(-manner.subscriptionAge.count)
        guard start <= now else {
            return nil
        }
        let id = name("month")
        let end = start + .hours(24)
        sales[id] = Sale(customer: customer, exclusive: 3_000, isSubscription: true)
        subscriptions[customer] = (last?.id ?? id, end)
        var event = bought(id, of: customer, at: start, exclusive: 3_000)
        event.subscriptionID = "s-\(customer)"
        event.subscriptionEvent = last == nil ? .start : .renewal
        event.subscriptionStartDate = start
        event.subscriptionEndDate = end
        return event
    }

    // MARK: The end

    /// Compares what Apple holds with what it must hold.
    ///
    /// - Parameters:
    ///   - isOwed: false for a sale that Apple must have nothing of.
    ///   - held: what Apple has of a sale.
    /// - Returns: a sentence for each difference.
    package func differences(
        isOwed: (Sale) -> Bool = { _ in true },
        held: (String) -> Held?
    ) -> [String] {
        var differences: [String] = []
        for (id, sale) in sales.sorted(by: { $0.key < $1.key }) {
            guard isOwed(sale) else {
                if held(id) != nil {
                    differences.append("\(id) is at Apple, and not owed")
                }
                continue
            }
            guard let found = held(id) else {
                differences.append("\(id) is not at Apple")
                continue
            }
            let country = sale.buy.flatMap { sales[$0]?.country } ?? sale.country
            if found.exclusive != sale.exclusive, !sale.isForeign {
                differences.append("\(id): \(found.exclusive) instead of \(sale.exclusive)")
            }
            if found.isRetracted != sale.isRetracted {
                differences.append("\(id) is retracted: \(found.isRetracted)")
            }
            if found.country != country, sale.buy == nil {
                differences.append("\(id): \(found.country) instead of \(country)")
            }
            let isRefundedWhole =
                sale.buy == nil && !sale.isRetracted && refunded(id) == sale.exclusive
            let left = sales.filter { $0.value.buy == id && !$0.value.isRetracted }
                .reduce(found.exclusive) { $0 - (held($1.key)?.exclusive ?? 0) }
            if isRefundedWhole, left != 0 {
                differences.append("\(id) is refunded whole, and \(left) is left of it")
            }
        }
        return differences
    }
}
